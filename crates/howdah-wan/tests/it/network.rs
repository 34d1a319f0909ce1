//! Several hosts over shared paths. Without root or /dev/net/tun these tests say so and pass.
#![cfg(target_os = "linux")]

use howdah_core::{Rate, Span};
use howdah_path::{LossModel, Order, PathConfig, QueueLimit, Switch};
use howdah_wan::{Hop, Network, NetworkConfig, PathPair, RouteConfig, WanError};
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

fn network(config: &NetworkConfig) -> Option<Network> {
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun");
        return None;
    }
    match Network::create(config) {
        Ok(network) => Some(network),
        Err(error @ (WanError::NotPermitted | WanError::NoTun(_) | WanError::NoIproute(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn path(name: &str, config: &PathConfig) -> PathPair {
    PathPair {
        name: name.to_owned(),
        forward: config.clone(),
        backward: config.clone(),
        seeds: [1, 2],
    }
}

fn route(name: &str, paths: &[usize]) -> RouteConfig {
    RouteConfig {
        names: [format!("{name}a"), format!("{name}b")],
        hops: paths
            .iter()
            .map(|&path| Hop {
                path,
                reversed: false,
            })
            .collect(),
        mtu: 1500,
    }
}

/// A socket at each end of a route, connected to each other.
fn sockets(network: &Network, index: usize) -> [UdpSocket; 2] {
    let [a, b] = Network::addresses(index);
    let near = network.a(index).run_in(|| UdpSocket::bind((a, 0)));
    let far = network.b(index).run_in(|| UdpSocket::bind((b, 0)));
    let sockets = [near.unwrap().unwrap(), far.unwrap().unwrap()];
    let to: Vec<SocketAddr> = sockets.iter().map(|s| s.local_addr().unwrap()).collect();
    for (socket, to) in sockets.iter().zip(to.iter().rev()) {
        socket.connect(to).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
    }
    sockets
}

fn round_trip([near, far]: &[UdpSocket; 2]) -> Duration {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 64];
            let len = far.recv(&mut buffer).unwrap();
            far.send(&buffer[..len]).unwrap();
        });
        let started = Instant::now();
        near.send(b"hello").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(near.recv(&mut buffer).unwrap(), 5);
        started.elapsed()
    })
}

#[test]
fn a_route_over_two_paths_is_as_long_as_both_and_its_traffic_is_its_own() {
    let delay = |ms| PathConfig {
        delay: Span::from_millis(ms),
        ..PathConfig::default()
    };
    let config = NetworkConfig {
        paths: vec![path("access", &delay(5)), path("main", &delay(20))],
        routes: vec![route("h0", &[1]), route("h1", &[0, 1])],
    };
    let Some(network) = network(&config) else {
        return;
    };
    let (short, long) = (sockets(&network, 0), sockets(&network, 1));
    let taken = round_trip(&long);
    assert!(taken >= Duration::from_millis(50), "{taken:?}");
    assert!(taken < Duration::from_secs(5), "{taken:?}");
    assert!(round_trip(&short) >= Duration::from_millis(40));
    for _ in 0..3 {
        round_trip(&short);
    }
    let traffic = network.traffic().unwrap();
    for (route, packets) in [(0, 4), (1, 1)] {
        for (sent, delivered) in traffic[route] {
            assert_eq!(sent, delivered);
            assert_eq!(sent.packets, packets, "route {route}");
            assert_eq!(sent.payload_bytes, 5 * packets);
            assert_eq!(sent.ip_bytes, (20 + 8 + 5) * packets);
        }
    }
    let certificate = network.certificate();
    let names: Vec<&str> = certificate
        .directions
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "access/forward",
            "access/backward",
            "main/forward",
            "main/backward"
        ]
    );
    assert_eq!(certificate.directions[2].1.path.delivered, 5);

    // The shared path becomes another one.
    let switch = Some(Switch {
        order: Order::MayOvertake,
        ..Switch::default()
    });
    let longer = delay(60);
    network.set_path(1, (&longer, switch), (&longer, switch));
    assert!(round_trip(&short) >= Duration::from_millis(120));
    assert!(round_trip(&long) >= Duration::from_millis(130));
}

/// Two senders, each within its own limit, overflow the path that they share.
#[test]
fn routes_compete_where_they_meet() {
    let narrow = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(10)),
        queue: QueueLimit::Packets(20),
        ..PathConfig::default()
    };
    let config = NetworkConfig {
        paths: vec![path("main", &narrow)],
        routes: vec![route("h0", &[0]), route("h1", &[0])],
    };
    let Some(network) = network(&config) else {
        return;
    };
    let senders = [sockets(&network, 0), sockets(&network, 1)];
    // 100 packets of each in one burst: far more than the queue takes.
    for _ in 0..100 {
        for [near, _] in &senders {
            near.send(&[0; 1000]).unwrap();
        }
    }
    let end = Instant::now() + Duration::from_secs(10);
    let expected = |certificate: &howdah_wan::Certificate| {
        let path = certificate.forward().path;
        path.offered == 200 && path.delivered + path.dropped_queue == 200
    };
    while !expected(&network.certificate()) && Instant::now() < end {
        std::thread::yield_now();
    }
    let path = network.certificate().forward().path;
    assert_eq!(path.offered, 200);
    assert!(path.dropped_queue > 20, "{path:?}");
    assert!(path.delivered >= 20, "{path:?}");
}

#[test]
fn a_duplicated_and_damaged_piece_goes_on_over_the_next_path() {
    let first = PathConfig {
        duplicate: 1.0,
        ..PathConfig::default()
    };
    let config = NetworkConfig {
        paths: vec![
            path("first", &first),
            path(
                "second",
                &PathConfig {
                    loss: LossModel::List(vec![1]),
                    ..PathConfig::default()
                },
            ),
        ],
        routes: vec![route("h0", &[0, 1])],
    };
    let Some(network) = network(&config) else {
        return;
    };
    let [near, far] = sockets(&network, 0);
    near.send(b"one").unwrap();
    near.send(b"two").unwrap();
    let mut got = Vec::new();
    for _ in 0..3 {
        let mut buffer = [0; 64];
        let len = far.recv(&mut buffer).unwrap();
        got.push(String::from_utf8_lossy(&buffer[..len]).into_owned());
    }
    // Four copies left the first path; the second of them was lost on the second.
    assert_eq!(got, ["one", "two", "two"]);
}

#[test]
fn routes_that_make_no_sense_are_refused_by_name() {
    let stored = PathConfig {
        stored_queue: true,
        rate: Some(Rate::from_mbit_per_sec(1)),
        ..PathConfig::default()
    };
    let plain = PathConfig::default();
    for (paths, routes, part) in [
        (vec![path("main", &plain)], vec![], "0 routes"),
        (
            vec![path("main", &plain)],
            vec![route("h0", &[])],
            "no path",
        ),
        (
            vec![path("main", &plain)],
            vec![route("h0", &[0, 0])],
            "one twice",
        ),
        (
            vec![path("main", &plain)],
            vec![route("h0", &[1])],
            "not there",
        ),
        (
            vec![path("slow", &stored)],
            vec![route("h0", &[0])],
            "'slow'",
        ),
    ] {
        let config = NetworkConfig { paths, routes };
        let error = Network::create(&config).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
