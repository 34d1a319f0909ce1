//! The congestion controls in the running kernel, over an emulated path. Without root, BTF,
//! /dev/net/tun, the objects of `make bpf` or the feature `bpf` these tests say so and pass.
#![cfg(target_os = "linux")]

use crate::transfer::transfer;
use howdah_bpf::{BpfError, Registered, available, list};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::{WanConfig, WanError, World};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;

/// What the helper process of [`a_killed_process_leaves_nothing_registered`] is told by.
const HOLD: &str = "HOWDAH_BPF_TEST_HOLD";

/// The registration, or `None` with a printed reason.
fn registered(result: Result<Registered, BpfError>) -> Option<Registered> {
    match result {
        Ok(registered) => Some(registered),
        Err(
            error @ (BpfError::BuiltWithout
            | BpfError::NotPermitted
            | BpfError::NoBtf { .. }
            | BpfError::KernelTooOld { .. }
            | BpfError::ObjectMissing { .. }),
        ) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn private(name: &str) -> Option<Registered> {
    registered(Registered::load_private(name))
}

/// A world, or `None` with a printed reason.
fn world(config: &WanConfig) -> Option<World> {
    match World::create(config) {
        Ok(world) => Some(world),
        Err(error @ (WanError::NotPermitted | WanError::NoTun(_) | WanError::NoIproute(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// 1 Gbit/s, 20 ms, a queue of a tenth of their product, one loss in ten thousand.
fn gigabit() -> WanConfig {
    let lane = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(2)),
        delay: Span::from_millis(10),
        ..PathConfig::default()
    };
    WanConfig {
        forward: PathConfig {
            loss: LossModel::Bernoulli(0.0001),
            ..lane.clone()
        },
        backward: lane,
        ..WanConfig::default()
    }
}

/// The share of a window that a loss leaves, as each paper has it.
fn kept_share(name: &str, window: u32) -> (f64, f64) {
    match name {
        "bpf_scalable" if window > 16 => (0.875, 0.875),
        // RFC 3649 section 5.
        "bpf_hstcp" if window > 38 => {
            let w = f64::from(window);
            let b = 0.5 - 0.4 * (w / 38.0).ln() / (83_000f64 / 38.0).ln();
            (1.0 - b - 0.02, 1.0 - b + 0.02)
        }
        "bpf_bic" if window > 14 => (0.8, 0.8),
        "bpf_cubic05" => (0.8, 0.8),
        // By the share of the queue in the round-trip time, or a half.
        "bpf_htcp" => (0.5, 0.797),
        _ => (0.5, 0.5),
    }
}

#[test]
fn each_carries_data_and_reduces_as_its_paper_says() {
    for algorithm in list() {
        let Some(registered) = private(algorithm.name) else {
            return;
        };
        let name = registered.congestion_control_name();
        assert!(available().iter().any(|other| other == name), "{name}");
        let Some(world) = world(&gigabit()) else {
            return;
        };
        let seen = transfer(&world, name, None, Duration::from_secs(2));
        assert_eq!(seen.congestion_control, name);
        let mut reductions = seen.reductions();
        reductions.sort_by(|a, b| a.1.total_cmp(&b.1));
        let most = seen.samples.iter().map(|sample| sample.cwnd).max();
        let middle = reductions.get(reductions.len() / 2).copied();
        println!(
            "{name}: {:.0} Mbit/s over {:.1} s, windows up to {most:?}, {} reductions seen, median \
             (window before, share kept) {middle:?}",
            seen.mbit_per_second(),
            seen.seconds,
            reductions.len(),
        );
        assert!(seen.received_bytes > 1_000_000, "{name}");
        assert!(most > Some(20), "{name} never grew: {most:?}");
        // The window may move between the sample and the loss, and an unfounded reduction may be taken
        // back between two samples; the median of several is neither.
        if let Some((window, kept)) = middle.filter(|_| reductions.len() >= 5) {
            let (least, greatest) = kept_share(algorithm.name, window);
            assert!(
                (least - 0.04..=greatest + 0.04).contains(&kept),
                "{name} keeps {kept:.3} of {window}: {reductions:?}"
            );
        }
        let name = name.to_owned();
        drop(world);
        drop(registered);
        assert!(!available().contains(&name), "{name} is still there");
    }
}

#[test]
fn a_name_in_use_is_refused_and_a_private_one_is_not() {
    let first = match Registered::load("bpf_bic") {
        Err(BpfError::AlreadyRegistered(name)) => {
            println!("skipped: another run has {name}");
            return;
        }
        result => result,
    };
    let Some(first) = registered(first) else {
        return;
    };
    assert_eq!(first.congestion_control_name(), "bpf_bic");
    let error = Registered::load("bpf_bic").unwrap_err();
    assert!(
        matches!(&error, BpfError::AlreadyRegistered(name) if name == "bpf_bic"),
        "{error}"
    );
    let private = [
        Registered::load_private("bpf_bic"),
        Registered::load_private("bpf_bic"),
    ];
    let mut names = vec!["bpf_bic".to_owned()];
    for private in &private {
        let private = private.as_ref().unwrap();
        assert_eq!(private.algorithm().name, "bpf_bic");
        names.push(private.congestion_control_name().to_owned());
    }
    for name in &names {
        assert!(available().contains(name), "{name}");
    }
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
    drop(private);
    drop(first);
    for name in &names {
        assert!(!available().contains(name), "{name} is still there");
    }
}

/// A connection outlives the registration that it chose.
#[test]
fn a_connection_keeps_what_it_chose() {
    let Some(registered) = private("bpf_scalable") else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    let name = registered.congestion_control_name().to_owned();
    let socket = socket2::SockRef::from(&sender);
    socket.set_tcp_congestion(name.as_bytes()).unwrap();
    drop(registered);
    assert!(!available().contains(&name));
    let data = vec![7; 1 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            sender.write_all(&data).unwrap();
            sender.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        receiver.read_to_end(&mut got).unwrap();
        assert!(got == data);
    });
}

/// What `howdah wan --tcp` does: programs that do not choose get it.
#[test]
fn a_namespace_can_have_it_as_its_default() {
    const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
    let Some(registered) = private("bpf_htcp") else {
        return;
    };
    let Some(world) = world(&WanConfig::default()) else {
        return;
    };
    let here = std::fs::read_to_string(DEFAULT).unwrap();
    let name = registered.congestion_control_name();
    let chosen = world
        .near()
        .run_in(|| {
            std::fs::write(DEFAULT, name).unwrap();
            let socket =
                socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
            String::from_utf8(socket.tcp_congestion().unwrap()).unwrap()
        })
        .unwrap();
    assert_eq!(chosen.trim_end_matches('\0'), name);
    assert_eq!(
        std::fs::read_to_string(DEFAULT).unwrap(),
        here,
        "not in this namespace"
    );
    let name = name.to_owned();
    drop(registered);
    assert!(!available().contains(&name), "{name} is still there");
}

/// Not a test: the process that [`a_killed_process_leaves_nothing_registered`] kills.
#[test]
fn hold_one_until_killed() {
    if std::env::var_os(HOLD).is_none() {
        return;
    }
    match Registered::load_private("bpf_hstcp") {
        Ok(registered) => {
            println!("\nholds {}", registered.congestion_control_name());
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            drop(registered);
        }
        Err(error) => println!("\nskipped: {error}"),
    }
}

#[test]
fn a_killed_process_leaves_nothing_registered() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kernel::hold_one_until_killed", "--nocapture"])
        .env(HOLD, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut held = None;
    for line in lines.map_while(Result::ok) {
        if let Some(name) = line.strip_prefix("holds ") {
            held = Some(name.to_owned());
            break;
        }
        if line.starts_with("skipped") {
            println!("{line}");
            break;
        }
    }
    let there = held.as_ref().map(|name| available().contains(name));
    child.kill().unwrap();
    child.wait().unwrap();
    if let Some(name) = held {
        assert_eq!(there, Some(true), "{name} was not there");
        assert!(!available().contains(&name), "{name} is still there");
    }
}
