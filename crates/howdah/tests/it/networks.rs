//! Keys that are good from some networks only, and people who move.

use crate::hostile;
use howdah::{AuthorizedKeys, Cancel, Identity, Log, Server, ServerConfig};
use howdah_proto::KnockKey;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server said of a session that has moved from 127.0.0.1 to 127.0.0.2, with a key that is good from there.
fn moved(from: &str) -> String {
    let dir = tempfile::tempdir().expect("a place");
    let key = || Identity::generate().expect("a key");
    let (ours, theirs) = (key(), key());
    let shown = *theirs.public_key();
    let list = dir.path().join("keys");
    let line = format!("from=\"{from}\" {}\n", ours.public_key());
    std::fs::write(&list, line).expect("a list");
    let keys = AuthorizedKeys::load(&list).expect("keys");
    let any = (Ipv4Addr::UNSPECIFIED, 0).into();
    let mut config = ServerConfig::new(dir.path(), any, theirs, keys);
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    config.log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
    let server = Server::bind(config).expect("a server");
    let target = (Ipv4Addr::LOCALHOST, server.local_addr().port()).into();
    let end = Instant::now() + Duration::from_mins(2);
    let told = || {
        let lines = lines.lock().expect("no panic");
        let told = |line: &&String| line.contains("turned away") || line.contains("moved to");
        lines.iter().find(told).cloned()
    };
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&cancel));
        let protocol = hostile::config(&ours, Some(KnockKey::of(shown.spki_der())));
        let places = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 0, 0, 2)];
        let is_enough = || told().is_some() || Instant::now() > end;
        hostile::forgers::move_to(target, places, &protocol, is_enough);
        cancel.cancel();
        serving.join().expect("no panic").expect("it ends well");
    });
    told().expect("the server says what it did")
}

/// A session goes on from another address, as behind a NAT, and not from where its key is not good.
#[test]
fn a28_who_moves_to_where_his_key_is_not_good_is_turned_away() {
    let told = moved("127.0.0.1");
    assert!(
        told.contains("turned away: says: this key is not good from 127.0.0.2"),
        "{told}"
    );
    let told = moved("127.0.0.1,127.0.0.2");
    assert!(told.contains("moved to 127.0.0.2:"), "{told}");
}
