//! Random events, one stream of randomness each.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a random stream is for. The number is part of the seed: it must not change, or the same
/// seed means another run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Loss = 1,
    Jitter = 2,
    Reorder = 3,
    Duplicate = 4,
    Corrupt = 5,
    Red = 6,
    Pie = 7,
}

/// The stream of `seed` for one purpose.
pub(crate) fn stream(seed: u64, purpose: Purpose) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(purpose as u64);
    rng
}

/// Uniform in (0, 1].
pub(crate) fn unit(rng: &mut ChaCha8Rng) -> f64 {
    ((rng.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Uniform in 0 to `max`, both included (but for a bias below 2^-64 times `max`).
pub(crate) fn uniform(rng: &mut ChaCha8Rng, max: u64) -> u64 {
    ((u128::from(rng.next_u64()) * (u128::from(max) + 1)) >> 64) as u64
}

/// Number of failures before the first success of independent trials with probability `p`, by
/// inversion: one draw stands for the whole run of trials. [`u64::MAX`] if it never succeeds.
pub(crate) fn failures_before_success(rng: &mut ChaCha8Rng, p: f64) -> u64 {
    if p >= 1.0 {
        return 0;
    }
    if p.is_nan() || p <= 0.0 {
        return u64::MAX;
    }
    (unit(rng).ln() / (-p).ln_1p()) as u64
}

/// Normal with mean 0 and deviation 1, by the polar method (G. Marsaglia 1962). The second number
/// that the method gives is thrown away, so that a draw depends on nothing but the stream.
pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    loop {
        let (x, y) = (2.0 * unit(rng) - 1.0, 2.0 * unit(rng) - 1.0);
        let square = x * x + y * y;
        if square > 0.0 && square < 1.0 {
            return x * (-2.0 * square.ln() / square).sqrt();
        }
    }
}

/// One independent trial.
pub(crate) fn happens(rng: &mut ChaCha8Rng, p: f64) -> bool {
    unit(rng) <= p
}

/// An event that happens to each packet with the same probability.
#[derive(Clone, Debug)]
pub(crate) struct Chance {
    rng: ChaCha8Rng,
    probability: f64,
    /// Packets that pass before it happens.
    until: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64, purpose: Purpose, probability: f64) -> Self {
        let mut rng = stream(seed, purpose);
        let until = failures_before_success(&mut rng, probability);
        Self {
            rng,
            probability,
            until,
        }
    }

    /// Trials have no memory, so drawing anew changes no distribution; an unchanged probability is
    /// left alone so that a change of something else does not change this stream.
    pub(crate) fn set_probability(&mut self, probability: f64) {
        if probability.to_bits() != self.probability.to_bits() {
            self.probability = probability;
            self.until = failures_before_success(&mut self.rng, probability);
        }
    }

    /// Whether it happens to the next packet.
    #[inline]
    pub(crate) fn next(&mut self) -> bool {
        if self.until == 0 {
            self.until = failures_before_success(&mut self.rng, self.probability);
            return true;
        }
        // A `u64::MAX` that stands for "never" may count down: it lasts for centuries.
        self.until -= 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certain_and_impossible_events() {
        let mut always = Chance::new(1, Purpose::Loss, 1.0);
        let mut never = Chance::new(1, Purpose::Loss, 0.0);
        let mut nonsense = Chance::new(1, Purpose::Loss, f64::NAN);
        for _ in 0..1000 {
            assert!(always.next());
            assert!(!never.next());
            assert!(!nonsense.next());
        }
    }

    /// Gap lengths drawn by skipping against those of one trial per packet: both must fit the
    /// geometric distribution (chi-square over gaps 0..20, 20 degrees of freedom).
    #[test]
    fn skipping_equals_one_trial_per_packet() {
        let p = 0.1;
        let gaps = 100_000;
        let mut skipping = Chance::new(7, Purpose::Loss, p);
        let mut rng = stream(8, Purpose::Loss);
        let mut per_packet = || happens(&mut rng, p);
        let chi_square = |next: &mut dyn FnMut() -> bool| {
            let mut seen = [0u32; 21];
            for _ in 0..gaps {
                let mut gap = 0;
                while !next() {
                    gap += 1;
                }
                seen[gap.min(20)] += 1;
            }
            let mut chi = 0.0;
            for (gap, &count) in seen.iter().enumerate() {
                let tail = 0.9f64.powi(gap as i32);
                let expected = f64::from(gaps) * if gap == 20 { tail } else { tail * p };
                chi += (f64::from(count) - expected).powi(2) / expected;
            }
            chi
        };
        // 99.9 % quantile of chi-square with 20 degrees of freedom: 45.3. Seeds are fixed.
        let skipped = chi_square(&mut || skipping.next());
        let tried = chi_square(&mut per_packet);
        assert!(skipped < 45.3, "{skipped}");
        assert!(tried < 45.3, "{tried}");
    }

    #[test]
    fn purposes_have_separate_streams() {
        let mut loss = stream(1, Purpose::Loss);
        let mut jitter = stream(1, Purpose::Jitter);
        assert_ne!(loss.next_u64(), jitter.next_u64());
    }

    #[test]
    fn uniform_reaches_both_ends() {
        let mut rng = stream(3, Purpose::Jitter);
        let mut seen = [false; 4];
        for _ in 0..200 {
            seen[uniform(&mut rng, 3) as usize] = true;
        }
        assert_eq!(seen, [true; 4]);
        // The full range must not overflow.
        let _ = uniform(&mut rng, u64::MAX);
    }
}
