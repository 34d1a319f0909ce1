//! The dual-queue coupled AQM, RFC 9332, with the algorithm of its appendix A (`DualPI2`).
//!
//! Packets whose ECN field is ECT(1) or CE wait in the L4S queue, all others in the classic one. A proportional-integral
//! controller makes a base probability p' of the classic queue's delay; classic packets are dropped (or marked, if they are ECT(0))
//! with p'^2 and L4S packets marked with the larger of k p' and a ramp over their own queue's delay: as Reno's window is
//! proportional to 1/sqrt(p) and a scalable one's to 1/p, both kinds of flows have about the same rate (section 2.1).
//!
//! Probabilities are met by counting up (the RFC's `recur`), not by drawing lots, so nothing here is random. What the RFC's timer
//! does every `Tupdate` is done when the queue is next looked at, for all the times that have passed: nothing changes in between.
//!
//! The scheduler is left open by the RFC (4.1.1); this one is weighted round robin with a tenth for the classic queue, as Linux's
//! `sch_dualpi2` has it.

use crate::aqm::DualPi2Config;
use howdah_core::{Ecn, Time};

/// Index of the classic queue.
pub(crate) const CLASSIC: usize = 0;
/// Index of the L4S queue.
pub(crate) const L4S: usize = 1;

/// Of a hundred bytes, what the classic queue has when both wait.
const CLASSIC_WEIGHT: i64 = 10;
const L4S_WEIGHT: i64 = 100 - CLASSIC_WEIGHT;

/// What becomes of a packet at its queue's head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    Send,
    Mark,
    Drop,
}

/// The first packet of a queue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) arrived: Time,
    pub(crate) link_bytes: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    config: DualPi2Config,
    /// p'.
    base: f64,
    previous_s: f64,
    next_update: Time,
    /// What `recur` has counted up, of both queues.
    counted: [f64; 2],
    /// Of the scheduler: below zero the L4S queue is next.
    credit: i64,
}

impl DualPi2 {
    pub(crate) fn new(config: DualPi2Config) -> Self {
        Self {
            config,
            base: 0.0,
            previous_s: 0.0,
            next_update: Time::ZERO + config.update(),
            counted: [0.0; 2],
            credit: 0,
        }
    }

    /// Other constants from now on; the state goes on.
    pub(crate) fn reconfigure(&mut self, config: DualPi2Config) {
        self.config = config;
    }

    /// Does what the RFC's timer would have done by `now`, `classic` being at the head of that queue all the while.
    pub(crate) fn catch_up(&mut self, now: Time, classic: Option<Head>) {
        while self.next_update <= now {
            let queue_s = classic.map_or(0.0, |head| {
                self.next_update.since(head.arrived).as_secs_f64()
            });
            self.update(queue_s);
            self.next_update += self.config.update();
            if self.base <= 0.0 && queue_s <= 0.0 && classic.is_none() {
                // Nothing will change until something comes.
                let behind = now.since(self.next_update).as_nanos();
                let periods = behind / self.config.update().as_nanos().max(1);
                self.next_update += self.config.update() * periods;
                if self.next_update <= now {
                    self.next_update += self.config.update();
                }
            }
        }
    }

    /// One step of the controller (the RFC's figure 6) at a classic queue of this delay.
    fn update(&mut self, queue_s: f64) {
        let error = queue_s - self.config.target.as_secs_f64();
        let step = self.config.alpha() * error + self.config.beta() * (queue_s - self.previous_s);
        self.base = (self.base + step).clamp(0.0, 1.0);
        self.previous_s = queue_s;
    }

    /// From which queue the next packet is taken.
    pub(crate) fn next(&self, waiting: [bool; 2]) -> usize {
        match waiting {
            [true, false] => CLASSIC,
            [false, true] => L4S,
            _ if self.credit <= 0 => L4S,
            _ => CLASSIC,
        }
    }

    /// A packet has been taken from a queue.
    fn taken(&mut self, queue: usize, link_bytes: u64, (behind, other_waits): (usize, bool)) {
        let bytes = link_bytes as i64;
        self.credit = match (queue, other_waits) {
            (_, false) if behind == 0 => 0,
            (_, false) => self.credit,
            (L4S, true) => self.credit + bytes * CLASSIC_WEIGHT,
            (_, true) => self.credit - bytes * L4S_WEIGHT,
        };
    }

    /// What becomes of a packet that its queue gives at `now`: the RFC's `dequeue`, with its protection against overload (4.2.3). `behind`
    /// is how many packets stay in its queue, and whether any wait in the other one.
    pub(crate) fn decide(
        &mut self,
        now: Time,
        packet: Head,
        ecn: Ecn,
        behind: (usize, bool),
    ) -> Fate {
        let queue = if ecn.is_l4s() { L4S } else { CLASSIC };
        self.taken(queue, packet.link_bytes, behind);
        let coupled = self.config.coupling * self.base;
        let classic = self.base * self.base;
        let saturated = coupled >= 1.0;
        if queue == CLASSIC {
            if !self.recur(CLASSIC, classic) {
                return Fate::Send;
            }
            // From the probability on at which L4S is marked always, marks say nothing more.
            return if ecn.is_capable() && !saturated {
                Fate::Mark
            } else {
                Fate::Drop
            };
        }
        if saturated {
            return if self.recur(L4S, classic) {
                Fate::Drop
            } else {
                Fate::Mark
            };
        }
        let own = if behind.0 > 0 {
            self.ramp(now.since(packet.arrived).as_secs_f64())
        } else {
            0.0
        };
        if self.recur(L4S, own.max(coupled)) {
            Fate::Mark
        } else {
            Fate::Send
        }
    }

    /// The L4S queue's own probability at this delay.
    fn ramp(&self, queue_s: f64) -> f64 {
        let least = self.config.ramp_from.as_secs_f64();
        let range = self.config.ramp_range.as_secs_f64();
        if range <= 0.0 {
            return f64::from(u8::from(queue_s >= least));
        }
        ((queue_s - least) / range).clamp(0.0, 1.0)
    }

    fn recur(&mut self, queue: usize, likelihood: f64) -> bool {
        let counted = &mut self.counted[queue];
        *counted += likelihood;
        if *counted > 1.0 {
            *counted -= 1.0;
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_core::Span;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    fn head(ms: u64) -> Head {
        Head {
            arrived: at(ms),
            link_bytes: 1_000,
        }
    }

    fn with_base(base: f64) -> DualPi2 {
        DualPi2 {
            base,
            ..DualPi2::new(DualPi2Config::default())
        }
    }

    /// Figure 2 of the RFC's appendix: Tupdate = min(target, `RTT_max`/3), alpha = 0.1 Tupdate/`RTT_max`^2, beta = 0.3/`RTT_max`.
    #[test]
    fn constants_of_the_rfc() {
        let config = DualPi2Config::default();
        assert_eq!(config.update(), Span::from_millis(15));
        assert!((config.alpha() - 0.15).abs() < 1e-12);
        assert!((config.beta() - 3.0).abs() < 1e-12);
        assert!((config.coupling - 2.0).abs() < 1e-12);
        let long = DualPi2Config {
            target: Span::from_millis(50),
            ..config
        };
        assert_eq!(long.update(), Span::from_nanos(33_333_333));
    }

    /// The update by hand: a classic queue of 25 ms, then 35, then 15 and 0 against a target of 15.
    #[test]
    fn the_controller_follows_the_pseudo_code() {
        let mut dual = DualPi2::new(DualPi2Config::default());
        // p' += 0.15 (curq - 0.015) + 3 (curq - prevq)
        for (queue_s, expected) in [
            (0.025, 0.0015 + 0.075),
            (0.035, 0.0765 + 0.003 + 0.03),
            (0.035, 0.1095 + 0.003),
            (0.015, 0.1125 - 0.06),
            (0.0, 0.0525 - 0.002_25 - 0.045),
            (0.0, 0.005_25 - 0.002_25),
            (0.0, 0.003 - 0.002_25),
            (0.0, 0.0),
        ] {
            dual.update(queue_s);
            assert!((dual.base - expected).abs() < 1e-12, "{}", dual.base);
        }
        dual.update(9.0);
        assert!((dual.base - 1.0).abs() < 1e-12, "a probability");
    }

    #[test]
    fn updates_that_passed_are_made_up_for() {
        let mut all = DualPi2::new(DualPi2Config::default());
        all.catch_up(at(100), Some(head(10)));
        let mut each = DualPi2::new(DualPi2Config::default());
        for ms in 0..=100 {
            each.catch_up(at(ms), Some(head(10)));
        }
        assert!(all.base > 0.1);
        assert!((all.base - each.base).abs() < 1e-12);
        assert_eq!(all.next_update, at(105));
        // Idle for an hour, at once.
        all.catch_up(at(3_600_000), None);
        assert!(all.base <= 0.0);
        assert!(all.next_update > at(3_600_000) && all.next_update <= at(3_600_015));
    }

    /// p' = 0.2: a classic packet in 25 is dropped or marked, two L4S packets in five are marked.
    #[test]
    fn probabilities_are_coupled() {
        let share = |ecn: Ecn, fate: Fate| {
            let mut dual = with_base(0.2);
            let hits = (0..1_000)
                .filter(|_| dual.decide(at(1), head(1), ecn, (5, true)) == fate)
                .count();
            hits as f64 / 1_000.0
        };
        assert!((share(Ecn::NotEct, Fate::Drop) - 0.04).abs() <= 0.001);
        assert!((share(Ecn::Ect0, Fate::Mark) - 0.04).abs() <= 0.001);
        assert!((share(Ecn::Ect1, Fate::Mark) - 0.4).abs() <= 0.001);
        assert!((share(Ecn::Ce, Fate::Mark) - 0.4).abs() <= 0.001);
        assert!(share(Ecn::Ect1, Fate::Drop) <= 0.0);
    }

    #[test]
    fn the_ramp_goes_from_800_to_1200_microseconds() {
        let dual = with_base(0.0);
        for (us, probability) in [
            (0, 0.0),
            (800, 0.0),
            (1_000, 0.5),
            (1_200, 1.0),
            (9_000, 1.0),
        ] {
            let p = dual.ramp(f64::from(us) / 1e6);
            assert!((p - probability).abs() < 1e-9, "{us} us: {p}");
        }
        // A queue of one packet is none.
        let mut dual = with_base(0.0);
        for _ in 0..100 {
            assert_eq!(
                dual.decide(at(9), head(1), Ecn::Ect1, (0, false)),
                Fate::Send
            );
        }
        assert_eq!(
            dual.decide(at(9), head(1), Ecn::Ect1, (1, false)),
            Fate::Send
        );
        assert_eq!(
            dual.decide(at(9), head(1), Ecn::Ect1, (1, false)),
            Fate::Mark
        );
    }

    /// k p' = 1: from there on L4S packets are dropped as classic ones are, and marks say nothing.
    #[test]
    fn overload_drops_everybody_alike() {
        let mut dual = with_base(0.6);
        let drops = |dual: &mut DualPi2, ecn| {
            (0..1_000)
                .filter(|_| dual.decide(at(1), head(1), ecn, (5, true)) == Fate::Drop)
                .count()
        };
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1] {
            let dropped = drops(&mut dual, ecn);
            assert!((359..=361).contains(&dropped), "{ecn:?}: {dropped}");
        }
    }

    #[test]
    fn the_classic_queue_has_a_tenth_when_both_wait() {
        let mut dual = with_base(0.0);
        let mut sent = [0; 2];
        for _ in 0..1_000 {
            let queue = dual.next([true, true]);
            let ecn = [Ecn::NotEct, Ecn::Ect1][queue];
            dual.decide(at(1), head(1), ecn, (5, true));
            sent[queue] += 1;
        }
        assert_eq!(sent[CLASSIC], 100);
        assert_eq!(dual.next([true, false]), CLASSIC);
        assert_eq!(dual.next([false, true]), L4S);
    }
}
