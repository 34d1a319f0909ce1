//! What a key has in all of its sessions together.

use crate::hostile;
use crate::hostile::by_hand::socket;
use crate::hostile::forgers::Scatterer;
use crate::support;
use howdah::{Cancel, Identity, Log};
use howdah_proto::KnockKey;
use std::net::Ipv4Addr;
use std::sync::mpsc::channel;

/// The server ends with it, also where something is not as it should be.
struct Ends<'a>(&'a Cancel);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A connection may keep some MiB for its peer; a key that has as many connections as it likes may not have as many times that.
#[test]
fn h19_whose_connections_keep_more_than_a_key_may_is_told_to_come_again() {
    const MIB: u64 = 1 << 20;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let [anna, ben, theirs] = [0; 3].map(|_| Identity::generate().expect("a key"));
    let knock = Some(KnockKey::of(theirs.public_key().spki_der()));
    let (tell, told) = channel();
    let log = Log::new(move |line| drop(tell.send(line.to_owned())));
    let server = support::server(dir.path(), &[&anna, &ben], theirs, log);
    let server = server.with_held(MIB, 64 * MIB);
    let target = server.local_addr();
    let stop = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop));
        let ends = Ends(&stop);
        let [of_anna, of_ben] = [&anna, &ben].map(|key| hostile::config(key, knock));
        let sockets = [0; 3].map(|_| [socket(Ipv4Addr::LOCALHOST)]);
        let address = |n: usize| sockets[n][0].local_addr().expect("an address").to_string();
        // One that is alone may keep what a connection may.
        let mut first = Scatterer::new(&sockets[0], target, &of_anna);
        let mut other = Scatterer::new(&sockets[1], target, &of_ben);
        for _ in 0..40 {
            first.scatter();
            other.scatter();
        }
        let mut second = Scatterer::new(&sockets[2], target, &of_anna);
        let gone = (0..100_000).find_map(|_| {
            second.scatter();
            told.try_iter().find(|line| line.ends_with(": gone"))
        });
        let gone = gone.expect("somebody is sent away");
        assert!(gone.starts_with(&address(2)), "{gone}");
        drop(ends);
        running.join().expect("no panic").expect("it ends well");
    });
}
