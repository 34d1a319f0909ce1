//! Files of keys, and the lines in them.

use arbitrary::Arbitrary;
use howdah::keys::{AuthorizedKeys, KeyLine, KnownHosts, PublicKey, read_public_lines};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// In the place of a key: base64 is hard to find, keys are easy.
const KEY: &[u8] = b"@K";

/// A directory of this thread's, in memory where the system has such a place.
pub(crate) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    dir.expect("a place for files")
}

fn key(number: u8) -> PublicKey {
    PublicKey::from_raw([number; 32])
}

/// `@K` and a byte behind it stand for a key.
fn with_keys(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(KEY.len()).position(|part| part == KEY) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at + KEY.len()..];
        let number = rest.first().copied().unwrap_or(b'1');
        rest = rest.get(1..).unwrap_or_default();
        out.extend_from_slice(key(number).to_string().as_bytes());
    }
    out.extend_from_slice(rest);
    out
}

fn written(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("keys");
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&path).expect("a place for a file");
    file.write_all(bytes).expect("room for a file");
    path
}

/// Lines of keys, and keys in DER.
pub fn keys(bytes: &[u8]) {
    if let Some(key) = PublicKey::from_spki_der(bytes) {
        assert_eq!(key.to_string().parse().as_ref(), Ok(&key));
    }
    if let Ok(text) = String::from_utf8(with_keys(bytes)) {
        for line in text.lines() {
            if let Ok(line) = line.parse::<KeyLine>() {
                assert_eq!(line.to_string().parse(), Ok(line));
            }
        }
    }
}

pub(crate) fn keys_samples() -> Vec<Vec<u8>> {
    vec![b"@Kb anna".to_vec(), b"@Kc".to_vec()]
}

/// A list of who may come in, with options: whoever gets in stands there, alone on his line, and under no other options.
pub fn authorized_keys(bytes: &[u8]) {
    let bytes = with_keys(bytes);
    let dir = scratch();
    let path = written(&dir, &bytes);
    let public = read_public_lines(&path);
    let Ok(keys) = AuthorizedKeys::load(&path) else {
        return;
    };
    // A list that lets in is read by whoever only looks, too.
    let public = public.expect("a list of authorised keys has public lines");
    assert_eq!(public.len(), keys.len());
    // Comments may be anything.
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text
        .split('\n')
        .map(|line| line.trim_matches(['\r', ' ', '\t']))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), keys.len());
    for (line, entry) in lines.into_iter().zip(&keys) {
        assert!(line.contains(&entry.key.to_string()));
        assert_eq!(keys.find(&entry.key), Some(entry), "it stands there twice");
        // What is not written is not granted or asked for; what is written is.
        let (front, _) = line.split_once("howdah-ed25519").expect("a key");
        let options = &entry.options;
        assert!(!options.read_only || !options.write_only);
        for (is_set, name) in [
            (options.read_only, "read-only"),
            (options.write_only, "write-only"),
            (options.no_delete, "no-delete"),
            (options.fixed_rate, "fixed-rate"),
            (options.root.is_some(), "root="),
            (options.max_rate.is_some(), "max-rate="),
            (options.max_sessions.is_some(), "max-sessions="),
            (options.max_bytes.is_some(), "max-bytes="),
            (options.max_files.is_some(), "max-files="),
            (options.expires.is_some(), "expires="),
            (options.from.is_some(), "from="),
        ] {
            assert!(!is_set || front.contains(name), "{name}: {front}");
            // Without a value in which the word may stand.
            assert!(
                is_set || front.contains('"') || !front.contains(name),
                "{name}: {front}"
            );
        }
        if let Some(root) = &options.root {
            assert!(root.is_absolute());
        }
        assert!(options.max_sessions != Some(0));
    }
    assert!(!keys.contains(&key(0xee)) || text.contains(&key(0xee).to_string()));
}

pub(crate) fn authorized_keys_samples() -> Vec<Vec<u8>> {
    let lines: [&str; 6] = [
        "# who\n\n@Ka anna\nread-only @Kb bob\n",
        "root=\"/data/a \\\"b\\\"\",write-only,no-delete,max-rate=\"2gbit\" @Kc x",
        "max-sessions=\"4\",max-bytes=\"2TB\",max-files=\"100\",expires=\"2027-01-31\" @Kd",
        "from=\"192.0.2.0/24,2001:db8::/32\",fixed-rate @Ke\r\n@Kf\r\n",
        "metadata=\"times\",no-list @Kg",
        "read-only,write-only @Kh\n@Ki\n@Ki\n",
    ];
    lines.map(|line| line.as_bytes().to_vec()).to_vec()
}

#[derive(Arbitrary, Debug)]
struct Met<'a> {
    host: &'a str,
    port: u16,
    number: u8,
}

/// The servers that were met: a line that makes no sense holds nobody up, and none stands in for another host's.
pub fn known_hosts(bytes: &[u8]) {
    let (head, file) = bytes.split_at(bytes.len().min(1));
    let (host, file) = match file.iter().position(|&b| b == 0) {
        Some(at) => (&file[..at], &file[at + 1..]),
        None => (&b"host"[..], file),
    };
    let Ok(host) = str::from_utf8(host) else {
        return;
    };
    let met = Met {
        host,
        port: if head.first().is_some_and(|b| b & 1 != 0) {
            4433
        } else {
            22
        },
        number: head.first().copied().unwrap_or_default(),
    };
    let file = with_keys(file);
    let dir = scratch();
    let path = written(&dir, &file);
    let Ok(mut hosts) = KnownHosts::load(&path) else {
        return;
    };
    let passed_over = hosts.passed_over().count();
    let key = key(met.number);
    let before = hosts.lookup(met.host, met.port, &key);
    if hosts.add(met.host, met.port, &key).is_err() {
        return;
    }
    let again = KnownHosts::load(&path).expect("it was read before");
    let grown = fs::read(&path).expect("it is there");
    assert!(grown.starts_with(&file), "something was taken away");
    assert!(!before.is_ok_and(|found| matches!(found, howdah::keys::Lookup::Mismatch { .. })));
    if key.to_string().parse::<PublicKey>().is_ok() {
        assert_eq!(
            again.passed_over().count(),
            passed_over,
            "a line that makes no sense"
        );
        // Whatever host it was: one line, and it is found again.
        let found = again.lookup(met.host, met.port, &key);
        assert!(found.is_ok() || passed_over > 0, "{found:?}");
        // Nobody else is met by it.
        if passed_over == 0 && !file.windows(5).any(|part| part == b"other") {
            let other = again.lookup("other.example", 7, &key);
            assert!(
                met.host.eq_ignore_ascii_case("other.example") && met.port == 7
                    || matches!(other, Ok(howdah::keys::Lookup::Unknown)),
                "{other:?}"
            );
        }
    }
}

pub(crate) fn known_hosts_samples() -> Vec<Vec<u8>> {
    let files: [&str; 5] = [
        "\u{1}host\0host:4433 @Ka\n# x\n[2001:db8::1]:22 @Kb\n",
        "ahost\0",
        "bhost\0host @Kb\nhost:22 howdah-ed25519 AAAA\n",
        "cHost.Example\0host.example:4433 @Kc\nhost.example:4433 @Kd",
        "d2001:db8::1\0nonsense",
    ];
    files.map(|file| file.as_bytes().to_vec()).to_vec()
}
