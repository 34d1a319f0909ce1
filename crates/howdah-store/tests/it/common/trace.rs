//! What a process asked of the kernel, in order, as strace wrote it down.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// Longest text of an argument, in bytes.
const TEXT: &str = "4096";

/// A call that went well. Times are numbers of lines.
pub struct Call {
    pub name: String,
    /// Between the parentheses, with `\xNN` for each byte of a text.
    args: String,
    pub result: u64,
    pub began: usize,
    pub ended: usize,
}

impl Call {
    /// What the descriptor in front stands for.
    pub fn path(&self) -> Vec<u8> {
        between(&self.args, '<', '>')
    }

    /// The texts among the arguments.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        let parts = self.args.split('"').skip(1).step_by(2);
        parts.map(unescape).collect()
    }

    /// The last argument, which is where in the file it begins.
    pub fn offset(&self) -> u64 {
        let last = self.args.rsplit(", ").next().unwrap();
        last.parse().unwrap_or_else(|_| panic!("{self:?}"))
    }

    pub fn is_sync(&self) -> bool {
        ["fsync", "fdatasync", "syncfs"].contains(&&*self.name)
    }

    /// Whether it makes durable what was done to that file before: to all of them, as one file system.
    pub fn syncs(&self, path: &[u8]) -> bool {
        self.name == "syncfs" || self.is_sync() && self.path() == path
    }
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let args = unescape(&self.args);
        let args = String::from_utf8_lossy(&args[..args.len().min(300)]);
        write!(f, "{}({args}) in line {}", self.name, self.began + 1)
    }
}

fn between(text: &str, open: char, close: char) -> Vec<u8> {
    let after = text.split_once(open).map_or("", |(_, after)| after);
    unescape(after.split(close).next().unwrap_or_default())
}

/// `\xNN` as strace writes it with `-xx`; everything else as it is.
fn unescape(text: &str) -> Vec<u8> {
    let (text, mut bytes, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < text.len() {
        let hex = text.get(at..at + 4).filter(|hex| hex.starts_with(b"\\x"));
        let byte = hex.and_then(|hex| std::str::from_utf8(&hex[2..]).ok());
        if let Some(byte) = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            at += 4;
        } else {
            bytes.push(text[at]);
            at += 1;
        }
    }
    bytes
}

/// All calls that went well, in the order of their ends.
pub fn parse(log: &str) -> Vec<Call> {
    let mut begun: HashMap<&str, (usize, String)> = HashMap::new();
    let mut calls = Vec::new();
    for (number, line) in log.lines().enumerate() {
        let Some((process, text)) = line.split_once(' ') else {
            continue;
        };
        let text = text.trim_start();
        if let Some(start) = text.strip_suffix(" <unfinished ...>") {
            begun.insert(process, (number, start.to_owned()));
            continue;
        }
        let (began, text) = match text.split_once(" resumed>") {
            Some((_, rest)) if text.starts_with("<... ") => match begun.remove(process) {
                Some((began, start)) => (began, start + rest),
                None => continue,
            },
            _ => (number, text.to_owned()),
        };
        let Some((call, result)) = text.rsplit_once(" = ") else {
            continue;
        };
        let Some((name, args)) = call.trim_end().split_once('(') else {
            continue;
        };
        let digits = result.split(|c: char| !c.is_ascii_digit()).next();
        let Some(result) = digits.and_then(|digits| digits.parse().ok()) else {
            continue;
        };
        calls.push(Call {
            name: name.to_owned(),
            args: args.strip_suffix(')').unwrap_or(args).to_owned(),
            result,
            began,
            ended: number,
        });
    }
    calls
}

/// Runs one test of this program with strace before it. `None`, with a word: there is no strace.
pub fn run_test(test: &str, variable: (&str, &Path), log: &Path) -> Option<Output> {
    let traced = "openat,write,pwrite64,pwritev,pwritev2,ftruncate,fallocate,fsync,fdatasync,syncfs,\
                  renameat,renameat2,linkat,unlinkat";
    let output = Command::new("strace")
        .args(["-f", "-y", "-xx", "-s", TEXT, "-e"])
        .arg(format!("trace={traced}"))
        .arg("-o")
        .arg(log)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(variable.0, variable.1)
        .output();
    match output {
        Ok(output) => Some(output),
        Err(e) => {
            println!("skipped: no strace: {e}");
            None
        }
    }
}

pub fn ends_with(path: &[u8], name: &str) -> bool {
    OsStr::from_bytes(path).to_string_lossy().ends_with(name)
}
