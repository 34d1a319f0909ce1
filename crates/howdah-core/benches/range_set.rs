//! How long a range of a [`RangeSet`] takes: what every packet that arrives goes through.
//!
//! `cargo bench -p howdah-core`. Each case runs nine times and the best counts.

use howdah_core::{ByteRange, RangeSet};
use std::hint::black_box;
use std::time::Instant;

/// Payload of a packet, and how many there are: 880 MB.
const PAYLOAD: u64 = 8_800;
const PACKETS: u64 = 100_000;

fn packet(number: u64) -> ByteRange {
    ByteRange::new(number * PAYLOAD, (number + 1) * PAYLOAD)
}

/// All packets, each once, as far from their order as 1009 apart makes them.
fn mixed() -> impl Iterator<Item = u64> {
    (0..PACKETS).map(|n| n * 1_009 % PACKETS)
}

fn set(numbers: impl IntoIterator<Item = u64>) -> RangeSet {
    let mut set = RangeSet::new();
    for number in numbers {
        set.insert(packet(number));
    }
    set
}

fn report(what: &str, ranges: u64, mut run: impl FnMut() -> u64) {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    let time = |run: &mut dyn FnMut() -> u64| {
        let began = Instant::now();
        black_box(run());
        began.elapsed()
    };
    let best = (0..9).map(|_| time(&mut run)).min().unwrap_or_default();
    let each = best.as_secs_f64() * 1e9 / ranges as f64;
    println!("{what:<34} {each:>7.1} ns a range");
}

fn main() {
    report("inserted in order", PACKETS, || {
        set(0..PACKETS).byte_count()
    });
    report("inserted, one of 100 later", PACKETS, || {
        let lost = |n: &u64| n.is_multiple_of(100);
        let first = (0..PACKETS).filter(|n| !lost(n));
        set(first.chain((0..PACKETS).filter(lost))).byte_count()
    });
    report("inserted in no order", PACKETS, || {
        set(mixed()).byte_count()
    });
    let holed = set((0..PACKETS).filter(|n| !n.is_multiple_of(100)));
    report("asked for, one of 100 missing", PACKETS, || {
        mixed().filter(|n| holed.contains(packet(*n))).count() as u64
    });
    report("told as missing", PACKETS / 100, || {
        let whole = ByteRange::new(0, PACKETS * PAYLOAD);
        holed
            .missing(whole)
            .map(|range| range.end - range.start)
            .sum()
    });
    report("removed in no order", PACKETS, || {
        let mut set = set(0..PACKETS);
        mixed().map(|n| set.remove(packet(n))).sum()
    });
}
