//! F44, F59: the network, the server or the far end of ssh goes away under a copy and comes back. Nobody has to do anything.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input, Process};
use crate::support::relay::{Fate, Relay, Way};
use crate::support::sshd::{Sshd, far_processes};
use crate::support::{Host, Site, await_kept};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

// As `howdah --help` lists them.
const NETWORK: i32 = 5;
const INTERRUPTED: i32 = 12;
const SIZE: usize = 60 << 20;
/// When the path goes dark, and how fast it is until then.
const DARK_AT: u64 = 20 << 20;
const PACE: [&str; 2] = ["--limit", "100mbit"];
/// A loss is noticed soon, and not believed at once.
const LASTING: [&str; 4] = ["--idle-timeout", "2s", "--reconnect", "1min"];
const LOST: &str = "connecting again for up to";
const BACK: &str = "connected again";
const PATIENCE: Duration = Duration::from_secs(30);

/// A relay that passes nothing while it is dark.
fn relay(server: &support::process::Server) -> (Relay, Arc<AtomicBool>) {
    let dark = Arc::new(AtomicBool::new(false));
    let inside = Arc::clone(&dark);
    let decide = move |_, datagram| {
        if inside.load(Relaxed) {
            Fate::default()
        } else {
            Fate::pass(datagram)
        }
    };
    (Relay::start(server.address, decide), dark)
}

/// The path is dark until the copy has noticed, and some attempts longer.
fn dark_for_a_while(client: &mut Process, dark: &AtomicBool) {
    dark.store(true, Relaxed);
    client.await_line(LOST, PATIENCE);
    std::thread::sleep(Duration::from_secs(4));
    dark.store(false, Relaxed);
    client.await_line(BACK, PATIENCE);
}

fn assert_once(done: &Done) {
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(done.json()["reconnects"], 1, "{}", done.err);
    // All threads of the first connection have ended.
    assert!(!done.err.contains("still writes"), "{}", done.err);
}

#[test]
fn f44_a_file_goes_on_by_itself_when_the_network_is_back() {
    let site = Site::new(120);
    let server = site.serve();
    for path in [site.file("up"), site.root("down")] {
        fs::write(path, content("network", SIZE)).unwrap();
    }
    for (up, way) in [(true, Way::ToServer), (false, Way::ToClient)] {
        let (relay, dark) = relay(&server);
        let (name, url) = if up {
            ("up", relay.url("up"))
        } else {
            ("down", relay.url("down"))
        };
        let here = site.file(name);
        let ends = if up { [&here, &url] } else { [&url, &here] };
        let args = [&LASTING[..], &PACE, &ends.map(String::as_str)].concat();
        let mut client = site.start_copy(Host::Here, &args, Input::None);
        relay.await_bytes(way, DARK_AT, site.limit());
        await_kept(&site, &if up { site.root("") } else { site.file("") });
        dark_for_a_while(&mut client, &dark);
        let done = client.finish();
        assert_once(&done);
        done.assert_copied(SIZE as u64, "blake3");
        // What the first connection brought was not there before the copy, and is not sent again.
        assert_eq!(done.json()["resumed_bytes"], 0);
        assert!(done.err.contains("going on with a copy"), "{}", done.err);
        let seconds = done.json()["seconds"].as_f64().unwrap();
        let goodput = done.json()["goodput_bps"].as_f64().unwrap();
        assert!(seconds > 4.0, "{seconds}");
        assert!((goodput * seconds / 8.0 / SIZE as f64 - 1.0).abs() < 0.01);
        assert_eq!(hash_of(&site.root(name)), hash_of(&here));
    }
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn f44_a_tree_goes_on_by_itself_and_so_does_a_mirror() {
    let site = Site::new(120);
    let server = site.serve();
    fs::create_dir(site.file("tree")).unwrap();
    for i in 0..200 {
        let bytes = content(&format!("small {i}"), 50_000 + i);
        fs::write(site.file(&format!("tree/{i}")), bytes).unwrap();
    }
    fs::write(site.file("tree/large"), content("large", SIZE)).unwrap();
    for (command, there) in [("cp", "copied"), ("sync", "mirrored")] {
        let (relay, dark) = relay(&server);
        let (from, to) = (site.file("tree"), relay.url(there));
        let mut args = vec![command, "--json", "--accept-new"];
        args.extend(LASTING);
        args.extend(PACE);
        if command == "cp" {
            args.push("-r");
        }
        args.extend([&*from, &*to]);
        let mut client = site.start(Host::Here, "client", &args, Input::None);
        relay.await_bytes(Way::ToServer, DARK_AT, site.limit());
        dark_for_a_while(&mut client, &dark);
        assert_once(&client.finish());
        for entry in fs::read_dir(site.file("tree")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let (here, there) = (format!("{from}/{name}"), site.root(there) + "/" + &name);
            assert_eq!(hash_of(&here), hash_of(&there), "{name}");
        }
    }
    site.assert_nothing_half_done();
    server.stop();
}

/// A directory that is not finished goes on although everything is in it: what is missing is that it is durable.
#[test]
fn f44_a_server_that_dies_while_the_disk_syncs_does_not_make_a_directory_in_the_directory() {
    let site = Site::new(120);
    // `OVERLAYFS_SUPER_MAGIC`: there each file is synced by itself.
    if rustix::fs::statfs(site.path()).is_ok_and(|disk| disk.f_type == 0x794c_7630) {
        println!("skipped: {} is on an overlay", site.path().display());
        return;
    }
    let from = site.file("tree");
    fs::create_dir(&from).unwrap();
    for i in 0..20 {
        fs::write(format!("{from}/{i}"), content(&format!("{i}"), 9_000)).unwrap();
    }
    let options = [
        "-f",
        "-qq",
        "-e",
        "trace=syncfs",
        "-e",
        // The files before they have their names, and in the end.
        "inject=syncfs:delay_enter=4000000",
    ];
    let serve = ["serve", "--listen", "127.0.0.1:0", "--root", &site.root("")];
    let traced = site.start_traced(&options.map(str::to_owned), "server", &serve);
    let server = support::process::Server::new(traced);
    let url = server.url("new");
    let address = server.address;
    let options = ["-r", "--idle-timeout", "3s", "--reconnect", "1min"];
    let args = [&options[..], &[&from, &url]].concat();
    let mut client = site.start_copy(Host::Here, &args, Input::None);
    while (0..20).any(|i| !fs::exists(site.root(&format!("new/{i}"))).unwrap()) {
        assert!(Instant::now() < site.limit(), "nothing has a name");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The sign stays until the disk has it all.
    std::thread::sleep(Duration::from_millis(500));
    assert!(fs::exists(site.root("new/.howdah-unfinished")).unwrap());
    drop(server);
    // It dies with strace, a little later.
    while std::net::UdpSocket::bind(address).is_err() {
        assert!(Instant::now() < site.limit(), "{address} is not free");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = site.serve_at(Host::Here, &address.to_string(), &site.root(""));
    client.await_line(BACK, PATIENCE);
    let done = client.finish();
    assert_once(&done);
    assert_eq!(done.json()["tree"]["unchanged"], 20, "{}", done.err);
    let names = fs::read_dir(site.root("new")).unwrap();
    assert_eq!(names.count(), 20, "no directory 'tree', and no sign");
    server.stop();
}

/// Over ssh, either way, and between two others.
#[test]
fn a_far_end_that_dies_is_started_again() {
    let site = Site::new(120);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    for path in [site.file("here"), site.root("there")] {
        fs::write(path, content("ssh", SIZE)).unwrap();
    }
    let (here, get) = (site.file("here"), site.file("get"));
    let cases = [
        (&*here, "far:put", site.root("put")),
        ("far:there", &*get, get.clone()),
        ("far:there", "far2:between", site.root("between")),
    ];
    for (from, to, lies) in cases {
        let place = if to == get {
            site.file("")
        } else {
            site.root("")
        };
        let args = [&LASTING[..], &PACE, &[from, to]].concat();
        let mut client = sshd.start_copy(&site, Host::Here, &args, Input::None);
        // As soon as something of it is kept.
        await_kept(&site, &place);
        for pid in far_processes(&site, "internal") {
            // One may have seen the other die.
            let _ = kill_process(pid, Signal::KILL);
        }
        client.await_line(LOST, PATIENCE);
        client.await_line(BACK, PATIENCE);
        let done = client.finish();
        assert_once(&done);
        done.assert_copied(SIZE as u64, "blake3");
        assert_eq!(hash_of(&lies), hash_of(&here));
    }
    site.assert_nothing_half_done();
}

/// Pipes cannot be gone on with, and are not waited for either.
#[test]
fn a_pipe_ends_with_its_connection() {
    let site = Site::new(60);
    let server = site.serve();
    let url = server.url("piped");
    let args = [&LASTING[..], &["-", &url]].concat();
    let bytes = content("pipe", 9 << 20);
    let client = site.start_copy(Host::Here, &args, Input::Held(bytes));
    client.await_fed();
    drop(server);
    let done = client.finish();
    done.assert_failed(NETWORK, &["try again"]);
    assert!(!done.err.contains(LOST), "{}", done.err);
    assert!(!done.err.contains("still writes"), "{}", done.err);
}

#[test]
fn who_never_answered_is_not_waited_for_and_who_does_not_come_back_not_for_ever() {
    let site = Site::new(120);
    fs::write(site.file("source"), content("gone", SIZE)).unwrap();
    let source = site.file("source");
    // Nobody listens; nobody says anything.
    let hole = Relay::start("127.0.0.1:9".parse().unwrap(), |_, _| Fate::default());
    for url in ["howdah://127.0.0.1:9/x", &hole.url("x")] {
        let nobody = [&LASTING[..], &["--transport", "udp", &source, url]].concat();
        let done = site.copy_with(Host::Here, &nobody, Input::None);
        done.assert_failed(NETWORK, &["cannot reach"]);
        assert!(!done.err.contains(LOST), "{}", done.err);
    }

    for interrupted in [false, true] {
        let server = site.serve();
        let url = server.url(&format!("target {interrupted}"));
        let wait = if interrupted { "1min" } else { "2s" };
        let options = ["--idle-timeout", "2s", "--reconnect", wait];
        let args = [&options[..], &PACE, &[&source, &url]].concat();
        let mut client = site.start_copy(Host::Here, &args, Input::None);
        while support::parts(site.root("")).len() < 1 + usize::from(interrupted) {
            assert!(Instant::now() < site.limit(), "nothing comes");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(server);
        client.await_line(LOST, PATIENCE);
        if interrupted {
            client.signal(Signal::INT);
        }
        let done = client.finish();
        if interrupted {
            done.assert_failed(INTERRUPTED, &["interrupted"]);
        } else {
            done.assert_failed(NETWORK, &["nothing has come"]);
        }
    }
    // The same command goes on where these ended.
    let server = site.serve();
    for interrupted in [false, true] {
        let url = server.url(&format!("target {interrupted}"));
        let done = site.copy(Host::Here, &source, &url);
        done.assert_copied(SIZE as u64, "blake3");
    }
    site.assert_nothing_half_done();
    server.stop();
}
