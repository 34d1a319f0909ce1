//! What this machine remembers of paths to others, so that the next transfer begins where the last one was.
//!
//! A small file for each pair of addresses, in a directory of the user's own. Nobody else reads it, since it tells whom one
//! talks to; it is written in one step; the oldest go when there are too many. What it says is a hint: it is used only if it
//! is plausible, not too old, and the handshake takes as long as then (`PathKnowledge`).

use crate::keys;
use howdah_core::{Rate, Span};
use howdah_proto::PathKnowledge;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const HEADER: &str = "howdah-path 1";
/// No file is longer, and no more of a longer one is read.
const ENTRY_BYTES: u64 = 1_024;
const ENTRIES: usize = 256;
/// Networks change.
const KEPT: Duration = Duration::from_hours(7 * 24);
/// Makes the names of files that are being written different within this process.
static WRITES: AtomicU64 = AtomicU64::new(0);
const SUFFIX: &str = "path";
const TEMPORARY: &str = "new";

/// See the module.
#[derive(Clone, Debug)]
pub struct PathMemory {
    dir: PathBuf,
}

/// One path that is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct RememberedPath {
    /// The other end.
    pub peer: IpAddr,
    /// The address of this machine that packets to it leave from.
    pub from: IpAddr,
    /// What was learnt.
    pub knowledge: PathKnowledge,
    /// How long ago.
    pub age: Duration,
}

/// `$HOWDAH_CONFIG_DIR/paths`, else `$XDG_STATE_HOME/howdah/paths`, else `$HOME/.local/state/howdah/paths`.
pub fn default_path_memory() -> Option<PathMemory> {
    state_dir().map(|dir| PathMemory::new(dir.join("paths")))
}

/// Where this user's state is: see [`default_path_memory`].
pub(crate) fn state_dir() -> Option<PathBuf> {
    state_dir_from(|name| std::env::var_os(name))
}

fn state_dir_from(var: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The XDG base directory specification says to ignore relative paths.
    let absolute = |name: &str| {
        let value = var(name).map(PathBuf::from);
        value.filter(|path| path.is_absolute())
    };
    keys::own_dir(&var)
        .or_else(|| absolute("XDG_STATE_HOME").map(|dir| dir.join("howdah")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state/howdah")))
}

impl PathMemory {
    /// Remembers in that directory, which is made when there is something to remember.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Where it is kept.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What is remembered of the path from here to there.
    pub(crate) fn recall(&self, peer: SocketAddr) -> Option<PathKnowledge> {
        let (from, peer) = (source(peer)?, peer.ip().to_canonical());
        let found = read(&self.file(from, peer), SystemTime::now())?;
        // A file may have been renamed.
        (found.from == from && found.peer == peer).then_some(found.knowledge)
    }

    /// Remembers that of the path from here to there. That it could not be is no fault of a transfer.
    pub(crate) fn remember(&self, peer: SocketAddr, knowledge: &PathKnowledge) {
        if let Some(from) = source(peer).filter(|_| knowledge.is_plausible()) {
            let _ = self.write(from, peer.ip().to_canonical(), knowledge);
        }
    }

    /// All that is remembered, the newest first.
    pub fn all(&self) -> Vec<RememberedPath> {
        let now = SystemTime::now();
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut all: Vec<RememberedPath> = entries
            .filter(|entry| has_suffix(&entry.path(), SUFFIX))
            .take(ENTRIES * 4)
            .filter_map(|entry| read(&entry.path(), now))
            .collect();
        all.sort_by_key(|path| path.age);
        all
    }

    fn file(&self, from: IpAddr, peer: IpAddr) -> PathBuf {
        let hash = blake3::hash(format!("{from} {peer}").as_bytes()).to_hex();
        self.dir.join(format!("{}.{SUFFIX}", &hash[..32]))
    }

    fn write(&self, from: IpAddr, peer: IpAddr, known: &PathKnowledge) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        let at = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut text = format!("{HEADER}\npeer {peer}\nfrom {from}\n");
        let _ = write!(
            text,
            "capacity_bps {}\nrtt_us {}\nloss_ppm {}\ndatagram_bytes {}\nat {}\n",
            known.capacity.bits_per_sec(),
            known.rtt.as_micros(),
            (known.loss * 1e6) as u64,
            known.datagram_bytes,
            at.map_or(0, |at| at.as_secs()),
        );
        let target = self.file(from, peer);
        let mine = WRITES.fetch_add(1, Ordering::Relaxed);
        let mine = format!("{}-{mine}.{TEMPORARY}", std::process::id());
        let temporary = target.with_extension(mine);
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let _ = fs::remove_file(&temporary);
        let opened = rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let done = File::from(opened)
            .write_all(text.as_bytes())
            .and_then(|()| fs::rename(&temporary, &target));
        if done.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        self.prune();
        done
    }

    /// Away with the oldest above the bound, and with what an interrupted write left behind.
    fn prune(&self) {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, PathBuf)> = entries
            .filter(|entry| {
                has_suffix(&entry.path(), SUFFIX) || has_suffix(&entry.path(), TEMPORARY)
            })
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let now = SystemTime::now();
        let surplus = files.len().saturating_sub(ENTRIES);
        for (index, (written, path)) in files.iter().enumerate() {
            let age = now.duration_since(*written).unwrap_or_default();
            let forgotten = has_suffix(path, TEMPORARY) && age > Duration::from_mins(1);
            if index < surplus || forgotten || age > KEPT {
                let _ = fs::remove_file(path);
            }
        }
    }
}

fn has_suffix(path: &Path, suffix: &str) -> bool {
    path.extension().is_some_and(|have| have == suffix)
}

/// The address that packets to it leave from: that is the network this machine is in. Nothing is sent for that.
fn source(peer: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(peer).ok()?;
    Some(socket.local_addr().ok()?.ip().to_canonical())
}

/// `None` for whatever is not as it was written here.
fn read(path: &Path, now: SystemTime) -> Option<RememberedPath> {
    // (A pipe in its place would be waited for.)
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    let own = metadata.uid() == rustix::process::geteuid().as_raw();
    if !metadata.is_file() || !own || metadata.mode() & 0o077 != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(ENTRY_BYTES).read_to_string(&mut text).ok()?;
    parse(&text, now)
}

fn parse(text: &str, now: SystemTime) -> Option<RememberedPath> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) || !text.ends_with('\n') {
        return None;
    }
    let mut next = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
    let peer = next("peer")?.parse().ok()?;
    let from = next("from")?.parse().ok()?;
    let capacity = next("capacity_bps")?.parse().ok()?;
    let rtt_us: u64 = next("rtt_us")?.parse().ok()?;
    let loss_ppm: u32 = next("loss_ppm")?.parse().ok()?;
    // Files of before the size was remembered have no such line.
    let line = lines.next()?;
    let (datagram_bytes, line) = match line.strip_prefix("datagram_bytes ") {
        Some(bytes) => (bytes.parse().ok()?, lines.next()?),
        None => (0, line),
    };
    let at = Duration::from_secs(line.strip_prefix("at ")?.parse().ok()?);
    // One that is from the future knows nothing of its age.
    let age = now.duration_since(UNIX_EPOCH.checked_add(at)?).ok()?;
    let knowledge = PathKnowledge {
        capacity: Rate::from_bits_per_sec(capacity),
        rtt: Span::from_nanos(rtt_us.checked_mul(1_000)?),
        loss: f64::from(loss_ppm) / 1e6,
        age: Span::from_secs(age.as_secs()),
        datagram_bytes,
    };
    (age <= KEPT && knowledge.is_plausible()).then_some(RememberedPath {
        peer,
        from,
        knowledge,
        age,
    })
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
