//! What code that has taken over a server would try. Only builds with assertions have it, and only tests ask for it:
//! `HOWDAH_TEST_INSIDE=1` makes a server try all of it once it serves, and say how it went.

use crate::ui;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;

pub(in crate::commands) fn try_all() {
    if std::env::var_os("HOWDAH_TEST_INSIDE").is_none_or(|value| value != "1") {
        return;
    }
    // As one of its own threads: the first one is not special.
    let thread = std::thread::spawn(|| {
        let parent = nix::unistd::getppid();
        let tell = |what: &str, done: bool| {
            let how = if done { "done" } else { "refused" };
            ui::say(&format!("inside: {what}: {how}"));
        };
        let home = std::env::var_os("HOWDAH_TEST_OUTSIDE").unwrap_or_default();
        let outside = Path::new(&home);
        tell("read /etc/passwd", fs::read("/etc/passwd").is_ok());
        tell("list /", fs::read_dir("/").is_ok());
        tell(
            "write elsewhere",
            fs::write(outside.join("new"), "x").is_ok(),
        );
        tell(
            "replace elsewhere",
            File::create(outside.join("there")).is_ok(),
        );
        tell(
            "remove elsewhere",
            fs::remove_file(outside.join("gone")).is_ok(),
        );
        let port = outside.join("port");
        let port = fs::read_to_string(&port)
            .ok()
            .or_else(|| std::env::var("HOWDAH_TEST_PORT").ok());
        let port = port
            .and_then(|port| port.trim().parse::<u16>().ok())
            .unwrap_or(1);
        tell("connect", TcpStream::connect(("127.0.0.1", port)).is_ok());
        tell("listen", TcpListener::bind("127.0.0.1:0").is_ok());
        tell("send to others", UdpSocket::bind("127.0.0.1:0").is_ok());
        let socket =
            UnixDatagram::unbound().and_then(|socket| socket.connect(outside.join("socket")));
        tell("speak to a daemon", socket.is_ok());
        tell("run a program", Command::new("/bin/true").status().is_ok());
        tell(
            "trace",
            nix::sys::ptrace::seize(parent, nix::sys::ptrace::Options::empty()).is_ok(),
        );
        tell(
            "look into a process",
            File::open(format!("/proc/{parent}/mem")).is_ok(),
        );
        let parent = rustix::process::Pid::from_raw(parent.as_raw());
        let signal = parent.map(rustix::process::test_kill_process);
        tell(
            "signal a process",
            signal.is_some_and(|result| result.is_ok()),
        );
        // What it is for goes on.
        tell("start a thread", std::thread::spawn(|| ()).join().is_ok());
    });
    let _ = thread.join();
    ui::say("inside: that was all");
}

/// The same for the thread that hears the network, which is kept from what the others may do.
pub(super) fn try_opening() {
    if std::env::var_os("HOWDAH_TEST_INSIDE").is_none_or(|value| value != "1") {
        return;
    }
    let ours = std::env::var_os("HOWDAH_TEST_OURS").unwrap_or_default();
    let ours = Path::new(&ours);
    let tell = |who: &str| {
        let tell = |what: &str, done: bool| {
            let how = if done { "done" } else { "refused" };
            ui::say(&format!("inside: {who}: {what}: {how}"));
        };
        tell("read a file of the root", fs::read(ours).is_ok());
        tell("look at a file of the root", fs::metadata(ours).is_ok());
        tell("remove a file of the root", fs::remove_file(ours).is_ok());
        let socket = UnixDatagram::unbound();
        tell("make a socket", socket.is_ok());
    };
    tell("the network's thread");
    // A thread that it starts is kept from as much.
    std::thread::scope(|scope| scope.spawn(|| tell("its own thread")).join().is_ok());
}
