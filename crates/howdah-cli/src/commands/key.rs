//! `howdah key`.

use super::key_file;
use crate::args::{FingerprintArgs, KeyArgs, KeyCommand};
use crate::ui;
use howdah::keys::{self, KeyError, KeyLine};
use howdah::{Error, ErrorKind, Identity};
use std::ffi::OsStr;
use std::path::Path;

pub(super) fn run(command: &KeyCommand) -> anyhow::Result<()> {
    let identity = match command {
        KeyCommand::New(args) => {
            let path = key_file(args.key.identity.as_ref(), keys::default_identity_path())?;
            let comment = args.comment.as_deref().unwrap_or_default();
            let identity = Identity::generate()?.commented(comment).map_err(|e| {
                // The key is made here, so only the comment can be wrong.
                Error::new(
                    ErrorKind::Usage,
                    format!("--comment: the comment makes no line: {e}"),
                )
            })?;
            identity.save_new(&path)?;
            ui::say(&format!(
                "made a new private key in {}; its public line is",
                path.display()
            ));
            identity
        }
        KeyCommand::Show(args) => own(args)?,
        KeyCommand::Fingerprint(args) => {
            for line in lines_of(args)? {
                ui::print(format!("{} {}", line.key.fingerprint(), line.comment).trim_end())?;
            }
            return Ok(());
        }
    };
    ui::print(&public_line(&identity).to_string())?;
    Ok(())
}

/// The key of this machine, which must be there.
fn own(args: &KeyArgs) -> anyhow::Result<Identity> {
    let path = key_file(args.identity.as_ref(), keys::default_identity_path())?;
    match Identity::load(&path) {
        Err(error) if error.is_not_found() => {
            let path = path.display();
            let text = format!("there is no key in {path}; make one with 'howdah key new'");
            Err(Error::new(ErrorKind::NotFound, text).into())
        }
        other => Ok(other?),
    }
}

/// The keys whose fingerprints are wanted.
fn lines_of(args: &FingerprintArgs) -> anyhow::Result<Vec<KeyLine>> {
    let usage = |text: String| Error::new(ErrorKind::Usage, text);
    let Some(first) = args.of.first() else {
        return Ok(vec![public_line(&own(&args.key)?)]);
    };
    if args.key.identity.is_some() {
        let text = "--identity names a key already; leave it or FILE|KEY out";
        return Err(usage(text.to_owned()).into());
    }
    // A line may come in one word or, without quotes, in several.
    let words = args.of.join(OsStr::new(" "));
    if words
        .as_encoded_bytes()
        .starts_with(keys::KEY_WORD.as_bytes())
    {
        let line = words.to_str().map(str::parse::<KeyLine>);
        let line = line.ok_or_else(|| usage("the key is not UTF-8 text".to_owned()))?;
        return Ok(vec![line.map_err(|e| usage(e.to_string()))?]);
    }
    let path = Path::new(first);
    if args.of.len() > 1 {
        let text = format!("one file at a time: {} and what follows", path.display());
        return Err(usage(text).into());
    }
    match Identity::load(path) {
        Ok(identity) => return Ok(vec![public_line(&identity)]),
        Err(KeyError::NotAPrivateKey { .. } | KeyError::TooLarge { .. }) => {}
        Err(error) if error.is_not_found() => {
            let text = format!("there is no file {}", path.display());
            return Err(Error::new(ErrorKind::NotFound, text).into());
        }
        // Whoever may read a list need not own it.
        Err(KeyError::ReadableByOthers { .. } | KeyError::OwnedByAnother { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    match keys::read_public_lines(path) {
        Ok(lines) if lines.is_empty() => {
            let text = format!("{} holds no key", path.display());
            Err(usage(text).into())
        }
        Err(error @ KeyError::MalformedLine { .. }) => Err(usage(error.to_string()).into()),
        other => Ok(other?),
    }
}

/// The public key with its comment or `user@host` behind it, so that an administrator can tell keys apart.
pub(super) fn public_line(identity: &Identity) -> KeyLine {
    if !identity.comment().is_empty() {
        return KeyLine {
            key: *identity.public_key(),
            comment: identity.comment().to_owned(),
        };
    }
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
