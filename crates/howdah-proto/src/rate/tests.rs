//! Policies in force, and how one follows another.

use super::{BREAKER_ROUNDS, Feedback, Phase, Point, Policy, RateControl, Share};
use howdah_core::{Rate, Span, Time};
use smallvec::SmallVec;

const RTT: Span = Span::from_millis(50);
/// Between two reports.
const INTERVAL: Span = Span::from_millis(25);
const PACKET_BYTES: u64 = 1_250;
const LINK: Rate = Rate::from_mbit_per_sec(100);

/// A flow over a link that throws away what is above its rate, and has no queue.
struct Flow {
    control: RateControl,
    now: Time,
    point: Point,
}

impl Flow {
    fn new(policy: Policy) -> Self {
        let mut control = RateControl::new(policy, Share::WHOLE);
        control.on_established(RTT);
        Self {
            control,
            now: Time::ZERO + RTT,
            point: Point {
                rx_time: Time::ZERO,
                sent_time: Time::ZERO,
                sent_bytes: 0,
                delivered_bytes: 0,
                acked_packets: 0,
                lost_packets: 0,
                app_limited: false,
                unsent_bytes: 0,
            },
        }
    }

    fn set(&mut self, policy: Policy) {
        self.control.set_policy(policy, RTT);
    }

    /// The next report, of what left at the pacing rate.
    fn report(&mut self) {
        self.now += INTERVAL;
        let packets = |rate: Rate| rate.bytes_in(INTERVAL) / PACKET_BYTES;
        let sent = packets(self.control.pacing_rate());
        let came = sent.min(packets(LINK));
        let point = &mut self.point;
        point.sent_time = self.now - RTT;
        point.rx_time = point.sent_time + RTT / 2;
        point.sent_bytes += sent * PACKET_BYTES;
        point.delivered_bytes += came * PACKET_BYTES;
        point.acked_packets += came;
        point.lost_packets += sent - came;
        self.control.on_feedback(&Feedback {
            now: self.now,
            point: *point,
            rtt: Some(RTT),
            min_rtt: RTT,
            smoothed_rtt: RTT,
            socket_drops: 0,
            sink_limit: None,
            cap: None,
            host_drops: false,
            refusing: false,
            lost_sent_at: &[],
            marks: None,
            train: SmallVec::new(),
        });
    }

    fn reports(&mut self, count: u32) {
        (0..count).for_each(|_| self.report());
    }
}

fn fixed(mbit: u64) -> Policy {
    Policy::Fixed(Rate::from_mbit_per_sec(mbit))
}

#[test]
fn a_fixed_rate_that_does_not_arrive_is_given_up_until_another_is_set() {
    let mut flow = Flow::new(fixed(400));
    let began = flow.now;
    while !flow.control.breaker_tripped() {
        assert_eq!(flow.control.policy(), fixed(400));
        assert_eq!(flow.control.pacing_rate(), Rate::from_mbit_per_sec(400));
        assert!(flow.control.burst().is_none() && !flow.control.wants_fine_pacing());
        flow.report();
        assert!(flow.now.since(began) < RTT * 20, "it is never given up");
    }
    // Once for each round trip, and not before there is anything to judge.
    let rounds = u64::from(BREAKER_ROUNDS);
    assert!(flow.now.since(began) >= RTT * (rounds - 1));
    assert_eq!(flow.control.policy(), Policy::Fair);
    flow.reports(200);
    assert!(flow.control.breaker_tripped());
    assert!(flow.control.pacing_rate() < Rate::from_mbit_per_sec(200));

    flow.set(fixed(400));
    assert!(flow.control.breaker_tripped(), "it is what was given up");
    flow.set(fixed(90));
    assert!(!flow.control.breaker_tripped());
    flow.reports(200);
    assert_eq!(flow.control.policy(), fixed(90));
    assert_eq!(flow.control.pacing_rate(), Rate::from_mbit_per_sec(90));
    flow.set(fixed(400));
    assert!(!flow.control.breaker_tripped(), "a new chance");
    flow.reports(200);
    assert!(flow.control.breaker_tripped());
}

#[test]
fn what_fair_has_learnt_stays_beside_background_which_begins_anew_each_time() {
    let mut flow = Flow::new(Policy::Fair);
    flow.reports(200);
    assert_ne!(flow.control.phase(), Phase::Startup);
    let learnt = flow.control.describe();
    for _ in 0..2 {
        flow.set(Policy::Background);
        assert_eq!(flow.control.phase(), Phase::Startup);
        assert_eq!(flow.control.capacity(), Rate::ZERO);
        flow.reports(200);
        assert_ne!(flow.control.phase(), Phase::Startup);
        assert!(flow.control.capacity() > Rate::ZERO && flow.control.wants_fine_pacing());
        flow.set(Policy::Fair);
        assert_eq!(flow.control.describe(), learnt);
    }
}
