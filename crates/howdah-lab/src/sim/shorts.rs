//! Sizes and starting times of groups of short flows.

use crate::scenario::GroupSpec;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// One short flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Short {
    pub(crate) start_ns: u64,
    pub(crate) size_bytes: u64,
}

/// Draws a group. The draws depend on the seed and on the group's name, and on nothing else: the
/// same users meet every protocol.
pub(crate) fn draw(group: &GroupSpec, seed: u64) -> Vec<Short> {
    let mut hash = blake3::Hasher::new();
    hash.update(b"short flows");
    hash.update(&seed.to_le_bytes());
    hash.update(group.name.as_bytes());
    let mut rng = ChaCha8Rng::from_seed(*hash.finalize().as_bytes());
    // In (0, 1].
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 1.0) / (1_u64 << 53) as f64;
    let mut shorts: Vec<Short> = match group.load_bps {
        Some(load_bps) => poisson(group, load_bps, &mut uniform),
        None => (0..group.count)
            .map(|_| {
                let start = uniform() * group.window_ns as f64;
                Short {
                    start_ns: group.start_ns + start as u64,
                    size_bytes: size(group, uniform()).max(1.0) as u64,
                }
            })
            .collect(),
    };
    shorts.sort_by_key(|short| short.start_ns);
    shorts
}

/// Arrivals at exponential distances, whose mean makes the load.
fn poisson(group: &GroupSpec, load_bps: u64, uniform: &mut impl FnMut() -> f64) -> Vec<Short> {
    let mean_gap_ns = group.mean_bytes * 8e9 / load_bps as f64;
    let mut shorts = Vec::new();
    let mut at_ns = 0.0;
    loop {
        at_ns -= uniform().ln() * mean_gap_ns;
        if at_ns >= group.window_ns as f64 {
            return shorts;
        }
        shorts.push(Short {
            start_ns: group.start_ns + at_ns as u64,
            size_bytes: size(group, uniform()).max(1.0) as u64,
        });
    }
}

/// Inverse of the Pareto distribution: `x_min` / u^(1/shape), where `x_min` = mean (shape - 1) / shape; of the exponential one:
/// -mean ln u.
fn size(group: &GroupSpec, uniform: f64) -> f64 {
    match group.shape {
        None if group.exponential => -group.mean_bytes * uniform.ln(),
        None => group.mean_bytes,
        Some(shape) => {
            let least = group.mean_bytes * (shape - 1.0) / shape;
            least / uniform.powf(1.0 / shape)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(shape: Option<f64>) -> GroupSpec {
        GroupSpec {
            name: "web".to_owned(),
            protocol: "reno".to_owned(),
            count: 3000,
            load_bps: None,
            mean_bytes: 500e3,
            shape,
            exponential: false,
            start_ns: 5_000_000_000,
            window_ns: 300_000_000_000,
            via: vec![0],
            reverse: false,
            ends: [None; 2],
            options: crate::catalog::Options::default(),
        }
    }

    #[test]
    fn pareto_sizes_have_the_papers_minimum_and_median() {
        let shorts = draw(&group(Some(1.3)), 7);
        let mut sizes: Vec<u64> = shorts.iter().map(|short| short.size_bytes).collect();
        sizes.sort_unstable();
        // JGN06: x_min = 500 KB * 0.3 / 1.3 = 115.4 KB; median = x_min * 2^(1/1.3).
        assert!((115_384..117_000).contains(&sizes[0]), "{}", sizes[0]);
        let median = sizes[1500] as f64;
        assert!((median / 196_650.0 - 1.0).abs() < 0.06, "{median}");
        assert!(shorts.is_sorted_by_key(|short| short.start_ns));
        assert!(shorts[0].start_ns >= 5_000_000_000);
        assert!(shorts[2999].start_ns <= 305_000_000_000);
    }

    #[test]
    fn draws_follow_the_seed_and_the_name_only() {
        let mut other = group(Some(1.3));
        other.protocol = "howdah".to_owned();
        assert_eq!(draw(&group(Some(1.3)), 7), draw(&other, 7));
        assert_ne!(draw(&group(Some(1.3)), 7), draw(&group(Some(1.3)), 8));
        other.name = "mail".to_owned();
        assert_ne!(draw(&group(Some(1.3)), 7), draw(&other, 7));
        assert!(
            draw(&group(None), 7)
                .iter()
                .all(|short| short.size_bytes == 500_000)
        );
    }

    /// Of a Poisson process of rate r in time T: r T arrivals on average with variance r T, distances with mean and deviation 1/r, and
    /// of them a share 1 - exp(-1) below 1/r; the load is what was asked for.
    #[test]
    fn a_load_is_a_poisson_process() {
        let spec = GroupSpec {
            count: 0,
            load_bps: Some(200_000_000),
            exponential: true,
            mean_bytes: 50e3,
            window_ns: 20_000_000_000,
            ..group(None)
        };
        // 500 flows a second, 10,000 in all.
        let draws: Vec<Vec<Short>> = (0..40).map(|seed| draw(&spec, seed)).collect();
        let counts: Vec<f64> = draws.iter().map(|shorts| shorts.len() as f64).collect();
        let mean = counts.iter().sum::<f64>() / 40.0;
        assert!(
            (mean - 10_000.0).abs() < 4.0 * 100.0 / 40_f64.sqrt(),
            "{mean}"
        );
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / 39.0;
        // Chi-square with 39 degrees of freedom, 99.9 %: 17.3 to 74.
        assert!((0.44..1.9).contains(&(variance / 10_000.0)), "{variance}");
        let mut gaps = Vec::new();
        for shorts in &draws {
            let starts = shorts.iter().map(|short| short.start_ns as f64 / 2e6);
            let starts: Vec<f64> = starts.collect();
            gaps.extend(starts.windows(2).map(|pair| pair[1] - pair[0]));
        }
        let count = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / count;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count).sqrt();
        let short = gaps.iter().filter(|&&gap| gap < 1.0).count() as f64 / count;
        assert!(
            (mean - 1.0).abs() < 0.01 && (deviation - 1.0).abs() < 0.01,
            "{mean} {deviation}"
        );
        assert!((short - 0.632_1).abs() < 0.004, "{short}");
        let bits: f64 = draws
            .iter()
            .flatten()
            .map(|short| short.size_bytes as f64 * 8.0)
            .sum();
        let load = bits / 20.0 / 40.0;
        // 400,000 sizes of deviation 1: 0.16 %, and as much for their number.
        assert!((load / 200e6 - 1.0).abs() < 0.01, "{load}");
    }
}
