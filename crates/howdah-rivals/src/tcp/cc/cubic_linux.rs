//! CUBIC as Linux has it, 2005 to today: four versions of one law.
//!
//! Sources: I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", PFLDnet 2005;
//! Linux `tcp_cubic.c` v2.0 (2006), v2.3 (kernels 2.6.29 to 2.6.37) and as of 6.x. RFC 9438 is apart, in
//! `cubic.rs`: it differs in what it counts and in the slow start, and not only in constants.
//!
//! The law: the target is the curve one least RTT ahead, W(t + minRTT) = C (t + minRTT - K)^3 + origin,
//! with C = 0.4; per round trip the window grows by target - cwnd, or by 1/100 if it is there already.
//! Where Reno with the same decrease would be faster (it is followed in `tcp_cwnd`, which grows by
//! 3 (1-beta)/(1+beta) per window of acknowledgements) the window grows by the distance to it.
//! Growth counts acknowledgements and multiplies by their measured number of segments; a
//! segment is added for one acknowledgement at most. A loss leaves beta, fast convergence as in BIC;
//! a timeout makes it forget everything.
//!
//! | | `cubic2005` | `cubic2005-linux` | `cubic-2.6.32` | `cubic-linux6` |
//! |---|---|---|---|---|
//! | follows | the paper; JGN06's patch for 2.4.25 | v2.0 | v2.3, CentOS 6.3 of K13app and K14proto | Linux 6.x, today's default |
//! | beta | 0.8 | 819/1024 | 717/1024 | 717/1024 |
//! | growth at most | `S_max` 160 segments/s | the same | no limit | half a segment for each acknowledged |
//! | initial threshold | none | 100 segments | none, but HyStart | none, but HyStart (its own constants) |
//! | before the first loss | | 2 % per round trip | | 5 % per round trip at least |
//! | counts | acknowledgements times their mean size | the same | the same | acknowledged segments |
//!
//! Against RFC 9438 Linux 6 keeps the slower Reno-friendly growth (0.53 per round trip) above the window of the last
//! loss, too, so it has less where windows are small.
//!
//! Two things are corrected, not copied. v2.0 scaled the cubic term with (41 << 3)/10 where 41 * 10
//! was meant, which makes it 12.8 times too flat, and measured the least RTT in other units than its
//! limit on growth assumes; later releases mended both. And integers: the kernel adds a segment every
//! `cnt` acknowledgements and looks again at the curve when the window changes or 31 ms have passed.
//! Whether JGN06's patch had an initial threshold is not stated; figure 15 of JGN06 speaks of its
//! slow start being cut short by other traffic, so `cubic2005` has none.

use super::cubic::{C, k_seconds};
use super::hystart::{self, HyStart, Rules};
use super::window::{AckRatio, Window};
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry};
use howdah_core::{Span, Time};

/// Registration of the paper's version.
pub const PAPER_2005: Entry = Entry {
    name: V2005.name,
    about: "CUBIC of the paper of 2005 (beta 0.8, at most 160 segments/s)",
    make: |settings| Box::new(LinuxCubic::new(settings, &V2005)),
};

/// Registration of the first version in Linux.
pub const LINUX_2_0: Entry = Entry {
    name: V2_0.name,
    about: "CUBIC 2.0 of Linux (2006; initial threshold 100)",
    make: |settings| Box::new(LinuxCubic::new(settings, &V2_0)),
};

/// Registration of the version of CentOS 6.
pub const LINUX_2_3: Entry = Entry {
    name: V2_3.name,
    about: "CUBIC 2.3 of Linux 2.6.32 with HyStart (CentOS 6)",
    make: |settings| Box::new(LinuxCubic::new(settings, &V2_3)),
};

/// Registration of today's version.
pub const LINUX_6: Entry = Entry {
    name: V6.name,
    about: "CUBIC of Linux 6.x with HyStart",
    make: |settings| Box::new(LinuxCubic::new(settings, &V6)),
};

/// Least growth: one segment for so many windows of acknowledgements.
const ROUNDS_PER_SEGMENT_AT_TARGET: f64 = 100.0;
/// RTTs that were measured so soon after a loss are not used (v2.0 and later).
const SETTLING: Span = Span::from_secs(1);

/// What distinguishes the versions.
#[derive(Debug)]
struct Version {
    name: &'static str,
    /// Share of the window that a loss leaves.
    beta: f64,
    /// Growth in segments a second at most.
    most_per_second: Option<f64>,
    /// Initial slow-start threshold in segments.
    initial_ssthresh: f64,
    /// Acknowledgements per added segment until the first loss: exactly that, or at most.
    acks_per_segment_until_loss: Option<f64>,
    hystart: Option<&'static Rules>,
    /// Counts acknowledged segments, and adds half a segment for each at most.
    by_segment: bool,
}

const V2005: Version = Version {
    name: "cubic2005",
    beta: 0.8,
    most_per_second: Some(160.0),
    initial_ssthresh: f64::INFINITY,
    acks_per_segment_until_loss: None,
    hystart: None,
    by_segment: false,
};

const V2_0: Version = Version {
    name: "cubic2005-linux",
    beta: 819.0 / 1024.0,
    most_per_second: Some(160.0),
    initial_ssthresh: 100.0,
    acks_per_segment_until_loss: Some(50.0),
    hystart: None,
    by_segment: false,
};

const V2_3: Version = Version {
    name: "cubic-2.6.32",
    beta: 717.0 / 1024.0,
    most_per_second: None,
    initial_ssthresh: f64::INFINITY,
    acks_per_segment_until_loss: None,
    hystart: Some(&hystart::LINUX_2_6),
    by_segment: false,
};

const V6: Version = Version {
    name: "cubic-linux6",
    acks_per_segment_until_loss: Some(20.0),
    hystart: Some(&hystart::LINUX_6),
    by_segment: true,
    ..V2_3
};

/// One stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Time,
    k: f64,
    origin: f64,
    /// Window of a Reno with the same decrease.
    tcp_cwnd: f64,
}

/// CUBIC of 2005 to 2011.
#[derive(Clone, Debug)]
pub struct LinuxCubic {
    version: &'static Version,
    window: Window,
    /// Window at the last loss; zero if there was none.
    last_max: f64,
    lost_before: bool,
    epoch: Option<Epoch>,
    least_rtt: Option<Span>,
    ack_ratio: AckRatio,
    hystart: Option<HyStart>,
}

impl LinuxCubic {
    fn new(settings: &CcSettings, version: &'static Version) -> Self {
        Self {
            version,
            window: Window::with_ssthresh(settings, version.initial_ssthresh),
            last_max: 0.0,
            lost_before: false,
            epoch: None,
            least_rtt: None,
            ack_ratio: AckRatio::new(),
            hystart: version.hystart.map(HyStart::new),
        }
    }

    fn start_epoch(&self, now: Time) -> Epoch {
        let cwnd = self.window.cwnd;
        let origin = self.last_max.max(cwnd);
        Epoch {
            start: now,
            k: k_seconds(origin - cwnd),
            origin,
            tcp_cwnd: cwnd,
        }
    }

    /// Segments that an acknowledgement of that many adds in congestion avoidance.
    fn increase(&mut self, now: Time, acked_segments: u32) -> f64 {
        let by_segment = self.version.by_segment;
        let acked = f64::from(acked_segments);
        let mut epoch = self.epoch.unwrap_or_else(|| self.start_epoch(now));
        let cwnd = self.window.cwnd;
        let beta = self.version.beta;
        let least_rtt = self.least_rtt.map_or(0.0, Span::as_secs_f64);

        let from_flat = now.since(epoch.start).as_secs_f64() + least_rtt - epoch.k;
        let target = epoch.origin + C * from_flat * from_flat * from_flat;
        let mut per_round = (target - cwnd).max(1.0 / ROUNDS_PER_SEGMENT_AT_TARGET);
        if let Some(most_per_second) = self.version.most_per_second
            && least_rtt > 0.0
        {
            per_round = per_round.min(most_per_second * least_rtt);
        }
        if let Some(acks) = self.version.acks_per_segment_until_loss
            && !self.lost_before
        {
            per_round = if by_segment {
                per_round.max(cwnd / acks)
            } else {
                cwnd / acks
            };
        }

        let counted = if by_segment { acked } else { 1.0 };
        epoch.tcp_cwnd += 3.0 * (1.0 - beta) / (1.0 + beta) * counted / cwnd;
        per_round = per_round.max(epoch.tcp_cwnd - cwnd);

        self.epoch = Some(epoch);
        if by_segment {
            (per_round / cwnd).min(0.5) * acked
        } else {
            (per_round / cwnd * self.ack_ratio.segments()).min(1.0)
        }
    }

    /// Time of a loss; returns the window that it leaves.
    fn reduce(&mut self) -> f64 {
        let cwnd = self.window.cwnd;
        self.last_max = if cwnd < self.last_max {
            cwnd * f64::midpoint(1.0, self.version.beta)
        } else {
            cwnd
        };
        self.lost_before = true;
        self.epoch = None;
        cwnd * self.version.beta
    }
}

impl CongestionControl for LinuxCubic {
    fn name(&self) -> &'static str {
        self.version.name
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.ack_ratio.on_ack(ack);
        let settled = self
            .epoch
            .is_none_or(|epoch| ack.now.since(epoch.start) >= SETTLING);
        if let Some(rtt) = ack.rtt.filter(|_| settled) {
            self.least_rtt = Some(self.least_rtt.map_or(rtt, |least| least.min(rtt)));
            if let Some(hystart) = &mut self.hystart {
                hystart.measure(rtt);
            }
        }
        if !self.window.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            let cwnd = self.window.cwnd;
            let hystart = self.hystart.as_mut();
            if hystart.is_some_and(|hystart| hystart.ends_slow_start(ack, cwnd, settled)) {
                self.window.ssthresh = cwnd;
            } else {
                self.window.grow_slow_start(ack);
            }
        } else {
            self.window.cwnd += self.increase(ack.now, ack.acked_segments);
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        let target = self.reduce();
        self.window.reduce_to(target);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, _event: &Congestion) {
        let target = if self.window.timeout_is_news() {
            self.reduce()
        } else {
            self.window.ssthresh
        };
        self.window.collapse(target);
        self.last_max = 0.0;
        self.lost_before = false;
        self.epoch = None;
        self.least_rtt = None;
        self.ack_ratio = AckRatio::new();
        self.hystart = self.hystart.as_ref().map(HyStart::anew);
    }

    fn on_undo(&mut self, _now: Time) {
        // The kernel keeps last_max and starts a new epoch.
        self.epoch = None;
        self.window.undo();
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.epoch = None;
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    const UNCAPPED: Version = Version {
        most_per_second: None,
        ..V2005
    };

    fn after_a_loss_at(cwnd: f64, version: &'static Version) -> LinuxCubic {
        let mut cubic = LinuxCubic::new(&testkit::settings(), version);
        cubic.window.cwnd = cwnd;
        cubic.on_congestion(&Congestion::default());
        cubic.on_recovered(Time::ZERO);
        cubic
    }

    /// Seconds from a loss at 14 600 segments and 180 ms back to a segment below.
    fn ramp_seconds(version: &'static Version, segments_per_ack: u32) -> f64 {
        let mut cubic = after_a_loss_at(14_600.0, version);
        cubic.least_rtt = Some(Span::from_millis(180));
        let mut pipe = Pipe::new(cubic);
        pipe.base_rtt = Span::from_millis(180);
        pipe.segments_per_ack = segments_per_ack;
        pipe.run_until(|pipe| pipe.cc.cwnd() >= 14_599.0)
            .as_secs_f64()
    }

    #[test]
    fn the_ramp_at_1_gbit_and_180_ms() {
        // K = cbrt(2920/0.4) = 19.4 s; the segment that is missing is 1.36 s of it. The limit
        // binds only early, where the curve would climb by 450 segments a second: with it the
        // window climbs by 160 a second to the top, 2919/160 = 18.24 s, but for the last round trip's
        // worth of 29 segments, of which each round trip takes a share of 1 - 1/e.
        let capped = ramp_seconds(&V2005, 1);
        let expected = 2919.0 / 160.0 + 0.18 * (28.8f64.ln() - 1.0);
        assert!((capped - expected).abs() < 0.15, "{capped}, not {expected}");
        let uncapped = ramp_seconds(&UNCAPPED, 1);
        assert!((uncapped - 18.1).abs() < 0.3, "{uncapped}");
        assert!(capped > uncapped);
        let delayed = ramp_seconds(&V2005, 2);
        assert!((delayed - capped).abs() < 0.3, "{delayed} against {capped}");
    }

    #[test]
    fn growth_is_limited_to_160_segments_a_second() {
        let mut cubic = after_a_loss_at(14_600.0, &V2005);
        cubic.least_rtt = Some(Span::from_millis(180));
        cubic.ack_ratio = AckRatio::new();
        let per_ack = cubic.increase(Time::ZERO, 1);
        // 160 * 0.18 = 28.8 a round trip, two segments an acknowledgement.
        let expected = 28.8 / 11_680.0 * 2.0;
        assert!((per_ack - expected).abs() < 1e-9, "{per_ack}");
    }

    #[test]
    fn each_version_keeps_its_share() {
        for (version, kept) in [(&V2005, 0.8), (&V2_0, 0.7998), (&V2_3, 0.7002)] {
            let cubic = after_a_loss_at(1000.0, version);
            assert!(
                (cubic.cwnd() - 1000.0 * kept).abs() < 0.05,
                "{}",
                version.name
            );
        }
    }

    #[test]
    fn before_a_loss_v2_0_grows_by_two_per_cent() {
        let mut pipe = Pipe::new(LinuxCubic::new(&testkit::settings(), &V2_0));
        pipe.run_until(|pipe| pipe.cc.cwnd() >= 200.0);
        let rounds = pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 400.0);
        // ln 2 / 0.02, compounding with every acknowledgement.
        assert!((rounds - 34.7).abs() < 1.5, "{rounds}");
    }

    #[test]
    fn a_small_window_follows_reno() {
        // 3 * 0.2/1.8 = 1/3 a round trip.
        let mut pipe = Pipe::new(after_a_loss_at(20.0, &V2005));
        pipe.base_rtt = Span::from_millis(10);
        let rounds = pipe.rounds_until(|pipe| pipe.cc.cwnd() >= 19.0);
        assert!((7.0..14.0).contains(&rounds), "three segments: {rounds}");
    }

    #[test]
    fn a_timeout_makes_it_forget() {
        let mut cubic = after_a_loss_at(1000.0, &V2_3);
        cubic.least_rtt = Some(Span::from_millis(10));
        cubic.on_timeout(&Congestion::default());
        testkit::assert_near(cubic.cwnd(), 1.0);
        assert_eq!((cubic.last_max, cubic.least_rtt), (0.0, None));
    }

    #[test]
    fn hystart_ends_slow_start_without_a_loss() {
        let mut pipe = Pipe::new(LinuxCubic::new(&testkit::settings(), &V2_3));
        pipe.base_rtt = Span::from_millis(50);
        pipe.segments_per_second = Some(80_000.0);
        pipe.run_until(|pipe| pipe.cc.ssthresh().is_finite());
        assert_eq!(pipe.lost, 0);
        let bdp = 4000.0;
        assert!(pipe.cc.cwnd() < bdp, "{}", pipe.cc.cwnd());
    }
}
