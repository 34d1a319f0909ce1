//! `make bpf` where something is missing: it says what, and installs and builds nothing.
#![cfg(target_os = "linux")]

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|directory| directory.join(program));
    files.find(|file| file.is_file())
}

/// Runs it with the programs of `path` only; `None` with a printed reason where there is no `make`.
fn make_bpf(path: &Path, target: &Path, words: &[&str]) -> Option<Output> {
    let Some(make) = find("make") else {
        println!("skipped: there is no 'make'");
        return None;
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let mut command = Command::new(make);
    command.args(["-C", root, "bpf", "CARGO=true"]).args(words);
    // The caller may be a `make` as well.
    command.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
    command.env("PATH", path).env("CARGO_TARGET_DIR", target);
    Some(command.output().unwrap())
}

/// A directory of programs that do nothing, and of some that are real.
fn programs(dir: &Path, empty: &[&str], real: &[&str]) {
    for name in empty {
        let file = dir.join(name);
        std::fs::write(&file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    }
    for name in real {
        symlink(find(name).unwrap(), dir.join(name)).unwrap();
    }
}

#[track_caller]
fn assert_says(output: &Output, parts: &[&str]) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    for part in parts {
        assert!(err.contains(part), "{part}: {err}");
    }
}

#[test]
fn a_kernel_that_does_not_describe_its_types_is_named_first() {
    let (path, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    programs(path.path(), &[], &["id"]);
    let words = ["BTF=/no/such/vmlinux"];
    let Some(output) = make_bpf(path.path(), target.path(), &words) else {
        return;
    };
    let parts = ["/no/such/vmlinux is missing", "CONFIG_DEBUG_INFO_BTF"];
    assert_says(&output, &parts);
    assert!(!target.path().join("bpf").exists());
}

#[test]
fn without_clang_and_apt_get_what_is_missing_is_said() {
    let (path, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = [
        "gcc", "g++", "make", "ip", "strace", "sshd", "ssh", "bpftool",
    ];
    programs(path.path(), &there, &["id"]);
    // Any file stands for the kernel's types: nothing gets that far.
    let words = ["BTF=/dev/null"];
    let Some(output) = make_bpf(path.path(), target.path(), &words) else {
        return;
    };
    let libudt = Path::new("/usr/include/udt/udt.h").exists();
    let first = if libudt { "clang" } else { "libudt-dev" };
    let parts = [&*format!("missing: {first}"), "install them"];
    assert_says(&output, &parts);
    assert!(!target.path().join("bpf").exists());
}
