//! One object moved by several connections of one client, each on a loop of its own at both ends.

use crate::loops::{Site, at_a_server_of};
use howdah::{Cancel, CopyConfig, Error, Location, SessionStatus, Summary, copy};
use howdah_core::Rate;

const SIZE: usize = 40_000_000;

/// Bytes that are all different from their neighbours, and from those a piece further on.
fn content() -> Vec<u8> {
    let byte = |at: usize| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8;
    (0..SIZE).map(byte).collect()
}

/// Of a client with so many loops, slow enough to be looked at.
fn config(site: &Site<'_>, loops: u8) -> CopyConfig {
    let mut config = site.config();
    config.loops = loops;
    config.throttle.set_limit(Some(Rate::from_mbit_per_sec(80)));
    config
}

fn run(config: &CopyConfig, from: &Location, to: &Location) -> Result<Summary, Error> {
    copy(from, to, config, &Cancel::new(), &mut |_| {})
}

/// Those that bring a part of what another one moves, and have brought some.
fn parts(sessions: &[SessionStatus]) -> Vec<u64> {
    let brings = |s: &&SessionStatus| s.what.contains("move a part of") && s.bytes > 500_000;
    sessions.iter().filter(brings).map(|s| s.id).collect()
}

fn zeros() -> Location {
    Location::Zero(SIZE as u64)
}

/// Copies there and back and looks meanwhile at the lanes that there are; `act` does something to them.
fn there_and_back(site: &Site<'_>, loops: u8, act: impl Fn(&CopyConfig) + Sync) {
    std::fs::write(site.dir.join("here"), content()).expect("a file");
    let ways = [
        (site.here("here"), site.there("there")),
        (site.there("there"), site.here("back")),
        (zeros(), site.there("null:")),
        (site.there(&format!("zero:{SIZE}")), Location::Null),
    ];
    for (from, to) in ways {
        let config = config(site, loops);
        std::thread::scope(|scope| {
            let copies = scope.spawn(|| run(&config, &from, &to));
            act(&config);
            // What is left has been seen enough.
            config.throttle.set_limit(None);
            let done = copies.join().expect("no panic").expect("it is there");
            assert_eq!(done.bytes, SIZE as u64, "{from} to {to}");
        });
        site.sessions(<[_]>::is_empty);
    }
    for name in ["there", "back"] {
        let read = std::fs::read(site.dir.join(name)).expect("a file");
        assert!(read == content(), "{name} is another file");
    }
}

#[test]
fn several_connections_move_one_object_both_ways() {
    at_a_server_of(3, "no-list", None, |site, _| {
        there_and_back(site, 3, |_| {
            site.sessions(|sessions| parts(sessions).len() == 2);
        });
    });
}

#[test]
fn what_a_lost_connection_has_not_brought_others_bring() {
    at_a_server_of(3, "no-list", None, |site, _| {
        there_and_back(site, 3, |_| {
            let sessions = site.sessions(|sessions| parts(sessions).len() == 2);
            for id in parts(&sessions) {
                assert!(site.control.end(id));
            }
            // (That of the session stays.)
            site.sessions(|sessions| parts(sessions).is_empty());
        });
    });
}

#[test]
fn there_are_as_many_as_the_server_has_loops() {
    at_a_server_of(2, "no-list", None, |site, _| {
        there_and_back(site, 8, |_| {
            let sessions = site.sessions(|sessions| parts(sessions).len() == 1);
            assert_eq!(sessions.len(), 2, "{sessions:?}");
        });
    });
    at_a_server_of(1, "no-list", None, |site, _| {
        there_and_back(site, 4, |_| {
            let sessions = site.sessions(|sessions| sessions.iter().any(|s| s.bytes > 4_000_000));
            assert_eq!(sessions.len(), 1, "{sessions:?}");
        });
    });
}

#[test]
fn a_key_that_may_have_fewer_sessions_has_fewer_and_the_copy_goes_on() {
    at_a_server_of(3, "max-sessions=\"2\"", None, |site, _| {
        there_and_back(site, 3, |_| {
            let sessions = site.sessions(|sessions| parts(sessions).len() == 1);
            assert_eq!(sessions.len(), 2, "{sessions:?}");
        });
    });
}

/// A source that holds what an interrupted copy has brought already: only the rest is given out.
#[test]
fn a_copy_is_gone_on_with_by_several_connections() {
    at_a_server_of(3, "no-list", None, |site, _| {
        std::fs::write(site.dir.join("here"), content()).expect("a file");
        let (here, there) = (site.here("here"), site.there("there"));
        let first = config(site, 3);
        let stop = Cancel::new();
        std::thread::scope(|scope| {
            let copies = scope.spawn(|| copy(&here, &there, &first, &stop, &mut |_| {}));
            site.sessions(|sessions| sessions.iter().map(|s| s.bytes).sum::<u64>() > 20_000_000);
            stop.cancel();
            copies.join().expect("no panic").expect_err("it was ended");
        });
        let mut again = config(site, 3);
        again.throttle.set_limit(None);
        again.throttle = howdah::Throttle::new();
        let done = run(&again, &here, &there).expect("it is there");
        assert!(done.resumed_bytes > 0, "{done:?}");
        let read = std::fs::read(site.dir.join("there")).expect("a file");
        assert!(read == content());
    });
}
