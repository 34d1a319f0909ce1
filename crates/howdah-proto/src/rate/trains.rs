//! The capacity of the narrowest link, from how a burst is spread when it arrives.
//!
//! A burst that is sent faster than the bottleneck leaves it at the bottleneck's rate (packet
//! trains; Dovrolis, Ramanathan, Moore 2001). It is an upper bound for what is available.

use howdah_core::{Rate, Span, Time};
use std::collections::VecDeque;

/// One packet of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrainPoint {
    /// When it was sent, by our clock.
    pub(crate) sent_time: Time,
    /// Bytes sent before it.
    pub(crate) sent_bytes: u64,
    /// When it arrived, by the receiver's clock.
    pub(crate) rx_time: Time,
}

/// Packets further apart at the sender belong to different bursts. (Those of two rates may follow each other closely, and joined they would show
/// too little.)
const MAX_GAP: Span = Span::from_micros(300);
/// Of a long burst a report has few packets. Two that follow each other within that time were in one: it is half of the time from one burst to the next.
const MAX_GAP_OF_TWO: Span = Span::from_millis(2);
/// A shorter spread says more about the receiving host than about the path: packets arrive
/// joined (GRO), and are stamped when the processor gets to them.
const MIN_SPREAD: Span = Span::from_micros(250);
/// A burst has been spread by the path if it took that much longer to arrive than to send.
const SPREAD_FACTOR: f64 = 1.25;
/// A few small packets are spread by whatever the hosts do between them.
const MIN_BYTES: u64 = 10_000;
/// See [`Trains::have_seen`].
const FEWER: u64 = 8;
/// Less than this share of what one as long proved, and a burst was spread by a host.
const DOUBTED_BELOW: f64 = 0.8;
/// Bursts agree if there are so many, and the middle half of them differs by no more than this.
const AGREEING: usize = 4;
const AGREEMENT: f64 = 0.97;
/// Estimates kept.
const KEEP: usize = 15;
/// A burst of so many bytes shows how fast the path is at least: as much as came, and a host is late by so long.
const FLOOR_BYTES: u64 = 20_000;
const FLOOR_SLACK: Span = Span::from_micros(100);
/// Estimates from fewer bytes are hints: a host that pauses in the middle of a short burst spreads it, too.
const SURE_BYTES: u64 = 100_000;

/// Estimates of the capacity.
#[derive(Debug, Default)]
pub(super) struct Trains {
    /// With the bytes that they come from.
    estimates: VecDeque<(Rate, u64)>,
    /// The same of the train that was sent with the handshake.
    ahead: Option<(Rate, u64)>,
    /// First and last point of the newest burst: the next report may go on with it.
    open: Vec<TrainPoint>,
    floor: Rate,
    /// Bytes of the burst that proved it.
    floor_bytes: u64,
    /// The same of bursts that are long enough to rely on.
    sure_floor: Rate,
}

impl Trains {
    /// Looks at the bursts among the points of one report, of which `newest` is the newest packet.
    pub(super) fn on_points(&mut self, points: &[TrainPoint], newest: TrainPoint) {
        let mut all = std::mem::take(&mut self.open);
        for &point in points.iter().chain([&newest]) {
            if all
                .last()
                .is_none_or(|last| point.sent_bytes > last.sent_bytes)
            {
                all.push(point);
            }
        }
        let mut start = 0;
        for at in 1..=all.len() {
            let apart = at == all.len() || all[at].sent_time.since(all[at - 1].sent_time) > MAX_GAP;
            if apart {
                self.on_burst(&all[start..at]);
                self.on_two(all.get(at - 1..=at).unwrap_or_default());
                if at == all.len() {
                    self.open.push(all[start]);
                    self.open.extend((at - 1 > start).then(|| all[at - 1]));
                }
                start = at;
            }
        }
    }

    /// Looks at the train that was sent with the handshake, of which more may have come since this was called last.
    pub(super) fn on_ahead(&mut self, points: &[TrainPoint; 2], fast: Rate) {
        self.ahead = self.spread(points);
        let [first, last] = points;
        let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
        let arrival = last.rx_time.since(first.rx_time);
        if bytes >= FLOOR_BYTES
            && Rate::from_bytes_over(bytes, arrival) >= fast
            && self.floor < fast
        {
            (self.floor, self.floor_bytes) = (fast, bytes);
        }
    }

    fn on_burst(&mut self, points: &[TrainPoint]) {
        let estimate = self.spread(points);
        self.keep(estimate);
    }

    /// Looks at two packets that follow each other among those that a report has.
    fn on_two(&mut self, points: &[TrainPoint]) {
        let [first, last] = points else {
            return;
        };
        let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
        let departure = last.sent_time.since(first.sent_time);
        if bytes >= SURE_BYTES && departure <= MAX_GAP_OF_TWO {
            self.keep(shown_by(points));
        }
    }

    fn keep(&mut self, estimate: Option<(Rate, u64)>) {
        if let Some(estimate) = estimate {
            if self.estimates.len() >= KEEP {
                self.estimates.pop_front();
            }
            self.estimates.push_back(estimate);
        }
    }

    /// Takes note of what a burst proves. Returns what it [shows](shown_by).
    fn spread(&mut self, points: &[TrainPoint]) -> Option<(Rate, u64)> {
        let [first, .., last] = points else {
            return None;
        };
        let arrival = last.rx_time.since(first.rx_time);
        let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
        if bytes >= FLOOR_BYTES {
            let floor = Rate::from_bytes_over(bytes, arrival + FLOOR_SLACK);
            if floor > self.floor {
                (self.floor, self.floor_bytes) = (floor, bytes);
            }
            if bytes >= SURE_BYTES {
                self.sure_floor = self.sure_floor.max(floor);
            }
        }
        shown_by(points)
    }

    /// The path is at least that fast while nobody else uses it.
    pub(super) fn floor(&self) -> Rate {
        self.floor
    }

    /// As [`floor`](Self::floor), of bursts so long that the hosts' share in it is small.
    pub(super) fn sure_floor(&self) -> Rate {
        self.sure_floor
    }

    /// Enough was seen to rely on [`capacity`](Self::capacity).
    pub(super) fn is_sure(&self) -> bool {
        self.believed().map(|&(_, bytes)| bytes).sum::<u64>() >= SURE_BYTES
    }

    /// How many are believed.
    pub(super) fn bursts(&self) -> usize {
        self.believed().count()
    }

    /// A burst that shows less than another one proved that was as long was spread by a host.
    fn believed(&self) -> impl Iterator<Item = &(Rate, u64)> {
        let least = self.floor.mul_f64(DOUBTED_BELOW);
        let longer = SURE_BYTES.max(self.floor_bytes + 1);
        self.estimates
            .iter()
            .chain(&self.ahead)
            .filter(move |(rate, bytes)| *bytes >= longer || *rate >= least)
    }

    /// A burst of so many bytes, or a few times fewer, is among those that are believed. (What hosts do takes as long whatever they send, so it spreads a
    /// long burst by less.)
    pub(super) fn have_seen(&self, bytes: u64) -> bool {
        self.believed().any(|&(_, seen)| seen * FEWER >= bytes)
    }

    /// The median of the last bursts that were spread, each with the weight of its bytes.
    pub(super) fn capacity(&self) -> Option<Rate> {
        self.quantile(0.5)
    }

    /// There are some, and most of them show nearly the same.
    pub(super) fn agree(&self) -> bool {
        let [low, high] = [0.25, 0.75].map(|share| self.quantile(share));
        self.bursts() >= AGREEING
            && low
                .zip(high)
                .is_some_and(|(low, high)| low >= high.mul_f64(AGREEMENT))
    }

    fn quantile(&self, share: f64) -> Option<Rate> {
        let mut sorted: Vec<(Rate, u64)> = self.believed().copied().collect();
        sorted.sort();
        let all = sorted.iter().map(|&(_, bytes)| bytes).sum::<u64>();
        let mut below = 0;
        sorted.into_iter().find_map(|(rate, bytes)| {
            below += bytes;
            (below as f64 > all as f64 * share).then_some(rate)
        })
    }
}

/// What a burst shows, if the path has spread it, and its bytes.
fn shown_by(points: &[TrainPoint]) -> Option<(Rate, u64)> {
    let [first, .., last] = points else {
        return None;
    };
    let arrival = last.rx_time.since(first.rx_time);
    let departure = last.sent_time.since(first.sent_time);
    let bytes = last.sent_bytes.saturating_sub(first.sent_bytes);
    let is_spread =
        arrival >= MIN_SPREAD && arrival >= departure.mul_f64(SPREAD_FACTOR) && bytes >= MIN_BYTES;
    is_spread.then(|| (Rate::from_bytes_over(bytes, arrival), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn burst(at_us: u64, send_gap_us: u64, arrival_gap_us: u64) -> Vec<TrainPoint> {
        (0..5)
            .map(|i| TrainPoint {
                sent_time: Time::ZERO + Span::from_micros(at_us + i * send_gap_us),
                sent_bytes: at_us * 125 + i * 125_000,
                rx_time: Time::ZERO + Span::from_micros(at_us + i * arrival_gap_us),
            })
            .collect()
    }

    #[test]
    fn a_spread_burst_shows_the_bottleneck() {
        let mut trains = Trains::default();
        // 125 kB every 100 us are 10 Gbit/s; sent at 25 Gbit/s. Two bursts in one report.
        let points = [burst(0, 40, 100), burst(5_000, 40, 100)].concat();
        trains.on_points(&points, points[points.len() - 1]);
        assert_eq!(trains.capacity(), Some(Rate::from_gbit_per_sec(10)));
    }

    #[test]
    fn bursts_that_arrive_as_they_were_sent_say_nothing() {
        let mut trains = Trains::default();
        for n in 0..5 {
            for points in [burst(n * 5_000, 100, 102), burst(n * 5_000 + 2_500, 10, 40)] {
                trains.on_points(&points, points[points.len() - 1]);
            }
        }
        assert_eq!(trains.capacity(), None);
    }

    #[test]
    fn a_burst_that_two_reports_share_is_one() {
        let mut trains = Trains::default();
        let points = burst(0, 40, 100);
        trains.on_points(&points[..2], points[2]);
        trains.on_points(&points[3..4], points[4]);
        assert_eq!(trains.capacity(), Some(Rate::from_gbit_per_sec(10)));
        assert!(trains.is_sure());
    }

    /// A rate that has just been raised begins with a burst, soon after the last one of the rate before.
    #[test]
    fn bursts_that_follow_each_other_closely_are_two() {
        let mut trains = Trains::default();
        let mut second = burst(900, 10, 100);
        for point in &mut second {
            point.sent_bytes += 512_500;
        }
        let points = [burst(0, 10, 100), second.clone()].concat();
        trains.on_points(&points, second[4]);
        assert_eq!(trains.capacity(), Some(Rate::from_gbit_per_sec(10)));
        assert!(trains.sure_floor() > Rate::from_gbit_per_sec(7));
    }

    /// Hosts that stand still spread any burst, and a path that has become slower all of them.
    #[test]
    fn a_burst_is_doubted_if_one_as_long_proved_twice_as_much() {
        let mut trains = Trains::default();
        let fast = burst(0, 10, 100);
        trains.on_points(&fast, fast[4]);
        let slow = burst(20_000, 10, 300);
        trains.on_points(&slow, slow[4]);
        let least = |trains: &Trains| trains.believed().map(|&(rate, _)| rate).min();
        assert_eq!(least(&trains), Some(Rate::from_gbit_per_sec(10)));
        // Half as much again, and longer: that is what the path carries now.
        let longer: Vec<TrainPoint> = burst(40_000, 10, 300)
            .into_iter()
            .zip(0..)
            .map(|(point, n)| TrainPoint {
                sent_bytes: point.sent_bytes + n * 62_500,
                ..point
            })
            .collect();
        trains.on_points(&longer, longer[4]);
        assert_eq!(least(&trains), Some(Rate::from_gbit_per_sec(5)));
        assert!(trains.have_seen(750_000 * FEWER));
        assert!(!trains.have_seen(750_000 * FEWER + 1));
    }

    #[test]
    fn a_train_ahead_counts_once_however_often_it_is_told_of() {
        let point = |sent_bytes, at_us| TrainPoint {
            sent_time: Time::ZERO,
            sent_bytes,
            rx_time: Time::ZERO + Span::from_micros(at_us),
        };
        let fast = Rate::from_mbit_per_sec(500);
        let mut trains = Trains::default();
        for last in [21_600, 22_800] {
            // 100 Mbit/s.
            trains.on_ahead(&[point(0, 0), point(last, last * 8 / 100)], fast);
        }
        assert_eq!((trains.bursts(), trains.is_sure()), (1, false));
        assert_eq!(trains.capacity(), Some(Rate::from_mbit_per_sec(100)));
        assert!(trains.floor() < Rate::from_mbit_per_sec(100));
        // That fast, though no host is so exact.
        trains.on_ahead(&[point(0, 0), point(22_800, 300)], fast);
        assert_eq!(trains.floor(), fast);
        trains.on_ahead(&[point(0, 0), point(22_800, 20)], fast);
        assert!(trains.floor() > Rate::from_gbit_per_sec(1));
    }

    /// 4 MB each 4 ms, of which a report has six packets: what it took from the first to the last of a burst is seen only by chance.
    #[test]
    fn few_packets_of_long_bursts_show_the_bottleneck() {
        let point = |sent_us, sent_bytes, arrival_us| TrainPoint {
            sent_time: Time::ZERO + Span::from_micros(sent_us),
            sent_bytes,
            rx_time: Time::ZERO + Span::from_micros(arrival_us),
        };
        let mut trains = Trains::default();
        let points = [
            point(0, 0, 0),
            // It leaves in half the time that it takes to come.
            point(1_500, 3_750_000, 3_000),
            // The pause, and the beginning of the next.
            point(4_100, 4_000_000, 4_200),
            point(5_500, 7_500_000, 7_000),
            // A burst and the pause behind it show nothing.
            point(8_100, 8_100_000, 10_300),
        ];
        trains.on_points(&points[..4], points[4]);
        assert_eq!(trains.capacity(), Some(Rate::from_gbit_per_sec(10)));
        assert_eq!(trains.bursts(), 2);
        assert_eq!(trains.floor(), Rate::ZERO);
    }

    #[test]
    fn a_short_burst_is_no_proof() {
        let mut trains = Trains::default();
        // 38 kB, in whose middle the host stood still for 5 ms.
        let points: Vec<TrainPoint> = [0, 10, 5_010, 5_020]
            .into_iter()
            .zip(0..)
            .map(|(at_us, n)| TrainPoint {
                sent_time: Time::ZERO,
                sent_bytes: n * 12_700,
                rx_time: Time::ZERO + Span::from_micros(at_us),
            })
            .collect();
        trains.on_points(&points, points[3]);
        assert!(
            trains
                .capacity()
                .is_some_and(|c| c < Rate::from_mbit_per_sec(70))
        );
        assert!(!trains.is_sure());
        // What a burst proves makes an end of it.
        let fast = burst(20_000, 1, 1);
        trains.on_points(&fast, fast[4]);
        assert_eq!(trains.capacity(), None);
    }
}
