//! How fast the storage side is, without a network: `throughput DIR [GiB] [WORD...]`.
//! Words: `plain` (no hash), `hint` (size known before), `paced` (10 Gbit/s), `pipe` (ordered, to
//! /dev/null), `null`.
//!
//! Writes 64 KiB batches of 7 slices of 8900 bytes, 1 % of them displaced, to a file in DIR, then
//! reads the file back as a sender would. Prints GB/s and CPU seconds per GB of the whole process,
//! and separately of the engine's thread.

use howdah_store::{Batch, Part, Sink, SinkSpec, Source, SourceSpec};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

const PAYLOAD: u64 = 8900;
const PER_BATCH: u64 = 7;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().unwrap_or_else(|| ".".to_owned()));
    let gib: u64 = args.next().and_then(|text| text.parse().ok()).unwrap_or(4);
    let rest: Vec<String> = args.collect();
    let has = |word: &str| rest.iter().any(|arg| arg == word);
    let hash = !has("plain");
    let path = dir.join("howdah-throughput");
    let size = (gib << 30) / (PAYLOAD * PER_BATCH) * (PAYLOAD * PER_BATCH);
    let (wake, woken) = waker();
    let clock = Clock::start();
    let spec = if has("null") {
        SinkSpec::Null
    } else if has("pipe") {
        let file = std::fs::OpenOptions::new().write(true).open("/dev/null");
        SinkSpec::Writer(Box::new(file.expect("/dev/null")))
    } else {
        SinkSpec::LocalFile(&path)
    };
    let hint = has("hint").then_some(size);
    let mut sink = Sink::create(spec, hash, hint, wake).expect("create");
    let mut refusals = 0_u64;
    let content: Vec<u8> = (0..65536_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut pending: Option<Part> = None;
    for i in 0..size / (PAYLOAD * PER_BATCH) {
        let buf = sink.take_spare().unwrap_or_else(|| content.clone());
        let mut parts: Vec<Part> = (0..PER_BATCH)
            .map(|j| Part {
                at: (j * PAYLOAD) as u32,
                len: PAYLOAD as u32,
                offset: (i * PER_BATCH + j) * PAYLOAD,
            })
            .collect();
        // Every 14th batch gives its third slice to the one 7 batches later: 1 % displaced.
        if i % 14 == 0 {
            pending = Some(parts.remove(2));
        } else if let Some(part) = pending.take_if(|_| i % 14 == 7) {
            parts.push(Part {
                at: 2 * PAYLOAD as u32,
                ..part
            });
        }
        let due = (i * PAYLOAD * PER_BATCH) as f64 / 1.25e9;
        let early = due - clock.wall();
        if has("paced") && early > 0.000_3 {
            std::thread::sleep(Duration::from_secs_f64(early));
        }
        let mut batch = Batch { buf, parts };
        while let Err(back) = sink.submit(batch) {
            refusals += 1;
            let _ = woken.recv_timeout(Duration::from_millis(50));
            batch = back;
            assert!(sink.poll_outcome().is_none(), "the sink failed");
        }
    }
    if let Some(part) = pending {
        sink.submit(Batch {
            buf: content.clone(),
            parts: vec![part],
        })
        .expect("submit");
    }
    let submitted = clock.wall();
    sink.finish(size, None);
    let outcome = loop {
        if let Some(outcome) = sink.poll_outcome() {
            break outcome.expect("outcome");
        }
        let _ = woken.recv_timeout(Duration::from_millis(50));
    };
    clock.print("write", size);
    println!(
        "      submitted after {submitted:.2} s, queue full {refusals} times, drain {:?} ",
        sink.backlog().drain_rate.map(|rate| rate.to_string())
    );
    if has("null") || has("pipe") {
        return;
    }

    let (wake, woken) = waker();
    let clock = Clock::start();
    let mut source = Source::open(SourceSpec::LocalFile(&path), hash, wake).expect("open");
    let mut buf = vec![0; (PAYLOAD * PER_BATCH) as usize];
    let mut at = 0;
    while at < size {
        while source.ready_end() < size.min(at + buf.len() as u64) {
            let _ = woken.recv_timeout(Duration::from_millis(50));
        }
        source.read_at(at, &mut buf).expect("read");
        at += buf.len() as u64;
        source.note_sent_through(at);
    }
    let finished = loop {
        if let Some(finished) = source.poll_finished() {
            break finished.expect("finished");
        }
        let _ = woken.recv_timeout(Duration::from_millis(50));
    };
    clock.print("read ", size);
    assert_eq!(finished.hash, outcome.hash);
    std::fs::remove_file(&path).expect("remove");
}

fn waker() -> (howdah_store::Wake, std::sync::mpsc::Receiver<()>) {
    let (sender, receiver) = sync_channel(1);
    let wake = move || {
        let _ = sender.try_send(());
    };
    (Arc::new(wake), receiver)
}

struct Clock {
    wall: Instant,
    process: f64,
    engine: f64,
}

impl Clock {
    fn start() -> Self {
        use rustix::time::ClockId;
        let (process, engine) = (cpu(ClockId::ProcessCPUTime), cpu(ClockId::ThreadCPUTime));
        Self {
            wall: Instant::now(),
            process,
            engine,
        }
    }

    fn wall(&self) -> f64 {
        self.wall.elapsed().as_secs_f64()
    }

    fn print(&self, what: &str, bytes: u64) {
        let now = Self::start();
        let (seconds, gb) = (self.wall(), bytes as f64 / 1e9);
        println!(
            "{what} {:6.2} GB/s  {:5.2} s  CPU s/GB {:.3}, of these engine {:.3}",
            gb / seconds,
            seconds,
            (now.process - self.process) / gb,
            (now.engine - self.engine) / gb,
        );
    }
}

fn cpu(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
