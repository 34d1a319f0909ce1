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
    let mut shorts: Vec<Short> = (0..group.count)
        .map(|_| {
            let start = uniform() * group.window_ns as f64;
            Short {
                start_ns: group.start_ns + start as u64,
                size_bytes: size(group, uniform()).max(1.0) as u64,
            }
        })
        .collect();
    shorts.sort_by_key(|short| short.start_ns);
    shorts
}

/// Inverse of the Pareto distribution: `x_min` / u^(1/shape), where `x_min` = mean (shape - 1) / shape.
fn size(group: &GroupSpec, uniform: f64) -> f64 {
    match group.shape {
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
            mean_bytes: 500e3,
            shape,
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
}
