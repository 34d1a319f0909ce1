//! Random loss.

use crate::LossModel;
use crate::chance::{Purpose, failures_before_success, happens, stream};
use crate::config::stationary_bad;
use rand_chacha::ChaCha8Rng;

/// Decides packet by packet, but draws only when something changes.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    rng: ChaCha8Rng,
    model: LossModel,
    /// Packets that pass before the next loss, as long as the state below lasts.
    packets_left: u64,
    /// Gilbert-Elliott: in the bad state, and packets left (after the next one) before it ends.
    bad: bool,
    state_left: u64,
    /// [`LossModel::List`] sorted, and the place in it.
    list: Vec<u64>,
    list_at: usize,
}

impl Loss {
    pub(crate) fn new(seed: u64, model: &LossModel) -> Self {
        let mut loss = Self {
            rng: stream(seed, Purpose::Loss),
            model: LossModel::None,
            packets_left: u64::MAX,
            bad: false,
            state_left: u64::MAX,
            list: Vec::new(),
            list_at: 0,
        };
        loss.set_model(model);
        loss
    }

    /// A model that stays the same goes on where it was.
    pub(crate) fn set_model(&mut self, model: &LossModel) {
        if *model == self.model {
            return;
        }
        self.model = model.clone();
        self.packets_left = u64::MAX;
        self.state_left = u64::MAX;
        self.list.clear();
        self.list_at = 0;
        match model {
            LossModel::None => {}
            LossModel::Bernoulli(p) => {
                self.packets_left = failures_before_success(&mut self.rng, *p);
            }
            LossModel::GilbertElliott {
                p_enter_bad,
                p_leave_bad,
                ..
            } => {
                let share = stationary_bad(*p_enter_bad, *p_leave_bad);
                self.bad = share > 0.0 && happens(&mut self.rng, share);
                self.enter_state();
            }
            LossModel::List(indexes) => {
                self.list.clone_from(indexes);
                self.list.sort_unstable();
            }
        }
    }

    fn enter_state(&mut self) {
        let LossModel::GilbertElliott {
            p_enter_bad,
            p_leave_bad,
            loss_good,
            loss_bad,
        } = self.model
        else {
            return;
        };
        let (leave, loss) = if self.bad {
            (p_leave_bad, loss_bad)
        } else {
            (p_enter_bad, loss_good)
        };
        self.state_left = failures_before_success(&mut self.rng, leave);
        self.packets_left = failures_before_success(&mut self.rng, loss);
    }

    /// Whether the packet with this index (among all offered ones) is lost.
    #[inline]
    pub(crate) fn next(&mut self, index: u64) -> bool {
        match self.model {
            LossModel::None => false,
            LossModel::Bernoulli(p) => self.count_down(p),
            LossModel::GilbertElliott {
                loss_good,
                loss_bad,
                ..
            } => {
                let lost = self.count_down(if self.bad { loss_bad } else { loss_good });
                if self.state_left == 0 {
                    self.bad = !self.bad;
                    self.enter_state();
                } else {
                    self.state_left -= 1;
                }
                lost
            }
            LossModel::List(_) => {
                while self
                    .list
                    .get(self.list_at)
                    .is_some_and(|&lost| lost < index)
                {
                    self.list_at += 1;
                }
                self.list.get(self.list_at) == Some(&index)
            }
        }
    }

    #[inline]
    fn count_down(&mut self, p: f64) -> bool {
        if self.packets_left == 0 {
            self.packets_left = failures_before_success(&mut self.rng, p);
            true
        } else {
            self.packets_left -= 1;
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(model: &LossModel, seed: u64, packets: u64) -> Vec<bool> {
        let mut loss = Loss::new(seed, model);
        (0..packets).map(|index| loss.next(index)).collect()
    }

    /// Number of losses in blocks of 1000 packets against the binomial distribution: mean and
    /// variance, as a chi-square with 999 degrees of freedom (mean 999, deviation 44.7).
    #[test]
    fn bernoulli_fits_the_binomial_distribution() {
        for (seed, p) in [(1, 0.001), (2, 0.01), (3, 0.02), (4, 0.3)] {
            let lost = losses(&LossModel::Bernoulli(p), seed, 1_000_000);
            let expected = 1000.0 * p;
            let chi_square: f64 = lost
                .chunks(1000)
                .map(|block| {
                    let seen = block.iter().filter(|&&lost| lost).count() as f64;
                    (seen - expected).powi(2) / (expected * (1.0 - p))
                })
                .sum();
            assert!(
                (chi_square - 999.0).abs() < 5.0 * 44.7,
                "p {p}: {chi_square}"
            );
            let total = lost.iter().filter(|&&lost| lost).count() as f64;
            let deviation = (1e6 * p * (1.0 - p)).sqrt();
            assert!((total - 1e6 * p).abs() < 4.0 * deviation, "p {p}: {total}");
        }
    }

    #[test]
    fn gilbert_elliott_has_its_stationary_loss_and_run_length() {
        let model = LossModel::GilbertElliott {
            p_enter_bad: 0.002,
            p_leave_bad: 0.2,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let stationary = model.stationary_loss();
        assert!((stationary - 0.002 / 0.202).abs() < 1e-12);
        let packets = 5_000_000;
        let lost = losses(&model, 9, packets);
        let total = lost.iter().filter(|&&lost| lost).count() as f64;
        let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        let share = total / packets as f64;
        assert!(
            (share / stationary - 1.0).abs() < 0.05,
            "{share} against {stationary}"
        );
        assert!(
            (total / runs - 5.0).abs() < 0.2,
            "mean run {}",
            total / runs
        );
    }

    #[test]
    fn gilbert_elliott_with_loss_in_both_states() {
        let model = LossModel::GilbertElliott {
            p_enter_bad: 0.01,
            p_leave_bad: 0.1,
            loss_good: 0.001,
            loss_bad: 0.3,
        };
        let packets = 3_000_000;
        let lost = losses(&model, 10, packets)
            .iter()
            .filter(|&&lost| lost)
            .count() as f64;
        let share = lost / packets as f64;
        assert!(
            (share / model.stationary_loss() - 1.0).abs() < 0.05,
            "{share}"
        );
    }

    #[test]
    fn a_list_names_packets_by_index_in_any_order() {
        let lost = losses(&LossModel::List(vec![7, 0, 3, 3]), 1, 10);
        let indexes: Vec<usize> = (0..10).filter(|&at| lost[at]).collect();
        assert_eq!(indexes, [0, 3, 7]);
    }

    #[test]
    fn setting_the_same_model_again_changes_nothing() {
        let model = LossModel::Bernoulli(0.1);
        let straight = losses(&model, 4, 1000);
        let mut loss = Loss::new(4, &model);
        let poked: Vec<bool> = (0..1000)
            .map(|index| {
                loss.set_model(&model);
                loss.next(index)
            })
            .collect();
        assert_eq!(straight, poked);
    }
}
