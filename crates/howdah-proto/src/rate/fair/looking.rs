//! Looks at the link while no queue is in sight: bursts, as those of start-up, show whether it has become faster, and by how much.
//!
//! A step of probing takes a round trip and a sample, and begins with a twentieth; a burst says in a round trip what the link carries. It
//! does not say whose that is. So only a link that carries more than it did when it was last looked at is believed to have room for
//! all of it: where others have gone, everybody who is left sees the same room.

use super::{Fair, Judged};
use crate::rate::Feedback;
use crate::rate::company::Overflows;
use crate::rate::startup::BURST;
use crate::rate::trains::{TrainPoint, Trains};
use howdah_core::{Rate, Span, Time};

/// A look ends after so many round trips and this time, whatever it has seen.
const RTTS: u64 = 2;
const LASTS: Span = Span::from_millis(100);
/// Bursts are sent for so long, ...
const BURSTS_LAST: Span = Span::from_millis(20);
/// Bursts that have to be seen: a host that stands still makes one faster or slower, not most of them.
const BURSTS: usize = 3;
/// They are shorter on fast links, but no shorter than this.
const BURST_BYTES: u64 = 40_000;
/// The link is faster than it was if it carries so many times as much.
const FASTER: f64 = 1.5;
/// Share of what is shown that is gone to, and the most that a rate grows by at once.
const SHARE: f64 = 0.9;
const MOST: f64 = 4.0;
/// Who has that share of the link has most of it.
const MOSTLY: f64 = 0.85;
/// On a shorter one steps take no time, and bursts are long.
const SHORTEST_PATH: Span = Span::from_millis(5);
/// Of a slower flow bursts are too small to be relied on.
const SLOWEST: Rate = Rate::from_mbit_per_sec(50);

#[derive(Debug, Default)]
pub(super) struct Looking {
    /// What the link carried when it was looked at last, if that is known.
    link: Option<Rate>,
    /// A queue has been seen since then.
    is_due: bool,
    look: Option<(Time, Trains)>,
    /// This flow has most of that.
    has_most: bool,
    /// They are being sent.
    bursts: bool,
    /// The receiver is to tell when packets arrive.
    asks: bool,
}

impl Looking {
    /// Start-up has ended, and its bursts have shown that.
    pub(super) fn begin(&mut self, link: Option<Rate>) {
        *self = Self {
            link,
            ..Self::default()
        };
    }

    fn stop(&mut self) {
        self.look = None;
        self.bursts = false;
        self.asks = false;
    }

    /// Whether this flow has most of the link. Who has it no longer has to find out whether the link has become slower, or others have come.
    fn has_most(&mut self, capacity: Rate) -> bool {
        let has = self
            .link
            .is_none_or(|link| capacity >= link.mul_f64(MOSTLY));
        if !has && std::mem::take(&mut self.has_most) {
            self.link = None;
            self.is_due = true;
            return true;
        }
        self.has_most = has && self.link.is_some();
        has
    }

    fn is_faster(&self, shown: Rate) -> bool {
        self.link
            .is_some_and(|before| shown > before.mul_f64(FASTER))
    }

    /// Begins one.
    fn start(&mut self, now: Time) {
        self.is_due = false;
        self.look = Some((now, Trains::default()));
        self.asks = true;
        self.bursts = true;
    }

    /// Takes in what a report says of the bursts. What the link carries, once that is known.
    fn see(&mut self, feedback: &Feedback<'_>) -> Option<Rate> {
        let (begun, trains) = self.look.as_mut()?;
        let (now, begun) = (feedback.now, *begun);
        self.bursts &= now.since(begun) < BURSTS_LAST;
        let points: Vec<TrainPoint> = feedback
            .train
            .iter()
            .copied()
            .filter(|point| point.sent_time >= begun)
            .collect();
        let newest = TrainPoint {
            sent_time: feedback.point.sent_time,
            sent_bytes: feedback.point.sent_bytes,
            rx_time: feedback.point.rx_time,
        };
        if !points.is_empty() && newest.sent_time >= begun {
            trains.on_points(&points, newest);
        }
        if trains.is_sure() && trains.bursts() >= BURSTS {
            let shown = trains.capacity();
            self.stop();
            return shown;
        }
        if now.since(begun) > feedback.smoothed_rtt * RTTS + LASTS {
            self.stop();
        }
        None
    }
}

impl Fair {
    /// Packets leave in bursts of that length, to measure the path.
    pub(in crate::rate) fn burst(&self) -> Option<Span> {
        if self.starts() {
            return Some(BURST);
        }
        // The link idles for as long before the first, and what waited meanwhile then stands in the queue: as much as is known to fit there, and
        // less than is answered, unless that is too few packets.
        let enough = self.capacity.span_for(BURST_BYTES).max(self.target() / 2);
        let longest = self.bound.target_cap.min(enough);
        self.probing.looking.bursts.then(|| BURST.min(longest))
    }

    /// Whether the receiver is to tell of bursts, once.
    pub(in crate::rate) fn take_ask(&mut self) -> bool {
        std::mem::take(&mut self.probing.looking.asks)
    }

    /// Looks whether the link has become faster; then goes there at once. Nothing is looked at where bursts would hurt, or show nothing.
    pub(super) fn look_at_link(&mut self, feedback: &Feedback<'_>, judged: &Judged) {
        let has_most = self.probing.looking.has_most(self.capacity);
        let is_quiet = !judged.idle && !judged.congested && judged.overflows == Overflows::No;
        let is_alone = self.share.is_whole()
            && !self.company.is_here()
            && !self.company.is_testing(feedback.now)
            && !self.company.suspects();
        let is_sharp = self.delays.noise.allowance() == Span::ZERO
            && !self.is_short()
            && !self.marks.is_fine()
            && feedback.now >= self.host.no_company_until;
        let pays = self.delays.base_rtt >= SHORTEST_PATH && self.capacity >= SLOWEST;
        let is_queue_seen = self.delays.queue > self.target() / 2;
        let looking = &mut self.probing.looking;
        let shown = looking.see(feedback);
        if is_queue_seen {
            looking.bursts = false;
            looking.is_due |= looking.look.is_none();
        } else if !(has_most && is_quiet && is_alone && is_sharp && pays) {
            looking.bursts = false;
        } else if looking.is_due {
            looking.start(feedback.now);
        } else if let Some(shown) = shown.filter(|&shown| looking.is_faster(shown)) {
            let most = self.capacity.mul_f64(MOST);
            self.capacity = self.capacity.max(shown.mul_f64(SHARE).min(most));
            looking.link = Some(shown);
        }
        // (A faster one that cannot be gone to now is still to be found.)
        if let Some(shown) = shown
            && !looking.is_faster(shown)
        {
            looking.link = Some(shown);
        }
    }
}
