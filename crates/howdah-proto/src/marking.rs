//! Whether packets leave as ECT(1), so that a queue can mark them instead of dropping them, and whether what the peer counts
//! of them can be believed.
//!
//! Some networks clear the ECN field (bleaching), change it or set CE on everything (mangling), or drop what is not
//! zero there. So a few marked packets go first, and the counts in the peer's reports are compared with what was sent, then
//! and as long as packets are marked (RFC 9000, sections 13.4.2 and A.4; ECT(1): RFC 9331, section 4.1). Whoever fails goes on
//! without, for good.

use crate::codec::EcnCounts;
use crate::sent::Content;
use howdah_core::{Ecn, Span, Time};

/// Packets of one test.
const TEST_PACKETS: u64 = 10;
/// Tests whose packets may all come as CE: a queue may be full, but not each time.
const TESTS: u32 = 4;
/// The second test begins so long after the first, each further one after twice as long.
const TEST_AGAIN: Span = Span::from_secs(1);
/// So many in a row, all CE, for so long and so many round trips, are no queue: the rate has long been answered.
const ALL_CE: u64 = 256;
const ALL_CE_LASTS: Span = Span::from_secs(3);
const ALL_CE_ROUNDS: u64 = 16;

/// Whether this side's packets can be marked on the way.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EcnState {
    /// Not wanted, or the peer does not count marks.
    #[default]
    Off,
    /// The first ones are under way.
    Testing,
    /// They can.
    Capable,
    /// The path does not bear it.
    Failed(EcnFault),
}

/// What the path does to the ECN field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EcnFault {
    /// It is cleared, at least of some packets.
    Bleached,
    /// It comes as something that was never sent.
    Mangled,
    /// All packets come as CE, whatever the rate.
    AllMarked,
    /// Packets with it do not arrive.
    Dropped,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Marking {
    state: EcnState,
    /// What the packet that is being built leaves with.
    current: Ecn,
    tests: u32,
    /// Of this test.
    test_sent: u64,
    /// When all of the last test came as CE, and the next one may begin.
    again_at: Option<Time>,
    /// Packets sent as ECT(1), and what is known of them.
    sent: u64,
    acked: u64,
    lost: u64,
    told: EcnCounts,
    /// `told.ce` when a packet was last known to have come as ECT(1), and when that was.
    ce_before: (u64, Time),
}

impl Default for Marking {
    fn default() -> Self {
        Self {
            state: EcnState::Off,
            current: Ecn::NotEct,
            tests: 0,
            test_sent: 0,
            again_at: None,
            sent: 0,
            acked: 0,
            lost: 0,
            told: EcnCounts::default(),
            ce_before: (0, Time::ZERO),
        }
    }
}

impl Marking {
    /// The peer counts marks, this side wants them, and what the peer needs to open packets has arrived: packets that can be marked
    /// may overtake others.
    pub(crate) fn begin(&mut self) {
        if self.state == EcnState::Off {
            self.state = EcnState::Testing;
        }
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Chooses for the packet, or the train of packets, that is to be built.
    pub(crate) fn choose(&mut self, content: Content) -> Ecn {
        let capable = match self.state {
            EcnState::Capable => true,
            // A probe for the MTU may be lost for its size.
            EcnState::Testing => self.test_sent < TEST_PACKETS && content != Content::MtuProbe,
            EcnState::Off | EcnState::Failed(_) => false,
        };
        self.current = if capable { Ecn::Ect1 } else { Ecn::NotEct };
        self.current
    }

    /// A packet of that choice leaves. Returns whether it can be marked.
    pub(crate) fn on_sent(&mut self) -> bool {
        let capable = self.current.is_capable();
        self.sent += u64::from(capable);
        self.test_sent += u64::from(capable);
        capable
    }

    /// Whether any packet ever left as one that can be marked.
    #[cfg(feature = "sim")]
    pub(crate) fn has_sent_capable(&self) -> bool {
        self.sent > 0
    }

    /// A packet that left as ECT(1) has arrived; it may have been called lost before.
    pub(crate) fn on_acked(&mut self, was_lost: bool) {
        self.acked += 1;
        self.lost -= u64::from(was_lost);
    }

    /// A packet that left as ECT(1) is missing.
    pub(crate) fn on_lost(&mut self) {
        self.lost += 1;
    }

    /// The counts of a report whose fates have been noted before. Reports may overtake each other; counts only grow.
    pub(crate) fn on_counts(&mut self, now: Time, rtt: Span, counts: EcnCounts) {
        if !matches!(self.state, EcnState::Testing | EcnState::Capable) {
            return;
        }
        if counts.ect1 > self.told.ect1 {
            self.ce_before = (counts.ce, now);
        }
        self.told = EcnCounts {
            ect0: self.told.ect0.max(counts.ect0),
            ect1: self.told.ect1.max(counts.ect1),
            ce: self.told.ce.max(counts.ce),
        };
        if let Some(fault) = self.fault(now, rtt) {
            self.state = EcnState::Failed(fault);
        } else if self.state == EcnState::Testing {
            if self.told.ect1 > 0 {
                self.state = EcnState::Capable;
            } else if self.is_known() {
                self.test_again(now);
            }
        }
    }

    /// All came as CE, as in a queue that this flow's start has filled, or none came: later once more.
    fn test_again(&mut self, now: Time) {
        let tests = self.tests;
        let at = *self
            .again_at
            .get_or_insert_with(|| now + TEST_AGAIN * (1 << tests.min(8)));
        if now >= at {
            self.tests += 1;
            self.test_sent = 0;
            self.again_at = None;
        }
    }

    /// The fate of every packet of this test is known.
    fn is_known(&self) -> bool {
        self.test_sent >= TEST_PACKETS && self.acked + self.lost >= self.sent
    }

    fn fault(&self, now: Time, rtt: Span) -> Option<EcnFault> {
        let told = &self.told;
        let came = told.ect1.saturating_add(told.ce);
        if told.ect0 > 0 || came > self.sent {
            return Some(EcnFault::Mangled);
        }
        // What the peer counts may be more than what it has told the fate of, never less.
        if came < self.acked {
            return Some(EcnFault::Bleached);
        }
        let testing = self.state == EcnState::Testing;
        if testing && self.is_known() && self.acked == 0 && self.tests > 0 {
            return Some(EcnFault::Dropped);
        }
        let (ce_before, since) = self.ce_before;
        let lasts = now.since(since) >= ALL_CE_LASTS.max(rtt * ALL_CE_ROUNDS);
        let in_a_row = lasts && told.ce.saturating_sub(ce_before) >= ALL_CE;
        let untested = testing && self.is_known() && self.tests + 1 >= TESTS;
        ((in_a_row && !testing) || (untested && told.ect1 == 0)).then_some(EcnFault::AllMarked)
    }

    /// Packets that the peer has received with marks that can be believed: all of them, and those marked CE.
    pub(crate) fn counts(&self) -> Option<(u64, u64)> {
        let told = &self.told;
        (self.state == EcnState::Capable).then(|| (told.ect1 + told.ce, told.ce))
    }

    /// Packets of ours that the peer has received as CE.
    pub(crate) fn marked(&self) -> u64 {
        self.told.ce
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RTT: Span = Span::from_millis(20);

    /// What a path makes of the packets that it carries, one after the other.
    struct Path<F: FnMut(u64, Ecn) -> Option<Ecn>> {
        marking: Marking,
        counts: EcnCounts,
        number: u64,
        now: Time,
        carry: F,
    }

    impl<F: FnMut(u64, Ecn) -> Option<Ecn>> Path<F> {
        fn new(carry: F) -> Self {
            let mut marking = Marking::default();
            marking.begin();
            Self {
                marking,
                counts: EcnCounts::default(),
                number: 0,
                now: Time::ZERO,
                carry,
            }
        }

        /// That many packets, told of in one report.
        fn round(&mut self, packets: u64) -> EcnState {
            for _ in 0..packets {
                let ecn = self.marking.choose(Content::Probe);
                let capable = self.marking.on_sent();
                self.number += 1;
                match (self.carry)(self.number, ecn) {
                    Some(came) => {
                        self.counts.count(came);
                        if capable {
                            self.marking.on_acked(false);
                        }
                    }
                    None if capable => self.marking.on_lost(),
                    None => {}
                }
            }
            self.now += RTT;
            self.marking.on_counts(self.now, RTT, self.counts);
            self.marking.state()
        }

        fn rounds(&mut self) -> EcnState {
            (0..400).fold(EcnState::Off, |_, _| self.round(40))
        }
    }

    #[test]
    fn what_nobody_asked_for_stays_off() {
        let mut marking = Marking::default();
        assert_eq!(marking.choose(Content::Probe), Ecn::NotEct);
        assert!(!marking.on_sent());
        marking.on_counts(Time::ZERO, RTT, EcnCounts::default());
        assert_eq!((marking.state(), marking.counts()), (EcnState::Off, None));
    }

    #[test]
    fn a_few_go_first() {
        let mut path = Path::new(|_, ecn| Some(ecn));
        for n in 0..40 {
            let ecn = path.marking.choose(Content::Probe);
            assert_eq!(ecn.is_capable(), n < TEST_PACKETS);
            path.marking.on_sent();
        }
        let mut path = Path::new(|_, ecn| Some(ecn));
        assert_eq!(path.round(40), EcnState::Capable);
        assert_eq!(path.round(40), EcnState::Capable);
        assert_eq!(path.marking.counts(), Some((50, 0)));
        assert_eq!(path.marking.choose(Content::MtuProbe), Ecn::Ect1);
    }

    #[test]
    fn a_probe_for_the_mtu_is_no_test() {
        let mut marking = Marking::default();
        marking.begin();
        assert_eq!(marking.choose(Content::MtuProbe), Ecn::NotEct);
    }

    #[test]
    fn what_a_path_does_to_the_field_is_found_out() {
        let failed = EcnState::Failed;
        // From the beginning, ...
        let bleaching = |_, _| Some(Ecn::NotEct);
        assert_eq!(Path::new(bleaching).rounds(), failed(EcnFault::Bleached));
        let other = |_, ecn: Ecn| Some(if ecn.is_capable() { Ecn::Ect0 } else { ecn });
        assert_eq!(Path::new(other).rounds(), failed(EcnFault::Mangled));
        let all_ce = |_, ecn: Ecn| Some(if ecn.is_capable() { Ecn::Ce } else { ecn });
        assert_eq!(Path::new(all_ce).rounds(), failed(EcnFault::AllMarked));
        // ... even of packets that left without it, ...
        let everything = |_, _| Some(Ecn::Ce);
        assert_eq!(Path::new(everything).rounds(), failed(EcnFault::Mangled));
        let dropping = |_, ecn: Ecn| (!ecn.is_capable()).then_some(ecn);
        assert_eq!(Path::new(dropping).rounds(), failed(EcnFault::Dropped));
        // ... or after a change of the route.
        let later = |then: fn(Ecn) -> Ecn| {
            move |n, ecn: Ecn| {
                Some(if n > 2_000 && ecn.is_capable() {
                    then(ecn)
                } else {
                    ecn
                })
            }
        };
        let bleaching = later(|_| Ecn::NotEct);
        assert_eq!(Path::new(bleaching).rounds(), failed(EcnFault::Bleached));
        let mangling = later(|_| Ecn::Ect0);
        assert_eq!(Path::new(mangling).rounds(), failed(EcnFault::Mangled));
        let all_ce = later(|_| Ecn::Ce);
        assert_eq!(Path::new(all_ce).rounds(), failed(EcnFault::AllMarked));
        // One packet in fifty is enough.
        let some = |n, ecn| Some(if n % 50 == 0 { Ecn::NotEct } else { ecn });
        assert_eq!(Path::new(some).rounds(), failed(EcnFault::Bleached));
        // Failed is failed: nothing more is marked.
        let mut path = Path::new(|_, _| Some(Ecn::NotEct));
        path.rounds();
        assert_eq!(path.marking.choose(Content::Probe), Ecn::NotEct);
        assert_eq!(path.marking.counts(), None);
    }

    #[test]
    fn a_full_queue_at_the_start_is_no_fault() {
        let full = |n, ecn: Ecn| {
            Some(if n < 90 && ecn.is_capable() {
                Ecn::Ce
            } else {
                ecn
            })
        };
        let mut path = Path::new(full);
        assert_eq!(path.round(40), EcnState::Testing);
        assert_eq!(path.rounds(), EcnState::Capable);
    }

    /// A start that overshoots, or a queue that others hold full.
    #[test]
    fn a_queue_that_marks_everything_for_a_while_is_no_fault() {
        let full = |n, ecn: Ecn| {
            let marks = ecn.is_capable() && n > 2_000 && n % 5_000 > 500;
            Some(if marks { Ecn::Ce } else { ecn })
        };
        assert_eq!(Path::new(full).rounds(), EcnState::Capable);
    }

    proptest! {
        /// Loss, marks by a queue, reordered and repeated reports: an honest path never fails.
        #[test]
        fn honest_paths_pass(
            fates in prop::collection::vec((0..3u8, any::<bool>()), 50..400),
            overtaken in prop::collection::vec(any::<bool>(), 50),
        ) {
            let mut path = Path::new(|_, ecn| Some(ecn));
            // At least one of the first arrives unmarked.
            path.round(10);
            let mut overtaken = overtaken.into_iter().chain(std::iter::repeat(false));
            let (mut held, mut waiting): (Option<EcnCounts>, Vec<bool>) = (None, Vec::new());
            for chunk in fates.chunks(8) {
                for &(fate, late) in chunk {
                    path.marking.choose(Content::Probe);
                    let capable = path.marking.on_sent();
                    prop_assert!(capable);
                    match fate {
                        0 => path.counts.count(Ecn::Ect1),
                        1 => path.counts.count(Ecn::Ce),
                        _ if late => {
                            path.marking.on_lost();
                            path.counts.count(Ecn::Ect1);
                            path.marking.on_acked(true);
                            continue;
                        }
                        _ => {
                            path.marking.on_lost();
                            continue;
                        }
                    }
                    // Some have arrived and are not told of yet.
                    waiting.push(late);
                }
                let keep = waiting.iter().filter(|late| **late).count();
                for _ in keep..waiting.len() {
                    path.marking.on_acked(false);
                }
                waiting.retain(|late| *late);
                waiting.fill(false);
                let counts = path.counts;
                if overtaken.next().unwrap_or(false) {
                    // Its fates stand in a later report, too.
                    held = Some(counts);
                    path.marking.on_counts(path.now, RTT, counts);
                } else {
                    path.marking.on_counts(path.now, RTT, counts);
                    if let Some(old) = held.take() {
                        path.marking.on_counts(path.now, RTT, old);
                    }
                }
                prop_assert_eq!(path.marking.state(), EcnState::Capable);
            }
        }
    }
}
