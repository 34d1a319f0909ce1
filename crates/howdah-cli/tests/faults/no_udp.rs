//! Networks that let no UDP through: real namespaces whose routes throw it away without a word.
#![cfg(target_os = "linux")]

use crate::support::place::{content, world};
use crate::support::process::Input;
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use howdah_core::{Rate, Span};
use howdah_path::{PathConfig, QueueLimit};
use howdah_wan::{Namespace, WanConfig};
use std::fs;
use std::path::Path;

const NETWORK: i32 = 5;

fn path() -> WanConfig {
    let lane = PathConfig {
        rate: Some(Rate::from_gbit_per_sec(1)),
        queue: QueueLimit::Time(Span::from_millis(20)),
        delay: Span::from_millis(5),
        ..PathConfig::default()
    };
    WanConfig {
        forward: lane.clone(),
        backward: lane,
        ..WanConfig::default()
    }
}

/// Throws away what comes from outside and matches `what`.
fn block(far: &Namespace, what: &[&[&str]]) {
    let run = |args: &[&str]| {
        let done = far.command("ip").args(args).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "ip {args:?}: {said}");
        String::from_utf8(done.stdout).unwrap()
    };
    let links = run(&["-o", "link", "show"]);
    let device = links
        .lines()
        .filter_map(|line| line.split(": ").nth(1))
        .map(|name| name.split('@').next().unwrap_or(name))
        .find(|&name| name != "lo")
        .unwrap()
        .to_owned();
    // The rule for this host's own addresses comes first; it must come after ours.
    if run(&["rule", "show"]).starts_with("0:") {
        run(&["rule", "add", "pref", "100", "lookup", "local"]);
        run(&["rule", "del", "pref", "0"]);
    }
    for rule in what {
        let args = [
            &["rule", "add", "pref", "10", "iif", &device],
            *rule,
            &["blackhole"],
        ]
        .concat();
        run(&args);
    }
}

const UDP: &[&str] = &["ipproto", "udp"];
const DATA_TCP: &[&str] = &["ipproto", "tcp", "dport", "4433-4532"];

#[test]
fn over_ssh_the_copy_goes_over_tcp_and_says_so() {
    let site = Site::new(100);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let Some(sshd) = Sshd::start(&site, far, "10.88.0.2") else {
        return;
    };
    block(world.far(), &[UDP]);
    let bytes = content("blocked", (8 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let here = site.file("here");
    let run = |args: &[&str]| sshd.start_copy(&site, near, args, Input::None).finish();

    let put = run(&[&here, "far:there"]);
    put.assert_copied(bytes.len() as u64, "blake3");
    assert!(
        put.err
            .contains("UDP does not get through, so the data goes over TCP"),
        "{}",
        put.err
    );
    assert!(fs::read(site.root("there")).unwrap() == bytes);
    // And back, without trying UDP first: no notice.
    let get = run(&["--transport", "tcp", "far:there", &site.file("back")]);
    get.assert_copied(bytes.len() as u64, "blake3");
    assert!(!get.err.contains("does not get through"), "{}", get.err);
    assert!(fs::read(site.file("back")).unwrap() == bytes);

    let udp = run(&["--transport", "udp", &here, "far:new"]);
    udp.assert_failed(
        NETWORK,
        &["no answer from 10.88.0.2:", "UDP port", "--transport auto"],
    );
    assert!(!fs::exists(site.root("new")).unwrap());
    site.assert_nothing_half_done();
}

#[test]
fn where_no_port_is_open_the_data_goes_through_ssh_itself() {
    let site = Site::new(100);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let Some(sshd) = Sshd::start(&site, far, "10.88.0.2") else {
        return;
    };
    block(world.far(), &[UDP, DATA_TCP]);
    let bytes = content("blocked", (4 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let args = [&*site.file("here"), "far:there"];
    let put = sshd.start_copy(&site, near, &args, Input::None).finish();
    put.assert_copied(bytes.len() as u64, "blake3");
    assert!(
        put.err.contains("neither UDP nor TCP gets through"),
        "{}",
        put.err
    );
    assert!(fs::read(site.root("there")).unwrap() == bytes);
    let get = sshd.start_copy(&site, near, &["far:there", &site.file("back")], Input::None);
    get.finish().assert_copied(bytes.len() as u64, "blake3");
    assert!(fs::read(site.file("back")).unwrap() == bytes);
    site.assert_nothing_half_done();
}

#[test]
fn a_server_is_reached_over_tcp_and_knows_it() {
    let site = Site::new(100);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let mut server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    block(world.far(), &[UDP]);
    let bytes = content("blocked", (8 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let put = site.copy(near, &site.file("here"), &server.url("there"));
    put.assert_copied(bytes.len() as u64, "blake3");
    assert!(put.err.contains("UDP does not get through"), "{}", put.err);
    assert!(fs::read(site.root("there")).unwrap() == bytes);
    let line = server.await_line(" over TCP", std::time::Duration::from_secs(10));
    assert!(
        line.contains("10.88.0.1:"),
        "the client's real address: {line}"
    );
    let udp = [
        "--transport",
        "udp",
        &server.url("there"),
        &site.file("back"),
    ];
    site.copy_with(near, &udp, Input::None)
        .assert_failed(NETWORK, &["no answer from", "UDP port"]);
    server.stop();
    site.assert_nothing_half_done();
}

/// A file or a tree of one, up or down; UDP dies when both sides are at it.
fn goes_on_over_tcp(is_tree: bool, up: bool) {
    let site = Site::new(150);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let mut server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    let bytes = content("dies", (48 << 20) + 5);
    let (here, there) = (site.file("x"), site.root("x"));
    let (from, to) = if up { (&here, &there) } else { (&there, &here) };
    let at = |place: &str| {
        if is_tree {
            format!("{place}/deep/file")
        } else {
            place.to_owned()
        }
    };
    fs::create_dir_all(Path::new(&at(from)).parent().unwrap()).unwrap();
    fs::write(at(from), &bytes).unwrap();
    let patience = [
        "--reconnect",
        "60s",
        "--idle-timeout",
        "1s",
        "--limit",
        "200mbit",
    ];
    let url = server.url("x");
    let ends = if up { [&*here, &*url] } else { [&*url, &*here] };
    let kind: &[&str] = if is_tree { &["-r"] } else { &[] };
    let args = [&patience[..], kind, &ends].concat();
    let copy = site.start_copy(near, &args, Input::None);
    server.await_line("connected", std::time::Duration::from_secs(20));
    block(world.far(), &[UDP]);
    let done = copy.finish();
    if is_tree {
        assert_eq!(done.code, Some(0), "{up}: {}", done.err);
    } else {
        done.assert_copied(bytes.len() as u64, "blake3");
    }
    assert!(
        done.err.contains("goes over TCP"),
        "{is_tree} {up}: {}",
        done.err
    );
    assert!(!done.err.contains("--transport auto"), "{}", done.err);
    assert!(fs::read(at(to)).unwrap() == bytes, "{is_tree} {up}");
    server.stop();
    site.assert_nothing_half_done();
}

#[test]
fn t28_a_copy_goes_on_over_tcp_when_udp_dies_in_its_middle() {
    for up in [true, false] {
        goes_on_over_tcp(false, up);
    }
}

#[test]
fn t28_a_tree_goes_on_over_tcp_when_udp_dies_in_its_middle() {
    for up in [true, false] {
        goes_on_over_tcp(true, up);
    }
}

/// ssh's port of the visible host is forwarded to another machine, and the visible host has a howdah of its own.
#[test]
fn t13_another_howdah_at_the_visible_host_is_passed_by() {
    let site = Site::new(200);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let Some(sshd) = Sshd::start(&site, far, "10.88.0.2") else {
        return;
    };
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let (at, real) = (sshd.file("forwarded"), sshd.file("ssh_config"));
    let forwarded = format!(
        "Host far\nHostName 10.88.0.1\nHostKeyAlias [10.88.0.2]:2222\n\
         ProxyCommand ssh -F {} -W [10.88.0.2]:2222 far2\n{config}",
        real.display()
    );
    fs::write(&at, forwarded).unwrap();
    let ssh = format!("ssh -F {}", at.display());
    // Both have the same port.
    let other = site.path().join("other");
    fs::create_dir(&other).unwrap();
    let port = "4433";
    let server = site.serve_at(near, &format!("10.88.0.1:{port}"), other.to_str().unwrap());
    let bytes = content("forwarded", (2 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let run = |options: &[&str], ends: [&str; 2]| {
        let common = ["cp", "--json", "--ssh", &ssh, "--port", port];
        let args = [&common[..], options, &ends].concat();
        site.start(near, "nobody", &args, Input::None).finish()
    };
    let check = |options: &[&str], said: &str| {
        let (here, back) = (site.file("here"), site.file("back"));
        for ends in [[&*here, "far:there"], ["far:there", &back]] {
            let done = run(options, ends);
            done.assert_copied(bytes.len() as u64, "blake3");
            assert!(done.err.contains(said), "{said}: {}", done.err);
        }
        assert!(fs::read(&back).unwrap() == bytes);
        assert!(fs::read_dir(&other).unwrap().next().is_none());
    };
    check(&[], "");
    check(&["--transport", "udp"], "");
    check(&["--transport", "tcp"], "");
    block(world.far(), &[UDP]);
    check(
        &[],
        "is answered by another howdah than the one that ssh started",
    );
    let udp = run(&["--transport", "udp"], ["far:there", &site.file("new")]);
    udp.assert_failed(NETWORK, &["is answered by another howdah", "cannot reach"]);
    block(world.far(), &[DATA_TCP]);
    check(&[], "the data goes through ssh itself");
    server.stop();
    site.assert_nothing_half_done();
}

/// Neither side has UDP at all, nor a loopback device that is up.
#[test]
fn t28_tcp_and_the_ssh_channel_need_no_udp_of_their_own_host() {
    let site = Site::new(200);
    let Some(world) = world(&path()) else { return };
    let (near, far) = (Host::In(world.near()), Host::In(world.far()));
    let Some(sshd) = Sshd::start(&site, far, "10.88.0.2") else {
        return;
    };
    let server = site.serve_at(far, "10.88.0.2:0", &site.root(""));
    for namespace in [world.near(), world.far()] {
        let mut down = namespace.command("ip");
        let done = down.args(["link", "set", "lo", "down"]).status().unwrap();
        assert!(done.success());
    }
    block(world.far(), &[UDP]);
    let bytes = content("no loopback", (8 << 20) + 5);
    fs::write(site.file("here"), &bytes).unwrap();
    let (here, back) = (site.file("here"), site.file("back"));
    let url = server.url("there");
    for ends in [[&*here, &*url], [&*url, &*back]] {
        let done = site.copy_with(near, &ends, Input::None);
        done.assert_copied(bytes.len() as u64, "blake3");
        assert!(done.err.contains("the data goes over TCP"), "{}", done.err);
    }
    assert!(fs::read(&back).unwrap() == bytes);
    let run = |said: &str| {
        for ends in [[&*here, "far:other"], ["far:other", &*back]] {
            let done = sshd.start_copy(&site, near, &ends, Input::None).finish();
            done.assert_copied(bytes.len() as u64, "blake3");
            assert!(done.err.contains(said), "{}", done.err);
        }
        assert!(fs::read(&back).unwrap() == bytes);
    };
    run("the data goes over TCP");
    block(world.far(), &[DATA_TCP]);
    run("the data goes through ssh itself");
    site.assert_nothing_half_done();
}
