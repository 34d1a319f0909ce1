//! Packet numbers that are left out on purpose.
//!
//! A receiver that reports packets before they have come, or whether they come or not, drives the sender up to
//! any rate (optimistic acknowledgement, RFC 9000 section 21.4). It cannot know which numbers were never sent.

use rand::Rng;

/// The first one is left out among so many; then the distance doubles.
const FIRST_SPAN: u64 = 1 << 11;
/// Up to this: a sender at 10 Gbit/s finds out within a tenth of a second.
const LAST_SPAN: u64 = 1 << 16;

/// Which number is left out next.
#[derive(Debug)]
pub(crate) struct Trap {
    next: u64,
    span: u64,
}

impl Trap {
    pub(crate) fn new(rng: &mut impl Rng) -> Self {
        let mut trap = Self {
            next: 0,
            span: FIRST_SPAN,
        };
        trap.set(0, rng);
        trap
    }

    /// Whether `number` is to be left out.
    pub(crate) fn takes(&mut self, number: u64, rng: &mut impl Rng) -> bool {
        let takes = number == self.next;
        if takes {
            self.set(number + 1, rng);
        }
        takes
    }

    fn set(&mut self, from: u64, rng: &mut impl Rng) {
        let half = self.span / 2;
        self.next = from + half + rng.next_u64() % half;
        self.span = (self.span * 2).min(LAST_SPAN);
    }
}

/// How many of the first `numbers` packet numbers a sender leaves out, on average.
pub(crate) fn left_out_of(numbers: u64) -> u64 {
    let (mut at, mut span, mut count) = (0, FIRST_SPAN, 0);
    loop {
        at += span * 3 / 4;
        if at >= numbers {
            return count;
        }
        if span == LAST_SPAN {
            return count + 1 + (numbers - at) / (span * 3 / 4);
        }
        span *= 2;
        count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn traps_lie_where_the_average_says() {
        for numbers in [100, 5_000, 100_000, 3_000_000] {
            let mut sum = 0;
            for seed in 0..30 {
                let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
                let mut trap = Trap::new(&mut rng);
                sum += (0..numbers).filter(|&n| trap.takes(n, &mut rng)).count() as u64;
            }
            let (mean, told) = (sum as f64 / 30.0, left_out_of(numbers) as f64);
            assert!((mean - told).abs() <= 1.0, "{numbers}: {mean} and {told}");
        }
    }
}
