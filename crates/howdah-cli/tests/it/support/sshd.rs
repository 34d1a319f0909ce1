//! An sshd of the test's own: its keys, its settings, its port; nothing of the machine's.

use super::process::{Done, Input, Process};
use super::{HOWDAH, Host, Site};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SSHD: &str = "/usr/sbin/sshd";
/// sshd wants this empty directory for its unprivileged half; Debian's unit makes it.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// A running sshd whose users' home directory is the [`Site`]'s root, with howdah where people put it.
pub(crate) struct Sshd {
    process: Process,
    dir: PathBuf,
}

fn key(dir: &Path, name: &str) -> String {
    let done = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(dir.join(name))
        .status()
        .unwrap();
    assert!(done.success());
    fs::read_to_string(dir.join(format!("{name}.pub"))).unwrap()
}

fn user() -> String {
    let done = Command::new("id").arg("-un").output().unwrap();
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Processes of the far side of `site`, by their home directory, whose arguments contain `part`.
pub(crate) fn far_processes(site: &Site, part: &str) -> Vec<Pid> {
    let home = format!("HOME={}", site.root("").trim_end_matches('/'));
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        // It may end while it is looked at.
        let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
        let is_there = read("environ")
            .split(|&b| b == 0)
            .any(|v| v == home.as_bytes());
        let words = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
        if is_there && words.contains(part) {
            found.extend(Pid::from_raw(pid));
        }
    }
    found
}

/// Waits until the far side of `site` has none of them any more: those that have done their work end by themselves.
#[track_caller]
pub(crate) fn await_no_far_processes(site: &Site, part: &str) {
    for pid in far_processes(site, part) {
        await_end(pid, Duration::from_secs(10));
    }
}

/// Waits until a process has ended.
#[track_caller]
pub(crate) fn await_end(pid: Pid, limit: Duration) {
    let Ok(fd) = pidfd_open(pid, PidfdFlags::empty()) else {
        return;
    };
    let limit = Timespec::try_from(limit).unwrap();
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).unwrap();
    assert_eq!(ready, 1, "{pid:?} is still there");
}

impl Drop for Sshd {
    /// One that a test stopped would stay for ever.
    fn drop(&mut self) {
        self.signal_sessions(Signal::CONT);
    }
}

impl Sshd {
    /// Starts one on `ip`; `None` with a printed reason where there is none to start.
    pub(crate) fn start(site: &Site, host: Host<'_>, ip: &str) -> Option<Self> {
        for program in [SSHD, "/usr/bin/ssh", "/usr/bin/setpriv"] {
            if !Path::new(program).exists() {
                println!("skipped: no {program}; 'make setup' installs openssh-server");
                return None;
            }
        }
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all(PRIVILEGE_SEPARATION).unwrap();
        }
        let dir = site.path().join("ssh");
        fs::create_dir(&dir).unwrap();
        let port = match host {
            Host::Here => TcpListener::bind((ip, 0))
                .unwrap()
                .local_addr()
                .unwrap()
                .port(),
            Host::In(_) => 2222,
        };
        let (host_key, client_key) = (key(&dir, "host_key"), key(&dir, "client_key"));
        let file = |name: &str| dir.join(name).display().to_string();
        let write = |name: &str, text: String| fs::write(dir.join(name), text).unwrap();
        let at = format!("[{ip}]:{port}");
        write("authorized_keys", client_key);
        write("known_hosts", format!("{at} {host_key}"));
        write(
            "sshd_config",
            format!(
                "ListenAddress {at}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
                 PermitRootLogin prohibit-password\nPasswordAuthentication no\n\
                 KbdInteractiveAuthentication no\nStrictModes no\nUsePAM no\nUseDNS no\nPrintMotd no\n\
                 PermitUserRC no\nLogLevel INFO\nSetEnv HOME={} PATH={}:/usr/bin:/bin HOWDAH_DUMPABLE=1\nMaxStartups 100\n",
                file("host_key"),
                file("authorized_keys"),
                site.root("").trim_end_matches('/'),
                // Before one that this machine may have installed.
                site.root(".local/bin"),
            ),
        );
        let common = format!(
            "HostName {ip}\nPort {port}\nUser {}\nIdentityFile {}\nIdentitiesOnly yes\n\
             IdentityAgent none\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\n\
             StrictHostKeyChecking yes\nBatchMode yes\nControlMaster no\nControlPath none\n",
            user(),
            file("client_key"),
            file("known_hosts"),
        );
        write(
            "ssh_config",
            format!("Host behind\nProxyJump far\n{common}\nHost far far2\n{common}"),
        );
        let bin = site.path().join("root/.local/bin");
        fs::create_dir_all(&bin).unwrap();
        symlink(HOWDAH, bin.join("howdah")).unwrap();
        let mut command = match host {
            Host::Here => Command::new("setpriv"),
            Host::In(namespace) => namespace.command("setpriv"),
        };
        // The test may be killed before it can clean up.
        command.args(["--pdeathsig", "KILL", SSHD, "-D", "-e", "-f"]);
        command.arg(dir.join("sshd_config"));
        let mut process = Process::start(command, Input::None, site.limit());
        process.await_line("Server listening on", Duration::from_secs(20));
        let sshd = Self { process, dir };
        sshd.lets_us_in(host).then_some(sshd)
    }

    /// Whether somebody who is not root can log in: the account may run no commands, and only root can see whether it is
    /// locked. If not, that is printed.
    fn lets_us_in(&self, host: Host<'_>) -> bool {
        if rustix::process::geteuid().is_root() || matches!(host, Host::In(_)) {
            return true;
        }
        let done = Command::new("/usr/bin/ssh")
            .arg("-F")
            .arg(self.dir.join("ssh_config"))
            .args(["far", "exit 0"])
            .output()
            .unwrap();
        if !done.status.success() {
            let why = String::from_utf8_lossy(&done.stderr);
            println!(
                "skipped: {} cannot log in at an sshd of its own: {why}",
                user()
            );
        }
        done.status.success()
    }

    /// What `--ssh` is told.
    pub(crate) fn ssh(&self) -> String {
        format!("ssh -F {}", self.dir.join("ssh_config").display())
    }

    /// A file of the settings.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Starts `howdah cp ARGS` as somebody who has no key of howdah.
    pub(crate) fn start_copy(
        &self,
        site: &Site,
        host: Host<'_>,
        args: &[&str],
        input: Input,
    ) -> Process {
        let ssh = self.ssh();
        let args = [&["cp", "--json", "--ssh", &ssh], args].concat();
        site.start(host, "nobody", &args, input)
    }

    pub(crate) fn copy(&self, site: &Site, args: &[&str]) -> Done {
        self.start_copy(site, Host::Here, args, Input::None)
            .finish()
    }

    /// How many lines of its log have `part` so far.
    pub(crate) fn lines_so_far(&mut self, part: &str) -> usize {
        self.process.lines_so_far(part)
    }

    /// Signals the processes of its connections; how many there are.
    pub(crate) fn signal_sessions(&self, signal: Signal) -> usize {
        let pid = self.process.pid().as_raw_nonzero();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace();
        let pids = children.filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        // One may just have ended.
        pids.filter(|&pid| kill_process(pid, signal).is_ok())
            .count()
    }

    /// Waits for a line of its log.
    #[track_caller]
    pub(crate) fn await_line(&mut self, part: &str) -> String {
        self.process.await_line(part, Duration::from_secs(20))
    }
}
