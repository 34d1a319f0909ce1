//! What a person sees who sits at a terminal: the question about a new server, and progress.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::content;
use crate::support::{HOWDAH, Site};
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

const AUTH: i32 = 7;
const CANCELLED: i32 = 12;
const PROMPT: &str = "[yes/no] ";

/// A pseudo terminal with a command on it; script(1) makes it.
struct Terminal {
    child: Child,
    keys: ChildStdin,
    out: Receiver<Vec<u8>>,
    seen: String,
    limit: Instant,
}

impl Terminal {
    /// `None` with a printed reason where there is no program that makes one. `words`: of a shell.
    fn start(site: &Site, columns: u32, words: &str) -> Option<Self> {
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--flush", "--command"])
            .arg(format!("stty cols {columns} rows 24; {words}"))
            .arg("/dev/null")
            .env("HOWDAH_CONFIG_DIR", site.config("client"))
            .env("XDG_RUNTIME_DIR", site.run_dir())
            .env("HOWDAH_RECONNECT", "0")
            .env("TERM", "xterm")
            .env("SHELL", "/bin/sh")
            .env_remove("NO_COLOR")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        support::process::hear_signals();
        let Ok(mut child) = command.spawn() else {
            println!("skipped: no script(1), which makes a terminal (Debian: bsdutils)");
            return None;
        };
        let keys = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let (tell, out) = channel();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(len @ 1..) = screen.read(&mut bytes) {
                if tell.send(bytes[..len].to_vec()).is_err() {
                    break;
                }
            }
        });
        let (seen, limit) = (String::new(), site.limit());
        Some(Self {
            child,
            keys,
            out,
            seen,
            limit,
        })
    }

    /// Takes in what comes next; `false`: nothing comes any more.
    fn look(&mut self) -> bool {
        let left = self.limit.saturating_duration_since(Instant::now());
        match self.out.recv_timeout(left) {
            Ok(bytes) => {
                self.seen.push_str(&String::from_utf8_lossy(&bytes));
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) => panic!("it hangs:\n{}", self.seen),
        }
    }

    /// Waits until that has been shown so often.
    fn await_text(&mut self, part: &str, times: usize) {
        while self.seen.matches(part).count() < times {
            assert!(self.look(), "no {part:?}:\n{}", self.seen);
        }
    }

    fn type_in(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Its exit code, and all that was shown.
    fn end(mut self) -> (Option<i32>, String) {
        while self.look() {}
        let code = self.child.wait().unwrap().code();
        (code, std::mem::take(&mut self.seen))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn o3_who_is_asked_about_a_new_server_answers_in_peace() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.root("f"), content("asked", 1000)).unwrap();
    let (url, here) = (server.url("f"), site.file("f"));
    let known = site.config("client").join("known_hosts");
    for command in [format!("cp {url} {here}"), format!("ls {url}")] {
        for (keys, questions, code) in [
            ("no\n", 1, AUTH),
            ("\u{4}", 1, AUTH),
            ("what\n", 3, AUTH),
            ("\u{3}", 1, CANCELLED),
        ] {
            let words = format!("exec {HOWDAH} {command}");
            let Some(mut terminal) = Terminal::start(&site, 100, &words) else {
                return;
            };
            for question in 1..=questions {
                terminal.await_text(PROMPT, question);
                terminal.type_in(keys);
            }
            let (ended, shown) = terminal.end();
            assert_eq!(ended, Some(code), "{command} {keys:?}: {shown}");
            assert_eq!(shown.matches(PROMPT).count(), questions, "{shown}");
            assert!(!shown.contains('%'), "{shown}");
            let last = shown.trim_end().lines().next_back().unwrap();
            assert!(!last.contains(PROMPT.trim()) || keys != "\u{3}", "{shown}");
            assert_eq!(shown.contains("interrupted"), code == CANCELLED, "{shown}");
            assert!(!fs::exists(&here).unwrap() && !fs::exists(&known).unwrap());
        }
    }
    let words = format!("exec {HOWDAH} cp {url} {here}");
    let mut terminal = Terminal::start(&site, 100, &words).unwrap();
    terminal.await_text(PROMPT, 1);
    terminal.type_in("yes\n");
    let (code, shown) = terminal.end();
    assert_eq!(code, Some(0), "{shown}");
    // Nothing but the terminal's own echo stands behind the question.
    assert!(shown.contains(&format!("{PROMPT}yes\r\n")), "{shown}");
    assert!(fs::exists(&here).unwrap());
    let (code, shown) = Terminal::start(&site, 100, &words).unwrap().end();
    assert_eq!((code, shown.contains(PROMPT)), (Some(0), false), "{shown}");
    server.stop();
}

#[test]
fn n10_progress_is_drawn_as_wide_as_the_terminal_is_and_nowhere_else() {
    let site = Site::new(120);
    let server = site.serve();
    fs::write(site.file("f"), content("drawn", 6 << 20)).unwrap();
    let (from, to) = (site.file("f"), server.url("f"));
    let copy = |more: &str| format!("{HOWDAH} cp --accept-new --limit 50mbit {more} {from} {to}");
    let show = |columns, words: &str| {
        let (code, shown) = Terminal::start(&site, columns, words)?.end();
        assert_eq!(code, Some(0), "{words}: {shown}");
        Some(shown)
    };
    let Some(wide) = show(100, &copy("")) else {
        return;
    };
    // Each part of a picture, and the last word.
    for part in [" %", "goodput", "RTT", "f\u{1b}", "verified end to end"] {
        assert!(wide.contains(part), "{part:?}: {wide}");
    }
    let narrow = show(60, &copy("")).unwrap();
    assert!(narrow.contains(" %") && !narrow.contains("RTT"), "{narrow}");
    let plain = show(100, &format!("NO_COLOR=1 {}", copy(""))).unwrap();
    assert!(
        plain.contains(" %") && !plain.contains("\u{1b}[1m"),
        "{plain}"
    );
    assert_eq!(show(100, &copy("--quiet")).unwrap(), "");
    let told = show(100, &copy("--json 2>/dev/null")).unwrap();
    assert!(told.lines().all(|line| line.starts_with('{')), "{told}");
    let dumb = show(100, &format!("TERM=dumb {}", copy(""))).unwrap();
    assert!(
        dumb.contains("verified") && !dumb.contains('\u{1b}'),
        "{dumb}"
    );
    // In the background of a shell the terminal is somebody else's.
    let words = format!("exec bash -c 'set -m; {} & wait'", copy(""));
    let behind = show(100, &words).unwrap();
    assert!(
        behind.contains("verified") && !behind.contains('\u{1b}'),
        "{behind}"
    );
    server.stop();
}
