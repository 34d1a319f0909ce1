//! Files of keys, and the lines in them.
#![no_main]

use arbitrary::Arbitrary;
use howdah::keys::{AuthorizedKeys, KeyLine, KnownHosts, PublicKey};
use libfuzzer_sys::fuzz_target;
use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    host: &'a str,
    port: u16,
    raw: [u8; 32],
    file: Vec<Line<'a>>,
}

/// Lines that are nearly right get further than random ones.
#[derive(Arbitrary, Debug)]
enum Line<'a> {
    Any(&'a [u8]),
    Key {
        raw: [u8; 32],
        comment: &'a str,
    },
    Host {
        host: &'a str,
        port: u16,
        raw: [u8; 32],
    },
    Base64 {
        host: &'a str,
        text: &'a str,
    },
}

impl Line<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let text = match *self {
            Line::Any(bytes) => return out.extend_from_slice(bytes),
            Line::Key { raw, comment } => format!("{} {comment}\n", PublicKey::from_raw(raw)),
            Line::Host { host, port, raw } => {
                format!("{host}:{port} {}\n", PublicKey::from_raw(raw))
            }
            Line::Base64 { host, text } => format!("{host} howdah-ed25519 {text}\n"),
        };
        out.extend_from_slice(text.as_bytes());
    }
}

/// A file of this process, in memory where the system has such a place.
fn scratch() -> PathBuf {
    let dir = ["/dev/shm", "/tmp"]
        .into_iter()
        .find(|dir| Path::new(dir).is_dir());
    Path::new(dir.unwrap_or(".")).join(format!("howdah-fuzz-{}", std::process::id()))
}

fn line_round_trips(text: &str) {
    if let Ok(line) = text.parse::<KeyLine>() {
        assert_eq!(line.to_string().parse(), Ok(line));
    }
}

fuzz_target!(|input: Input<'_>| {
    thread_local!(static PATH: OnceCell<PathBuf> = const { OnceCell::new() });
    let path = PATH.with(|path| path.get_or_init(scratch).clone());
    let mut bytes = Vec::new();
    for line in &input.file {
        line.write(&mut bytes);
    }
    if let Ok(text) = std::str::from_utf8(&bytes) {
        text.lines().for_each(line_round_trips);
    }
    fs::write(&path, &bytes).expect("a place for a file");
    let key = PublicKey::from_raw(input.raw);
    if let Ok(keys) = AuthorizedKeys::load(&path) {
        for line in &keys {
            assert!(keys.contains(&line.key));
        }
        let _ = keys.contains(&key);
    }
    if let Ok(mut hosts) = KnownHosts::load(&path) {
        let _ = hosts.lookup(input.host, input.port, &key);
        if hosts.add(input.host, input.port, &key).is_ok() {
            // Whatever host it was: one line, and the file still reads.
            match KnownHosts::load(&path) {
                Ok(again) => {
                    let found = again.lookup(input.host, input.port, &key);
                    assert!(found.is_ok(), "{found:?}");
                }
                // A key that anybody can sign for is written but never read back.
                Err(_) => assert!(key.to_string().parse::<PublicKey>().is_err()),
            }
        }
    }
    let _ = PublicKey::from_spki_der(&bytes);
    let _ = fs::remove_file(&path);
});
