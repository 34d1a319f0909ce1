//! How fast jobs are submitted and listed: `cargo run --release -p howdah-daemon --example load [JOBS]`.

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("the daemon needs Linux");
}

#[cfg(target_os = "linux")]
mod linux {
    use howdah_daemon::client::{Client, Which};
    use howdah_daemon::job::{Grammar, Kind, Meaning, Spec};
    use howdah_daemon::limits::HostFacts;
    use howdah_daemon::outside::{Outside, Standing};
    use howdah_daemon::queue::Limits;
    use howdah_daemon::{Config, serve};
    use std::error::Error;
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Instant;

    /// Everything is an argument.
    struct Any;

    impl Grammar for Any {
        fn check(&self, _: &Spec) -> Result<Meaning, String> {
            Ok(Meaning {
                hosts: vec!["host".to_owned()],
                ..Meaning::default()
            })
        }
    }

    impl Outside for Any {
        fn allowed(&self, _: &str) -> Result<Option<u64>, String> {
            Ok(None)
        }

        fn share(&self, _: u32, _: Option<u64>) -> Result<Standing, String> {
            Err("there is nobody".to_owned())
        }

        fn hosts(&self, names: &[String]) -> Vec<HostFacts> {
            vec![HostFacts::default(); names.len()]
        }
    }

    const CLIENTS: usize = 16;

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let jobs: usize = std::env::args().nth(1).map_or(Ok(10_000), |n| n.parse())?;
        let dir = std::env::temp_dir().join(format!("howdah-load-{}", std::process::id()));
        let config = Config {
            directory: dir.clone(),
            program: "/nothing".into(),
            limits: Limits::default(),
            listen: None,
            tls: None,
            audit: None,
            notify: None,
            log: |_, _| (),
            allow: Vec::new(),
            kept: Vec::new(),
            home: "/".into(),
            limit: None,
            grammar: Arc::new(Any),
            outside: Arc::new(Any),
        };
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            let served = serve(config, |_, _| {
                let _ = ready.send(());
            });
            if let Err(error) = served {
                println!("{error}");
            }
        });
        is_ready.recv()?;
        let client = Client::new(&dir);
        let words = vec!["-r".into(), "/data/run7".into(), "host:/store/run7".into()];
        let spec = Spec {
            labels: vec!["load".into()],
            retries: 3,
            hold: true,
            ..Spec::new(Kind::Cp, words, "/")
        };
        let begin = Instant::now();
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    for _ in 0..jobs / CLIENTS {
                        if let Err(error) = client.submit(&spec) {
                            println!("{error}");
                        }
                    }
                });
            }
        });
        let seconds = begin.elapsed().as_secs_f64();
        println!("submitted {jobs}: {:.0} a second", jobs as f64 / seconds);
        for limit in [100, 1_000] {
            let begin = Instant::now();
            let page = client.list(&Which::default(), limit)?;
            println!(
                "a page of {}: {:.1} ms",
                page.jobs.len(),
                begin.elapsed().as_secs_f64() * 1e3
            );
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let memory = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap_or_default();
        println!("{memory} (with {CLIENTS} clients in the same process)");
        std::fs::remove_dir_all(dir)?;
        Ok(())
    }
}
