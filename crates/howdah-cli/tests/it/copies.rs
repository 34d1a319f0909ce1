//! Transfers that must succeed, through real sockets: what arrives is what was sent.
#![cfg(target_os = "linux")]

use crate::support::place::{content, world};
use crate::support::process::Input;
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_wan::WanConfig;
use std::fs;

/// 1 Gbit/s, a round trip of 20 ms, 1 % loss both ways.
fn lossy() -> WanConfig {
    let lane = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(20)),
        delay: Span::from_millis(10),
        loss: LossModel::Bernoulli(0.01),
        ..PathConfig::default()
    };
    WanConfig {
        forward: lane.clone(),
        backward: lane,
        ..WanConfig::default()
    }
}

#[test]
fn files_go_there_and_back_over_a_lossy_path() {
    let site = Site::new(100);
    let Some(world) = world(&lossy()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    for size in [0, 1, (3 << 20) + 17] {
        let (name, back) = (format!("file-{size}"), format!("back-{size}"));
        let bytes = content(&name, size);
        fs::write(site.file(&name), &bytes).unwrap();

        let put = site.copy(near, &site.file(&name), &server.url(&name));
        put.assert_copied(size as u64, "blake3");
        assert!(fs::read(site.root(&name)).unwrap() == bytes, "{name}");

        let get = site.copy(near, &server.url(&name), &site.file(&back));
        get.assert_copied(size as u64, "blake3");
        assert!(fs::read(site.file(&back)).unwrap() == bytes, "{back}");
    }
    // A directory as target: the source's name below it.
    let put = site.copy(near, &site.file("file-1"), &server.url(""));
    put.assert_copied(1, "blake3");
    fs::create_dir(site.root("inbox")).unwrap();
    for path in ["inbox", "inbox/"] {
        let put = site.copy(near, &site.file("file-1"), &server.url(path));
        put.assert_copied(1, "blake3");
        fs::remove_file(site.root("inbox/file-1")).unwrap();
    }
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn pipes_and_made_up_bytes_pass_a_lossy_path() {
    let site = Site::new(100);
    let Some(world) = world(&lossy()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let server = site.serve_at(far, "[fd88::2]:0", &site.root(""));
    for size in [0, 1, (3 << 20) + 17] {
        let name = format!("pipe-{size}");
        let bytes = content(&name, size);
        let put = site.copy_with(
            near,
            &["-", &server.url(&name)],
            Input::Bytes(bytes.clone()),
        );
        put.assert_copied(size as u64, "blake3");
        assert!(fs::read(site.root(&name)).unwrap() == bytes, "{name}");

        let get = site.copy(near, &server.url(&name), "-");
        get.assert_copied(size as u64, "blake3");
        assert!(get.out == bytes, "{name}: {}", get.out.len());
    }
    let size = 5_000_001;
    let zeros = |path: &str| fs::read(path).unwrap() == vec![0; 5_000_001];
    let put = site.copy(near, "zero:5000001", &server.url("zeros"));
    put.assert_copied(size, "blake3");
    assert!(zeros(&site.root("zeros")));
    let get = site.copy(near, &server.url("zero:5000001"), &site.file("zeros"));
    assert_eq!(get.code, Some(0), "{}", get.err);
    assert!(zeros(&site.file("zeros")));
    let put = site.copy(near, "zero:5000001", &server.url("null:"));
    put.assert_copied(size, "aead");
    let get = site.copy(near, &server.url("zero:5000001"), "null:");
    get.assert_copied(size, "aead");
    let get = site.copy(near, &server.url("zeros"), "null:");
    get.assert_copied(size, "aead");
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn two_clients_at_the_same_time_do_not_disturb_each_other() {
    let site = Site::new(60);
    let server = site.serve();
    let bytes = content("slow", 5 << 20);
    let slow = site.start_copy(
        Host::Here,
        &["-", &server.url("slow")],
        Input::Held(bytes.clone()),
    );
    slow.await_fed();
    let other = content("quick", 40 << 20);
    fs::write(site.root("quick"), &other).unwrap();
    // Begins and ends while the first one is under way, in the other direction.
    let get = site.copy(Host::Here, &server.url("quick"), &site.file("quick"));
    get.assert_copied(40 << 20, "blake3");
    assert!(!fs::exists(site.root("slow")).unwrap());
    let slow = slow.finish();
    slow.assert_copied(5 << 20, "blake3");
    assert!(fs::read(site.root("slow")).unwrap() == bytes);
    assert!(fs::read(site.file("quick")).unwrap() == other);

    // Side by side at full speed.
    let jobs = ["a", "b"].map(|name| {
        let args = [&*server.url("quick"), &site.file(name)];
        site.start_copy(Host::Here, &args, Input::None)
    });
    for job in jobs {
        job.finish().assert_copied(40 << 20, "blake3");
    }
    for name in ["a", "b"] {
        assert!(fs::read(site.file(name)).unwrap() == other, "{name}");
    }
    site.assert_nothing_half_done();
    server.stop();
}
