//! What the tests of whole transfers share: processes with a time limit, keys, places, a relay.
//!
//! Every wait in here ends at the latest at the limit of its [`Site`]; then the test fails, and
//! dropping what it started kills it. So no test can hang.

#![allow(dead_code, reason = "each of the test programs uses a part of it only")]

pub(crate) mod place;
pub(crate) mod plans;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod relay;
pub(crate) mod schema;
#[cfg(target_os = "linux")]
pub(crate) mod service;
pub(crate) mod sshd;
pub(crate) mod testbed;
#[cfg(target_os = "linux")]
pub(crate) mod trees;
pub(crate) mod ways;

use howdah_wan::Namespace;
use process::{Done, Input, Process, Server};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

pub(crate) const HOWDAH: &str = env!("CARGO_BIN_EXE_howdah");
const PART: &str = ".howdah-part";

/// Where a process runs.
#[derive(Clone, Copy)]
pub(crate) enum Host<'a> {
    /// In the network of the test itself.
    Here,
    /// In a network of its own.
    In(&'a Namespace),
}

/// A server's and a client's machine: keys, the server's root, the client's files.
pub(crate) struct Site {
    dir: tempfile::TempDir,
    /// The user's directory for sockets. Their paths have 107 bytes at the most, and the build may be anywhere.
    run: tempfile::TempDir,
    limit: Instant,
}

impl Site {
    /// All that the test does must be done in `seconds`.
    pub(crate) fn new(seconds: u64) -> Self {
        let site = Self {
            // A real disk, as far as the build has one.
            dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(),
            run: tempfile::tempdir().unwrap(),
            limit: Instant::now() + Duration::from_secs(seconds),
        };
        for name in ["root", "files"] {
            fs::create_dir(site.dir.path().join(name)).unwrap();
        }
        site.make_key("server");
        let line = site.make_key("client");
        write_own(&site.config("server").join("authorized_keys"), &line);
        // What trees keep is tested with servers, too.
        site.grant("metadata=\"all\"");
        site
    }

    /// Makes a key; gives back its public line.
    pub(crate) fn make_key(&self, who: &str) -> String {
        let done = self.run(Host::Here, who, &["key", "new"], Input::None);
        assert_eq!(done.code, Some(0), "{}", done.err);
        String::from_utf8(done.out).unwrap()
    }

    /// Puts `options` in front of the client's key, instead of those that are there.
    pub(crate) fn grant(&self, options: &str) {
        let list = self.config("server").join("authorized_keys");
        let text = fs::read_to_string(&list).unwrap();
        let at = text.find("howdah-ed25519").unwrap();
        let blank = if options.is_empty() { "" } else { " " };
        fs::write(&list, format!("{options}{blank}{}", &text[at..])).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `$XDG_RUNTIME_DIR` of everybody here.
    pub(crate) fn run_dir(&self) -> &Path {
        self.run.path()
    }

    /// What the server serves.
    pub(crate) fn root(&self, name: &str) -> String {
        self.text("root", name)
    }

    /// The client's own files.
    pub(crate) fn file(&self, name: &str) -> String {
        self.text("files", name)
    }

    fn text(&self, dir: &str, name: &str) -> String {
        let path = self.path().join(dir).join(name);
        path.into_os_string().into_string().unwrap()
    }

    pub(crate) fn config(&self, who: &str) -> PathBuf {
        self.path().join(who)
    }

    pub(crate) fn limit(&self) -> Instant {
        self.limit
    }

    pub(crate) fn start(
        &self,
        host: Host<'_>,
        who: &str,
        args: &[impl AsRef<OsStr>],
        input: Input,
    ) -> Process {
        let command = match host {
            Host::Here => Command::new(HOWDAH),
            Host::In(namespace) => namespace.command(HOWDAH),
        };
        self.start_by(command, who, args, input)
    }

    /// [`start`](Self::start) by a command that ends in howdah's name.
    pub(crate) fn start_by(
        &self,
        mut command: Command,
        who: &str,
        args: &[impl AsRef<OsStr>],
        input: Input,
    ) -> Process {
        command
            .args(args)
            .env("HOWDAH_CONFIG_DIR", self.config(who))
            // Where `howdah ctl` finds them, and only them.
            .env("XDG_RUNTIME_DIR", self.run_dir())
            // An ssh that stays would outlive the test; those that are about it say so.
            .env("HOWDAH_SSH_KEEP", "0")
            // Most tests want to hear of a lost connection at once.
            .env("HOWDAH_RECONNECT", "0")
            // The test may be killed before it can clean up.
            .env("HOWDAH_DIE_WITH_PARENT", "1")
            // Tests of ordinary users count its descriptors.
            .env("HOWDAH_DUMPABLE", "1");
        serve_as_us(&mut command);
        Process::start(command, input, self.limit)
    }

    pub(crate) fn run(&self, host: Host<'_>, who: &str, args: &[&str], input: Input) -> Done {
        self.start(host, who, args, input).finish()
    }

    /// `howdah cp SRC DST` as the client, with the server's key taken as it comes.
    pub(crate) fn copy(&self, host: Host<'_>, source: &str, destination: &str) -> Done {
        self.copy_with(host, &[source, destination], Input::None)
    }

    pub(crate) fn copy_with(&self, host: Host<'_>, args: &[&str], input: Input) -> Done {
        self.start_copy(host, args, input).finish()
    }

    pub(crate) fn start_copy(&self, host: Host<'_>, args: &[&str], input: Input) -> Process {
        let args = [&["cp", "--json", "--accept-new"], args].concat();
        self.start(host, "client", &args, input)
    }

    /// [`start`](Self::start) under `strace` with these options.
    pub(crate) fn start_traced(&self, options: &[String], who: &str, args: &[&str]) -> Process {
        let mut command = Command::new("strace");
        command
            .args(options)
            .arg(HOWDAH)
            .args(args)
            .env("HOWDAH_CONFIG_DIR", self.config(who))
            .env("HOWDAH_RECONNECT", "0")
            .env("HOWDAH_DIE_WITH_PARENT", "1")
            // Who is not root is told nothing of its files otherwise.
            .env("HOWDAH_DUMPABLE", "1");
        serve_as_us(&mut command);
        Process::start(command, Input::None, self.limit)
    }

    /// A server of [`root`](Self::root) on the loopback address.
    pub(crate) fn serve(&self) -> Server {
        self.serve_at(Host::Here, "127.0.0.1:0", &self.root(""))
    }

    pub(crate) fn serve_at(&self, host: Host<'_>, listen: &str, root: &str) -> Server {
        let args = ["serve", "--listen", listen, "--root", root];
        // The root of all has the server's keys, too.
        let all = (root == "/").then_some("--keys-below-root");
        let args: Vec<_> = args.into_iter().chain(all).collect();
        Server::new(self.start(host, "server", &args, Input::None))
    }

    /// Fails if an unfinished file lies anywhere.
    pub(crate) fn assert_nothing_half_done(&self) {
        assert_eq!(parts(self.path()), Vec::<PathBuf>::new());
    }
}

/// Servers that tests of root start serve as root, which somebody must say.
pub(crate) fn serve_as_us(command: &mut Command) {
    if rustix::process::geteuid().is_root() {
        command.env("HOWDAH_SERVE_USER", "root");
    }
}

/// Writes a file that nobody else can change, whatever the umask says.
pub(crate) fn write_own(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// That of the test, and of all that it starts.
pub(crate) fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    u32::from_str_radix(line.unwrap().trim(), 8).unwrap()
}

/// Unfinished files in and below `dir`.
pub(crate) fn parts(dir: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(parts(&path));
        } else if path.to_string_lossy().ends_with(PART) {
            found.push(path);
        }
    }
    found
}

/// A port that is free, and that nobody is given who asks for none in particular: those come from a range above.
pub(crate) fn quiet_port() -> u16 {
    use std::net::{TcpListener, UdpSocket};
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let is_free = |port: &u16| {
        TcpListener::bind(("127.0.0.1", *port)).is_ok()
            && UdpSocket::bind(("0.0.0.0", *port)).is_ok()
    };
    // Another test program begins elsewhere.
    let first = 10_000 + u16::try_from(std::process::id() % 400).unwrap() * 50;
    let mut ports = std::iter::repeat_with(|| first + NEXT.fetch_add(1, Ordering::Relaxed));
    ports
        .by_ref()
        .take(50)
        .find(is_free)
        .expect("no port is free")
}

/// Waits until an unfinished file in `dir` or below has so much on record that a copy can go on with it. What has passed on the
/// wire says nothing of that: a receiver whose disk is slow has it sent again.
pub(crate) fn await_kept(site: &Site, dir: &str) {
    let is_kept = |part: &PathBuf| {
        let journal = part.to_string_lossy().replace("-part", "-journal");
        fs::metadata(journal).is_ok_and(|journal| journal.len() > 400)
    };
    while !parts(dir).iter().any(is_kept) {
        assert!(Instant::now() < site.limit(), "nothing is kept");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until no unfinished file lies directly in `dir`.
pub(crate) fn await_no_parts(dir: &str, limit: Duration) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify;
    let end = Instant::now() + limit;
    // A read that finds nothing, because the time is over, must come back.
    let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
    let changes = inotify::init(flags).unwrap();
    inotify::add_watch(&changes, dir, inotify::WatchFlags::DELETE).unwrap();
    // Looked at after the watch began: what goes away in between is not missed.
    while !parts(dir).is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "{:?} stay behind", parts(dir));
        let left = Timespec::try_from(left).unwrap();
        poll(&mut [PollFd::new(&changes, PollFlags::IN)], Some(&left)).unwrap();
        let mut events = [std::mem::MaybeUninit::uninit(); 4096];
        // Only to empty it; what was removed shows in the directory.
        let _ = rustix::io::read(&changes, &mut events);
    }
}
