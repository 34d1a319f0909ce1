//! The far end itself: what `howdah internal far-end` does on the machine that ssh has reached.

use super::handover::{self, Answer, Ask, HandoverError};
use crate::access::{Authority, Rights};
use crate::keys::PublicKey;
use crate::{Cancel, Error, ErrorKind, Identity, Log, Server};
use howdah_core::Span;
use std::io::{self, BufReader, Read as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Nobody is waited for longer than that.
const PATIENCE: Span = Span::from_secs(30);

/// Answers one session with the rights of the user of this process, as it is told on standard input, and
/// returns when the session or standard input has ended.
///
/// `reached` is the address of this machine as ssh reached it: the third word of `SSH_CONNECTION`.
pub fn serve_over_ssh(
    home: PathBuf,
    reached: Option<IpAddr>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let asked = listen(cancel)?;
    let ask = asked
        .recv_timeout(PATIENCE.into())
        .unwrap_or(Err(HandoverError::Closed));
    let answer = |answer: &Answer| {
        handover::write_answer(io::stdout().lock(), answer)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot answer: {e}")))
    };
    let ask = match ask {
        Ok(ask) => ask,
        Err(error) => {
            // It names our versions, which are what is wrong most often.
            let message = error.to_string();
            answer(&Answer::Failed { message })?;
            return Err(error.at("the other side"));
        }
    };
    let Ask::Serve { key, ports } = ask;
    match open(&key, ports.0..=ports.1, home) {
        Ok((server, identity)) => {
            answer(&Answer::Ready {
                port: server.local_addr().port(),
                key: identity.public_key().to_string(),
                address: reached,
            })?;
            server.run_once(cancel, PATIENCE)
        }
        Err(error) => {
            let message = error.to_string();
            answer(&Answer::Failed { message })?;
            Err(error)
        }
    }
}

/// A server for the holder of `key`, under a key of its own.
fn open(key: &str, ports: RangeInclusive<u16>, home: PathBuf) -> Result<(Server, Identity), Error> {
    let client = handover::key(key).map_err(|e| e.at("the other side"))?;
    let identity = Identity::generate()?;
    let socket = bind(ports)?;
    let authority = Arc::new(OnlyOne {
        client,
        rights: Rights::of_user(home),
        taken: AtomicBool::new(false),
    });
    let server = Server::on(socket, &identity, authority, Log::default())?;
    Ok((server, identity))
}

/// The first free port, on all addresses: ssh has come by one, data may come by another.
fn bind(ports: RangeInclusive<u16>) -> Result<UdpSocket, Error> {
    let mut last = None;
    for port in ports.clone() {
        for any in [
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
            Ipv4Addr::UNSPECIFIED.into(),
        ] {
            match howdah_net::bind(SocketAddr::new(any, port)) {
                Ok(socket) => return Ok(socket),
                // Only a host without IPv6 is asked for IPv4 alone.
                Err(e) if e.kind() == io::ErrorKind::AddrInUse => {
                    last = Some(e);
                    break;
                }
                Err(e) => last = Some(e),
            }
        }
    }
    let why = last.map_or_else(|| "there is none".to_owned(), |e| e.to_string());
    Err(Error::new(
        ErrorKind::Io,
        format!(
            "none of the UDP ports {} to {} is free ({why}); name others with --port",
            ports.start(),
            ports.end()
        ),
    ))
}

/// Lets one key in, once.
struct OnlyOne {
    client: PublicKey,
    rights: Rights,
    taken: AtomicBool,
}

impl Authority for OnlyOne {
    fn admits(&self, key: &PublicKey) -> bool {
        *key == self.client && !self.taken.load(Ordering::Relaxed)
    }

    fn enter(&self, key: &PublicKey) -> Result<Rights, Error> {
        if *key != self.client || self.taken.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::Auth,
                "this session has begun already",
            ));
        }
        Ok(self.rights.clone())
    }
}

/// Reads what is asked for, and then waits for the end of standard input: when ssh goes, so does this end.
fn listen(cancel: &Cancel) -> Result<Receiver<Result<Ask, HandoverError>>, Error> {
    let (tell, asked) = channel();
    let cancel = cancel.clone();
    let listen = move || {
        let mut stdin = BufReader::new(io::stdin());
        // If nobody waits for it any more, this process ends.
        let _ = tell.send(handover::read_ask(&mut stdin));
        let mut buffer = [0; 512];
        loop {
            match stdin.read(&mut buffer) {
                Ok(0) => break,
                Err(e) if e.kind() != io::ErrorKind::Interrupted => break,
                _ => {}
            }
        }
        cancel.cancel();
    };
    std::thread::Builder::new()
        .name("howdah-channel".into())
        .spawn(listen)
        .map(|_| asked)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot start a thread: {e}")))
}
