//! Tells release builds which commit they are made from: results name it, and the work tree may have moved on when
//! they are made. Debug builds ask when they run, so that a commit builds nothing anew.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // Whatever the program is made from.
        println!("cargo::rerun-if-changed=../../crates");
        println!("cargo::rerun-if-changed=../../Cargo.lock");
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
        if let Some(commit) = git(&["rev-parse", "HEAD"]) {
            println!("cargo::rustc-env=HOWDAH_COMMIT={commit}");
        }
        // Changes to a scenario or a text make no other program.
        let changes = git(&[
            "status",
            "--porcelain",
            "--",
            "../../crates",
            "../../Cargo.lock",
        ]);
        let changed = changes.is_none_or(|changes| !changes.is_empty());
        println!("cargo::rustc-env=HOWDAH_CHANGED={changed}");
    } else {
        println!("cargo::rerun-if-changed=build.rs");
    }
}
