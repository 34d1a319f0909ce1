//! Two channels and a bad wire.

use super::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Datagrams on the way: when they arrive, to which end, and what they are.
struct Wire {
    rng: ChaCha8Rng,
    loss_percent: u32,
    delay: Span,
    under_way: Vec<(Time, usize, Vec<u8>)>,
}

impl Wire {
    fn carry(&mut self, now: Time, to: usize, bytes: &[u8]) {
        if self.rng.next_u32() % 100 < self.loss_percent {
            return;
        }
        let jitter = Span::from_micros(u64::from(self.rng.next_u32() % 4000));
        self.under_way
            .push((now + self.delay + jitter, to, bytes.to_vec()));
        if self.rng.next_u32().is_multiple_of(50) {
            self.under_way
                .push((now + self.delay * 2, to, bytes.to_vec()));
        }
    }
}

/// Runs until nothing happens any more or the hour is over; returns what each end has read.
fn run(ends: &mut [Channel; 2], wire: &mut Wire) -> [Vec<u8>; 2] {
    let mut now = Time::ZERO;
    let mut read = [Vec::new(), Vec::new()];
    loop {
        for at in 0..2 {
            while let Some(datagram) = ends[at].poll(now) {
                wire.carry(now, 1 - at, &datagram.bytes);
            }
            let unread = ends[at].unread();
            read[at].extend(ends[at].read_exact(unread).unwrap_or_default());
        }
        let arrival = wire.under_way.iter().map(|entry| entry.0).min();
        let timer = ends.iter().filter_map(Channel::next_at).min();
        let Some(next) = [arrival, timer].into_iter().flatten().min() else {
            return read;
        };
        now = now.max(next);
        assert!(now < Time::ZERO + Span::from_secs(3600), "{ends:?}");
        for end in ends.iter_mut() {
            end.on_timeout(now);
        }
        wire.under_way.sort_by_key(|entry| entry.0);
        while wire.under_way.first().is_some_and(|entry| entry.0 <= now) {
            let (_, to, bytes) = wire.under_way.remove(0);
            let segment = Segment::decode(&bytes).expect("it was encoded");
            ends[to].handle(now, &segment);
        }
    }
}

fn wire(seed: u64, loss_percent: u32) -> Wire {
    Wire {
        rng: ChaCha8Rng::seed_from_u64(seed),
        loss_percent,
        delay: Span::from_millis(20),
        under_way: Vec::new(),
    }
}

fn message(length: usize, salt: u8) -> Vec<u8> {
    (0..length)
        .map(|i| (i as u8).wrapping_mul(31) ^ salt)
        .collect()
}

#[test]
fn streams_arrive_whole_and_in_order_both_ways() {
    for seed in 0..600 {
        let loss = [0, 2, 10, 30][seed as usize % 4];
        let mut ends = [Channel::new(seed % 2 == 0), Channel::new(seed % 3 == 0)];
        ends[0].connect();
        let sizes = [1 + seed as usize * 37 % 9000, seed as usize * 211 % 40_000];
        for (end, size) in ends.iter_mut().zip(sizes) {
            end.write(&message(size, 7));
            end.close();
        }
        let read = run(&mut ends, &mut wire(seed, loss));
        for at in 0..2 {
            assert_eq!(read[at], message(sizes[1 - at], 7), "seed {seed}, end {at}");
            assert!(
                ends[at].has_ended() && ends[at].failure().is_none(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn a_reader_that_sleeps_stops_the_writer_and_wakes_it() {
    for seed in 0..100 {
        let mut ends = [Channel::new(false), Channel::new(false)];
        ends[0].connect();
        ends[0].write(&message(400_000, 3));
        ends[0].close();
        let mut wire = wire(seed, [0, 10][seed as usize % 2]);
        let (mut now, mut read, mut wakes_at) = (Time::ZERO, Vec::new(), Time::ZERO);
        while !ends[1].has_ended() || ends[1].unread() > 0 {
            for (at, end) in ends.iter_mut().enumerate() {
                while let Some(datagram) = end.poll(now) {
                    wire.carry(now, 1 - at, &datagram.bytes);
                }
            }
            // It reads everything once in ten seconds.
            if now >= wakes_at {
                wakes_at = now + Span::from_secs(10);
                let unread = ends[1].unread();
                assert!(unread <= INBOX_BYTES + EARLY_BYTES, "seed {seed}: {unread}");
                read.extend(ends[1].read_exact(unread).unwrap_or_default());
                continue;
            }
            let arrival = wire.under_way.iter().map(|entry| entry.0).min();
            let timer = ends.iter().filter_map(Channel::next_at).min();
            let next = [arrival, timer, Some(wakes_at)].into_iter().flatten().min();
            now = now.max(next.expect("it wakes"));
            assert!(now < Time::ZERO + Span::from_secs(3600), "seed {seed}");
            for end in &mut ends {
                end.on_timeout(now);
            }
            wire.under_way.sort_by_key(|entry| entry.0);
            while wire.under_way.first().is_some_and(|entry| entry.0 <= now) {
                let (_, to, bytes) = wire.under_way.remove(0);
                ends[to].handle(now, &Segment::decode(&bytes).expect("it was encoded"));
            }
        }
        assert_eq!(read, message(400_000, 3), "seed {seed}");
    }
}

#[test]
fn a_dead_wire_is_reported() {
    let mut ends = [Channel::new(false), Channel::new(false)];
    ends[0].connect();
    run(&mut ends, &mut wire(1, 100));
    assert!(
        ends[0]
            .failure()
            .is_some_and(|why| why.contains("answered"))
    );
    assert!(ends[1].failure().is_none(), "it only listens");
}

#[test]
fn nagle_holds_a_small_message_until_the_first_is_acknowledged() {
    // The first message waits 40 ms for its acknowledgement, and the second one for that.
    for (nagle, expected_ms) in [(false, 0), (true, 80)] {
        let mut ends = [Channel::new(nagle), Channel::new(false)];
        ends[0].connect();
        run(&mut ends, &mut wire(3, 0));
        let start = Time::ZERO + Span::from_secs(10);
        ends[0].write(b"size");
        let first = ends[0].poll(start).expect("the first goes at once");
        ends[0].write(b"end!");
        let second = ends[0].poll(start);
        assert_eq!(second.is_some(), !nagle);
        if nagle {
            let arrived = start + Span::from_millis(20);
            let segment = Segment::decode(&first.bytes).expect("a segment");
            ends[1].handle(arrived, &segment);
            let ack_at = ends[1].next_at().expect("a delayed acknowledgement");
            ends[1].on_timeout(ack_at);
            let ack = ends[1].poll(ack_at).expect("the acknowledgement");
            let back = ack_at + Span::from_millis(20);
            ends[0].handle(back, &Segment::decode(&ack.bytes).expect("a segment"));
            assert!(ends[0].poll(back).is_some());
            assert_eq!(back.since(start).as_millis(), expected_ms);
        }
    }
}

#[test]
fn any_segment_at_all_is_survived() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut channel = Channel::new(false);
    channel.connect();
    for step in 0..200_000_u64 {
        let now = Time::from_nanos(step * 1000);
        let length = (rng.next_u32() % 40) as usize;
        let near = |rng: &mut ChaCha8Rng| match rng.next_u32() % 3 {
            0 => u64::from(rng.next_u32() % 200),
            1 => u64::from(rng.next_u32() % 100_000),
            _ => rng.next_u64() & MAX_POSITION,
        };
        let payload = vec![1; length];
        let segment = Segment {
            flags: (rng.next_u32() % 8) as u8,
            window_kib: rng.next_u32() as u8,
            position: near(&mut rng),
            awaited: near(&mut rng),
            sent_us: rng.next_u32(),
            echo_us: rng.next_u32(),
            payload: &payload,
        };
        channel.handle(now, &segment);
        channel.write(b"x");
        channel.on_timeout(now);
        while channel.poll(now).is_some() {}
        assert!(
            channel.unread() <= INBOX_BYTES + EARLY_BYTES + MSS_BYTES
                && channel.early_bytes <= EARLY_BYTES
        );
    }
}
