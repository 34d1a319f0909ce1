//! A server with two loops is one server: sessions are on both, and what is counted and ordered holds for all of them.

use howdah::{
    AuthorizedKeys, Cancel, CopyConfig, Error, Identity, KnownHosts, Location, Log, Server,
    ServerConfig, ServerControl, SessionStatus, Transport, Trust, copy,
};
use howdah_core::{Rate, Span};
use std::net::{Ipv4Addr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients that get nothing for so long fail.
const LIMIT: Duration = Duration::from_mins(2);

pub(crate) struct Site<'a> {
    ours: &'a Identity,
    shown: howdah::keys::PublicKey,
    target: SocketAddr,
    pub(crate) control: &'a ServerControl,
    pub(crate) dir: &'a Path,
}

impl Site<'_> {
    fn copy(&self, from: &Location, to: &Location, cancel: &Cancel) -> Result<u64, Error> {
        copy(from, to, &self.config(), cancel, &mut |_| {}).map(|done| done.bytes)
    }

    pub(crate) fn config(&self) -> CopyConfig {
        let mut config = CopyConfig::new(self.ours.clone(), KnownHosts::default());
        config.trust = Trust::Exactly(self.shown);
        config.transport = Transport::Udp;
        config.idle_timeout = Span::from_secs(60);
        config
    }

    pub(crate) fn there(&self, name: &str) -> Location {
        let text = format!("howdah://{}/{name}", self.target);
        text.parse().expect("a place")
    }

    pub(crate) fn here(&self, name: &str) -> Location {
        Location::File(self.dir.join(name))
    }

    /// Its sessions, as soon as they are as they should be.
    pub(crate) fn sessions(&self, wanted: impl Fn(&[SessionStatus]) -> bool) -> Vec<SessionStatus> {
        let end = Instant::now() + LIMIT;
        loop {
            let sessions = self.control.sessions();
            if wanted(&sessions) {
                return sessions;
            }
            assert!(Instant::now() < end, "{sessions:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// What `act` does at a server with two loops, for a key with these options; the server ends by itself, or is stopped then.
fn at_a_server(options: &str, max_rate: Option<Rate>, act: impl FnOnce(&Site<'_>, &Cancel)) {
    at_a_server_of(2, options, max_rate, act);
}

/// The same with so many loops.
pub(crate) fn at_a_server_of(
    loops: usize,
    options: &str,
    max_rate: Option<Rate>,
    act: impl FnOnce(&Site<'_>, &Cancel),
) {
    let dir = tempfile::tempdir().expect("a place");
    let key = || Identity::generate().expect("a key");
    let (ours, theirs) = (key(), key());
    let shown = *theirs.public_key();
    let list = dir.path().join("keys");
    std::fs::write(&list, format!("{options} {}\n", ours.public_key())).expect("a list");
    let keys = AuthorizedKeys::load(&list).expect("keys");
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let mut config = ServerConfig::new(dir.path(), listen, theirs, keys);
    config.loops = Some(loops);
    config.max_rate = max_rate;
    config.log = Log::new(|line| println!("{line}"));
    let control = config.control.clone();
    let server = Server::bind(config).expect("a server");
    assert_eq!(server.loops(), loops);
    let target = server.local_addr();
    let stop = Cancel::new();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&stop));
        let site = Site {
            ours: &ours,
            shown,
            target,
            control: &control,
            dir: dir.path(),
        };
        let acted = catch_unwind(AssertUnwindSafe(|| act(&site, &stop)));
        let end = Instant::now() + LIMIT;
        while acted.is_ok() && control.is_draining() && !serving.is_finished() {
            if Instant::now() > end {
                stop.cancel();
                panic!("it goes on although it was told to end with its last session");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.cancel();
        serving.join().expect("no panic").expect("it ends well");
        acted.unwrap_or_else(|panic| resume_unwind(panic));
    });
}

#[test]
fn many_copy_to_both_loops_and_back() {
    at_a_server("no-list", None, |site, _| {
        let content = |n: usize| -> Vec<u8> {
            (0..1_000_000 + n)
                .map(|at| ((at * 31 + n) % 251) as u8)
                .collect()
        };
        std::thread::scope(|scope| {
            for n in 0..6 {
                scope.spawn(move || {
                    let (here, back) = (format!("here{n}"), format!("back{n}"));
                    std::fs::write(site.dir.join(&here), content(n)).expect("a file");
                    let there = site.there(&format!("there{n}"));
                    let never = Cancel::new();
                    let done = site.copy(&site.here(&here), &there, &never);
                    assert_eq!(done.expect("it is there"), content(n).len() as u64);
                    let done = site.copy(&there, &site.here(&back), &never);
                    assert_eq!(done.expect("it is back"), content(n).len() as u64);
                    let back = std::fs::read(site.dir.join(back)).expect("a file");
                    assert_eq!(back, content(n));
                });
            }
        });
    });
}

/// Begins a copy that has no end.
fn endless(site: &Site<'_>, stop: &Cancel) -> Result<u64, Error> {
    site.copy(&Location::Zero(1 << 50), &site.there("null:"), stop)
}

#[test]
fn sessions_of_all_loops_are_shown_and_ended_and_share_a_rate() {
    let rate = Some(Rate::from_mbit_per_sec(20));
    at_a_server("no-list", rate, |site, _| {
        let stop = Cancel::new();
        std::thread::scope(|scope| {
            let copies: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| endless(site, &stop)))
                .collect();
            let are_busy =
                |sessions: &[SessionStatus]| sessions.iter().all(|s| s.what.contains("put"));
            let shown = site.sessions(|sessions| sessions.len() == 4 && are_busy(sessions));
            for session in shown {
                assert!(site.control.end(session.id), "{session:?}");
            }
            for copy in copies {
                let error = copy.join().expect("no panic").expect_err("it was ended");
                assert!(
                    error.to_string().contains("has ended this session"),
                    "{error}"
                );
            }
        });
        site.sessions(<[_]>::is_empty);
    });
}

#[test]
fn the_sessions_of_a_key_are_counted_on_all_loops() {
    at_a_server("max-sessions=\"2\"", None, |site, _| {
        let stop = Cancel::new();
        std::thread::scope(|scope| {
            let copies: Vec<_> = (0..2)
                .map(|_| scope.spawn(|| endless(site, &stop)))
                .collect();
            site.sessions(|sessions| sessions.len() == 2);
            let error = endless(site, &stop).expect_err("it is one too many");
            assert!(
                error.to_string().contains("2 sessions at a time"),
                "{error}"
            );
            stop.cancel();
            for copy in copies {
                assert!(copy.join().expect("no panic").is_err());
            }
        });
        // Both are gone, and count no more.
        site.sessions(<[_]>::is_empty);
        let never = Cancel::new();
        let done = site.copy(&Location::Zero(1_000), &site.there("null:"), &never);
        assert_eq!(done.expect("there is room"), 1_000);
    });
}

#[test]
fn a_copy_on_one_loop_goes_on_with_that_on_another() {
    let rate = Some(Rate::from_mbit_per_sec(8));
    at_a_server("no-list", rate, |site, _| {
        let (first_stops, second_stops) = (Cancel::new(), Cancel::new());
        std::fs::write(site.dir.join("here"), vec![7; 20_000_000]).expect("a file");
        let (here, there) = (site.here("here"), site.there("there"));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| site.copy(&here, &there, &first_stops));
            site.sessions(|sessions| sessions.iter().any(|s| s.bytes > 500_000));
            let second = scope.spawn(|| site.copy(&here, &there, &second_stops));
            let error = first.join().expect("no panic").expect_err("it is over");
            assert!(error.to_string().contains("has taken over"), "{error}");
            second_stops.cancel();
            assert!(second.join().expect("no panic").is_err());
        });
    });
}

#[test]
fn a_server_that_is_drained_ends_with_the_last_session_of_all_loops() {
    at_a_server("no-list", None, |site, _| {
        let stops = [Cancel::new(), Cancel::new()];
        std::thread::scope(|scope| {
            let copies: Vec<_> = stops
                .iter()
                .map(|stop| scope.spawn(|| endless(site, stop)))
                .collect();
            site.sessions(|sessions| sessions.len() == 2);
            site.control.drain();
            let error = endless(site, &Cancel::new()).expect_err("nobody comes in");
            assert!(error.to_string().contains("going away"), "{error}");
            for (copy, stop) in copies.into_iter().zip(&stops) {
                assert!(!copy.is_finished(), "those that are there go on");
                stop.cancel();
                assert!(copy.join().expect("no panic").is_err());
            }
        });
    });
}
