//! Shared by the integration tests.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

pub mod copying;
#[cfg(target_os = "linux")]
pub mod trace;

use howdah_store::{Batch, Finished, Outcome, Part, Sink, Source, StoreError, Wake};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// A bound on every wait in the tests: reached only if something hangs.
const PATIENCE: Duration = Duration::from_mins(1);

/// An engine's thread that sleeps until a worker wakes it.
pub struct Engine {
    woken: Receiver<()>,
    pub wake: Wake,
}

impl Engine {
    pub fn new() -> Self {
        let (sender, woken) = sync_channel(1);
        let wake = move || {
            let _ = sender.try_send(());
        };
        Self {
            woken,
            wake: Arc::new(wake),
        }
    }

    pub fn wake(&self) -> Wake {
        Arc::clone(&self.wake)
    }

    /// Asks until there is an answer, sleeping until woken.
    pub fn wait<T>(&self, mut ask: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask() {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "nobody woke the engine");
            let _ = self.woken.recv_timeout(Duration::from_secs(1));
        }
    }

    pub fn outcome(&self, sink: &mut Sink) -> Result<Outcome, StoreError> {
        self.wait(|| sink.poll_outcome())
    }

    pub fn finished(&self, source: &mut Source) -> Result<Finished, StoreError> {
        self.wait(|| source.poll_finished())
    }

    /// Submits, waiting while the queue is full.
    pub fn submit(&self, sink: &mut Sink, batch: Batch) {
        let mut batch = Some(batch);
        self.wait(|| match sink.submit(batch.take()?) {
            Ok(()) => Some(()),
            Err(back) => {
                batch = Some(back);
                None
            }
        });
    }
}

/// Repeatable bytes without a pattern.
pub fn random_bytes(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new_derive_key("howdah-store tests")
        .finalize_xof()
        .fill(&mut bytes);
    bytes
}

/// One slice of `data` per batch part.
pub fn batch(data: &[u8], ranges: &[(usize, usize)]) -> Batch {
    let mut buf = Vec::new();
    let mut parts = Vec::new();
    for &(offset, len) in ranges {
        parts.push(Part {
            at: buf.len() as u32,
            len: len as u32,
            offset: offset as u64,
        });
        buf.extend_from_slice(&data[offset..offset + len]);
    }
    Batch { buf, parts }
}

/// Consecutive ranges of at most `len` bytes.
pub fn slices(size: usize, len: usize) -> Vec<(usize, usize)> {
    (0..size)
        .step_by(len)
        .map(|at| (at, len.min(size - at)))
        .collect()
}

pub fn hash(data: &[u8]) -> [u8; 32] {
    *blake3::hash(data).as_bytes()
}

pub fn names_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
