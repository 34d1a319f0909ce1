//! Our UDT 4 (`howdah rival`) and Debian's libudt 4.11 move real bytes through an emulated network with loss, each as
//! the sender once, checked by hash. `make peers` builds the other side; without it, or without an emulator, the
//! test says why it skips.
#![cfg(target_os = "linux")]

use crate::support::place::world;
use crate::support::process::{Done, Input, Process};
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::{Namespace, WanConfig};
use std::fs::{self, File};
use std::io::{BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SIZE: u64 = 256 << 20;
/// Jumbo frames: UDT's rate with loss is in packets.
const MTU: u32 = 9000;
/// Of a packet of that size: without 28 bytes of IPv4 and UDP and 16 of UDT.
const PAYLOAD: &str = "8956";

/// The peer's made-up object: `SplitMix64` of 0, 1, 2 and so on.
fn word(at: u64) -> [u8; 8] {
    let mut z = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()
}

fn write_object(path: &str) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    for at in 0..SIZE / 8 {
        file.write_all(&word(at)).unwrap();
    }
    file.flush().unwrap();
}

/// FNV-1a of 64 bits, as the peer computes it.
fn fnv(path: &str) -> u64 {
    let mut file = File::open(path).unwrap();
    let mut block = vec![0; 1 << 20];
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    loop {
        let count = file.read(&mut block).unwrap();
        if count == 0 {
            return hash;
        }
        for byte in &block[..count] {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

fn peer(site: &Site, program: &Path, host: &Namespace, role: &str, address: &str) -> Process {
    let how = if role == "recv" { "listen" } else { "connect" };
    let mut command = host.command(program);
    command.args([role, how, address, &SIZE.to_string(), &MTU.to_string()]);
    Process::start(command, Input::None, site.limit())
}

fn assert_peer(done: &Done, hash: u64) {
    assert_eq!(done.code, Some(0), "{}", done.err);
    let said = String::from_utf8_lossy(&done.out);
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, format!("done {SIZE} {hash:016x}"));
}

fn assert_ours(done: &Done, role: &str, way: &str) {
    assert_eq!(done.code, Some(0), "{}", done.err);
    let json = done.json();
    assert_eq!(json["role"], role, "{json}");
    assert_eq!(json["bytes"], SIZE, "{json}");
    println!(
        "{way}: {SIZE} bytes in {} s, {} sent again",
        json["seconds"], json["retransmitted_bytes"]
    );
}

#[test]
fn libudt_and_ours_move_an_object_over_a_lossy_network_both_ways() {
    let target = option_env!("CARGO_TARGET_TMPDIR").map_or_else(PathBuf::new, PathBuf::from);
    let program = target.join("../peers/udt-peer");
    if !program.exists() {
        let missing = program.display();
        println!("skipped: no {missing}; `make peers` builds it (libudt-dev)");
        return;
    }
    let lane = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(20)),
        delay: Span::from_millis(10),
        loss: LossModel::Bernoulli(0.001),
        mtu: MTU,
        ..PathConfig::default()
    };
    let config = WanConfig {
        forward: lane.clone(),
        backward: lane,
        mtu: MTU,
        ..WanConfig::default()
    };
    let Some(world) = world(&config) else { return };
    let site = Site::new(240);
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let source = site.file("object");
    write_object(&source);
    let hash = fnv(&source);

    let mut receiver = peer(&site, &program, world.far(), "recv", "10.88.0.2:9000");
    receiver.await_line("listening", Duration::from_secs(20));
    let args = ["rival", "send", "--json", "--packet", PAYLOAD];
    let args = [&args[..], &["--to", "10.88.0.2:9000", "udt", &source]].concat();
    let sent = site.start(near, "client", &args, Input::None).finish();
    assert_ours(&sent, "send", "ours to libudt");
    assert_peer(&receiver.finish(), hash);
    fs::remove_file(source).unwrap();

    let copy = site.file("copy");
    let args = ["rival", "recv", "--json", "--packet", PAYLOAD];
    let args = [
        &args[..],
        &["--listen", "10.88.0.2:9001", "udt", "-o", &copy],
    ]
    .concat();
    let mut receiver = site.start(far, "server", &args, Input::None);
    receiver.await_line("waiting for ", Duration::from_secs(20));
    let sender = peer(&site, &program, world.near(), "send", "10.88.0.2:9001");
    assert_peer(&sender.finish(), hash);
    assert_ours(&receiver.finish(), "recv", "libudt to ours");
    assert_eq!(fnv(&copy), hash);
}
