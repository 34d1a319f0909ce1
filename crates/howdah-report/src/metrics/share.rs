//! Who gets how much.

/// Jain's index: 1 if all are equal, 1/n if one has all (R. Jain et al., DEC-TR-301, 1984).
/// `None` if there is nothing to share.
pub fn jain(rates: &[f64]) -> Option<f64> {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    (squares > 0.0).then(|| sum * sum / (rates.len() as f64 * squares))
}

/// The least rate over the greatest (W). `None` if there is nothing to share.
pub fn max_min(rates: &[f64]) -> Option<f64> {
    let least = rates.iter().copied().min_by(f64::total_cmp)?;
    let most = rates.iter().copied().max_by(f64::total_cmp)?;
    (most > 0.0).then(|| least / most)
}

/// (x1 - x2) / (x1 + x2) of the protocol under test and its partner (W): 0 is fair, 1 is all for
/// the first. `None` if there is nothing to share.
pub fn asymmetry(tested: f64, partner: f64) -> Option<f64> {
    let sum = tested + partner;
    (sum > 0.0).then(|| (tested - partner) / sum)
}

/// Harm to a figure of which more is better, such as goodput: the share that the neighbour took
/// away (R. Ware et al., ACM `HotNets` 2019). Negative if the neighbour helped.
pub fn harm_more_is_better(alone: f64, with_neighbour: f64) -> Option<f64> {
    (alone > 0.0).then(|| (alone - with_neighbour) / alone)
}

/// Harm to a figure of which less is better, such as delay or completion time.
pub fn harm_less_is_better(alone: f64, with_neighbour: f64) -> Option<f64> {
    (with_neighbour > 0.0).then(|| (with_neighbour - alone) / with_neighbour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_between_one_and_one_over_n() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert!((jain(&[1.0, 0.0, 0.0, 0.0]).unwrap() - 0.25).abs() < 1e-12);
        assert_eq!(jain(&[0.0, 0.0]), None);
        assert_eq!(jain(&[]), None);
    }

    /// W.5 and W.6: the six values that the paper prints.
    #[test]
    fn asymmetries_of_the_paper() {
        for (tested, tcp, printed) in [
            (214.88, 238.0, -0.051),
            (477.62, 309.0, 0.214),
            (622.30, 46.4, 0.861),
            (120.75, 121.0, -0.001),
            (72.56, 116.0, -0.230),
            (612.33, 9.47, 0.970),
        ] {
            assert!(
                (asymmetry(tested, tcp).unwrap() - printed).abs() < 6e-4,
                "{tested}"
            );
        }
        assert_eq!(max_min(&[10.0, 2.0]), Some(0.2));
        assert_eq!(max_min(&[0.0]), None);
    }

    #[test]
    fn harm_is_the_share_lost() {
        assert_eq!(harm_more_is_better(800.0, 200.0), Some(0.75));
        assert_eq!(harm_less_is_better(1.0, 4.0), Some(0.75));
        assert_eq!(harm_more_is_better(0.0, 1.0), None);
    }
}
