//! Copies to and from machines that ssh reaches, with a real sshd.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::Input;
use crate::support::sshd::{Sshd, await_end, await_no_far_processes, far_processes};
use crate::support::{Host, Site, await_no_parts, quiet_port};
use rustix::process::{Signal, kill_process};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

// As `howdah --help` lists them.
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const NETWORK: i32 = 5;
const AUTH: i32 = 7;

#[test]
fn files_and_pipes_go_there_and_back_as_with_scp() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    for size in [0, 1, (3 << 20) + 17] {
        let (name, back) = (format!("file-{size}"), format!("back-{size}"));
        let bytes = content(&name, size);
        fs::write(site.file(&name), &bytes).unwrap();
        let put = sshd.copy(&site, &[&site.file(&name), &format!("far:{name}")]);
        put.assert_copied(size as u64, "blake3");
        assert!(fs::read(site.root(&name)).unwrap() == bytes, "{name}");
        let get = sshd.copy(&site, &[&format!("far:{name}"), &site.file(&back)]);
        get.assert_copied(size as u64, "blake3");
        assert!(fs::read(site.file(&back)).unwrap() == bytes, "{back}");
    }
    // The places that a user may name.
    fs::create_dir(site.root("inbox")).unwrap();
    fs::create_dir(site.file("elsewhere")).unwrap();
    symlink(site.file("elsewhere"), site.root("way")).unwrap();
    let absolute = format!("far:{}", site.file("elsewhere/new"));
    let url = format!("ssh://far{}", site.file("elsewhere/by-url"));
    for (target, lies) in [
        ("far:", site.root("file-1")),
        ("far:inbox", site.root("inbox/file-1")),
        ("far:~/inbox/", site.root("inbox/file-1")),
        ("far:way/through-link", site.file("elsewhere/through-link")),
        ("far:way", site.file("elsewhere/file-1")),
        (&absolute, site.file("elsewhere/new")),
        (&url, site.file("elsewhere/by-url")),
        ("ssh://far/~/inbox", site.root("inbox/file-1")),
    ] {
        let _ = fs::remove_file(&lies);
        let put = sshd.copy(&site, &[&site.file("file-1"), target]);
        put.assert_copied(1, "blake3");
        assert_eq!(fs::read(&lies).unwrap().len(), 1, "{target}");
    }
    symlink(site.file("file-1"), site.root("link")).unwrap();
    let get = sshd.copy(&site, &["far:link", &site.file("of-link")]);
    get.assert_copied(1, "blake3");
    // Pipes.
    let bytes = content("pipe", 1 << 20);
    let put = sshd
        .start_copy(
            &site,
            Host::Here,
            &["-", "far:pipe"],
            Input::Bytes(bytes.clone()),
        )
        .finish();
    put.assert_copied(1 << 20, "blake3");
    let get = sshd.copy(&site, &["far:pipe", "-"]);
    get.assert_copied(1 << 20, "blake3");
    assert!(get.out == bytes);
    sshd.copy(&site, &["zero:1MiB", "far:null:"])
        .assert_copied(1 << 20, "aead");
    // None of it needed a key of howdah, or left one.
    assert!(!site.config("nobody").exists());
    site.assert_nothing_half_done();
}

#[test]
fn a_path_that_is_not_there_or_not_allowed_is_named() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.file("here"), "x").unwrap();
    let (here, target) = (site.file("here"), site.file("target"));
    for (source, destination, code, part) in [
        ("far:none", &*target, NOT_FOUND, "no such file"),
        (&*here, "far:none/new", REFUSED, "mkdir"),
        ("far:~anna/x", &*target, REFUSED, "only ~ itself"),
        ("far:.local", &*target, REFUSED, "a directory"),
    ] {
        let done = sshd.copy(&site, &[source, destination]);
        done.assert_failed(code, &[part]);
    }
    assert!(!fs::exists(target).unwrap());
}

#[test]
fn f70_each_failure_of_ssh_is_told_as_what_it_is() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.file("here"), "x").unwrap();
    let here = site.file("here");
    let ssh = sshd.ssh();
    let run = |options: &[&str]| {
        let args = [&["cp", "--json"], options, &[&*here, "far:new"]].concat();
        let done = site
            .start(Host::Here, "nobody", &args, Input::None)
            .finish();
        assert!(!fs::exists(site.root("new")).unwrap());
        done
    };
    // Howdah is missing there.
    let missing = run(&["--ssh", &ssh, "--remote-howdah", "/nonexistent/howdah"]);
    missing.assert_failed(AUTH, &["cannot start \"/nonexistent/howdah\"", "far: "]);
    fs::remove_file(site.root(".local/bin/howdah")).unwrap();
    // A package may have put one where the far shell looks.
    if ["/usr/bin/howdah", "/bin/howdah"]
        .iter()
        .any(|at| Path::new(at).exists())
    {
        println!("skipped in part: this machine has howdah installed");
    } else {
        let missing = run(&["--ssh", &ssh]);
        missing.assert_failed(AUTH, &["has no program 'howdah'", "cat >.local/bin/howdah"]);
    }
    // Another version, and one that knows nothing of far ends.
    let other = site.file("other");
    let line =
        r#"howdah-far-end {"versions":{"program":"9.0.0","handover":9,"wire":1,"dialogue":1}}"#;
    fs::write(
        &other,
        format!("#!/bin/sh\necho '{line}'\ncat >/dev/null\n"),
    )
    .unwrap();
    let run_script = format!("sh {other}");
    let done = run(&["--ssh", &ssh, "--remote-howdah", &run_script]);
    done.assert_failed(AUTH, &["far has howdah 9.0.0", "this is howdah 0."]);
    assert_eq!(done.json_error(), "protocol");
    let done = run(&["--ssh", &ssh, "--remote-howdah", "exit 2;"]);
    done.assert_failed(AUTH, &["too old"]);
    // It says what makes no sense, or ends.
    let done = run(&["--ssh", &ssh, "--remote-howdah", "yes; true"]);
    done.assert_failed(AUTH, &["no line of howdah"]);
    let done = run(&[
        "--ssh",
        &ssh,
        "--remote-howdah",
        "echo no quota >&2; exit 9;",
    ]);
    done.assert_failed(NETWORK, &["exit status 9", "no quota"]);
    // The host is not the one that was met.
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let stranger = sshd.file("stranger_config");
    let text = config.replace("known_hosts\n", "no_known_hosts\n");
    fs::write(&stranger, text).unwrap();
    let done = run(&["--ssh", &format!("ssh -F {}", stranger.display())]);
    done.assert_failed(AUTH, &["Host key verification failed"]);
    assert_eq!(done.json_error(), "auth");
    // Nobody listens.
    let done = run(&["--ssh", &format!("{ssh} -p {}", quiet_port())]);
    done.assert_failed(NETWORK, &["ssh cannot reach far", "refused"]);
    // There is no ssh.
    let done = run(&["--ssh", "/nonexistent/ssh"]);
    done.assert_failed(1, &["cannot start \"/nonexistent/ssh\"", "--ssh"]);
}

#[test]
fn what_a_login_script_says_does_no_harm() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.root("there"), "from there").unwrap();
    let noisy = "echo Welcome; echo to the machine >&2; $HOME/.local/bin/howdah";
    let args = ["--remote-howdah", noisy, "far:there", &site.file("here")];
    let done = sshd.copy(&site, &args);
    done.assert_copied(10, "blake3");
    assert!(done.err.contains("howdah: far: Welcome"), "{}", done.err);
    assert!(
        done.err.contains("howdah: far: to the machine"),
        "{}",
        done.err
    );
}

#[test]
fn a_jump_host_leads_there() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.root("there"), "from there").unwrap();
    let done = sshd.copy(&site, &["behind:there", &site.file("here")]);
    done.assert_copied(10, "blake3");
}

#[test]
fn f70_the_far_end_dies_in_the_middle() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let input = Input::Held(content("held", 5 << 20));
    let copy = sshd.start_copy(&site, Host::Here, &["-", "far:held"], input);
    copy.await_fed();
    let [pid] = far_processes(&site, "internal far-end")[..] else {
        panic!("one far end");
    };
    kill_process(pid, Signal::KILL).unwrap();
    let done = copy.finish();
    done.assert_failed(NETWORK, &["ssh to far ended during the copy"]);
    assert!(!fs::exists(site.root("held")).unwrap());
}

#[test]
fn f70_the_client_is_killed_and_leaves_nobody_behind() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let input = Input::Held(content("held", 5 << 20));
    let copy = sshd.start_copy(&site, Host::Here, &["-", "far:held"], input);
    copy.await_fed();
    let [pid] = far_processes(&site, "internal far-end")[..] else {
        panic!("one far end");
    };
    copy.signal(Signal::KILL);
    await_end(pid, Duration::from_secs(10));
    await_no_parts(&site.root(""), Duration::from_mins(1));
    assert!(!fs::exists(site.root("held")).unwrap());
    // Those that it had look names up hear of its end a moment later.
    await_no_far_processes(&site, "");
}

#[test]
fn a33_no_secret_stands_in_arguments_or_environment() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let input = Input::Held(content("held", 1 << 20));
    let mut copy = sshd.start_copy(&site, Host::Here, &["-", "far:held"], input);
    copy.await_fed();
    let family = far_processes(&site, "");
    assert!(!family.is_empty());
    for pid in family {
        let pid = pid.as_raw_nonzero();
        for file in ["cmdline", "environ"] {
            let text = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).replace('\0', "\n");
            for word in ["ed25519", "howdah-ask", "secret", "="] {
                let names = text.lines().filter(|line| {
                    let value = line.split_once('=').map_or("", |(_, value)| value);
                    line.contains(word)
                        && (word != "=" || value.len() >= 32 && !value.contains('/'))
                });
                assert_eq!(
                    names.collect::<Vec<_>>(),
                    Vec::<&str>::new(),
                    "{file} of {pid}"
                );
            }
        }
    }
    let [far_end] = far_processes(&site, "internal far-end")[..] else {
        panic!("one far end");
    };
    let far_end = far_end.as_raw_nonzero();
    let words = fs::read(format!("/proc/{far_end}/cmdline")).unwrap();
    assert_eq!(words, b"howdah\0internal\0far-end\0");
    // No dump, no look into its memory; those of ordinary users are found here because they were told to allow it.
    if rustix::process::geteuid().is_root() {
        let limits = fs::metadata(format!("/proc/{far_end}/mem")).unwrap();
        assert_eq!(std::os::unix::fs::MetadataExt::uid(&limits), 0);
    }
    copy.end_input();
    copy.finish().assert_copied(1 << 20, "blake3");
}

#[test]
fn a30_a35_only_the_key_that_was_told_gets_in() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.root("there"), "from there").unwrap();
    let input = Input::Held(content("held", 1 << 20));
    let port = quiet_port();
    let port_text = port.to_string();
    let args = ["--port", &port_text, "-", "far:held"];
    let mut copy = sshd.start_copy(&site, Host::Here, &args, input);
    copy.await_fed();
    // Somebody else finds the port.
    let url = format!("howdah://127.0.0.1:{port}/there");
    let done = site.copy(Host::Here, &url, &site.file("stolen"));
    done.assert_failed(AUTH, &["does not accept this key"]);
    // Guessing is no use: the next key is as wrong as the one before, and the copy does not care.
    for i in 0..8 {
        let who = format!("stranger {i}");
        let new = site.run(Host::Here, &who, &["key", "new"], Input::None);
        assert_eq!(new.code, Some(0), "{}", new.err);
        let args = ["cp", "--json", "--accept-new", &url, &site.file("stolen")];
        let done = site.run(Host::Here, &who, &args, Input::None);
        done.assert_failed(AUTH, &["does not accept this key"]);
    }
    assert!(!fs::exists(site.file("stolen")).unwrap());
    // A second session finds no port in that range.
    let done = sshd.copy(
        &site,
        &["--port", &port_text, "far:there", &site.file("here")],
    );
    done.assert_failed(1, &["far: none of the ports", "--port"]);
    copy.end_input();
    copy.finish().assert_copied(1 << 20, "blake3");
}

#[test]
fn an_interrupted_copy_says_so_and_leaves_nothing() {
    let site = Site::new(60);
    let Some(mut sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let input = Input::Held(content("held", 1 << 20));
    let copy = sshd.start_copy(&site, Host::Here, &["-", "far:held"], input);
    copy.await_fed();
    copy.signal(Signal::INT);
    copy.ended().assert_failed(12, &["interrupted"]);
    sshd.await_line("isconnect");
    // (Longer than the far end waits where the last word is lost.)
    await_no_parts(&site.root(""), Duration::from_mins(1));
    // While ssh asks for something.
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let proxy = format!("ProxyCommand sleep 100\n{config}");
    fs::write(sshd.file("slow_config"), proxy).unwrap();
    let ssh = format!("ssh -F {}", sshd.file("slow_config").display());
    let args = ["cp", "--ssh", &ssh, "far:x", &site.file("x")];
    let slow = site.start(Host::Here, "nobody", &args, Input::None);
    slow.signal(Signal::TERM);
    let done = slow.finish();
    assert!(matches!(done.code, Some(12) | None), "{:?}", done.code);
}

#[test]
fn data_flows_between_two_others() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let bytes = content("between", (5 << 20) + 3);
    fs::write(site.root("from"), &bytes).unwrap();
    fs::create_dir(site.root("dir")).unwrap();
    for (target, lies) in [("far2:to", "to"), ("far2:dir", "dir/from")] {
        let done = sshd.copy(&site, &["far:~/from", target]);
        done.assert_copied(bytes.len() as u64, "blake3");
        assert!(fs::read(site.root(lies)).unwrap() == bytes);
    }
    // Trees as well.
    fs::create_dir_all(site.root("tree/deep")).unwrap();
    for name in ["tree/a", "tree/deep/b"] {
        fs::write(site.root(name), name).unwrap();
    }
    let done = sshd.copy(&site, &["-r", "far:tree", "far:from", "far2:dir"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    for name in ["tree/a", "tree/deep/b", "from"] {
        let there = fs::read(site.root("dir").clone() + "/" + name).unwrap();
        assert!(there == fs::read(site.root(name)).unwrap(), "{name}");
    }
    // What is asked for here is kept there.
    let limited = sshd.copy(&site, &["--limit", "40mbit", "far:from", "far2:slow"]);
    limited.assert_copied(bytes.len() as u64, "blake3");
    let goodput = limited.json()["goodput_bps"].as_f64().unwrap();
    assert!(goodput < 50e6, "{goodput} bit/s with a limit of 40 Mbit/s");
    let reread = sshd.copy(&site, &["--verify", "reread", "far:from", "far2:slow"]);
    reread.assert_copied(bytes.len() as u64, "reread");
    let reread = ["--verify", "reread", "-r", "far:tree", "far2:again"];
    let reread = sshd.copy(&site, &reread);
    assert_eq!(reread.code, Some(0), "{}", reread.err);
    assert_eq!(reread.json()["verified"], "reread");
    let told = sshd.copy(&site, &["--each-file", "-r", "far:tree", "far2:told"]);
    told.assert_failed(2, &["from or to this machine only"]);
    // What fails at either end is told here as what it is.
    let missing = sshd.copy(&site, &["far:none", "far2:to"]);
    missing.assert_failed(NOT_FOUND, &["far: ", "none"]);
    let refused = sshd.copy(&site, &["far:from", "far2:none/to"]);
    refused.assert_failed(REFUSED, &["far: far2:", "mkdir"]);
    await_no_far_processes(&site, "internal");
    site.assert_nothing_half_done();
}

#[test]
fn a_copy_between_two_others_ends_with_whoever_started_it() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    // Slow enough to be there while it is looked at.
    let args = ["--rate", "10mbit", "far:zero:100MiB", "far2:to"];
    let copy = sshd.start_copy(&site, Host::Here, &args, Input::None);
    let mut pids = Vec::new();
    while pids.len() < 2 {
        pids = far_processes(&site, "internal far-end");
    }
    copy.signal(Signal::KILL);
    for pid in pids {
        await_end(pid, Duration::from_secs(10));
    }
    await_no_parts(&site.root(""), Duration::from_mins(1));
    // The shells that started them end a moment later.
    await_no_far_processes(&site, "");
}

#[test]
fn a_key_of_ssh_can_be_for_howdah_only() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let keys = sshd.file("authorized_keys");
    let key = fs::read_to_string(&keys).unwrap();
    let howdah = env!("CARGO_BIN_EXE_howdah");
    let line = format!("restrict,command=\"{howdah} internal far-end\" {key}");
    fs::write(&keys, line).unwrap();
    fs::write(site.root("there"), "from there").unwrap();
    let done = sshd.copy(&site, &["far:there", &site.file("here")]);
    done.assert_copied(10, "blake3");
}

#[test]
fn a_connection_of_ssh_that_is_shared_serves_several_copies() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    // A path of a socket is short.
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("%C");
    let config = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let config = config.replace("ControlMaster no", "ControlMaster auto\nControlPersist 60");
    let path = format!("ControlPath {}", socket.display());
    let shared = sshd.file("shared_config");
    fs::write(&shared, config.replace("ControlPath none", &path)).unwrap();
    let ssh = format!("ssh -F {}", shared.display());
    for name in ["a", "b"] {
        fs::write(site.file(name), name).unwrap();
        let target = format!("far:{name}");
        let args = ["cp", "--json", "--ssh", &ssh, &site.file(name), &target];
        let done = site
            .start(Host::Here, "nobody", &args, Input::None)
            .finish();
        done.assert_copied(1, "blake3");
        await_no_far_processes(&site, "internal far-end");
    }
    let end = std::process::Command::new("ssh")
        .args(["-F", shared.to_str().unwrap(), "-O", "exit", "far"])
        .output()
        .unwrap();
    assert!(end.status.success(), "it was shared");
}

#[test]
fn what_users_of_scp_and_rsync_type_is_done_or_answered() {
    let site = Site::new(60);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    let file = site.file("tool");
    fs::write(&file, "tool").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o750)).unwrap();
    // Options may stand anywhere, and -p keeps the mode of a single file.
    let done = sshd.copy(&site, &[&file, "-p", "far:kept"]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let mode = fs::metadata(site.root("kept")).unwrap().permissions();
    assert_eq!(mode.mode() & 0o7777, 0o750);

    fs::create_dir(site.root("dir")).unwrap();
    for (args, code, part) in [
        (&["-avz", &*file, "far:"][..], 2, "nothing is compressed"),
        (&["-P", "22", &file, "far:"], 2, "ssh://USER@HOST:PORT"),
        (&[&*file], 2, "the only place that is named"),
        (&["far:no*", "."], 3, "nothing there matches \"no*\""),
        (&["far:dir", "."], 4, "copy it with -r"),
    ] {
        let done = sshd.copy(&site, args);
        done.assert_failed(code, &[part]);
        assert!(!done.err.contains("--ssh <COMMAND>"), "{}", done.err);
    }
}
