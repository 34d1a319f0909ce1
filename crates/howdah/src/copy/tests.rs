use super::*;
use crate::{AuthorizedKeys, Log, Server, ServerConfig};
use std::net::{IpAddr, UdpSocket};
use std::path::Path;

fn config(dir: &Path) -> CopyConfig {
    let known = KnownHosts::load(&dir.join("known")).expect("an empty list");
    let mut config = CopyConfig::new(Identity::generate().expect("a key"), known);
    config.trust = Trust::AcceptNew;
    config
}

/// An address of this host that nobody listens on.
fn deserted(ip: impl Into<IpAddr>) -> SocketAddr {
    let socket = UdpSocket::bind((ip.into(), 0)).expect("a port");
    socket.local_addr().expect("it has one")
}

fn put(addresses: &[SocketAddr], host: &str, config: &CopyConfig) -> Result<Summary, Error> {
    let task = Task::Put {
        source: Location::Zero(100_000),
        path: "null:".into(),
    };
    let (cancel, clock) = (Cancel::new(), Clock::new());
    let mut on_progress = |_: &Progress| {};
    let now = clock.now();
    let host = (host.to_owned(), 4433);
    let mut client = Client::new(task, config, &cancel, &mut on_progress, host, now);
    let identity = TlsIdentity::new(
        config.identity.rustls_certified_key(),
        Arc::new(|_: &[u8]| true),
    )
    .expect("a key");
    let protocol = Config::new(Security::Tls(identity));
    reach(addresses, &protocol, clock, &mut client)?;
    client.into_result()
}

#[test]
fn an_address_that_does_not_answer_is_not_the_end() {
    let dir = tempfile::tempdir().expect("a place");
    let config = config(dir.path());
    let line = format!("{} test\n", config.identity.public_key());
    let keys = dir.path().join("authorized");
    std::fs::write(&keys, line).expect("a file");
    let server = Server::bind(ServerConfig {
        root: dir.path().to_owned(),
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        identity: Identity::generate().expect("a key"),
        authorized: AuthorizedKeys::load(&keys).expect("a list"),
        log: Log::default(),
    })
    .expect("a server");
    let addresses = [deserted(Ipv4Addr::LOCALHOST), server.local_addr()];
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&cancel));
        let result = put(&addresses, "two.example", &config);
        cancel.cancel();
        running.join().expect("no panic").expect("a server");
        assert_eq!(result.expect("the second address answers").bytes, 100_000);
    });
}

#[test]
fn every_address_that_was_tried_is_named() {
    let dir = tempfile::tempdir().expect("a place");
    let config = config(dir.path());
    let addresses = [
        deserted(Ipv4Addr::LOCALHOST),
        deserted(Ipv4Addr::new(127, 0, 0, 2)),
    ];
    let error = put(&addresses, "two.example", &config).expect_err("nobody is there");
    assert_eq!(error.kind(), ErrorKind::Network);
    let text = error.to_string();
    for part in addresses.map(|address| address.to_string()) {
        assert!(text.contains(&part), "{text}");
    }
    assert!(
        text.starts_with("two.example:4433 does not answer"),
        "{text}"
    );
}

#[test]
fn families_take_turns_and_nothing_is_tried_twice() {
    let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
    let found = [
        "[::1]:1",
        "[::2]:1",
        "[::1]:1",
        "[::3]:1",
        "1.0.0.1:1",
        "1.0.0.2:1",
    ];
    let turns = ["[::1]:1", "1.0.0.1:1", "[::2]:1", "1.0.0.2:1", "[::3]:1"];
    assert_eq!(in_turn(found.map(address)), turns.map(address));
    let many = (0..100).map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    assert_eq!(in_turn(many).len(), ADDRESSES_MAX);
    assert!(resolve("127.0.0.1", 7).is_ok_and(|found| found == [address("127.0.0.1:7")]));
}
