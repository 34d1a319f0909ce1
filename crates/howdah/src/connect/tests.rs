use super::*;
use crate::keys::PublicKey;
use crate::{AuthorizedKeys, KnownHosts, Server, ServerConfig};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
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

/// A server on the loopback address that lets the client of `config` in.
fn server(dir: &Path, config: &CopyConfig) -> Server {
    server_and_key(dir, config).0
}

fn server_and_key(dir: &Path, config: &CopyConfig) -> (Server, PublicKey) {
    let identity = Identity::generate().expect("a key");
    let key = *identity.public_key();
    let line = format!("{} test\n", config.identity.public_key());
    let keys = dir.join("authorized");
    std::fs::write(&keys, line).expect("a file");
    let authorized = AuthorizedKeys::load(&keys).expect("a list");
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(ServerConfig::new(dir, listen, identity, authorized));
    (server.expect("a server"), key)
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
    let mut outside = Outside::new(config, host.clone(), &mut on_progress);
    let mut client = Client::new(task, config, &cancel, outside.teller(), host, now);
    let line = Line {
        port: 4433,
        addresses: addresses.to_vec(),
        far_end: None,
    };
    reach(
        &line,
        &protocol(config)?,
        clock,
        (config, &cancel),
        &mut client,
        (&mut outside, None),
    )?;
    client.into_result()
}

#[test]
fn an_address_that_does_not_answer_is_not_the_end() {
    let dir = tempfile::tempdir().expect("a place");
    let config = config(dir.path());
    let server = server(dir.path(), &config);
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
        text.starts_with("cannot reach two.example:4433: nobody listens on"),
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

/// First flights of clients that nobody will ever hear of again, one for each.
struct Flood(Vec<Vec<u8>>);

impl howdah_proto::PacketSink for Flood {
    fn packet(&mut self, packet: &howdah_proto::PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

/// The source addresses of the flood never answer, as forged ones would not.
#[test]
fn a_flood_of_first_packets_does_not_keep_an_honest_client_out() {
    use howdah_core::Time;
    use howdah_proto::ConnectionId;
    use std::sync::atomic::{AtomicBool, Ordering};
    let dir = tempfile::tempdir().expect("a place");
    let mut config = config(dir.path());
    let (server, key) = server_and_key(dir.path(), &config);
    // Who sees a server for the first time cannot show that he knows it, and has to wait.
    config.trust = Trust::Exactly(key);
    let target = server.local_addr();
    let known = KnownHosts::default();
    let stranger = CopyConfig::new(Identity::generate().expect("a key"), known);
    let stranger = protocol(&stranger).expect("a key");
    let mut flood = Flood(Vec::new());
    for n in 0..400 {
        let id = ConnectionId(1000 + n);
        let start = Time::ZERO;
        let role = howdah_proto::Role::Client;
        let client = howdah_proto::Connection::new(start, role, stranger.clone(), id, target, n);
        let mut client = client.expect("TLS begins");
        while client.poll_transmit(start, 1, 1_200, &mut flood).is_some() {}
    }
    let (cancel, stop) = (Cancel::new(), AtomicBool::new(false));
    let (quiet, flooded) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&cancel));
        let flooding = scope.spawn(|| {
            let mut quiet = Some(quiet);
            let sockets: Vec<_> = (1..=40)
                .map(|host| UdpSocket::bind((Ipv4Addr::new(127, 1, 0, host), 0)).expect("a port"))
                .collect();
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) {
                for (socket, packet) in sockets.iter().cycle().zip(&flood.0) {
                    sent += u64::from(socket.send_to(packet, target).is_ok());
                }
                if sent > 1_000 {
                    drop(quiet.take());
                }
            }
        });
        // On a busy machine a copy may be over before it has begun.
        assert!(flooded.recv().is_err(), "nothing is said");
        let result = put(&[target], "flooded", &config);
        stop.store(true, Ordering::Relaxed);
        flooding.join().expect("no panic");
        cancel.cancel();
        running.join().expect("no panic").expect("a server");
        assert_eq!(result.expect("it gets in").bytes, 100_000);
    });
}

/// A server of a version to come, as far as it can be known today.
#[test]
fn a_server_of_another_version_is_named() {
    use howdah_proto::codec::{Header, RetryAnswer, RetryPacket, VERSION};
    let dir = tempfile::tempdir().expect("a place");
    let config = config(dir.path());
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let target = socket.local_addr().expect("it has one");
    let error = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; 2_000];
            let (len, from) = socket.recv_from(&mut buffer).expect("a packet");
            let (header, _) = Header::decode(&buffer[..len]).expect("a header");
            let Header::Handshake {
                version,
                destination,
                source,
                ..
            } = header
            else {
                panic!("{header:?}");
            };
            let answer = RetryAnswer::Version {
                spoken: VERSION + 1,
                refused: version,
            };
            let mut out = Vec::new();
            RetryPacket::to(destination, source, answer).encode(&mut out);
            socket.send_to(&out, from).expect("sent");
        });
        put(&[target], "newer", &config).expect_err("it speaks another version")
    });
    assert_eq!(error.kind(), ErrorKind::Protocol);
    let text = error.to_string();
    assert!(text.starts_with("newer:4433 speaks version 2"), "{text}");
    assert!(text.contains("this program is older"), "{text}");
}

/// The same the other way round: what a client of a version to come would hear from us.
#[test]
fn a_client_of_another_version_is_told_ours() {
    use howdah_proto::codec::{ConnectionId, Header, Level, RetryAnswer, RetryPacket, VERSION};
    let dir = tempfile::tempdir().expect("a place");
    let server = server(dir.path(), &config(dir.path()));
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let patience = std::time::Duration::from_secs(20);
    socket.set_read_timeout(Some(patience)).expect("a limit");
    let (first_destination, client) = (ConnectionId(11), ConnectionId(12));
    let mut knock = Vec::new();
    Header::Handshake {
        level: Level::Initial,
        version: VERSION + 1,
        destination: first_destination,
        source: client,
        number: 0,
        cookie: None,
    }
    .encode(&mut knock);
    knock.resize(1_200, 0);
    socket.send_to(&knock, server.local_addr()).expect("sent");
    let cancel = Cancel::new();
    let answer = std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&cancel));
        let mut buffer = [0; 2_000];
        let received = socket.recv(&mut buffer).map(|len| buffer[..len].to_vec());
        cancel.cancel();
        running.join().expect("no panic").expect("a server");
        received.expect("an answer")
    });
    let expected = RetryAnswer::Version {
        spoken: VERSION,
        refused: VERSION + 1,
    };
    let packet = RetryPacket::decode(&answer).expect("a version packet");
    assert_eq!(packet, RetryPacket::to(first_destination, client, expected));
}

#[test]
fn an_address_of_a_single_link_has_to_say_which() {
    let error = resolve("fe80::1", 7).expect_err("any link could be meant");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("[fe80::1%eth0]"), "{error}");
    assert!(resolve("2001:db8::1", 7).is_ok());
}
