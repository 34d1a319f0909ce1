//! The far end itself: what `howdah internal far-end` does on the machine that ssh has reached.

use super::errand;
use super::handover::{self, Answer, Ask, HandoverError, OneCopy};
use crate::access::{Authority, Rights};
use crate::keys::PublicKey;
use crate::{Cancel, Error, ErrorKind, Identity, Log, Server, Throttle};
use howdah_core::Span;
use howdah_net::{Lanes, Tunnel};
use std::fs::File;
use std::io::{self, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The same for a sender's errand.
const ERRAND_PATIENCE: Duration = Duration::from_mins(10);
/// How often a tunnel is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Nobody is waited for longer than that.
const PATIENCE: Span = Span::from_secs(30);
/// What is asked was written before this process began.
const ASK_PATIENCE: Duration = Duration::from_secs(5);

/// Answers one session with the rights of the user of this process, as it is told on standard input, and
/// returns when the session or standard input has ended.
///
/// `reached` is the address of this machine as ssh reached it: the third word of `SSH_CONNECTION`.
pub fn serve_over_ssh(
    home: PathBuf,
    reached: Option<IpAddr>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let lanes = Arc::new(OnceLock::new());
    let throttle = Throttle::new();
    let asked = listen(cancel, &lanes, &throttle)?;
    let answer = |answer: &Answer| {
        handover::write_answer(io::stdout().lock(), answer)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot answer: {e}")))
    };
    let failed = |error: &Error| {
        let (message, kind) = (error.to_string(), Some(handover::kind_number(error.kind())));
        answer(&Answer::Failed { message, kind })
    };
    let ask = match asked.recv_timeout(ASK_PATIENCE) {
        Ok(Ok(ask)) => ask,
        // It names our versions, which are what is wrong most often.
        Ok(Err(error @ HandoverError::Versions { .. })) => {
            answer(&Answer::Failed {
                message: error.to_string(),
                kind: Some(handover::kind_number(ErrorKind::Protocol)),
            })?;
            return Err(error.at("the other side"));
        }
        lost => {
            let what = match lost {
                Ok(Err(HandoverError::Closed)) => "standard input is closed",
                Ok(_) => "what comes in is no line of howdah",
                Err(_) => "nothing comes in",
            };
            let text = format!(
                "{what}: a login script here (.bashrc, .profile, config.fish, .cshrc, ...) has read standard input, \
                 which was for howdah, or ssh was told to close it; let the script read only where there is a terminal"
            );
            let error = Error::new(ErrorKind::Network, text);
            failed(&error)?;
            return Err(error);
        }
    };
    match ask {
        Ask::Serve { key, ports, only } => match open(&key, ports.0..=ports.1, home, only) {
            Ok((server, identity)) => {
                // Before the answer: whoever knows it may ask for a tunnel.
                let _ = lanes.set(server.lanes());
                answer(&Answer::Ready {
                    port: server.local_addr().port(),
                    key: identity.public_key().to_string(),
                    address: reached,
                })?;
                server.run_once(cancel, PATIENCE)
            }
            Err(error) => {
                failed(&error)?;
                Err(error)
            }
        },
        Ask::Send => {
            let identity = Identity::generate()?;
            let key = identity.public_key().to_string();
            answer(&Answer::Sender { key })?;
            // Meanwhile somebody may have to type a password for the other machine.
            match asked.recv_timeout(ERRAND_PATIENCE) {
                Ok(Ok(Ask::Errand(errand))) => {
                    let tell = errand::teller(io::stdout());
                    let sender = errand::Sender {
                        identity,
                        home: &home,
                        throttle,
                        cancel,
                    };
                    errand::run(*errand, sender, &tell);
                    Ok(())
                }
                _ => Err(Error::new(ErrorKind::Network, "no errand came")),
            }
        }
        Ask::Errand(_) | Ask::Pace(_) | Ask::Part(_) => {
            Err(Error::new(ErrorKind::Protocol, "an errand without a key"))
        }
    }
}

/// A server for the holder of `key`, under a key of its own.
fn open(
    key: &str,
    ports: RangeInclusive<u16>,
    home: PathBuf,
    only: Option<Box<OneCopy>>,
) -> Result<(Server, Identity), Error> {
    let client = handover::key(key).map_err(|e| e.at("the other side"))?;
    let identity = Identity::generate()?;
    let (socket, listener) = bind(ports)?;
    let rights = Rights::of_user(home);
    let rights = match only {
        Some(only) => rights.for_one_copy((*only).into()),
        None => rights,
    };
    let authority = Arc::new(OnlyOne {
        client,
        rights,
        taken: AtomicBool::new(false),
    });
    let server = Server::on(socket, Some(listener), &identity, authority, Log::default())?;
    Ok((server, identity))
}

/// The first port that is free for UDP and TCP, on all addresses: ssh has come by one, data may come by another.
fn bind(ports: RangeInclusive<u16>) -> Result<(UdpSocket, TcpListener), Error> {
    let mut last = None;
    for port in ports.clone() {
        for any in [
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
            Ipv4Addr::UNSPECIFIED.into(),
        ] {
            let address = SocketAddr::new(any, port);
            let both = howdah_net::bind(address)
                .and_then(|udp| howdah_net::listen(address).map(|tcp| (udp, tcp)));
            match both {
                Ok(both) => return Ok(both),
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
            "none of the ports {} to {} is free ({why}); name others with --port",
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

    fn enter(&self, key: &PublicKey, _from: IpAddr) -> Result<Rights, Error> {
        if *key != self.client || self.taken.swap(true, Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::Auth,
                "this session has begun already",
            ));
        }
        Ok(self.rights.clone())
    }
}

/// Reads what is asked for, and then waits for the end of standard input, when ssh goes: then this end goes,
/// too. Meanwhile it may become a tunnel.
fn listen(
    cancel: &Cancel,
    lanes: &Arc<OnceLock<Lanes>>,
    throttle: &Throttle,
) -> Result<Receiver<Result<Ask, HandoverError>>, Error> {
    let (tell, asked) = channel();
    let (cancel, lanes, throttle) = (cancel.clone(), Arc::clone(lanes), throttle.clone());
    let trouble = |e| Error::new(ErrorKind::Io, format!("cannot use the channel: {e}"));
    let file = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let mut stdin = BufReader::new(file(io::stdin().as_fd()).map_err(trouble)?);
    let stdout = file(io::stdout().as_fd()).map_err(trouble)?;
    let listen = move || {
        // If nobody waits for it any more, this process ends.
        let ask = handover::read_ask(&mut stdin);
        let sends = matches!(ask, Ok(Ask::Send));
        let _ = tell.send(ask);
        if sends {
            let _ = tell.send(handover::read_errand(&mut stdin));
            while let Ok(Ask::Pace(pace)) = handover::read_ask(&mut stdin) {
                // The policy stays what it was.
                let _ = pace.apply_to(&throttle);
            }
        } else if handover::read_tunnel(&mut stdin)
            && let Some(lanes) = lanes.get()
            && let Ok(tunnel) = Tunnel::over(stdin, stdout, lanes)
        {
            while !tunnel.has_ended() {
                std::thread::sleep(LOOK_EVERY);
            }
        }
        cancel.cancel();
    };
    std::thread::Builder::new()
        .name("howdah-channel".into())
        .spawn(listen)
        .map(|_| asked)
        .map_err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_key() -> Identity {
        Identity::generate().expect("a key")
    }

    #[test]
    fn f70_a_far_end_that_nobody_comes_to_ends() {
        let key = a_key().public_key().to_string();
        let home = std::env::temp_dir();
        // Port 0: any.
        let (server, _) = open(&key, 0..=0, home, None).expect("a server");
        let patience = Span::from_millis(50);
        server.run_once(&Cancel::new(), patience).expect("no one");
    }

    #[test]
    fn a30_the_key_that_was_told_gets_in_once_and_no_other() {
        let (told, other) = (a_key(), a_key());
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let door = OnlyOne {
            client: *told.public_key(),
            rights: Rights::of_user(std::env::temp_dir()),
            taken: AtomicBool::new(false),
        };
        assert!(!door.admits(other.public_key()) && door.enter(other.public_key(), here).is_err());
        assert!(door.admits(told.public_key()));
        // A handshake that comes to nothing takes nothing away.
        assert!(door.admits(told.public_key()));
        assert!(door.enter(told.public_key(), here).is_ok());
        assert!(!door.admits(told.public_key()) && door.enter(told.public_key(), here).is_err());
    }

    #[test]
    fn a_key_that_is_none_is_refused() {
        let error =
            open("ssh-ed25519 AAAA", 0..=0, std::env::temp_dir(), None).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }
}
