//! `howdah key`.

use super::key_file;
use crate::args::KeyCommand;
use crate::ui;
use howdah::keys::{self, KeyLine};
use howdah::{Error, ErrorKind, Identity};

pub(super) fn run(command: &KeyCommand) -> anyhow::Result<()> {
    let identity = match command {
        KeyCommand::New(args) => {
            let path = key_file(args.identity.as_ref(), keys::default_identity_path())?;
            let identity = Identity::generate()?;
            identity.save_new(&path)?;
            ui::say(&format!(
                "made a new private key in {}; its public line is",
                path.display()
            ));
            identity
        }
        KeyCommand::Show(args) => {
            let path = key_file(args.identity.as_ref(), keys::default_identity_path())?;
            match Identity::load(&path) {
                Err(error) if error.is_not_found() => {
                    let path = path.display();
                    let text = format!("there is no key in {path}; make one with 'howdah key new'");
                    return Err(Error::new(ErrorKind::NotFound, text).into());
                }
                other => other?,
            }
        }
    };
    ui::print(&public_line(&identity).to_string())?;
    Ok(())
}

/// The public key with `user@host` behind it, so that an administrator can tell keys apart.
pub(super) fn public_line(identity: &Identity) -> KeyLine {
    let user = std::env::var("USER")
        .or_else(|_| std::env::var("LOGNAME"))
        .unwrap_or_default();
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    KeyLine {
        key: *identity.public_key(),
        comment: comment(&user, &host),
    }
}

fn comment(user: &str, host: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c))
            .take(64)
            .collect()
    };
    match (plain(user), plain(host)) {
        (user, host) if user.is_empty() => host,
        (user, host) if host.is_empty() => user,
        (user, host) => format!("{user}@{host}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_is_always_a_valid_comment() {
        assert_eq!(comment("anna", "laptop"), "anna@laptop");
        assert_eq!(comment("", "laptop"), "laptop");
        assert_eq!(comment("anna", ""), "anna");
        assert_eq!(comment("a\nb #", "\u{202e}x"), "ab@x");
        assert_eq!(comment(&"a".repeat(999), "h").len(), 66);
    }
}
