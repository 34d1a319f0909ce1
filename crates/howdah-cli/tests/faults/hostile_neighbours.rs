//! Other users of the same machine: what they can change is not believed, what a process knows is not shown.
#![cfg(target_os = "linux")]

use crate::support::process::Input;
use crate::support::{Host, Site, write_own};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Somebody who is not root, and owns nothing.
const NOBODY: u32 = 65534;

#[test]
fn h13_a_config_file_that_others_can_change_is_refused() {
    let site = Site::new(30);
    let dir = site.config("client");
    let config = dir.join("config.toml");
    write_own(&config, "limit = '1gbit'\n");
    let mode = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let show = || site.run(Host::Here, "client", &["config", "show"], Input::None);
    mode(&dir, 0o700);
    assert_eq!(show().code, Some(0));
    for bad in [0o666, 0o620, 0o602] {
        mode(&config, bad);
        show().assert_failed(2, &["others can change", "config.toml", "chmod go-w"]);
    }
    mode(&config, 0o644);
    assert_eq!(show().code, Some(0));
    mode(&dir, 0o777);
    show().assert_failed(2, &["others can change", "chmod go-w"]);
    mode(&dir, 0o700);
}

/// Ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// The owner of what debuggers open is root if the process is closed to its own user.
    fn is_closed(&self) -> bool {
        let memory = fs::metadata(format!("/proc/{}/mem", self.0.id())).unwrap();
        memory.uid() == 0
    }
}

#[test]
fn h13_the_memory_of_processes_with_keys_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let keys = dir.path().join("keys");
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    fs::create_dir(&keys).unwrap();
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o700)).unwrap();
    if is_root {
        chown(&keys, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let start = |args: &[&str], open: bool| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_howdah"));
        command
            .args(args)
            .current_dir("/")
            .env("HOWDAH_CONFIG_DIR", &keys)
            .env("XDG_STATE_HOME", &keys)
            .env("HOWDAH_DUMPABLE", if open { "1" } else { "0" })
            .env("HOWDAH_DIE_WITH_PARENT", "1")
            .env_remove("HOWDAH_CONFIG")
            .env_remove("XDG_RUNTIME_DIR")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        if is_root {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.spawn().map(Running)
    };
    let mut made = match start(&["key", "new"], false) {
        Ok(made) => made,
        Err(error) => {
            println!("skipped: another user cannot run the program under test ({error})");
            return;
        }
    };
    assert!(made.0.wait().unwrap().success());
    for open in [false, true] {
        let root = keys.to_str().unwrap();
        let serve = [
            "serve",
            "--keys-below-root",
            "--listen",
            "127.0.0.1:0",
            "--root",
            root,
        ];
        for service in [&serve[..], &["daemon"]] {
            let mut service = start(service, open).unwrap();
            let mut line = String::new();
            let errors = service.0.stderr.as_mut().unwrap();
            BufReader::new(errors).read_line(&mut line).unwrap();
            assert!(line.starts_with("howdah"), "{line}");
            assert_eq!(service.is_closed(), !open, "{line}");
        }

        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        silent
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let url = format!("howdah://{}/x", silent.local_addr().unwrap());
        let client = start(&["cp", "zero:1", &url], open).unwrap();
        silent.recv(&mut [0; 2000]).unwrap();
        assert_eq!(client.is_closed(), !open);
    }
}

/// A server's key that was accepted is still on record after a power cut: the line, and the name of a new list.
#[test]
fn h13_a_new_list_of_servers_is_on_the_disk_before_anything_is_copied() {
    if !Path::new("/usr/bin/strace").exists() {
        println!("skipped: no /usr/bin/strace");
        return;
    }
    let site = Site::new(60);
    let server = site.serve();
    let (list, trace) = (
        site.config("client").join("known_hosts"),
        site.path().join("trace"),
    );
    let _ = fs::remove_file(&list);
    let file = site.path().join("file");
    fs::write(&file, "x").unwrap();
    let options = ["-f", "-y", "-e", "trace=write,fsync,sendmsg,sendmmsg", "-o"].map(str::to_owned);
    let options = [&options[..], &[trace.display().to_string()]].concat();
    let args = [
        "cp",
        "--accept-new",
        &file.display().to_string(),
        &server.url("there"),
    ];
    let done = site.start_traced(&options, "client", &args).finish();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        fs::read_to_string(&list)
            .unwrap()
            .contains("howdah-ed25519")
    );
    let trace = fs::read_to_string(&trace).unwrap();
    let at = |call: &str, path: &Path| {
        let path = format!("<{}>", path.display());
        let is_it = |line: &str| line.contains(&format!("{call}(")) && line.contains(&path);
        trace.lines().position(is_it)
    };
    let (written, synced) = (at("write", &list), at("fsync", &list));
    let named = at("fsync", list.parent().unwrap());
    assert!(
        written.is_some() && written < synced && synced < named,
        "{written:?} {synced:?} {named:?}"
    );
    // What was on its way meanwhile is the handshake; the file itself comes after.
    assert_eq!(fs::read(site.root("there")).unwrap(), b"x");
}
