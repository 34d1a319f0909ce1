//! Queues that mark: `CoDel` and `DualPI2` (RFC 9332).

use howdah_core::{Ecn, Rate, Span, Time};
use howdah_path::{Aqm, CoDelConfig, DropReason, DualPi2Config, OneWay, PathConfig, Verdict};

/// What became of the packets of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Fates {
    offered: u32,
    sent: u32,
    marked: u32,
    dropped: u32,
    /// Of those that were sent, in all.
    wait: Span,
}

impl Fates {
    fn note(&mut self, verdict: Verdict, offered: Time, delay: Span) {
        match verdict {
            Verdict::Deliver(delivery) => {
                self.sent += 1;
                self.marked += u32::from(delivery.marked);
                self.wait += delivery.at.since(offered).saturating_sub(delay);
            }
            Verdict::Drop(reason) => {
                assert_eq!(reason, DropReason::Aqm);
                self.dropped += 1;
            }
            Verdict::Queued => panic!("a verdict at last"),
        }
    }

    fn share_hit(&self) -> f64 {
        f64::from(self.marked + self.dropped) / f64::from(self.sent + self.dropped)
    }
}

/// 100 Mbit/s for ten seconds, to which two kinds are offered, each at this rate: packets of 1250 bytes at even distances.
fn run(aqm: Aqm, kinds: [(Ecn, u64); 2]) -> [Fates; 2] {
    let delay = Span::from_millis(5);
    let config = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(100)),
        aqm,
        delay,
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 1);
    let mut offers: Vec<(Time, usize)> = Vec::new();
    for (kind, (_, mbit)) in kinds.iter().enumerate() {
        let gap_ns = 10_000_000 / mbit.max(&1);
        let count = if *mbit == 0 {
            0
        } else {
            10_000_000_000 / gap_ns
        };
        offers.extend((0..count).map(|n| (Time::from_nanos(n * gap_ns + kind as u64), kind)));
    }
    offers.sort_unstable();
    let mut fates = [Fates::default(); 2];
    let mut waiting = [const { std::collections::VecDeque::new() }; 2];
    let release = |path: &mut OneWay,
                   waiting: &mut [std::collections::VecDeque<(Time, usize)>; 2],
                   fates: &mut [Fates; 2],
                   due| {
        let (queue, verdict) = path.release_from(due).expect("somebody waits");
        let (offered, kind) = waiting[queue].pop_front().expect("it waits in that line");
        fates[kind].note(verdict, offered, delay);
    };
    for (now, kind) in offers {
        while let Some(due) = path.next_release()
            && due <= now
        {
            release(&mut path, &mut waiting, &mut fates, due);
        }
        let ecn = kinds[kind].0;
        fates[kind].offered += 1;
        match path.offer_ecn(now, 1_250, ecn) {
            Verdict::Queued => waiting[path.queue_of(ecn, 0)].push_back((now, kind)),
            verdict => fates[kind].note(verdict, now, delay),
        }
        assert_eq!(path.waiting(), waiting[0].len() + waiting[1].len());
    }
    while let Some(due) = path.next_release() {
        release(&mut path, &mut waiting, &mut fates, due);
    }
    let counters = path.counters();
    assert_eq!(
        counters.marked,
        u64::from(fates[0].marked + fates[1].marked)
    );
    assert_eq!(counters.offered, counters.delivered + counters.dropped());
    fates
}

/// A classic flow that does not listen, of 110 Mbit/s: in the long run a tenth of the link's rate has to go, so p = p'^2 is
/// about 0.09, and L4S packets beside it are marked with 2 p', about 0.6.
#[test]
fn dualpi2_couples_what_it_drops_and_what_it_marks() {
    let [classic, l4s] = run(
        Aqm::DualPi2(DualPi2Config::default()),
        [(Ecn::NotEct, 108), (Ecn::Ect1, 2)],
    );
    assert_eq!(classic.offered, classic.sent + classic.dropped);
    let p = classic.share_hit();
    assert!((0.07..0.11).contains(&p), "{p}");
    assert_eq!(l4s.dropped, 0);
    let marked = l4s.share_hit();
    let coupled = 2.0 * p.sqrt();
    assert!((marked / coupled - 1.0).abs() < 0.1, "{marked}, {coupled}");
    // The L4S queue does not wait for the classic one.
    let mean = l4s.wait.as_secs_f64() / f64::from(l4s.sent);
    assert!(mean < 0.002, "{mean}");
}

/// ECT(0) shares the classic queue and is marked instead.
#[test]
fn dualpi2_marks_classic_packets_that_can_be_marked() {
    let [classic, ect0] = run(
        Aqm::DualPi2(DualPi2Config::default()),
        [(Ecn::NotEct, 100), (Ecn::Ect0, 8)],
    );
    assert!(classic.dropped > 0 && classic.marked == 0);
    assert!(ect0.marked > 0 && ect0.dropped == 0, "{ect0:?}");
}

/// More L4S packets than fit: marks do nothing about a flow that does not listen, so overload drops it.
#[test]
fn dualpi2_drops_l4s_packets_under_overload_only() {
    let [few, _] = run(
        Aqm::DualPi2(DualPi2Config::default()),
        [(Ecn::Ect1, 90), (Ecn::NotEct, 0)],
    );
    assert_eq!((few.dropped, few.marked), (0, 0));
    let [l4s, classic] = run(
        Aqm::DualPi2(DualPi2Config::default()),
        [(Ecn::Ect1, 120), (Ecn::NotEct, 20)],
    );
    assert!(
        l4s.dropped > 0 && classic.dropped > 0,
        "{l4s:?} {classic:?}"
    );
}

#[test]
fn codel_marks_what_can_be_marked_as_often_as_it_drops() {
    let codel = Aqm::CoDel(CoDelConfig::default());
    let [marked, _] = run(codel, [(Ecn::Ect0, 110), (Ecn::NotEct, 0)]);
    let [dropped, _] = run(codel, [(Ecn::NotEct, 110), (Ecn::NotEct, 0)]);
    assert!(marked.dropped == 0 && dropped.marked == 0);
    assert!(marked.marked > 50, "{marked:?}");
    // Nothing that is marked goes away, so the queue stands above the target all the time: marks are no fewer than drops.
    assert!(marked.marked >= dropped.dropped, "{marked:?} {dropped:?}");
}

/// A link becomes free within a nanosecond; who comes at the end of that one and goes before those that wait is not served before
/// it came.
#[test]
fn who_overtakes_the_waiting_does_not_begin_before_it_came() {
    // 1000 bytes take 266.67 ns.
    let config = PathConfig {
        rate: Some(Rate::from_mbit_per_sec(30_000)),
        aqm: Aqm::DualPi2(DualPi2Config::default()),
        link_overhead_bytes: 0,
        ..PathConfig::default()
    };
    let mut path = OneWay::new(&config, 1);
    let at = Time::from_nanos;
    let first = path.offer_ecn(at(0), 1_000, Ecn::NotEct);
    assert!(matches!(first, Verdict::Deliver(_)));
    for (now, ecn) in [(1, Ecn::NotEct), (267, Ecn::Ect1)] {
        assert_eq!(path.offer_ecn(at(now), 1_000, ecn), Verdict::Queued);
    }
    let mut released = Vec::new();
    while let Some(due) = path.next_release() {
        let (line, verdict) = path.release_from(due).expect("somebody waits");
        let Verdict::Deliver(delivery) = verdict else {
            panic!("nobody is dropped: {verdict:?}");
        };
        released.push((line, delivery.at));
    }
    let [classic, l4s] = [Ecn::NotEct, Ecn::Ect1].map(|ecn| path.queue_of(ecn, 0));
    // Its time begins at 267 ns, and not at 266.67.
    assert_eq!(released, [(l4s, at(534)), (classic, at(801))]);
}
