//! H10: first packets from addresses that never answer, as forged ones would not, while clients come in.
//!
//! `make bench-hostile` makes as many a second as one core can, at most `HOWDAH_FLOOD`, and prints how long clients take to
//! start without and with them. What is asserted is that they get in.

use crate::support;
use howdah::{Cancel, CopyConfig, Identity, KnownHosts, Location, Log, Transport, Trust, copy};
use howdah_core::Time;
use howdah_proto::{Config, Connection, PacketOut, PacketSink, Role, Security, TlsIdentity};
use howdah_proto::{ConnectionId, KnockKey};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Addresses that packets come from, each in a network of its own.
const ADDRESSES: u8 = 200;
/// Different first packets.
const PACKETS: u64 = 4_000;

/// First packets, the first of each client's.
struct First(Vec<Vec<u8>>);

impl PacketSink for First {
    fn packet(&mut self, packet: &PacketOut<'_>) {
        let mut body = packet.frames.to_vec();
        body.resize(body.len() + packet.padding, 0);
        let tag = packet.key.seal(packet.number, packet.header, &mut body);
        self.0.push([packet.header, &body, &tag].concat());
    }
}

fn first_packets(target: SocketAddr, knock: Option<KnockKey>) -> Vec<Vec<u8>> {
    let key = Identity::generate().expect("a key");
    let tls = TlsIdentity::new(key.rustls_certified_key(), Arc::new(|_: &[u8]| true));
    let mut config = Config::new(Security::Tls(tls.expect("a key")));
    config.knock = knock;
    let mut first = First(Vec::new());
    for n in 0..PACKETS {
        let id = ConnectionId(1_000 + n);
        let client = Connection::new(Time::ZERO, Role::Client, config.clone(), id, target, n);
        let mut client = client.expect("TLS begins");
        let _ = client.poll_transmit(Time::ZERO, 1, 1_200, &mut first);
    }
    first.0
}

/// Sends until it is stopped, at most so many a second.
fn flood(
    target: SocketAddr,
    packets: &[Vec<u8>],
    per_second: u64,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    let bind = |n| UdpSocket::bind((Ipv4Addr::new(127, 1, n, 1), 0)).expect("a port");
    let sockets: Vec<_> = (0..ADDRESSES).map(bind).collect();
    let began = Instant::now();
    for (n, (socket, packet)) in (0u64..).zip(sockets.iter().cycle().zip(packets.iter().cycle())) {
        if n % 64 == 0 {
            while n > began.elapsed().as_micros() as u64 * per_second / 1_000_000 {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::yield_now();
            }
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
        sent.fetch_add(
            u64::from(socket.send_to(packet, target).is_ok()),
            Ordering::Relaxed,
        );
    }
}

fn number(name: &str, without: u64) -> u64 {
    let asked = std::env::var(name).ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(without)
}

#[test]
fn h10_clients_start_during_a_flood_of_first_packets() {
    let (per_second, starts) = (number("HOWDAH_FLOOD", 2_000), number("HOWDAH_STARTS", 3));
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let ours = Identity::generate().expect("a key");
    let theirs = Identity::generate().expect("a key");
    let shown = *theirs.public_key();
    let server = support::server(dir.path(), &[&ours], theirs, Log::default());
    let target = server.local_addr();
    let start = || {
        let mut config = CopyConfig::new(ours.clone(), KnownHosts::default());
        config.trust = Trust::Exactly(shown);
        config.transport = Transport::Udp;
        let to: Location = format!("howdah://{target}/null:").parse().expect("a place");
        let began = Instant::now();
        let done = copy(
            &Location::Zero(1),
            &to,
            &config,
            &Cancel::new(),
            &mut |_| {},
        );
        assert_eq!(done.expect("it gets in").bytes, 1);
        began.elapsed()
    };
    let measure = |starts| {
        let mut times: Vec<Duration> = (0..starts).map(|_| start()).collect();
        times.sort();
        (times[times.len() / 2], times[times.len() - 1])
    };
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&cancel));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            measure(starts);
            let key = KnockKey::of(shown.spki_der());
            // Each of the second kind has an answer, which keeps a server busy.
            for (who, knock, starts) in [
                ("strangers", None, starts),
                ("who knows the server's key", Some(key), starts.div_ceil(10)),
            ] {
                let packets = first_packets(target, knock);
                let alone = measure(starts);
                let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
                let began = Instant::now();
                let flooded = std::thread::scope(|scope| {
                    scope.spawn(|| flood(target, &packets, per_second, &stop, &sent));
                    let measure = std::panic::AssertUnwindSafe(|| measure(starts));
                    let flooded = std::panic::catch_unwind(measure);
                    stop.store(true, Ordering::Relaxed);
                    flooded
                });
                let sent = sent.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
                let flooded = match flooded {
                    Ok(flooded) => flooded,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                println!(
                    "{sent:.0} first packets a second of {who}: {starts} starts take {:?} (the last {:?}), alone {:?} (the last {:?})",
                    flooded.0, flooded.1, alone.0, alone.1
                );
            }
        }));
        cancel.cancel();
        running.join().expect("no panic").expect("a server");
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}
