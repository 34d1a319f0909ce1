//! Long series with fewer points that show the same.

/// At most `most` points: the axis is cut into equal stretches and each is replaced by its lowest and
/// highest value, in the order in which they came, so that no spike is lost.
pub(crate) fn thin_extremes(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let buckets = (most / 2).max(1);
    let mut out = Vec::with_capacity(buckets * 2);
    for bucket in buckets_of(points, buckets) {
        let low = bucket
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = bucket
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let (Some((i, low)), Some((j, high))) = (low, high) {
            match i.cmp(&j) {
                std::cmp::Ordering::Less => out.extend([*low, *high]),
                std::cmp::Ordering::Equal => out.push(*low),
                std::cmp::Ordering::Greater => out.extend([*high, *low]),
            }
        }
    }
    out
}

/// At most `most` points: each stretch is replaced by its mean, so that the area stays.
pub(crate) fn thin_means(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    buckets_of(points, most.max(1))
        .map(|bucket| {
            let n = bucket.len() as f64;
            let (x, y) = bucket
                .iter()
                .fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
            (x / n, y / n)
        })
        .collect()
}

fn buckets_of(points: &[(f64, f64)], count: usize) -> impl Iterator<Item = &[(f64, f64)]> {
    let len = points.len();
    (0..count)
        .map(move |n| &points[n * len / count..(n + 1) * len / count])
        .filter(|bucket| !bucket.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(n: usize) -> Vec<(f64, f64)> {
        (0..n)
            .map(|i| (i as f64, if i == 617 { 50.0 } else { (i % 7) as f64 }))
            .collect()
    }

    #[test]
    fn thinning_keeps_spikes() {
        let thin = thin_extremes(&saw(1000), 100);
        assert!(thin.len() <= 100);
        assert!(thin.iter().any(|p| (p.1 - 50.0).abs() < 1e-9));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0), "{thin:?}");
        assert_eq!(thin_extremes(&saw(30), 100).len(), 30);
    }

    #[test]
    fn thinning_keeps_the_mean() {
        let points = saw(1000);
        let mean = |p: &[(f64, f64)]| p.iter().map(|p| p.1).sum::<f64>() / p.len() as f64;
        let thin = thin_means(&points, 100);
        assert_eq!(thin.len(), 100);
        assert!((mean(&thin) - mean(&points)).abs() < 1e-9);
    }
}
