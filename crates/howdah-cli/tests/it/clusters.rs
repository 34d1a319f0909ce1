//! The scripts of docs/clusters.md, as they stand there, with stand-ins for Slurm and for the controller of a Kubernetes Job.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{content, hash_of};
use crate::support::process::{Done, Input, Process};
use crate::support::{HOWDAH, Site, serve_as_us};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const SIZE: usize = (6 << 20) + 9;

/// Runs each task of an array, at the same time, one twice; the first time the last one is lost.
const SBATCH: &str = r#"#!/bin/sh
for word; do
    case "$word" in --array=*) array="${word#--array=}" ;; esac
    script="$word"
done
ids=""
for run in $(echo "${array%%\%*}" | tr , ' '); do
    ids="$ids $(seq "${run%-*}" "${run#*-}")"
done
ids="$(echo $ids)"
echo "array $ids" >>tasks
[ -e lost ] || { touch lost; ids="${ids% *}"; }
for id in $ids 0; do
    SLURM_ARRAY_TASK_ID="$id" sh "$script" &
done
wait
"#;

/// The blocks of docs/clusters.md of that kind.
fn blocks(kind: &str) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/clusters.md");
    let text = fs::read_to_string(docs).unwrap();
    let parts = text.split("```").skip(1).step_by(2);
    let of_kind = parts.filter_map(|block| block.strip_prefix(&format!("{kind}\n")));
    of_kind.map(str::to_owned).collect()
}

fn write_program(site: &Site, name: &str, text: &str) {
    let path = site.file(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// In the client's directory, with howdah and the stand-ins on the path.
fn shell(site: &Site, words: &[&str], more: &[(&str, &str)]) -> Done {
    let mut command = Command::new("sh");
    let programs = Path::new(HOWDAH).parent().unwrap().display();
    let path = std::env::var("PATH").unwrap();
    command
        .current_dir(site.file(""))
        .args(words)
        .env("PATH", format!("{}:{programs}:{path}", site.file("")))
        .env("HOWDAH_CONFIG_DIR", site.config("client"))
        .env("XDG_RUNTIME_DIR", site.run_dir())
        .envs(more.iter().copied());
    serve_as_us(&mut command);
    Process::start(command, Input::None, site.limit()).finish()
}

#[test]
fn an_array_job_moves_a_file() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.root("source"), content("slurm", SIZE)).unwrap();
    let scripts = blocks("sh");
    let named = |name: &str| scripts.iter().find(|script| script.contains(name)).unwrap();
    fs::write(site.file("move.sh"), named("# move.sh")).unwrap();
    fs::write(site.file("submit.sh"), named("# submit.sh")).unwrap();
    write_program(&site, "sbatch", SBATCH);
    let words = [
        "submit.sh",
        &server.url("source"),
        &site.file("target"),
        &site.file("plan"),
    ];
    let done = shell(&site, &words, &[("LEASE", "1MiB")]);
    assert_eq!(done.code, Some(0), "{}", done.err);
    let hash = hash_of(&site.root("source"));
    assert_eq!(hash_of(&site.file("target")), hash);
    assert!(String::from_utf8_lossy(&done.out).contains(&hash.to_string()));
    // What had failed was asked for again, and nothing else.
    let tasks = fs::read_to_string(site.file("tasks")).unwrap();
    let arrays: Vec<Vec<&str>> = tasks
        .lines()
        .map(|line| line.split_whitespace().skip(1).collect())
        .collect();
    assert_eq!(arrays.len(), 2, "{tasks}");
    assert_eq!(arrays[0].len(), 7, "{tasks}");
    server.stop();
}

#[test]
fn an_indexed_job_moves_a_file() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.root("source"), content("kubernetes", SIZE)).unwrap();
    let job = blocks("yaml").pop().unwrap();
    let line = job
        .lines()
        .find_map(|line| line.trim().strip_prefix("- exec "))
        .unwrap();
    let script = format!("exec {line}").replace("/shared/run7.plan", &site.file("plan"));
    assert!(script.contains(&site.file("plan")), "{script}");
    let (source, target, plan) = (server.url("source"), site.file("target"), site.file("plan"));
    let words = [
        "plan",
        "--accept-new",
        "--lease",
        "1MiB",
        "-o",
        &plan,
        &source,
        &target,
    ];
    let planned = site.run(support::Host::Here, "client", &words, Input::None);
    assert_eq!(
        String::from_utf8_lossy(&planned.out),
        "0-6\n",
        "{}",
        planned.err
    );
    for index in ["3", "0", "1", "2", "3", "4", "5", "6"] {
        let done = shell(&site, &["-c", &script], &[("JOB_COMPLETION_INDEX", index)]);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }
    let done = site.run(
        support::Host::Here,
        "client",
        &["finish", &plan],
        Input::None,
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(hash_of(&target), hash_of(&site.root("source")));
    server.stop();
}
