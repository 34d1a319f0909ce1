//! O1: a server with many idle clients, and many new ones that come at the same moment. All get in, later if need be.
//!
//! `make bench-overload` does it with a thousand of each (`HOWDAH_CROWD`). What it prints of processor and memory is its whole process's.

use crate::support;
use crate::support::idle::idle;
use howdah::{
    Cancel, CopyConfig, Error, ErrorKind, Identity, KnownHosts, Location, Log, PublicKey, Rate,
    Summary, Transport, TreeOptions, Trust, copy, copy_tree,
};
use howdah_net::usage;
use howdah_proto::KnockKey;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

const SIZE: usize = 10_000;

fn crowd() -> usize {
    let asked = std::env::var("HOWDAH_CROWD").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(60)
}

fn until(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + limit;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn o1_a_thousand_idle_and_a_thousand_new_clients_all_get_in() {
    let crowd = crowd();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let (ours, theirs) = (Identity::generate().expect("a key"), Identity::generate());
    let theirs = theirs.expect("a key");
    let shown = *theirs.public_key();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
    let server = support::server(dir.path(), &[&ours], theirs, log);
    let target = server.local_addr();
    let (stop, connected) = (Cancel::new(), AtomicUsize::new(0));
    let file = dir.path().join("file");
    std::fs::write(&file, vec![7; SIZE]).expect("a file");
    let knock = KnockKey::of(shown.spki_der());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop));
        let before = usage();
        let idling = scope.spawn(|| idle(target, (&ours, knock), (crowd, &connected), &stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let limit = Duration::from_mins(5);
            until(limit, "idle clients get in", || {
                connected.load(Ordering::Relaxed) == crowd
            });
            println!(
                "{crowd} idle clients; {:?} before, {:?} now",
                before,
                usage()
            );
            let at_once = Barrier::new(crowd);
            let waits = Mutex::new(Vec::new());
            let warnings = Arc::new(AtomicUsize::new(0));
            let failures: Vec<String> = std::thread::scope(|scope| {
                let clients: Vec<_> = (0..crowd)
                    .map(|n| {
                        let (at_once, ours, file) = (&at_once, &ours, &file);
                        let (waits, warnings) = (&waits, Arc::clone(&warnings));
                        scope.spawn(move || {
                            let mut config = CopyConfig::new(ours.clone(), KnownHosts::default());
                            config.trust = Trust::Exactly(shown);
                            config.transport = Transport::Udp;
                            // A machine with a thousand programs on it is slow.
                            config.idle_timeout = howdah_core::Span::from_secs(60);
                            config.warn = Log::new(move |line| {
                                if line.contains("is busy; trying again in") {
                                    warnings.fetch_add(1, Ordering::Relaxed);
                                }
                            });
                            let url = format!("howdah://{target}/copy{n}");
                            let to: Location = url.parse().expect("a place");
                            let from = Location::File(file.clone());
                            at_once.wait();
                            let began = Instant::now();
                            let result = copy(&from, &to, &config, &Cancel::new(), &mut |_| {});
                            waits.lock().expect("no panic").push(began.elapsed());
                            result.map_err(|e| {
                                assert_ne!(e.kind(), ErrorKind::Usage, "{e}");
                                e.to_string()
                            })
                        })
                    })
                    .collect();
                let ended = clients.into_iter().map(|c| c.join().expect("no panic"));
                ended.filter_map(Result::err).collect()
            });
            let mut waits = waits.into_inner().expect("no panic");
            waits.sort();
            println!(
                "{crowd} new clients: median {:?}, last {:?}; {} were told that the server is busy",
                waits[crowd / 2],
                waits[crowd - 1],
                warnings.load(Ordering::Relaxed)
            );
            assert_eq!(failures, Vec::<String>::new());
            for n in 0..crowd {
                let copy = std::fs::read(dir.path().join(format!("copy{n}")));
                assert_eq!(copy.expect("it is there").len(), SIZE);
            }
        }));
        stop.cancel();
        let closed = idling.join().expect("no panic");
        running.join().expect("no panic").expect("a server");
        let lines = lines.lock().expect("no panic");
        let busy: Vec<_> = lines.iter().filter(|l| l.starts_with("busy: ")).collect();
        println!("{busy:?}; idle ones that ended before the server did: {closed:?}");
        if let Err(panic) = result {
            for line in lines
                .iter()
                .filter(|line| !line.contains("connected"))
                .take(20)
            {
                println!("{line}");
            }
            std::panic::resume_unwind(panic);
        }
        // One for each minute.
        assert!(busy.len() < 10, "{busy:?}");
    });
}

fn key() -> Identity {
    Identity::generate().expect("a key")
}

/// Hands on what is said.
fn heard() -> (Log, Receiver<String>) {
    let (tell, lines) = channel();
    let tell: Mutex<Sender<String>> = Mutex::new(tell);
    let log = Log::new(move |line| {
        // Whoever has heard enough is gone.
        let _ = tell.lock().expect("no panic").send(line.to_owned());
    });
    (log, lines)
}

/// Until a line has that in it.
fn await_line(lines: &Receiver<String>, part: &str) -> String {
    let end = Instant::now() + Duration::from_mins(2);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line.contains(part) => return line,
            Ok(_) => {}
            Err(e) => panic!("no line with {part:?}: {e}"),
        }
    }
}

/// Ends what runs, also where a test fails.
struct Stops<'a>(Vec<&'a Cancel>);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        for cancel in &self.0 {
            cancel.cancel();
        }
    }
}

#[derive(Clone)]
struct Someone {
    key: Identity,
    server: (SocketAddr, PublicKey),
    warn: Log,
}

impl Someone {
    fn config(&self) -> CopyConfig {
        let mut config = CopyConfig::new(self.key.clone(), KnownHosts::default());
        config.trust = Trust::Exactly(self.server.1);
        config.transport = Transport::Udp;
        config.idle_timeout = howdah_core::Span::from_secs(60);
        config.warn = self.warn.clone();
        config
    }

    fn url(&self, name: &str) -> Location {
        let url = format!("howdah://{}/{name}", self.server.0);
        url.parse().expect("a place")
    }

    /// A directory, so slowly that it goes on until it is cancelled if `is_slow`.
    fn puts_tree(
        &self,
        from: &Path,
        name: &str,
        (is_slow, cancel): (bool, &Cancel),
    ) -> Result<Summary, Error> {
        let options = TreeOptions {
            recursive: true,
            ..TreeOptions::default()
        };
        let config = self.config();
        if is_slow {
            config
                .throttle
                .set_limit(Some(Rate::from_bits_per_sec(64_000)));
        }
        let (from, to) = ([Location::File(from.to_owned())], self.url(name));
        copy_tree(&from, &to, &options, &config, cancel, &mut |_| {})
    }
}

/// O1, H11: a key has so much under way at a time. What it asks for besides waits and is told so, and other keys notice nothing.
#[test]
fn h11_o1_a_key_that_has_all_under_way_that_it_may_waits_and_others_do_not() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let (from, root) = (dir.path().join("from"), dir.path().join("root"));
    for place in [&from, &root] {
        std::fs::create_dir(place).expect("a directory");
    }
    std::fs::write(from.join("file"), vec![7; 3_000_000]).expect("a file");
    let (anna, ben, theirs) = (key(), key(), key());
    let shown = *theirs.public_key();
    let (log, lines) = heard();
    // Two trees of a key.
    let server = support::server(&root, &[&anna, &ben], theirs, log).with_places(16, 8);
    let (target, stop) = (server.local_addr(), Cancel::new());
    let someone = |key: &Identity, warn| Someone {
        key: key.clone(),
        server: (target, shown),
        warn,
    };
    let cancels: Vec<_> = (0..3).map(|_| Cancel::new()).collect();
    std::thread::scope(|scope| {
        let _stops = Stops(cancels.iter().chain([&stop]).collect());
        let running = scope.spawn(|| server.run(&stop));
        let (told, warnings) = channel();
        let told = Arc::new(Mutex::new(told));
        let slow: Vec<_> = cancels
            .iter()
            .enumerate()
            .map(|(n, cancel)| {
                let told = Arc::clone(&told);
                let warn = Log::new(move |line| {
                    let _ = told.lock().expect("no panic").send((n, line.to_owned()));
                });
                let (anna, from) = (someone(&anna, warn), &from);
                let to = format!("slow{n}");
                scope.spawn(move || anna.puts_tree(from, &to, (true, cancel)))
            })
            .collect();
        let line = await_line(&lines, " waits: ");
        assert!(line.contains("as much of this key is under way"), "{line}");
        let (waits, text) = warnings.recv().expect("one is told");
        assert!(text.contains("is busy (as much of this key"), "{text}");
        // Somebody else's is done meanwhile.
        let (warn, heard) = heard();
        let done = someone(&ben, warn).puts_tree(&from, "ben", (false, &Cancel::new()));
        done.expect("it is done");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), Vec::<String>::new());
        let size = std::fs::metadata(root.join("ben/file")).expect("it is there");
        assert_eq!(size.len(), 3_000_000);
        // One ends, and the one that waits begins.
        cancels[(waits + 1) % 3].cancel();
        await_line(&lines, &format!("put tree \"slow{waits}\" begins"));
        for cancel in &cancels {
            cancel.cancel();
        }
        for copying in slow {
            let error = copying.join().expect("no panic").expect_err("cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        }
        let others = warnings
            .try_iter()
            .filter(|(_, line)| line.contains("busy"));
        assert_eq!(others.count(), 0);
        stop.cancel();
        running.join().expect("no panic").expect("a server");
    });
}

/// O1, H11: whoever comes while this system gives no threads waits, and is served when it does.
#[test]
fn h11_o1_without_threads_a_server_is_busy_and_goes_on_when_there_are_some() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let (from, root) = (dir.path().join("from"), dir.path().join("root"));
    for place in [&from, &root] {
        std::fs::create_dir(place).expect("a directory");
    }
    std::fs::write(from.join("file"), vec![7; SIZE]).expect("a file");
    std::fs::write(root.join("there"), vec![8; SIZE]).expect("a file");
    let (anna, theirs) = (key(), key());
    let shown = *theirs.public_key();
    let (log, lines) = heard();
    let server = support::server(&root, &[&anna], theirs, log);
    let (target, stop) = (server.local_addr(), Cancel::new());
    let refused = Arc::new(AtomicBool::new(true));
    std::thread::scope(|scope| {
        let theirs = Arc::clone(&refused);
        let stop = &stop;
        let _stops = Stops(vec![stop]);
        let running = scope.spawn(move || {
            howdah_store::threads::refuse_while(theirs);
            server.run(stop)
        });
        let (warn, warnings) = heard();
        let anna = Someone {
            key: anna,
            server: (target, shown),
            warn,
        };
        let (put, get) = (anna.clone(), anna.clone());
        let (from, there) = (&from, dir.path().join("there"));
        let file = Location::File(from.join("file"));
        let tree = scope.spawn(move || anna.puts_tree(from, "tree", (false, &Cancel::new())));
        let put = scope.spawn(move || {
            let (config, to) = (put.config(), put.url("put"));
            copy(&file, &to, &config, &Cancel::new(), &mut |_| {})
        });
        let get = scope.spawn(move || {
            let (config, from) = (get.config(), get.url("there"));
            let to = Location::File(there);
            copy(&from, &to, &config, &Cancel::new(), &mut |_| {})
        });
        for _ in 0..3 {
            let line = await_line(&lines, " waits: ");
            assert!(line.contains("cannot start a thread"), "{line}");
            let text = await_line(&warnings, "is busy");
            assert!(text.contains("is busy (cannot start a thread"), "{text}");
        }
        refused.store(false, Ordering::Relaxed);
        for copying in [tree, put, get] {
            let done = copying.join().expect("no panic");
            done.unwrap_or_else(|e| panic!("{e}"));
        }
        for copied in ["root/tree/file", "root/put", "there"] {
            let size = std::fs::metadata(dir.path().join(copied)).expect(copied);
            assert_eq!(size.len(), SIZE as u64, "{copied}");
        }
        stop.cancel();
        running.join().expect("no panic").expect("a server");
    });
}

/// O1, H11: a key that holds all connections that a server keeps, and does nothing with them, shuts nobody out.
#[test]
fn h11_o1_a_key_that_holds_all_connections_gives_way_to_another() {
    const MOST: usize = 6;
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let file = dir.path().join("file");
    std::fs::write(&file, vec![7; SIZE]).expect("a file");
    let (anna, ben, theirs) = (key(), key(), key());
    let shown = *theirs.public_key();
    let (log, lines) = heard();
    let server = support::server(dir.path(), &[&anna, &ben], theirs, log);
    let server = server.with_connections(MOST);
    let target = server.local_addr();
    let (stop, leave, connected) = (Cancel::new(), Cancel::new(), AtomicUsize::new(0));
    let knock = KnockKey::of(shown.spki_der());
    std::thread::scope(|scope| {
        let _stops = Stops(vec![&stop, &leave]);
        let running = scope.spawn(|| server.run(&stop));
        let idling = scope.spawn(|| idle(target, (&anna, knock), (MOST, &connected), &leave));
        // A client is in before the server knows of it, and newcomers are heard before those who are in.
        for _ in 0..MOST {
            await_line(&lines, ": connected");
        }
        let put_off = Cancel::new();
        let given_up = put_off.clone();
        let warn = Log::new(move |_| given_up.cancel());
        let ben = Someone {
            key: ben,
            server: (target, shown),
            warn,
        };
        let to = ben.url("copy");
        let from = Location::File(file);
        let done = copy(&from, &to, &ben.config(), &put_off, &mut |_| {});
        done.expect("there is a place for him");
        leave.cancel();
        let ended = idling.join().expect("no panic");
        assert!(
            ended.len() == 1 && ended[0].contains("gave way"),
            "{ended:?}"
        );
        stop.cancel();
        running.join().expect("no panic").expect("a server");
    });
}
