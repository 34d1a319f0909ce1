//! The far end itself: what `howdah internal far-end` does on the machine that ssh has reached.

mod sender;

use crate::access::{Authority, Rights};
use crate::keys::{self, PublicKey};
use crate::sandbox::Sandbox;
use crate::sandbox::names::Names;
use crate::server::Signing;
use crate::ssh::Within;
use crate::ssh::handover::{self, Answer, Ask, HandoverError, OneCopy};
use crate::{Cancel, Error, ErrorKind, Identity, Log, Server, ServerControl, Throttle};
use howdah_core::Span;
use howdah_net::{Lanes, Tunnel};
use std::fs::File;
use std::io::{self, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::ops::RangeInclusive;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The same for a sender's errand.
const ERRAND_PATIENCE: Duration = Duration::from_mins(10);
/// How often a tunnel is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Nobody is waited for longer than that.
const PATIENCE: Span = Span::from_secs(30);
/// What is asked was written before this process began.
const ASK_PATIENCE: Duration = Duration::from_secs(5);

/// Where a far end runs.
pub struct FarEndHost {
    /// What relative paths are seen from.
    pub home: PathBuf,
    /// The address of this machine as ssh reached it: the third word of `SSH_CONNECTION`.
    pub reached: Option<IpAddr>,
    /// The process enters a [sandbox](crate::sandbox) once it knows what it is for.
    pub confined: bool,
    /// Hears what whoever asked for it will see.
    pub log: Log,
    /// Called when it is ready to answer, from the thread that will.
    pub ready: fn(),
}

impl FarEndHost {
    /// Leaves this process what it is for. There must be no other thread.
    fn confine(&self, within: &Within, ports: Vec<u16>, wordy: bool) {
        let say = |line: &str| {
            if wordy {
                self.log.line(line);
            }
        };
        if !self.confined {
            say("without a sandbox: this process can do all that its user may");
            return;
        }
        if let Err(error) = Names::ask() {
            say(&format!(
                "users and groups have numbers only: what says their names cannot be started ({error})"
            ));
        }
        let sandbox = Sandbox {
            connects: ports,
            ..within.sandbox(&self.home)
        };
        for line in sandbox.enter() {
            say(&line);
        }
    }
}

/// Answers one session with the rights of the user of this process, as it is told on standard input, and
/// returns when the session or standard input has ended. There must be no other thread.
pub fn serve_over_ssh(place: &FarEndHost, cancel: &Cancel) -> Result<(), Error> {
    let throttle = Throttle::new();
    let (stdin, stdout) = channel()?;
    let answer = |answer: &Answer| {
        handover::write_answer(io::stdout().lock(), answer)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot answer: {e}")))
    };
    let failed = |error: &Error| {
        let (message, kind) = (
            error.to_string(),
            Some(crate::ssh::kinds::kind_number(error.kind())),
        );
        answer(&Answer::Failed { message, kind })
    };
    let (ask, stdin) = match await_line(stdin, handover::read_ask, ASK_PATIENCE)? {
        Some((Ok(ask), stdin)) => (ask, stdin),
        // It names our versions, which are what is wrong most often.
        Some((Err(error @ (HandoverError::Versions { .. } | HandoverError::Builds { .. })), _)) => {
            answer(&Answer::Failed {
                message: error.to_string(),
                kind: Some(crate::ssh::kinds::kind_number(ErrorKind::Protocol)),
            })?;
            return Err(error.at("the other side"));
        }
        lost => {
            let what = match lost {
                Some((Err(HandoverError::Closed), _)) => "standard input is closed",
                Some(_) => "what comes in is no line of howdah",
                None => "nothing comes in",
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
        Ask::Serve {
            key,
            ports,
            only,
            within,
            wordy,
        } => {
            let within = within.unwrap_or_else(Within::anything);
            let opened = open(&key, ports.0..=ports.1, place, (only, &within, wordy));
            match opened {
                Ok((server, identity)) => {
                    // Before the answer: whoever knows it may ask for a tunnel.
                    let lanes = server.lanes();
                    listen(cancel, move || carry(stdin, stdout, &lanes))?;
                    (place.ready)();
                    answer(&Answer::Ready {
                        port: server.local_addr().port(),
                        key: identity.public_key().to_string(),
                        address: place.reached,
                    })?;
                    let server = if place.confined {
                        server.opening_nothing(|| ())
                    } else {
                        server
                    };
                    server.run_once(cancel, PATIENCE)
                }
                Err(error) => {
                    failed(&error)?;
                    Err(error)
                }
            }
        }
        Ask::Send => {
            let identity = Identity::generate()?;
            let key = identity.public_key().to_string();
            answer(&Answer::Sender { key })?;
            // Meanwhile somebody may have to type a password for the other machine.
            let errand = await_line(stdin, handover::read_errand, ERRAND_PATIENCE)?;
            let Some((Ok(Ask::Errand(errand)), mut stdin)) = errand else {
                return Err(Error::new(ErrorKind::Network, "no errand came"));
            };
            let pace = throttle.clone();
            let mut hear = Some(move || {
                while let Ok(Ask::Pace(asked)) = handover::read_ask(&mut stdin) {
                    // The policy stays what it was.
                    let _ = crate::session::pace::keep(asked, &pace);
                }
            });
            let sender = sender::Sender {
                identity,
                home: &place.home,
                throttle,
                cancel,
                confine: &mut |within, ports, wordy| {
                    place.confine(within, ports, wordy);
                    (place.ready)();
                    hear.take().map_or(Ok(()), |hear| listen(cancel, hear))
                },
            };
            sender::run(*errand, sender, &sender::teller(io::stdout()));
            Ok(())
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
    place: &FarEndHost,
    (only, within, wordy): (Option<Box<OneCopy>>, &Within, bool),
) -> Result<(Server, Identity), Error> {
    let client = handover::key(key).map_err(|e| e.at("the other side"))?;
    let identity = Identity::generate()?;
    // That of the session is nobody's: receipts are signed with the one that this user has here, if he has one.
    let signing = within.signs.then(keys::default_identity_path).flatten();
    let signing = signing.and_then(|path| Identity::load(&path).ok());
    let (socket, listener) = bind(ports)?;
    // New sockets could not be opened any more, and the server has threads.
    place.confine(within, Vec::new(), wordy);
    let rights = Rights::of_user(place.home.clone());
    let rights = match only {
        Some(only) => rights.for_one_copy((*only).into()),
        None => rights,
    };
    let authority = Arc::new(OnlyOne {
        client,
        rights,
        taken: AtomicBool::new(false),
    });
    let server = Server::on(
        socket,
        Some(listener),
        &identity,
        authority,
        Log::default(),
        ServerControl::new(),
    )?;
    let server = server.signing(signing.map(|key| Signing {
        key,
        knows_clients: false,
    }));
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

/// Standard input, and standard output beside what is said there by lines.
fn channel() -> Result<(BufReader<File>, File), Error> {
    let file = |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from).map_err(trouble);
    Ok((
        BufReader::new(file(io::stdin().as_fd())?),
        file(io::stdout().as_fd())?,
    ))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn trouble(error: io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot use the channel: {error}"))
}

type Read<T> = (T, BufReader<File>);

/// What `read` makes of what comes, by a thread that ends with that; `None`: nothing comes for so long, and this process had
/// better end.
fn await_line<T: Send + 'static>(
    mut stdin: BufReader<File>,
    read: impl FnOnce(&mut BufReader<File>) -> T + Send + 'static,
    patience: Duration,
) -> Result<Option<Read<T>>, Error> {
    let (tell, told) = std::sync::mpsc::channel();
    let thread = move || {
        let read = read(&mut stdin);
        // If nobody waits for it any more, this process ends.
        let _ = tell.send((read, stdin));
    };
    let thread = std::thread::Builder::new().spawn(thread).map_err(trouble)?;
    let read = told.recv_timeout(patience).ok();
    if read.is_some() {
        // No thread is left over that nothing is kept from.
        let _ = thread.join();
    }
    Ok(read)
}

/// Waits for the end of standard input, when ssh goes: then this end goes, too. Meanwhile it may become a tunnel.
fn carry(mut stdin: BufReader<File>, stdout: File, lanes: &Lanes) {
    if handover::read_tunnel(&mut stdin)
        && let Ok(tunnel) = Tunnel::over(stdin, stdout, lanes)
    {
        while !tunnel.has_ended() {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// A thread that hears whoever started this end, and ends it when that is over.
fn listen(cancel: &Cancel, hear: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let cancel = cancel.clone();
    let listen = move || {
        hear();
        cancel.cancel();
    };
    let thread = std::thread::Builder::new().name("howdah-channel".into());
    thread.spawn(listen).map(|_| ()).map_err(trouble)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tests' own process is kept from nothing.
    fn place() -> FarEndHost {
        FarEndHost {
            home: std::env::temp_dir(),
            reached: None,
            confined: false,
            log: Log::default(),
            ready: || (),
        }
    }

    fn a_key() -> Identity {
        Identity::generate().expect("a key")
    }

    #[test]
    fn f70_a_far_end_that_nobody_comes_to_ends() {
        let key = a_key().public_key().to_string();
        // Port 0: any.
        let only = (None, &Within::default(), false);
        let (server, _) = open(&key, 0..=0, &place(), only).expect("a server");
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
        let only = (None, &Within::default(), false);
        let error = open("ssh-ed25519 AAAA", 0..=0, &place(), only).expect_err("no key");
        assert_eq!(error.kind(), ErrorKind::Protocol);
    }
}
