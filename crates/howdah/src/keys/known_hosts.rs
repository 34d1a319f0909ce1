//! The servers that a client has met, and their keys.

use super::authorized::each_line;
use super::files::{self, Exposure, io_error};
use super::public::split_word;
use super::{KeyError, KeyLine, NewHost, ParseKeyError, PublicKey, Trust};
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A file of lines `HOST:PORT howdah-ed25519 BASE64`, IPv6 addresses in brackets.
///
/// A host may have several lines while it changes its key. Blank lines and lines that start with
/// `#` are skipped. Any other line is an error for the host
/// that it begins with, and [passed over](Self::passed_over) for all others.
///
/// The default knows nobody and has no file.
#[derive(Clone, Debug, Default)]
pub struct KnownHosts {
    path: PathBuf,
    entries: Vec<Entry>,
    passed_over: Vec<PassedOver>,
    /// Number of lines in the file, comments too.
    lines: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    line: usize,
    host: String,
    key: PublicKey,
}

/// A line that makes no sense.
#[derive(Clone, Debug)]
struct PassedOver {
    line: usize,
    /// Its first word in lower case, without brackets.
    host: String,
    reason: ParseKeyError,
}

impl PassedOver {
    /// Whether it may have been meant for that host: a new key must not take the place of one that is only misspelt.
    fn may_be(&self, host_and_port: &str) -> bool {
        let host = host_and_port.replace(['[', ']'], "");
        let name = host.rsplit_once(':').map_or(&*host, |(name, _)| name);
        self.host == host
            || self.host == name
            || self
                .host
                .rsplit_once(':')
                .is_some_and(|(left, port)| left == name && port.parse::<u16>().is_err())
    }
}

/// What is known about a host's key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lookup {
    /// The key is on record.
    Match,
    /// Another key is on record.
    Mismatch {
        /// The first key on record.
        expected: PublicKey,
        /// Its line number, from 1.
        line: usize,
    },
    /// Nothing is on record.
    Unknown,
}

impl KnownHosts {
    /// Reads the file; an absent file is an empty one, which [`KnownHosts::add`] will make.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let bytes = match files::read(path, MAX_FILE, Exposure::Readable) {
            Err(error) if error.is_not_found() => Vec::new(),
            other => other?,
        };
        let mut known = Self {
            path: path.to_owned(),
            lines: bytes.split_inclusive(|&b| b == b'\n').count(),
            ..Self::default()
        };
        for (line, text) in each_line(&bytes) {
            let read = str::from_utf8(text).map_err(|_| ParseKeyError::Utf8);
            match read.and_then(parse_entry) {
                Ok((host, key)) => known.entries.push(Entry { line, host, key }),
                Err(reason) => {
                    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
                    let host = split_word(&text).0.replace(['[', ']'], "");
                    known.passed_over.push(PassedOver { line, host, reason });
                }
            }
        }
        Ok(known)
    }

    /// What is wrong with lines that make no sense, which hold for no host.
    pub fn passed_over(&self) -> impl Iterator<Item = KeyError> {
        self.passed_over.iter().map(|passed| self.malformed(passed))
    }

    fn malformed(&self, passed: &PassedOver) -> KeyError {
        KeyError::MalformedLine {
            path: self.path.clone(),
            line: passed.line,
            reason: passed.reason,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known about `key` at `host` (a name or an address without brackets) and `port`.
    pub fn lookup(&self, host: &str, port: u16, key: &PublicKey) -> Result<Lookup, KeyError> {
        let host = host_and_port(host, port)?;
        if let Some(passed) = self.passed_over.iter().find(|line| line.may_be(&host)) {
            return Err(self.malformed(passed));
        }
        let mut on_record = self
            .entries
            .iter()
            .filter(|entry| entry.host == host)
            .peekable();
        let Some(&first) = on_record.peek() else {
            return Ok(Lookup::Unknown);
        };
        Ok(if on_record.any(|entry| entry.key == *key) {
            Lookup::Match
        } else {
            Lookup::Mismatch {
                expected: first.key,
                line: first.line,
            }
        })
    }

    /// All keys of a host, at whatever port.
    pub fn keys_of(&self, host: &str) -> impl Iterator<Item = PublicKey> {
        let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
        let named = move |entry: &&Entry| {
            let name = entry.host.rsplit_once(':').map(|(name, _)| name);
            name.is_some_and(|name| name.trim_matches(['[', ']']) == host)
        };
        self.entries.iter().filter(named).map(|entry| entry.key)
    }

    /// The key that a host showed last, if any is on record.
    pub(crate) fn expected(&self, host: &str, port: u16) -> Option<PublicKey> {
        let host = host_and_port(host, port).ok()?;
        let entry = self.entries.iter().rfind(|entry| entry.host == host);
        entry.map(|entry| entry.key)
    }

    /// Puts a key on record: one line at the end of the file, synced. Without a file it is known to this list only.
    ///
    /// Other processes may do the same at the same time.
    pub fn add(&mut self, host: &str, port: u16, key: &PublicKey) -> Result<(), KeyError> {
        let host = host_and_port(host, port)?;
        if self.path.as_os_str().is_empty() {
            let (line, key) = (0, *key);
            self.entries.push(Entry { line, host, key });
            return Ok(());
        }
        files::create_parent(&self.path)?;
        let write_error = || io_error("write", &self.path);
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)
            .map_err(write_error())?;
        match file.lock() {
            // Disks of many hosts may have none (Lustre unless it is mounted with them, NFS without its daemon).
            Err(e) if has_no_locks(&e) => {}
            locked => locked.map_err(write_error())?,
        }
        files::check(
            &self.path,
            &file.metadata().map_err(write_error())?,
            Exposure::Readable,
        )?;
        // Somebody may have met this host since we looked; a second key is never added to a first.
        let now = Self::load(&self.path)?;
        let met: Vec<_> = now.entries.iter().filter(|e| e.host == host).collect();
        if met.iter().any(|e| e.key == *key) {
            *self = now;
            return Ok(());
        }
        if let Some(first) = met.first() {
            return Err(KeyError::HostKeyChanged {
                host,
                path: self.path.clone(),
                line: first.line,
                expected: first.key.fingerprint(),
                got: key.fingerprint(),
            });
        }
        let mut text = format!("{host} {key}\n");
        if file.seek(SeekFrom::End(-1)).is_ok() {
            let mut last = [0];
            file.read_exact(&mut last).map_err(write_error())?;
            if last != *b"\n" {
                text.insert(0, '\n');
            }
        }
        // One write: whoever reads meanwhile sees all of the line or nothing of it.
        file.write_all(text.as_bytes()).map_err(write_error())?;
        file.sync_all().map_err(write_error())?;
        // It may be a new file.
        files::sync_parent(&self.path)?;
        self.lines += 1;
        self.entries.push(Entry {
            line: self.lines,
            host,
            key: *key,
        });
        Ok(())
    }

    /// Decides whether to go on with a server that has proved to hold `key`; a new key that
    /// `trust` accepts is put on record.
    ///
    /// Call it after the handshake, not inside it: before, the key is only claimed, and asking a
    /// person takes longer than a handshake may.
    pub fn verify(
        &mut self,
        host: &str,
        port: u16,
        key: &PublicKey,
        trust: &Trust,
    ) -> Result<(), KeyError> {
        if let Trust::Exactly(expected) = trust {
            return if expected == key {
                Ok(())
            } else {
                Err(KeyError::AnotherKey {
                    host: host.to_owned(),
                })
            };
        }
        match self.lookup(host, port, key)? {
            Lookup::Match => Ok(()),
            Lookup::Mismatch { expected, line } => Err(KeyError::HostKeyChanged {
                host: host_and_port(host, port)?,
                path: self.path.clone(),
                line,
                expected: expected.fingerprint(),
                got: key.fingerprint(),
            }),
            Lookup::Unknown => {
                let new = NewHost {
                    host: host_and_port(host, port)?,
                    key: *key,
                };
                if trust.accepts(&new) {
                    self.add(host, port, key)
                } else {
                    Err(KeyError::HostKeyUnknown {
                        host: new.host,
                        fingerprint: key.fingerprint(),
                    })
                }
            }
        }
    }
}

fn has_no_locks(error: &std::io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK | Errno::INVAL)
    )
}

fn parse_entry(text: &str) -> Result<(String, PublicKey), ParseKeyError> {
    let (host, key) = split_word(text);
    let (name, port) = host.rsplit_once(':').ok_or(ParseKeyError::Host)?;
    let port: u16 = port.parse().map_err(|_| ParseKeyError::Host)?;
    let name = match name.strip_prefix('[') {
        Some(name) => name.strip_suffix(']').ok_or(ParseKeyError::Host)?,
        None => name,
    };
    let canonical = host_and_port(name, port).map_err(|_| ParseKeyError::Host)?;
    if !canonical.eq_ignore_ascii_case(host) {
        return Err(ParseKeyError::Host);
    }
    Ok((canonical, key.parse::<KeyLine>()?.key))
}

/// `host:port` in lower case, brackets around IPv6. Nothing that could begin a comment, another
/// word or another line passes.
fn host_and_port(host: &str, port: u16) -> Result<String, KeyError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    if host.is_empty() || host.len() > 255 || !host.chars().all(plain) {
        return Err(KeyError::InvalidHost {
            host: host.to_owned(),
        });
    }
    let host = host.to_ascii_lowercase();
    Ok(if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Identity;
    use proptest::prelude::*;
    use std::fs;
    use std::sync::Arc;

    fn key() -> PublicKey {
        *Identity::generate().unwrap().public_key()
    }

    #[test]
    fn remembers_each_host_and_port_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new/known_hosts");
        let (a, b) = (key(), key());
        let mut hosts = KnownHosts::load(&path).unwrap();
        assert_eq!(hosts.lookup("site", 1, &a).unwrap(), Lookup::Unknown);
        hosts.add("Site", 1, &a).unwrap();
        hosts.add("fe80::1%eth0", 1, &b).unwrap();
        for hosts in [&hosts, &KnownHosts::load(&path).unwrap()] {
            assert_eq!(hosts.lookup("site", 1, &a).unwrap(), Lookup::Match);
            assert_eq!(hosts.lookup("site", 2, &a).unwrap(), Lookup::Unknown);
            assert_eq!(hosts.lookup("FE80::1%eth0", 1, &b).unwrap(), Lookup::Match);
            let mismatch = Lookup::Mismatch {
                expected: a,
                line: 1,
            };
            assert_eq!(hosts.lookup("site", 1, &b).unwrap(), mismatch);
        }
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("site:1 {a}\n[fe80::1%eth0]:1 {b}\n"));
    }

    #[test]
    fn a_missing_last_newline_does_not_join_two_lines() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        let (a, b) = (key(), key());
        fs::write(&path, format!("# mine\nsite:1 {a}")).unwrap();
        let mut hosts = KnownHosts::load(&path).unwrap();
        hosts.add("other", 2, &b).unwrap();
        let mismatch = Lookup::Mismatch {
            expected: b,
            line: 3,
        };
        assert_eq!(hosts.lookup("other", 2, &a).unwrap(), mismatch);
        let hosts = KnownHosts::load(&path).unwrap();
        assert_eq!(hosts.lookup("site", 1, &a).unwrap(), Lookup::Match);
        assert_eq!(hosts.lookup("other", 2, &b).unwrap(), Lookup::Match);
    }

    #[test]
    fn no_host_name_can_smuggle_in_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        let mut hosts = KnownHosts::load(&path).unwrap();
        for bad in [
            "",
            "a\nb:1 howdah-ed25519 x",
            "a b",
            "#a",
            "a\r",
            "a\0",
            "ä",
            "[::1]",
            "a/b",
        ] {
            let error = hosts.add(bad, 1, &key()).unwrap_err();
            assert!(matches!(error, KeyError::InvalidHost { .. }), "{bad:?}");
            assert!(!error.to_string().contains('\n'));
        }
        assert!(!path.exists());
    }

    #[test]
    fn h13_malformed_lines_are_named_and_hold_nobody_else_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        let a = key();
        for bad in [
            "site",
            "site:1",
            "site:0x1 k",
            "::1:1 k",
            "[site]:1 k",
            "[::1:1 k",
            ":1 k",
        ] {
            let bad = bad.replace(" k", &format!(" {a}"));
            fs::write(&path, format!("\n{bad}\nother:1 {a}\n")).unwrap();
            let mut hosts = KnownHosts::load(&path).unwrap();
            let error = hosts.passed_over().next().unwrap().to_string();
            assert!(error.contains("known_hosts:2: "), "{bad}: {error}");
            assert_eq!(hosts.lookup("other", 1, &a).unwrap(), Lookup::Match);
            hosts.add("third", 1, &a).unwrap();
            let hosts = KnownHosts::load(&path).unwrap();
            assert_eq!(hosts.lookup("third", 1, &a).unwrap(), Lookup::Match);
        }
    }

    #[test]
    fn h13_a_misspelt_line_is_no_first_use_of_its_host() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        let weak = PublicKey::from_raw([0; 32]);
        for (bad, host) in [
            (format!("Site:1 {weak}"), "site"),
            ("site:1 howdah-ed25519 AAAA".into(), "site"),
            (format!("site:0x1 {}", key()), "site"),
            ("site".into(), "site"),
            ("[fe80::1]:1 howdah-ed25519".into(), "fe80::1"),
            ("site:1 \u{7}".into(), "site"),
        ] {
            fs::write(&path, format!("{bad}\n")).unwrap();
            let mut hosts = KnownHosts::load(&path).unwrap();
            let error = hosts.verify(host, 1, &key(), &Trust::AcceptNew);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("known_hosts:1: "), "{bad}: {error}");
            hosts.verify("other", 1, &key(), &Trust::AcceptNew).unwrap();
        }
    }

    #[test]
    fn trust_decides_about_new_hosts_and_never_about_changed_ones() {
        let dir = tempfile::tempdir().unwrap();
        let mut hosts = KnownHosts::load(&dir.path().join("known_hosts")).unwrap();
        let (a, b) = (key(), key());
        let error = hosts.verify("site", 1, &a, &Trust::Strict).unwrap_err();
        assert!(matches!(error, KeyError::HostKeyUnknown { .. }));
        let no = Trust::Ask(Arc::new(|_: &NewHost| false));
        hosts.verify("site", 1, &a, &no).unwrap_err();
        let yes = Trust::Ask(Arc::new(move |new: &NewHost| {
            new.host == "site:1" && new.key == a
        }));
        hosts.verify("site", 1, &a, &yes).unwrap();
        hosts.verify("site", 1, &a, &Trust::Strict).unwrap();
        let error = hosts.verify("site", 1, &b, &Trust::AcceptNew).unwrap_err();
        assert!(
            matches!(error, KeyError::HostKeyChanged { line: 1, .. }),
            "{error}"
        );
        hosts.verify("other", 1, &b, &Trust::AcceptNew).unwrap();
    }

    #[test]
    fn writers_at_the_same_time_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("known_hosts");
        std::thread::scope(|scope| {
            for port in 1..=16 {
                let path = &path;
                scope.spawn(move || {
                    let mut hosts = KnownHosts::load(path).unwrap();
                    hosts.add("h", port, &key()).unwrap();
                });
            }
        });
        assert_eq!(KnownHosts::load(&path).unwrap().entries.len(), 16);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(host in "[a-zA-Z0-9._:%-]{1,40}", port: u16, raw: [u8; 32]) {
            let key = PublicKey::from_raw(raw);
            prop_assume!(key.to_string().parse::<PublicKey>().is_ok());
            let line = format!("{} {key}", host_and_port(&host, port).unwrap());
            let (name, read) = parse_entry(&line).unwrap();
            prop_assert_eq!(name, host_and_port(&host, port).unwrap());
            prop_assert_eq!(read, key);
        }

        #[test]
        fn hostile_bytes_never_panic(bytes: Vec<u8>) {
            for (_, text) in each_line(&bytes) {
                let _ = str::from_utf8(text).map(parse_entry);
            }
        }
    }
}
