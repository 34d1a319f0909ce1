//! Random loss.

use crate::LossModel;
use crate::chance::{Purpose, failures_before_success, happens, normal, stream, uniform, unit};
use crate::loss_model::stationary_bad;
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
    /// [`LossModel::Outages`]: when the state ends.
    state_until_ns: u64,
    /// [`LossModel::List`] sorted, and the place in it.
    list: Vec<u64>,
    list_at: usize,
    /// [`LossModel::Trace`]: which run of the pattern, and packets left in it.
    run: usize,
    run_left: u64,
}

impl Loss {
    pub(crate) fn new(seed: u64, model: &LossModel) -> Self {
        let mut loss = Self {
            rng: stream(seed, Purpose::Loss),
            model: LossModel::None,
            packets_left: u64::MAX,
            bad: false,
            state_left: u64::MAX,
            state_until_ns: 0,
            list: Vec::new(),
            list_at: 0,
            run: 0,
            run_left: 0,
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
            LossModel::Outages { loss, .. } => {
                // The first packet draws how long the state that it meets goes on.
                self.bad = *loss > 0.0 && happens(&mut self.rng, *loss);
                self.state_until_ns = 0;
            }
            LossModel::NormalGap { .. } => {
                // Anywhere in a first gap, or every seed would lose the same first packet.
                let gap = self.draw_gap();
                self.packets_left = if gap == u64::MAX {
                    gap
                } else {
                    uniform(&mut self.rng, gap - 1)
                };
            }
            LossModel::Trace(trace) => {
                self.run = 0;
                self.run_left = trace.runs()[0];
            }
            LossModel::List(indexes) => {
                self.list.clone_from(indexes);
                self.list.sort_unstable();
            }
        }
    }

    /// [`LossModel::NormalGap`]: packets from one loss to the next, at least 1.
    fn draw_gap(&mut self) -> u64 {
        let LossModel::NormalGap {
            loss,
            relative_deviation,
        } = self.model
        else {
            return u64::MAX;
        };
        if loss.is_nan() || loss <= 0.0 {
            return u64::MAX;
        }
        let mean = 1.0 / loss.min(1.0);
        let most = mean - 1.0;
        // What falls outside is drawn again; ten times in vain means a deviation so large that
        // the cuts are all that matters.
        let offset = (0..10)
            .map(|_| normal(&mut self.rng) * relative_deviation * mean)
            .find(|offset| offset.abs() <= most)
            .unwrap_or(0.0);
        // Rounded up or down at random, so that a mean that is no whole number is kept.
        let gap = mean + offset;
        let up = happens(&mut self.rng, gap.fract());
        (gap as u64 + u64::from(up)).max(1)
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

    /// [`LossModel::Outages`]: whether a packet at that moment meets a burst. Packets come in order, or nearly so.
    fn is_out(&mut self, loss: f64, mean_ns: f64, now_ns: u64) -> bool {
        if loss.is_nan() || loss <= 0.0 {
            return false;
        }
        if self.state_until_ns == 0 {
            // The state is in its middle at the first look, and exponential times have no memory.
            self.state_until_ns = now_ns.saturating_add(self.draw_state(loss, mean_ns));
        }
        while now_ns >= self.state_until_ns {
            self.bad = !self.bad;
            let lasts = self.draw_state(loss, mean_ns);
            self.state_until_ns = self.state_until_ns.saturating_add(lasts);
        }
        self.bad
    }

    fn draw_state(&mut self, loss: f64, mean_ns: f64) -> u64 {
        let mean = if self.bad {
            mean_ns
        } else {
            mean_ns * (1.0 - loss) / loss
        };
        ((-unit(&mut self.rng).ln() * mean) as u64).max(1)
    }

    /// Whether the packet with this index (among all offered ones), at that moment, is lost.
    #[inline]
    pub(crate) fn next(&mut self, index: u64, now_ns: u64) -> bool {
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
            LossModel::Outages { loss, mean } => self.is_out(loss, mean.as_nanos() as f64, now_ns),
            LossModel::NormalGap { .. } => {
                if self.packets_left == 0 {
                    self.packets_left = self.draw_gap() - 1;
                    true
                } else {
                    self.packets_left -= 1;
                    false
                }
            }
            LossModel::Trace(_) => self.next_of_trace(),
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

    fn next_of_trace(&mut self) -> bool {
        let LossModel::Trace(trace) = &self.model else {
            return false;
        };
        // Ends: a pattern has at least one packet.
        while self.run_left == 0 {
            self.run = (self.run + 1) % trace.runs().len();
            self.run_left = trace.runs()[self.run];
        }
        self.run_left -= 1;
        !self.run.is_multiple_of(2)
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
    use crate::LossTrace;
    use howdah_core::Span;

    fn losses(model: &LossModel, seed: u64, packets: u64) -> Vec<bool> {
        let mut loss = Loss::new(seed, model);
        (0..packets).map(|index| loss.next(index, 0)).collect()
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
    fn bursts_have_the_loss_and_the_length_that_were_asked_for() {
        for (loss, burst) in [(0.01, 5.0), (0.1, 20.0), (0.02, 2.0)] {
            let model = LossModel::bursts(loss, burst);
            assert!((model.stationary_loss() - loss).abs() < 1e-12);
            let packets = 5_000_000;
            let lost = losses(&model, 21, packets);
            let total = lost.iter().filter(|&&lost| lost).count() as f64;
            let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
            assert!((total / packets as f64 / loss - 1.0).abs() < 0.06);
            assert!(
                (total / runs / burst - 1.0).abs() < 0.06,
                "{}",
                total / runs
            );
        }
    }

    /// Share and length of bursts in time, seen by packets that come evenly; and by a sender that offers a burst one packet a
    /// second, the burst is over by the next one.
    #[test]
    fn outages_last_as_long_as_was_asked_for_whoever_sends() {
        let model = LossModel::Outages {
            loss: 0.02,
            mean: Span::from_millis(5),
        };
        assert!((model.stationary_loss() - 0.02).abs() < 1e-12);
        let mut loss = Loss::new(3, &model);
        // Ten packets a millisecond for 1000 s.
        let lost: Vec<bool> = (0..10_000_000)
            .map(|index| loss.next(index, index * 100_000))
            .collect();
        let share = lost.iter().filter(|&&lost| lost).count() as f64 / lost.len() as f64;
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        // 4000 bursts: a deviation of 1.6 %, and bursts between two packets are not seen.
        assert!((share / 0.02 - 1.0).abs() < 0.08, "{share}");
        let mean_ms = share * 1e6 / bursts;
        assert!((mean_ms - 5.0).abs() < 0.4, "{mean_ms}");
        let mut loss = Loss::new(4, &model);
        let slow: Vec<bool> = (0..200_000_u64)
            .map(|index| loss.next(index, index * 1_000_000_000))
            .collect();
        let pairs = slow.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        let all = slow.iter().filter(|&&lost| lost).count() as f64;
        assert!((all / 200_000.0 / 0.02 - 1.0).abs() < 0.08, "{all}");
        assert!(pairs / all < 0.04, "{pairs} of {all}");
    }

    /// Distances between losses: the mean is 1/p, the deviation as asked for, none is a burst.
    #[test]
    fn normal_gaps() {
        for (p, relative_deviation) in [(0.01, 0.2), (0.003, 0.0), (0.02, 0.1)] {
            let model = LossModel::NormalGap {
                loss: p,
                relative_deviation,
            };
            let lost = losses(&model, 6, 3_000_000);
            let at: Vec<f64> = (0..lost.len())
                .filter(|&at| lost[at])
                .map(|at| at as f64)
                .collect();
            let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let n = gaps.len() as f64;
            let mean = gaps.iter().sum::<f64>() / n;
            let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / n).sqrt();
            assert!((mean * p - 1.0).abs() < 0.005, "mean gap {mean} at {p}");
            // Rounding to whole packets adds at most half a packet.
            let expected = relative_deviation / p;
            assert!(
                (deviation - expected).abs() < 0.03 * expected + 0.51,
                "{deviation}"
            );
        }
        let certain = LossModel::NormalGap {
            loss: 1.0,
            relative_deviation: 0.3,
        };
        assert!(losses(&certain, 1, 100).iter().all(|&lost| lost));
        let never = LossModel::NormalGap {
            loss: 0.0,
            relative_deviation: 0.3,
        };
        assert!(losses(&never, 1, 10_000).iter().all(|&lost| !lost));
    }

    #[test]
    fn a_trace_repeats() {
        for text in ["00100 # a comment\n011", "1", "10", "01", "0"] {
            let trace = LossTrace::parse(text).unwrap();
            let marks: Vec<bool> = text
                .chars()
                .filter(char::is_ascii_digit)
                .map(|mark| mark == '1')
                .collect();
            assert_eq!(trace.packets(), marks.len() as u64);
            let seen = losses(&LossModel::Trace(trace.clone()), 1, 100);
            for (at, lost) in seen.iter().enumerate() {
                assert_eq!(*lost, marks[at % marks.len()], "{text} at {at}");
            }
            let share = marks.iter().filter(|&&lost| lost).count() as f64 / marks.len() as f64;
            assert!((LossModel::Trace(trace).stationary_loss() - share).abs() < 1e-12);
        }
        assert!(LossTrace::parse("# nothing\n").is_err());
        let error = LossTrace::parse("01\n0x1").expect_err("wrong");
        assert_eq!(error.line(), Some(2));
    }

    #[test]
    fn setting_the_same_model_again_changes_nothing() {
        let model = LossModel::Bernoulli(0.1);
        let straight = losses(&model, 4, 1000);
        let mut loss = Loss::new(4, &model);
        let poked: Vec<bool> = (0..1000)
            .map(|index| {
                loss.set_model(&model);
                loss.next(index, 0)
            })
            .collect();
        assert_eq!(straight, poked);
    }
}
