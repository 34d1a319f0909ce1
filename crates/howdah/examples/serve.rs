//! Serves a directory to the holders of the keys in a file:
//! `cargo run -p howdah --example serve -- store authorized_keys 127.0.0.1:4433`.

use howdah::{AuthorizedKeys, Cancel, Error, ErrorKind, Identity, Log, Server, ServerConfig, keys};
use std::path::Path;

fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [root, authorized, listen] = &args[..] else {
        let usage = "usage: serve ROOT AUTHORIZED_KEYS ADDRESS:PORT";
        return Err(Error::new(ErrorKind::Usage, usage));
    };
    let listen = listen
        .parse()
        .map_err(|_| Error::new(ErrorKind::Usage, format!("{listen} is no address and port")))?;
    let file = keys::default_identity_path()
        .ok_or_else(|| Error::new(ErrorKind::Usage, "there is no home directory: set HOME"))?;
    let (identity, _) = Identity::load_or_create(&file)?;
    let authorized = AuthorizedKeys::load(Path::new(authorized))?;
    let mut config = ServerConfig::new(root, listen, identity, authorized);
    config.log = Log::new(|line| eprintln!("{line}"));
    let server = Server::bind(config)?;
    println!("serving {root} on {}", server.local_addr());
    // Throw this switch from a signal handler to end it.
    server.run(&Cancel::new())
}
