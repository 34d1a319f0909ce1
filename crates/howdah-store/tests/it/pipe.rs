//! Pipes: bounded memory on both sides, everything in order.

use crate::common::{Engine, batch, hash, random_bytes, slices};
use howdah_store::{Limits, Sink, SinkSpec, Source, SourceSpec, StoreError};
use proptest::prelude::*;
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};

fn tiny(pipe: usize, reorder: u64) -> Limits {
    Limits {
        pipe_bytes: pipe,
        reorder_bytes: reorder,
        queue_bytes: 4096,
        ..Limits::default()
    }
}

/// What a consumer got; takes at most 777 bytes at a time.
#[derive(Clone, Default)]
struct Consumer(Arc<Mutex<Vec<u8>>>);

impl Write for Consumer {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        let len = buf.len().min(777);
        self.0.lock().unwrap().extend_from_slice(&buf[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A producer that dribbles.
struct Producer {
    data: Vec<u8>,
    at: usize,
}

impl Read for Producer {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let len = buf
            .len()
            .min(1 + self.at % 613)
            .min(self.data.len() - self.at);
        buf[..len].copy_from_slice(&self.data[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Sender and receiver with tiny windows; slices swapped within the window.
    #[test]
    fn round_trip(size in 0..100_000usize, slice in 1..900usize, swap in 1..4usize) {
        let data = random_bytes(size);
        let (reading, writing) = (Engine::new(), Engine::new());
        let limits = tiny(4096, 4096);
        let producer = Producer { data: data.clone(), at: 0 };
        let spec = SourceSpec::Reader(Box::new(producer));
        let mut source = Source::open_with(spec, true, reading.wake(), &limits).unwrap();
        let consumer = Consumer::default();
        let spec = SinkSpec::Writer(Box::new(consumer.clone()));
        let mut sink = Sink::create_with(spec, true, None, writing.wake(), &limits).unwrap();

        let mut at = 0;
        loop {
            let end = reading.wait(|| {
                let end = source.ready_end();
                (end > at || source.size() == Some(at)).then_some(end)
            });
            if end == at { break; }
            // A piece of the pipe, sliced, its slices in swapped order.
            let end = end.min(at + 2000);
            let mut piece = vec![0; (end - at) as usize];
            source.read_at(at, &mut piece).unwrap();
            writing.wait(|| (sink.window_end().unwrap() >= end).then_some(()));
            let mut parts = slices(piece.len(), slice);
            for group in parts.chunks_mut(swap) { group.reverse(); }
            for part in parts {
                let mut batch = batch(&piece, &[part]);
                batch.parts[0].offset += at;
                writing.submit(&mut sink, batch);
            }
            at = end;
            source.release_through(at);
        }
        let finished = reading.finished(&mut source).unwrap();
        prop_assert_eq!(finished.size, size as u64);
        prop_assert_eq!(finished.hash, Some(hash(&data)));
        sink.finish(finished.size, finished.hash);
        prop_assert_eq!(writing.outcome(&mut sink).unwrap().hash, finished.hash);
        prop_assert!(*consumer.0.lock().unwrap() == data);
    }
}

#[test]
fn a_pipe_is_kept_until_it_is_released() {
    let data = random_bytes(100_000);
    let engine = Engine::new();
    let spec = SourceSpec::Reader(Box::new(std::io::Cursor::new(data.clone())));
    let mut source = Source::open_with(spec, true, engine.wake(), &tiny(8192, 0)).unwrap();
    engine.wait(|| (source.ready_end() == 8192).then_some(()));
    assert_eq!(source.size(), None);
    let mut buf = vec![0; 8192];
    for _ in 0..2 {
        source.read_at(0, &mut buf).unwrap();
        assert!(buf == data[..8192]);
    }
    assert!(source.read_at(1, &mut buf).is_err(), "not there yet");
    source.release_through(4096);
    engine.wait(|| (source.ready_end() == 12_288).then_some(()));
    assert!(
        source.read_at(0, &mut buf[..10]).is_err(),
        "no longer there"
    );
    source.read_at(4096, &mut buf).unwrap();
    assert!(buf == data[4096..12_288]);
    source.release_through(100_000);
    assert_eq!(
        engine.finished(&mut source).unwrap().hash,
        Some(hash(&data))
    );
    assert_eq!(source.size(), Some(100_000));
}

#[test]
fn a_pipe_is_read_no_further_ahead_than_allowed() {
    let engine = Engine::new();
    let data = random_bytes(400_000);
    let limits = Limits {
        pipe_ahead_bytes: 100_000,
        ..tiny(1 << 20, 0)
    };
    let spec = SourceSpec::Reader(Box::new(std::io::Cursor::new(data.clone())));
    let mut source = Source::open_with(spec, true, engine.wake(), &limits).unwrap();
    // What is read last may be as long as a segment.
    let most = 100_000 + (64 << 10);
    let (mut at, mut buf) = (0, vec![0; 1000]);
    while at < 400_000 {
        let end = engine.wait(|| (source.ready_end() >= at + 1000).then(|| source.ready_end()));
        assert!(end <= at + most, "{end} at {at}");
        source.read_at(at, &mut buf).unwrap();
        assert!(buf == data[at as usize..][..1000]);
        at += 1000;
    }
    assert_eq!(engine.finished(&mut source).unwrap().size, 400_000);
}

#[test]
fn a_longer_window_keeps_what_came_early() {
    let engine = Engine::new();
    let consumer = Consumer::default();
    let spec = SinkSpec::Writer(Box::new(consumer.clone()));
    let limits = Limits {
        reorder_start_bytes: 1000,
        ..tiny(4096, 1 << 20)
    };
    let mut sink = Sink::create_with(spec, true, None, engine.wake(), &limits).unwrap();
    let data = random_bytes(30_000);
    let mut at = 0;
    for (window, hole) in [(1000, 10), (1700, 300), (1700, 1), (9000, 20), (9100, 450)] {
        // All but the first bytes of the window has come early, twice around the ring in the end.
        let end = sink.window_end().unwrap() as usize;
        assert!(end - at >= 1000 && end <= data.len());
        engine.submit(&mut sink, batch(&data, &[(at + hole, end - at - hole)]));
        sink.lengthen_window(window);
        engine.submit(&mut sink, batch(&data, &[(at, hole)]));
        at = end;
        engine.wait(|| (sink.window_end().unwrap() >= at as u64 + window).then_some(()));
    }
    // Lengthened while much is held.
    let end = sink.window_end().unwrap() as usize;
    engine.submit(&mut sink, batch(&data, &[(at + 5000, end - at - 5000)]));
    sink.lengthen_window(12_345);
    engine.submit(&mut sink, batch(&data, &[(at, 100)]));
    engine.wait(|| (sink.window_end().unwrap() >= at as u64 + 100 + 12_345).then_some(()));
    engine.submit(&mut sink, batch(&data, &[(end, 2_000)]));
    engine.submit(&mut sink, batch(&data, &[(at + 100, 4_900)]));
    let size = end as u64 + 2_000;
    sink.finish(size, Some(hash(&data[..size as usize])));
    engine.outcome(&mut sink).unwrap();
    assert!(*consumer.0.lock().unwrap() == data[..size as usize]);
}

#[test]
fn a_failing_producer_and_a_gone_consumer_are_errors() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("broken tape"))
        }
    }
    let engine = Engine::new();
    let spec = SourceSpec::Reader(Box::new(Broken));
    let mut source = Source::open(spec, true, engine.wake()).unwrap();
    let message = engine.finished(&mut source).unwrap_err().to_string();
    assert!(message.contains("broken tape"), "{message}");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let spec = SinkSpec::Writer(Box::new(writer));
    let mut sink = Sink::create(spec, true, None, engine.wake()).unwrap();
    sink.submit(batch(&random_bytes(100), &[(0, 100)])).unwrap();
    let result = engine.outcome(&mut sink);
    let Err(StoreError::Io { source, .. }) = result else {
        panic!("{result:?}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::BrokenPipe);
}

#[test]
fn what_lies_beyond_the_window_is_refused() {
    let engine = Engine::new();
    let consumer = Consumer::default();
    let spec = SinkSpec::Writer(Box::new(consumer.clone()));
    let limits = tiny(4096, 1000);
    let mut sink = Sink::create_with(spec, true, None, engine.wake(), &limits).unwrap();
    let data = random_bytes(2000);
    assert_eq!(sink.window_end(), Some(1000));
    assert!(sink.submit(batch(&data, &[(500, 501)])).is_err());
    sink.submit(batch(&data, &[(500, 500)])).unwrap();
    sink.submit(batch(&data, &[(0, 500)])).unwrap();
    engine.wait(|| (sink.window_end() == Some(2000)).then_some(()));
    sink.submit(batch(&data, &[(1000, 1000)])).unwrap();
    sink.finish(2000, Some([1; 32]));
    let result = engine.outcome(&mut sink);
    assert!(
        matches!(result, Err(StoreError::HashMismatch { .. })),
        "{result:?}"
    );
    assert!(*consumer.0.lock().unwrap() == data);
}

#[test]
fn an_end_with_a_hole_is_an_error() {
    let engine = Engine::new();
    let spec = SinkSpec::Writer(Box::new(Consumer::default()));
    let mut sink = Sink::create(spec, false, None, engine.wake()).unwrap();
    sink.submit(batch(&random_bytes(100), &[(0, 40), (60, 40)]))
        .unwrap();
    sink.finish(100, None);
    let result = engine.outcome(&mut sink);
    assert!(
        matches!(result, Err(StoreError::WrongLength { written: 40, .. })),
        "{result:?}"
    );
}
