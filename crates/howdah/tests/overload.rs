//! O1: a server with many idle clients, and many new ones that come at the same moment. All get in, later if need be.
//!
//! `make bench-overload` does it with a thousand of each (`HOWDAH_CROWD`).

mod support;

use howdah::{
    Cancel, CopyConfig, ErrorKind, Identity, KnownHosts, Location, Log, Transport, Trust, copy,
};
use howdah_net::usage;
use howdah_proto::codec::KnockKey;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use support::idle::idle;

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
