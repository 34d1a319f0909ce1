//! Whether this flow has more or less of a queue that marks than others in it.
//!
//! All that share such a queue see the same marks at the same time, and half of the marked share is what each loses. So between one
//! time and the next a flow whose window is the fair one grows by as much as the marks take; one that grows by more is below it, one
//! by less above. Who knows that need not wait until Chiu and Jain have made all equal: what is below grows faster and loses less at
//! a mark, what is above the other way round, and nothing changes where all are equal, whatever their law of growth is.

/// Of what there was so much still counts when marks come the next time.
const KEPT: f64 = 0.5;
/// So often marks must have come after a calm before anything is said: the first ones answer the start.
const TIMES: u32 = 3;
/// Growth is at most, and at least, so many times what it would be.
const MOST: f64 = 6.0;
const LEAST: f64 = 0.25;
/// No cut is made deeper than this share of the rate by it.
const DEEPEST: f64 = 0.1;

/// What became of the rate, in bits per second.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    grown: f64,
    lost: f64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Balance {
    /// Since marks came after a calm.
    now: Moved,
    /// Before that.
    before: Moved,
    times: u32,
}

impl Balance {
    /// The law of growth gave that many bits per second, without a factor of this.
    pub(super) fn on_growth(&mut self, bits: f64) {
        self.now.grown += bits;
    }

    /// Marks come after a calm.
    pub(super) fn begin(&mut self) {
        self.before = Moved {
            grown: KEPT * self.before.grown + self.now.grown,
            lost: KEPT * self.before.lost + self.now.lost,
        };
        self.now = Moved::default();
        self.times += 1;
    }

    /// They take that many, without a factor of this.
    pub(super) fn on_cut(&mut self, bits: f64) {
        self.now.lost += bits;
    }

    /// What growth is multiplied by.
    pub(super) fn growth(&self) -> f64 {
        let Moved { grown, lost } = self.before;
        if self.times < TIMES || grown <= 0.0 || lost <= 0.0 {
            return 1.0;
        }
        (grown / lost).powi(2).clamp(LEAST, MOST)
    }

    /// What a mark takes of the rate that would take this share.
    pub(super) fn cut(&self, share: f64) -> f64 {
        (share / self.growth().sqrt()).min(share.max(DEEPEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two flows that grow by the root of their windows and are marked at the same time, whenever both fill the link.
    fn share_of_the_smaller(balanced: bool, rounds: u32) -> f64 {
        const LINK: f64 = 4_000.0;
        let mut windows: [f64; 2] = [3_600.0, 400.0];
        let mut balances = [Balance::default(), Balance::default()];
        for _ in 0..rounds {
            for (window, balance) in windows.iter_mut().zip(&mut balances) {
                let grown = 0.04 * window.sqrt();
                balance.on_growth(grown);
                *window += grown * if balanced { balance.growth() } else { 1.0 };
            }
            if windows.iter().sum::<f64>() < LINK {
                continue;
            }
            for (window, balance) in windows.iter_mut().zip(&mut balances) {
                balance.begin();
                balance.on_cut(0.03 * *window);
                *window *= 1.0 - if balanced { balance.cut(0.03) } else { 0.03 };
            }
        }
        windows[1] / windows.iter().sum::<f64>()
    }

    #[test]
    fn flows_become_equal_sooner_and_stay_so() {
        assert!(share_of_the_smaller(false, 1_000) < 0.25);
        for rounds in [1_000, 1_500, 5_000, 50_000] {
            let share = share_of_the_smaller(true, rounds);
            assert!((0.44..0.56).contains(&share), "{rounds}: {share}");
        }
    }

    #[test]
    fn nothing_is_said_before_marks_have_come_some_times_and_cuts_have_a_bound() {
        let mut balance = Balance::default();
        for _ in 1..TIMES {
            balance.begin();
            balance.on_growth(1.0);
            balance.on_cut(10.0);
        }
        assert!((balance.growth() - 1.0).abs() < 1e-9);
        balance.begin();
        assert!(
            (balance.growth() - LEAST).abs() < 1e-9,
            "it is above the others"
        );
        assert!((balance.cut(0.03) - 0.06).abs() < 1e-9);
        assert!((balance.cut(0.08) - DEEPEST).abs() < 1e-9);
        assert!(
            (balance.cut(0.3) - 0.3).abs() < 1e-9,
            "what is deep is not made deeper"
        );
    }
}
