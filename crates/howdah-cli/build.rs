//! Tells release builds which commit they are made from, for `howdah --version`. Debug builds say that they are such,
//! so that a commit builds nothing anew.

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let text = text.trim();
    (output.status.success() && !text.is_empty()).then(|| text.to_owned())
}

fn main() {
    // For those who build from a tarball and know where it is from.
    println!("cargo::rerun-if-env-changed=HOWDAH_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let given = std::env::var("HOWDAH_COMMIT").ok();
    let commit = if given.is_some() {
        given
    } else if std::env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
            println!("cargo::rerun-if-changed={log}");
        }
        // A tarball inside some other repository is not that one's.
        git(&["ls-files", "--error-unmatch", "build.rs"])
            .and_then(|_| git(&["rev-parse", "--short=12", "HEAD"]))
    } else {
        Some("of a debug build".to_owned())
    };
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo::rustc-env=HOWDAH_VERSION={version} (commit {commit})");
}
