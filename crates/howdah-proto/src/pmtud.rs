//! Path MTU discovery by probes alone (DPLPMTUD, RFC 8899).
//!
//! ICMP is ignored: it can be forged and is often filtered. Ordinary loss never lowers the MTU;
//! a black hole is concluded only when dedicated probes of the size in use are lost while small
//! ones sent beside them arrive.

use crate::codec::limits::MIN_DATAGRAM;
use howdah_core::{Span, Time};

/// What every path carries, as the sizes here are.
pub(crate) const MIN_SIZE: u16 = 1_200;
const _: () = assert!(MIN_SIZE as usize == MIN_DATAGRAM);

/// A probe size is given up after that many losses.
const MAX_PROBE_LOSSES: u8 = 3;
/// The search ends when what works and what fails are that close, in bytes.
const SEARCH_PRECISION: u16 = 24;
/// A larger MTU is looked for again after that long.
const RAISE_AFTER: Span = Span::from_secs(300);
/// Full-size packets lost in a row, none arriving, before a black hole is suspected.
const SUSPECT_AFTER_LOST: u32 = 24;
/// Pairs of probes that confirm the suspicion.
const BLACK_HOLE_PAIRS: u8 = 3;

/// Sizes of UDP payloads that common links carry, less IP and UDP headers: jumbo frames, FDDI,
/// Ethernet, Ethernet below a tunnel.
const COMMON_MTUS: [u16; 5] = [9000, 4352, 1500, 1400, 1280];

/// A probe to send now: a ping padded to `size` UDP payload bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct MtuProbe {
    pub(crate) size: u16,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    size: u16,
    losses: u8,
    in_flight: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BlackHole {
    No,
    /// Pairs sent so far, small and large probes that arrived or were lost.
    Suspected {
        to_send: u8,
        large_lost: u8,
        small_arrived: u8,
    },
}

/// The discovery's state.
#[derive(Debug)]
pub(crate) struct PathMtu {
    /// UDP payload size in use.
    current: u16,
    /// IP and UDP headers of a packet, in bytes.
    ip_overhead: u16,
    /// Largest size worth trying (peer's and socket's limit).
    ceiling: u16,
    /// Smallest size known to fail.
    fails_at: u16,
    candidates: Vec<Candidate>,
    searching: bool,
    next_raise: Option<Time>,
    full_size_lost: u32,
    /// The current size is that of an earlier connection, and none of it has arrived yet.
    assumed: bool,
    black_hole: BlackHole,
    black_holes: u64,
}

impl PathMtu {
    pub(crate) fn new() -> Self {
        Self {
            current: MIN_SIZE,
            ip_overhead: 28,
            ceiling: MIN_SIZE,
            fails_at: u16::MAX,
            candidates: Vec::new(),
            searching: false,
            next_raise: None,
            full_size_lost: 0,
            assumed: false,
            black_hole: BlackHole::No,
            black_holes: 0,
        }
    }

    /// Packets of that size went over this path lately: they are sent at once, and confirmed, or refuted as by a black hole, as they arrive.
    pub(crate) fn assume(&mut self, size: u16) {
        if size > self.current && size <= self.ceiling {
            self.current = size;
            self.assumed = true;
            self.candidates.retain(|c| c.size > size);
        }
    }

    /// UDP payload size of full packets.
    pub(crate) fn current(&self) -> u16 {
        self.current
    }

    pub(crate) fn black_holes(&self) -> u64 {
        self.black_holes
    }

    /// Starts looking for the largest size up to `ceiling` (UDP payload bytes);
    /// `ip_overhead` is 28 for IPv4 and 48 for IPv6.
    pub(crate) fn start(&mut self, ceiling: u16, ip_overhead: u16) {
        self.ip_overhead = ip_overhead;
        self.ceiling = ceiling.max(self.current);
        self.fails_at = self.ceiling.saturating_add(1);
        self.searching = true;
        self.candidates = COMMON_MTUS
            .iter()
            .map(|mtu| mtu - ip_overhead)
            .chain([self.ceiling])
            .filter(|&size| size > self.current && size <= self.ceiling)
            .map(|size| Candidate {
                size,
                losses: 0,
                in_flight: false,
            })
            .collect();
        self.candidates.sort_by_key(|c| std::cmp::Reverse(c.size));
        self.candidates.dedup_by_key(|c| c.size);
        self.next_raise = None;
        if self.candidates.is_empty() {
            self.searching = false;
        }
    }

    /// The probe that should be sent now.
    pub(crate) fn next_probe(&mut self, now: Time) -> Option<MtuProbe> {
        if let BlackHole::Suspected { to_send, .. } = &mut self.black_hole
            && *to_send > 0
        {
            *to_send -= 1;
            // Large and small alternate.
            let size = if *to_send % 2 == 1 {
                self.current
            } else {
                MIN_SIZE
            };
            return Some(MtuProbe { size });
        }
        if self.next_raise.is_some_and(|at| now >= at) {
            self.start(self.ceiling, self.ip_overhead);
        }
        let candidate = self.candidates.iter_mut().find(|c| !c.in_flight)?;
        candidate.in_flight = true;
        Some(MtuProbe {
            size: candidate.size,
        })
    }

    /// When a probe is due that is not due now.
    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.next_raise
    }

    /// A probe of `size` arrived.
    pub(crate) fn on_probe_acked(&mut self, now: Time, size: u16) {
        if let BlackHole::Suspected { small_arrived, .. } = &mut self.black_hole {
            if size == self.current {
                self.black_hole = BlackHole::No;
            } else if size == MIN_SIZE {
                *small_arrived += 1;
                self.judge_black_hole(now);
            }
        }
        if size > self.current {
            self.current = size;
        }
        self.candidates.retain(|c| c.size > self.current);
        self.refine(now);
    }

    /// A probe of `size` was lost.
    pub(crate) fn on_probe_lost(&mut self, now: Time, size: u16) {
        if let BlackHole::Suspected { large_lost, .. } = &mut self.black_hole
            && size == self.current
        {
            *large_lost += 1;
            self.judge_black_hole(now);
            return;
        }
        if let Some(candidate) = self.candidates.iter_mut().find(|c| c.size == size) {
            candidate.in_flight = false;
            candidate.losses += 1;
            if candidate.losses >= MAX_PROBE_LOSSES {
                self.on_size_fails(now, size);
            }
        }
    }

    /// The host itself refused that size (`EMSGSIZE`).
    pub(crate) fn on_size_fails(&mut self, now: Time, size: u16) {
        if size <= self.current && self.assumed {
            self.fall_back(now, size);
        }
        if size <= self.current {
            return;
        }
        self.fails_at = self.fails_at.min(size);
        self.candidates.retain(|c| c.size < self.fails_at);
        self.refine(now);
    }

    /// Goes on by bisection once the common sizes are decided.
    fn refine(&mut self, now: Time) {
        if !self.searching || !self.candidates.is_empty() {
            return;
        }
        let gap = self.fails_at.saturating_sub(self.current);
        if gap <= SEARCH_PRECISION {
            self.searching = false;
            self.next_raise = Some(now + RAISE_AFTER);
            return;
        }
        let size = self.current + gap / 2;
        self.candidates.push(Candidate {
            size,
            losses: 0,
            in_flight: false,
        });
    }

    /// Full-size packets were confirmed (`arrived`) or lost.
    pub(crate) fn on_full_size(&mut self, size: u16, arrived: u32, lost: u32) {
        if size <= MIN_SIZE || size < self.current {
            return;
        }
        if arrived > 0 {
            self.assumed = false;
            self.full_size_lost = 0;
            self.black_hole = BlackHole::No;
            return;
        }
        self.full_size_lost += lost;
        if self.full_size_lost >= SUSPECT_AFTER_LOST && self.black_hole == BlackHole::No {
            self.black_hole = BlackHole::Suspected {
                to_send: 2 * BLACK_HOLE_PAIRS,
                large_lost: 0,
                small_arrived: 0,
            };
        }
    }

    fn judge_black_hole(&mut self, now: Time) {
        let BlackHole::Suspected {
            to_send,
            large_lost,
            small_arrived,
        } = self.black_hole
        else {
            return;
        };
        if large_lost >= BLACK_HOLE_PAIRS && small_arrived > 0 {
            self.black_holes += 1;
            self.fall_back(now, self.current);
        } else if to_send == 0 && large_lost >= BLACK_HOLE_PAIRS {
            // Everything is lost, not the large ones alone: ask again.
            self.black_hole = BlackHole::No;
        }
    }

    /// Begins anew from what every path carries, below what has `failed`.
    fn fall_back(&mut self, now: Time, failed: u16) {
        self.current = MIN_SIZE;
        self.assumed = false;
        self.black_hole = BlackHole::No;
        self.full_size_lost = 0;
        self.start(self.ceiling, self.ip_overhead);
        self.fails_at = failed;
        self.candidates.retain(|c| c.size < failed);
        self.refine(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers probes as a path of `limit` UDP payload bytes would.
    fn run(mtu: &mut PathMtu, limit: u16) -> usize {
        let mut probes = 0;
        while let Some(probe) = mtu.next_probe(Time::ZERO) {
            probes += 1;
            assert!(probes < 100, "the search does not end");
            if probe.size <= limit {
                mtu.on_probe_acked(Time::ZERO, probe.size);
            } else {
                mtu.on_probe_lost(Time::ZERO, probe.size);
            }
        }
        probes
    }

    #[test]
    fn finds_common_sizes_exactly_and_others_closely() {
        for (limit, want) in [(8972, 8972), (1472, 1472), (1200, 1200), (4324, 4324)] {
            let mut mtu = PathMtu::new();
            mtu.start(8972, 28);
            run(&mut mtu, limit);
            assert_eq!(mtu.current(), want, "path of {limit}");
        }
        let mut mtu = PathMtu::new();
        mtu.start(8972, 28);
        let probes = run(&mut mtu, 3000);
        assert!(
            (3000 - SEARCH_PRECISION..=3000).contains(&mtu.current()),
            "{}",
            mtu.current()
        );
        assert!(probes < 50, "{probes} probes");
    }

    #[test]
    fn a_jumbo_path_needs_one_probe() {
        let mut mtu = PathMtu::new();
        mtu.start(8972, 28);
        assert_eq!(mtu.next_probe(Time::ZERO), Some(MtuProbe { size: 8972 }));
        mtu.on_probe_acked(Time::ZERO, 8972);
        assert_eq!(mtu.next_probe(Time::ZERO), None);
    }

    #[test]
    fn a_size_that_an_earlier_connection_had_is_used_and_given_up_if_it_fails() {
        let begun = |size| {
            let mut mtu = PathMtu::new();
            mtu.start(8972, 28);
            mtu.assume(size);
            mtu
        };
        let mut mtu = begun(4324);
        assert_eq!(mtu.current(), 4324);
        // Larger ones are still looked for.
        run(&mut mtu, 8972);
        assert_eq!(mtu.current(), 8972);
        assert_eq!(begun(9000).current(), MIN_SIZE, "the peer takes less");
        // The host's own interface has become smaller.
        let mut mtu = begun(8972);
        mtu.on_size_fails(Time::ZERO, 8972);
        assert_eq!(mtu.current(), MIN_SIZE);
        run(&mut mtu, 1472);
        assert_eq!(mtu.current(), 1472);
        // So has the path.
        let mut mtu = begun(8972);
        mtu.on_full_size(8972, 0, SUSPECT_AFTER_LOST);
        run(&mut mtu, 1472);
        assert_eq!((mtu.current(), mtu.black_holes()), (1472, 1));
        // What has arrived once is not given up for a message that may be forged.
        let mut mtu = begun(8972);
        mtu.on_full_size(8972, 1, 0);
        mtu.on_size_fails(Time::ZERO, 8972);
        assert_eq!(mtu.current(), 8972);
    }

    #[test]
    fn ordinary_loss_is_no_black_hole() {
        let mut mtu = PathMtu::new();
        mtu.start(8972, 28);
        run(&mut mtu, 8972);
        for _ in 0..1000 {
            mtu.on_full_size(8972, 1, 20);
        }
        // Everything is lost for a while, small probes too.
        for _ in 0..50 {
            mtu.on_full_size(8972, 0, 20);
            while let Some(probe) = mtu.next_probe(Time::ZERO) {
                mtu.on_probe_lost(Time::ZERO, probe.size);
            }
        }
        assert_eq!((mtu.current(), mtu.black_holes()), (8972, 0));
    }

    #[test]
    fn a_black_hole_is_found_and_the_search_starts_again() {
        let mut mtu = PathMtu::new();
        mtu.start(8972, 28);
        run(&mut mtu, 8972);
        mtu.on_full_size(8972, 0, 100);
        run(&mut mtu, 1472);
        assert_eq!((mtu.current(), mtu.black_holes()), (1472, 1));
    }
}
