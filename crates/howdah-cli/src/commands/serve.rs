//! `howdah serve`.

use super::key::public_line;
use super::key_file;
use crate::args::ServeArgs;
use crate::ui::{self, Signals};
use howdah::keys::{self, AuthorizedKeys, Identity};
use howdah::{Error, ErrorKind, Log, Server, ServerConfig};
use std::path::Path;

pub(super) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let signals = Signals::install()?;
    if !args.root.is_dir() {
        let text = format!("the root {} is not a directory", args.root.display());
        return Err(Error::new(ErrorKind::NotFound, text).into());
    }
    let identity_path = key_file(args.identity.as_ref(), keys::default_identity_path())?;
    let (identity, made) = Identity::load_or_create(&identity_path)?;
    if made {
        ui::say(&format!(
            "made a new private key in {}",
            identity_path.display()
        ));
    }
    let named = args.authorized_keys.is_some();
    let keys_path = key_file(
        args.authorized_keys.as_ref(),
        keys::default_authorized_keys_path(),
    )?;
    let authorized = match AuthorizedKeys::load(&keys_path) {
        Err(error) if error.is_not_found() && !named => AuthorizedKeys::new(),
        other => other?,
    };
    let line = public_line(&identity);
    let clients = clients(&authorized, &keys_path);
    let root = args.root.display().to_string();
    let server = Server::bind(ServerConfig {
        root: args.root,
        listen: args.listen,
        identity,
        authorized,
        log: Log::new(ui::say),
    })?;
    // `howdah demo` waits for this line.
    ui::say(&format!("serving {root} on {}", server.local_addr()));
    ui::say(&format!("server key {line}"));
    ui::say(&format!("fingerprint {}", line.key.fingerprint()));
    ui::say(&clients);
    server.run(signals.cancel())?;
    Ok(())
}

fn clients(authorized: &AuthorizedKeys, path: &Path) -> String {
    let path = path.display();
    match authorized.len() {
        0 => format!(
            "nobody gets in: {path} lists no key; run 'howdah key show' on the client, append the \
             line that it prints to that file, and start the server again"
        ),
        1 => format!("1 key is authorised by {path}"),
        n => format!("{n} keys are authorised by {path}"),
    }
}
