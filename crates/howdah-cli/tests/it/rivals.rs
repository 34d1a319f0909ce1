//! `howdah rival`: the other transports carry real bytes over real sockets, checked by hash.
#![cfg(target_os = "linux")]

use crate::support::place::{content, hash_of, world};
use crate::support::process::{Done, Input, Process};
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::WanConfig;
use std::fs;
use std::time::Duration;

/// 16 MiB and a bit: the last packet, block and unit are short.
const SIZE: usize = (16 << 20) + 1234;

/// Which options a side is given: name, sender's, receiver's.
type Rival = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const RATE: &[&str] = &["--rate", "300mbit"];

/// For paths with 1500 bytes a packet.
const RIVALS: [Rival; 7] = [
    ("udt", &[], &[]),
    ("rbudp", RATE, &[]),
    ("tsunami", &[], RATE),
    ("pa-udp", &[], RATE),
    ("rwtp-like", &["--rate", "300mbit", "--packet", "1400"], &[]),
    ("mtp-like", &["--rate", "300mbit", "--packet", "1400"], &[]),
    (
        "filecatalyst-like",
        &["--rate", "300mbit", "--packet", "1400"],
        &[],
    ),
];

/// A receiver that waits, and where.
fn receiver(site: &Site, host: Host<'_>, listen: &str, args: &[&str]) -> (Process, String) {
    let args = [&["rival", "recv", "--json", "--listen", listen], args].concat();
    let mut process = site.start(host, "server", &args, Input::None);
    process.await_line(
        "for measurement on networks you own",
        Duration::from_secs(20),
    );
    let line = process.await_line("waiting for ", Duration::from_secs(20));
    let (_, address) = line.rsplit_once(" on ").unwrap();
    (process, address.to_owned())
}

fn sender(site: &Site, host: Host<'_>, to: &str, args: &[&str]) -> Done {
    let args = [&["rival", "send", "--json", "--to", to], args].concat();
    site.start(host, "client", &args, Input::None).finish()
}

/// Moves the file with one rival; what arrived is what was sent, and both sides say so.
fn moves(site: &Site, near: Host<'_>, far: Host<'_>, listen: &str, rival: Rival) {
    let (name, send, recv) = rival;
    let (source, target) = (site.file("source"), site.file(&format!("copy-of-{name}")));
    let (process, to) = receiver(site, far, listen, &[&[name, "-o", &target], recv].concat());
    let sent = sender(site, near, &to, &[&[name, source.as_str()], send].concat());
    assert_eq!(sent.code, Some(0), "{name}: {}", sent.err);
    let received = process.finish();
    assert_eq!(received.code, Some(0), "{name}: {}", received.err);
    let want = hash_of(&source);
    assert_eq!(hash_of(&target), want, "{name}");
    for (done, role) in [(&sent, "send"), (&received, "recv")] {
        let json = done.json();
        assert_eq!(json["rival"], name, "{json}");
        assert_eq!(json["role"], role, "{json}");
        assert_eq!(json["bytes"], SIZE, "{json}");
        assert_eq!(json["blake3"], want.to_string(), "{json}");
        assert_eq!(json["encrypted"], false, "{json}");
    }
    assert!(
        sent.err.contains("for measurement on networks you own"),
        "{}",
        sent.err
    );
    println!(
        "{name}: {} bytes in {} s, {} sent again",
        SIZE,
        received.json()["seconds"],
        sent.json()["retransmitted_bytes"]
    );
    fs::remove_file(target).unwrap();
}

fn site() -> Site {
    let site = Site::new(150);
    fs::write(site.file("source"), content("rivals", SIZE)).unwrap();
    site
}

#[test]
fn every_rival_moves_a_file_over_the_loopback() {
    let site = site();
    for rival in RIVALS {
        moves(&site, Host::Here, Host::Here, "127.0.0.1:0", rival);
    }
    // IPv6, packets of the models' own size, no file: what arrives is only hashed.
    let (process, to) = receiver(&site, Host::Here, "[::1]:0", &["mtp-like"]);
    let sent = sender(&site, Host::Here, &to, &["mtp-like", "zero:3MB"]);
    let received = process.finish();
    assert_eq!(
        (sent.code, received.code),
        (Some(0), Some(0)),
        "{} {}",
        sent.err,
        received.err
    );
    assert_eq!(received.json()["bytes"], 3_000_000);
    assert_eq!(sent.json()["blake3"], received.json()["blake3"]);
}

#[test]
fn every_rival_moves_a_file_between_namespaces() {
    let lane = |loss| PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(20)),
        delay: Span::from_millis(5),
        loss: LossModel::Bernoulli(loss),
        ..PathConfig::default()
    };
    let site = site();
    let config = WanConfig {
        forward: lane(0.01),
        backward: lane(0.01),
        ..WanConfig::default()
    };
    let Some(world) = world(&config) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    for rival in RIVALS {
        moves(&site, near, far, "10.88.0.2:0", rival);
    }
    // Packets of the model's own size need jumbo frames.
    let (waiting, to) = receiver(&site, far, "10.88.0.2:0", &["rwtp-like"]);
    sender(&site, near, &to, &["rwtp-like", "zero:1MB"])
        .assert_failed(2, &["do not fit this path", "--packet"]);
    drop(waiting);
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let site = Site::new(60);
    let send = |args: &[&str]| sender(&site, Host::Here, "127.0.0.1:9", args);
    send(&["sabul", "zero:1MB"]).assert_failed(2, &["laboratory only", "rbudp, tsunami"]);
    send(&["quic", "zero:1MB"]).assert_failed(2, &["a program of its own"]);
    send(&["carrier-pigeon", "zero:1MB"]).assert_failed(2, &["no such transport"]);
    send(&["udt", "zero:1MB", "--rate", "1gbit"]).assert_failed(2, &["takes no --rate"]);
    send(&["tsunami", "zero:1MB", "--rate", "1gbit"]).assert_failed(2, &["side that receives"]);
    send(&["rbudp", "zero:0"]).assert_failed(2, &["empty"]);
    send(&["rbudp", "-"]).assert_failed(2, &["a file or zero:SIZE"]);
    send(&["rbudp", &site.file("none")]).assert_failed(3, &["cannot open"]);
    fs::write(site.file("there"), "precious").unwrap();
    let args = [
        "rival",
        "recv",
        "udt",
        "--listen",
        "127.0.0.1:0",
        "-o",
        &site.file("there"),
    ];
    site.start(Host::Here, "server", &args, Input::None)
        .finish()
        .assert_failed(4, &["cannot create"]);
    assert_eq!(fs::read(site.file("there")).unwrap(), b"precious");
    // Nobody listens.
    let done = send(&["udt", "zero:1MB", "--wait", "300ms"]);
    done.assert_failed(5, &["nobody answered at 127.0.0.1:9"]);
    assert_eq!(done.json_error(), "network");
}

#[test]
fn an_interrupted_receiver_leaves_no_file() {
    let site = Site::new(60);
    let target = site.file("half");
    let (process, _) = receiver(&site, Host::Here, "127.0.0.1:0", &["rbudp", "-o", &target]);
    process.signal(rustix::process::Signal::TERM);
    process.finish().assert_failed(12, &["stopped"]);
    assert!(!fs::exists(target).unwrap());
}
