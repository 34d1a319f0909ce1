//! Transfers through a network that misbehaves: they complete, and what arrives is right.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::Input;
use crate::support::random::SplitMix;
use crate::support::relay::{Fate, Relay, Way};
use crate::support::{Host, Site};
use std::fs;

const SIZE: usize = 24 << 20;

/// Moves a file through a relay in each direction; gives back the server's log and what the
/// client said.
fn there_and_back<D>(decide: impl Fn() -> D) -> (String, Vec<serde_json::Value>)
where
    D: FnMut(Way, Vec<u8>) -> Fate + Send + 'static,
{
    let site = Site::new(60);
    let mut server = site.serve();
    let bytes = content("rough", SIZE);
    fs::write(site.file("there"), &bytes).unwrap();
    let mut said = Vec::new();
    {
        let relay = Relay::start(server.address, decide());
        let put = site.copy(Host::Here, &site.file("there"), &relay.url("there"));
        put.assert_copied(SIZE as u64, "blake3");
        said.push(put.json());
    }
    assert!(fs::read(site.root("there")).unwrap() == bytes);
    server.await_line("put \"there\" done", std::time::Duration::from_secs(10));
    {
        let relay = Relay::start(server.address, decide());
        let get = site.copy(Host::Here, &relay.url("there"), &site.file("back"));
        get.assert_copied(SIZE as u64, "blake3");
        said.push(get.json());
    }
    assert!(fs::read(site.file("back")).unwrap() == bytes);
    server.await_line("get \"there\" done", std::time::Duration::from_secs(10));
    site.assert_nothing_half_done();
    let log = server.process.text();
    server.stop();
    (log, said)
}

#[test]
fn a_nat_that_changes_its_port_again_and_again() {
    let (log, _) = there_and_back(|| {
        let (mut bytes, mut rebinds) = (0, 0);
        move |way, datagram| {
            let before = bytes;
            bytes += datagram.len();
            if before >> 16 != bytes >> 16 {
                // 32 MB/s: the whole copy would else be over before the server has proved one
                // new address.
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            let mut fate = Fate::pass(datagram);
            // A NAT sees a new flow when the inside speaks.
            fate.rebind = way == Way::ToServer && bytes > (rebinds + 1) * SIZE / 6 && rebinds < 5;
            rebinds += usize::from(fate.rebind);
            fate
        }
    });
    let put = log.find("put \"there\" done").unwrap();
    let moved = |part: &str| part.matches("a client moved to").count();
    assert!(moved(&log[..put]) >= 2 && moved(&log[put..]) >= 2, "{log}");
}

#[test]
fn datagrams_are_lost_doubled_disordered_and_damaged() {
    for seed in 1..=3 {
        println!("seed {seed}");
        there_and_back(|| {
            let mut random = SplitMix(seed);
            let mut held: Vec<(Way, u64, Vec<u8>)> = Vec::new();
            let mut now = 0;
            move |way, mut datagram: Vec<u8>| {
                now += 1;
                let mut fate = Fate::default();
                let copy = random.one_in(20).then(|| datagram.clone());
                if random.one_in(50) {
                    // One bit, wherever: headers and handshakes as well.
                    let bit = random.next() as usize % (datagram.len() * 8);
                    datagram[bit / 8] ^= 1 << (bit % 8);
                }
                if random.one_in(100) {
                    datagram.truncate(random.next() as usize % datagram.len());
                }
                if random.one_in(20) {
                    held.push((way, now + 1 + random.next() % 30, datagram));
                } else if !random.one_in(100) {
                    fate.pass.push(datagram);
                }
                fate.pass.extend(copy);
                // What was held back comes out behind those that overtook it.
                held.retain_mut(|(to, at, datagram)| {
                    let due = *to == way && *at <= now;
                    if due {
                        fate.pass.push(std::mem::take(datagram));
                    }
                    !due
                });
                fate
            }
        });
    }
}

/// Passes datagrams of `large` bytes at first, and from the middle on of 1300 at most.
fn black_hole(large: usize) -> Vec<serde_json::Value> {
    let (_, said) = there_and_back(|| {
        let mut bytes = 0;
        move |_, datagram: Vec<u8>| {
            bytes += datagram.len();
            let largest = if bytes < SIZE / 3 { large } else { 1300 };
            if datagram.len() > largest {
                Fate::default()
            } else {
                Fate::pass(datagram)
            }
        }
    });
    said
}

#[test]
fn large_datagrams_vanish_from_the_middle_on() {
    for large in [8_972, 1_472] {
        for said in black_hole(large) {
            let mtu = said["mtu"].as_u64().unwrap();
            assert!((1_228..=1_328).contains(&mtu), "{large}: {said}");
        }
    }
}

#[test]
fn a_short_break_of_the_network_is_outlasted() {
    there_and_back(|| {
        let mut bytes = 0;
        let mut until = None;
        move |_, datagram: Vec<u8>| {
            bytes += datagram.len();
            if bytes < SIZE / 3 {
                return Fate::pass(datagram);
            }
            let now = std::time::Instant::now();
            let until = *until.get_or_insert(now + std::time::Duration::from_secs(2));
            if now < until {
                Fate::default()
            } else {
                Fate::pass(datagram)
            }
        }
    });
}

/// Datagrams that no howdah would send; half of them begin as first packets do.
fn nonsense(server: std::net::SocketAddr) {
    let stranger = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = SplitMix(7);
    for round in 0..2_000 {
        let mut bytes = content(&round.to_string(), round % 1_500);
        if let Some(front) = bytes.get_mut(..5).filter(|_| random.one_in(2)) {
            front[0] = [0xc0, 0xc1, 0x40, 0x41][round % 4];
            front[1..].copy_from_slice(&0x4857_4401_u32.to_be_bytes());
        }
        stranger.send_to(&bytes, server).unwrap();
    }
}

#[test]
fn strangers_that_talk_nonsense_disturb_no_transfer() {
    let site = Site::new(60);
    let server = site.serve();
    let bytes = content("slow", 5 << 20);
    let args = ["-", &*server.url("slow")];
    let slow = site.start_copy(Host::Here, &args, Input::Held(bytes.clone()));
    slow.await_fed();
    nonsense(server.address);
    slow.finish().assert_copied(5 << 20, "blake3");
    assert!(fs::read(site.root("slow")).unwrap() == bytes);
    server.stop();
}

#[test]
fn strangers_that_talk_nonsense_shut_nobody_out() {
    let site = Site::new(60);
    let server = site.serve();
    nonsense(server.address);
    let put = site.copy(Host::Here, "zero:100000", &server.url("next"));
    put.assert_copied(100_000, "blake3");
    server.stop();
}
