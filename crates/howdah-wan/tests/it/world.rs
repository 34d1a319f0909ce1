//! The emulator in real namespaces. Without root or /dev/net/tun these tests say so and pass.
#![cfg(target_os = "linux")]

use howdah_core::{Rate, Span};
use howdah_path::{Jitter, LossModel, PathConfig, QueueLimit};
use howdah_wan::{WanConfig, WanError, World, run};
use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A world, or `None` with a printed reason.
fn world(config: &WanConfig) -> Option<World> {
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun");
        return None;
    }
    match World::create(config) {
        Ok(world) => Some(world),
        Err(error @ (WanError::NotPermitted | WanError::NoTun(_) | WanError::NoIproute(_))) => {
            println!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn symmetric(lane: PathConfig) -> WanConfig {
    WanConfig {
        forward: lane.clone(),
        backward: lane,
        ..WanConfig::default()
    }
}

/// Round trip of one UDP packet, echoed by a thread.
fn round_trip(world: &World, near: &str, far: &str) -> Duration {
    let near = world
        .near()
        .run_in(|| UdpSocket::bind(near))
        .unwrap()
        .unwrap();
    let far = world
        .far()
        .run_in(|| UdpSocket::bind(far))
        .unwrap()
        .unwrap();
    for socket in [&near, &far] {
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
    }
    near.connect(far.local_addr().unwrap()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; 64];
            let (len, from) = far.recv_from(&mut buffer).unwrap();
            far.send_to(&buffer[..len], from).unwrap();
        });
        let started = Instant::now();
        near.send(b"hello").unwrap();
        let mut buffer = [0; 64];
        assert_eq!(near.recv(&mut buffer).unwrap(), 5);
        started.elapsed()
    })
}

#[test]
fn the_round_trip_is_as_long_as_configured() {
    let config = symmetric(PathConfig {
        delay: Span::from_millis(20),
        ..PathConfig::default()
    });
    let Some(world) = world(&config) else { return };
    for (near, far) in [
        ("10.88.0.1:0", "10.88.0.2:0"),
        ("[fd88::1]:0", "[fd88::2]:0"),
    ] {
        if far.starts_with('[') && !Path::new("/proc/net/if_inet6").exists() {
            println!("skipped: no IPv6");
            continue;
        }
        let taken = round_trip(&world, near, far);
        assert!(taken >= Duration::from_millis(40), "{taken:?}");
        assert!(taken < Duration::from_secs(5), "{taken:?}");
    }
    let mut longer = config.forward.clone();
    longer.delay = Span::from_millis(70);
    world.set_forward(&longer);
    assert!(round_trip(&world, "10.88.0.1:0", "10.88.0.2:0") >= Duration::from_millis(90));
    let certificate = world.certificate();
    assert_eq!(certificate.forward().unplanned_drops, 0, "{certificate}");
    assert!(certificate.backward().path.delivered >= 2, "{certificate}");
}

/// UDP super-packets over a lossy path: the share lost is binomial, and each payload is intact.
#[test]
fn udp_segments_are_lost_one_by_one() {
    const PAYLOAD: usize = 1000;
    const SEGMENTS: usize = 60;
    const BURSTS: usize = 2000;
    let lane = PathConfig {
        loss: LossModel::Bernoulli(0.02),
        ..PathConfig::default()
    };
    let config = WanConfig {
        forward: lane,
        ..WanConfig::default()
    };
    let Some(world) = world(&config) else { return };
    let near = world
        .near()
        .run_in(|| UdpSocket::bind("10.88.0.1:0"))
        .unwrap()
        .unwrap();
    let far = world
        .far()
        .run_in(|| UdpSocket::bind("10.88.0.2:0"))
        .unwrap()
        .unwrap();
    near.connect(far.local_addr().unwrap()).unwrap();
    far.set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    socket2::SockRef::from(&far)
        .set_recv_buffer_size(4 << 20)
        .unwrap();
    let before = world.certificate().forward().path;
    let finished = AtomicBool::new(false);
    // The receiver acknowledges nothing: pace by what it has seen, so that its buffer suffices.
    let seen = std::sync::atomic::AtomicUsize::new(0);
    let received = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| {
            let mut buffer = vec![0; 1 << 16];
            let mut received = 0;
            loop {
                match far.recv(&mut buffer) {
                    Ok(len) => {
                        assert_eq!(len, PAYLOAD);
                        let tag = buffer[0];
                        assert!(
                            buffer[..len].iter().all(|&byte| byte == tag),
                            "torn payload"
                        );
                        received += 1;
                        seen.store(received, Ordering::Relaxed);
                    }
                    Err(_) if finished.load(Ordering::Relaxed) => return received,
                    Err(_) => {}
                }
            }
        });
        let mut burst = vec![0u8; PAYLOAD * SEGMENTS];
        let whole = gso(&near, PAYLOAD);
        for number in 0..BURSTS {
            for (index, segment) in burst.chunks_mut(PAYLOAD).enumerate() {
                segment.fill((number * SEGMENTS + index) as u8);
            }
            if whole {
                near.send(&burst).unwrap();
            } else {
                for segment in burst.chunks(PAYLOAD) {
                    near.send(segment).unwrap();
                }
            }
            let started = Instant::now();
            while (number * SEGMENTS).saturating_sub(seen.load(Ordering::Relaxed) * 1000 / 975)
                > 1000
                && started.elapsed() < Duration::from_secs(1)
            {
                std::thread::yield_now();
            }
        }
        finished.store(true, Ordering::Relaxed);
        receiving.join().unwrap()
    });
    let path = world.certificate().forward().path;
    let sent = (BURSTS * SEGMENTS) as f64;
    let lost = (path.dropped_loss - before.dropped_loss) as f64;
    let deviation = (sent * 0.02 * 0.98).sqrt();
    println!("sent {sent}, received {received}, lost {lost}");
    assert!(
        (lost - sent * 0.02).abs() < 5.0 * deviation,
        "{lost} of {sent}"
    );
    assert!(received as f64 <= sent - lost);
    assert!(
        received as f64 >= (sent - lost) * 0.99,
        "{received} received"
    );
}

/// Turns on UDP segmentation offload; false if the kernel has none.
#[allow(
    unsafe_code,
    reason = "no crate in use wraps UDP_SEGMENT as a socket option"
)]
fn gso(socket: &UdpSocket, size: usize) -> bool {
    let size = size as libc::c_int;
    // SAFETY: the option is one int; pointer and length describe `size`.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_UDP,
            libc::UDP_SEGMENT,
            (&raw const size).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    result == 0
}

/// TCP over a path that loses, damages, duplicates and reorders: the bytes arrive as sent.
#[test]
fn tcp_survives_everything() {
    let forward = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(2)),
        queue: QueueLimit::Bytes(1 << 20),
        loss: LossModel::GilbertElliott {
            p_enter_bad: 0.002,
            p_leave_bad: 0.5,
            loss_good: 0.001,
            loss_bad: 0.9,
        },
        delay: Span::from_millis(1),
        jitter: Jitter::Uniform(Span::from_micros(50)),
        reorder: 0.001,
        duplicate: 0.001,
        corrupt: 0.001,
        ..PathConfig::default()
    };
    let backward = PathConfig {
        delay: Span::from_millis(1),
        ..PathConfig::default()
    };
    let config = WanConfig {
        forward,
        backward,
        ..WanConfig::default()
    };
    let Some(world) = world(&config) else { return };
    for (algorithm, address) in [("cubic", "10.88.0.2:0"), ("bbr", "[fd88::2]:0")] {
        let Ok(listener) = world.far().run_in(|| TcpListener::bind(address)).unwrap() else {
            println!("skipped: cannot bind {address}");
            continue;
        };
        let to = listener.local_addr().unwrap();
        let mut sender = world
            .near()
            .run_in(|| {
                let domain = socket2::Domain::for_address(to);
                let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).unwrap();
                if socket.set_tcp_congestion(algorithm.as_bytes()).is_err() {
                    println!("no {algorithm} here");
                }
                println!(
                    "{}",
                    String::from_utf8_lossy(&socket.tcp_congestion().unwrap())
                );
                socket.connect(&to.into()).unwrap();
                TcpStream::from(socket)
            })
            .unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        receiver
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let data: Vec<u8> = (0..8u32 << 20)
            .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                sender.write_all(&data).unwrap();
                sender.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut got = Vec::new();
            receiver.read_to_end(&mut got).unwrap();
            assert!(
                got == data,
                "{algorithm}: {} of {} bytes, or different",
                got.len(),
                data.len()
            );
        });
    }
    let path = world.certificate().forward().path;
    assert!(
        path.dropped_loss > 0 && path.corrupted > 0 && path.duplicated > 0,
        "{path:?}"
    );
}

fn guardian_pids() -> Vec<String> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read_to_string(entry.path().join("cmdline")) else {
            continue;
        };
        if line.contains(&format!("howdah-{}", std::process::id())) {
            pids.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    pids
}

#[test]
fn nothing_is_left_behind() {
    let mut paths: Vec<PathBuf> = Vec::new();
    {
        let Some(world) = world(&WanConfig::default()) else {
            return;
        };
        for namespace in [world.near(), world.far()] {
            assert!(
                namespace.name().starts_with("howdah-"),
                "{}",
                namespace.name()
            );
            assert!(namespace.path().exists());
            let status = std::process::Command::new("ip")
                .args(["netns", "exec", namespace.name(), "true"])
                .status()
                .unwrap();
            assert!(status.success());
            paths.push(namespace.path().to_owned());
        }
        let names: Vec<String> = paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _world = world;
            panic!("on purpose: {names:?}");
        }));
        assert!(panicked.is_err());
    }
    for path in paths {
        assert!(!path.exists(), "{}", path.display());
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        for pid in guardian_pids() {
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!line.contains(&name), "a guardian of {name} still runs");
        }
    }
}

#[test]
fn the_exit_status_of_the_program_is_passed_on() {
    let Some(world) = world(&WanConfig::default()) else {
        return;
    };
    let argv = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("test -e \"/run/netns/$HOWDAH_WAN_FAR\"", 0),
    ] {
        let outcome = run::exec_in(&world, &argv(&["sh", "-c", script])).unwrap();
        assert_eq!(outcome.status.code(), Some(code), "{script}");
    }
    // Only this namespace's devices are there.
    let script = "grep -q wan0 /proc/net/dev && ! grep -q eth0 /proc/net/dev";
    let outcome = run::exec_in(&world, &argv(&["sh", "-c", script])).unwrap();
    assert!(outcome.status.success());
    let missing = run::exec_in(&world, &argv(&["/no/such/program"]));
    assert!(matches!(missing, Err(WanError::Run { .. })), "{missing:?}");
    assert!(matches!(
        run::exec_in(&world, &[]),
        Err(WanError::BadConfig(_))
    ));
}

#[test]
fn hold_ends_when_told() {
    let stop = AtomicBool::new(false);
    let result = run::hold(&WanConfig::default(), &stop, |world| {
        assert!(world.near().path().exists());
        stop.store(true, Ordering::Relaxed);
    });
    match result {
        Ok(certificate) => assert_eq!(certificate.forward().unplanned_drops, 0),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn an_impossible_mtu_is_refused_before_anything_is_made() {
    let config = WanConfig {
        mtu: 10,
        ..WanConfig::default()
    };
    assert!(matches!(
        World::create(&config),
        Err(WanError::BadConfig(_))
    ));
}

#[test]
fn a_queue_that_stores_packets_is_refused_before_anything_is_made() {
    let stored = PathConfig {
        stored_queue: true,
        ..PathConfig::default()
    };
    for config in [
        WanConfig {
            forward: stored.clone(),
            ..WanConfig::default()
        },
        WanConfig {
            backward: stored,
            ..WanConfig::default()
        },
    ] {
        assert!(matches!(
            World::create(&config),
            Err(WanError::BadConfig(_))
        ));
    }
}

/// What a full path needs is there before the first packet, so that the first second is like every other.
#[test]
fn memory_is_there_before_the_first_packet() {
    let Some(world) = world(&symmetric(PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        delay: Span::from_millis(100),
        queue: QueueLimit::Time(Span::from_millis(60)),
        ..PathConfig::default()
    })) else {
        return;
    };
    let certificate = world.certificate();
    // The kernel's, too: a quarter of a second of both directions, or what sockets take without a right to more.
    let packets = certificate.packet_memory_bytes;
    assert!((4 << 20..=62_500_000).contains(&packets), "{packets}");
    assert!(certificate.packet_memory_s > 0.0);
    for direction in [certificate.forward(), certificate.backward()] {
        // 20 MB in all, in chunks of 2 MiB, or a quarter of what the machine has.
        assert!(direction.populated_bytes >= 12 << 20, "{direction:?}");
        assert!(direction.populated_bytes <= 24 << 20, "{direction:?}");
        assert_eq!(direction.memory_bytes, direction.populated_bytes);
    }
}
