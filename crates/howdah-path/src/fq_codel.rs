//! Flow queues in front of `CoDel`, RFC 8290.
//!
//! Each flow has a line of its own (as far as its hash is), each line a `CoDel` of its own, and lines are served by deficit round
//! robin; a line that has just begun goes before those that always have something waiting, so that a sparse flow waits for nobody's
//! bulk. If there is no room, the longest line pays, not the packet that came.

use crate::aqm::FqCoDelConfig;
use crate::codel::CoDel;
use crate::waiting::Waiting;
use std::collections::VecDeque;

/// Packets that an overflow drops at most from the longest line (section 4.1.1).
const DROP_BATCH: usize = 64;

/// One of the lines.
#[derive(Clone, Debug)]
struct Line {
    packets: VecDeque<Waiting>,
    /// On the link.
    bytes: u64,
    credit: i64,
    codel: CoDel,
    /// Whether it is in one of the two lists.
    listed: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct FqCoDel {
    config: FqCoDelConfig,
    /// Grows to as many as hashes have come.
    lines: Vec<Option<Box<Line>>>,
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    packets: usize,
    largest_bytes: u64,
    /// Where packets are still to be dropped for want of room, and how many.
    excess: Option<(usize, usize)>,
    overhead_bytes: u64,
    salt: u64,
}

impl FqCoDel {
    pub(crate) fn new(seed: u64, config: FqCoDelConfig, overhead_bytes: u32) -> Self {
        Self {
            config,
            lines: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            largest_bytes: 0,
            excess: None,
            overhead_bytes: u64::from(overhead_bytes),
            salt: mix(seed),
        }
    }

    /// Other constants from now on, but as many lines; the state goes on.
    pub(crate) fn reconfigure(&mut self, config: FqCoDelConfig, overhead_bytes: u32) {
        let lines = self.config.lines;
        self.config = FqCoDelConfig { lines, ..config };
        let overhead_bytes = u64::from(overhead_bytes);
        for line in self.lines.iter_mut().flatten() {
            line.codel.reconfigure(config.codel);
            let packets = line.packets.len() as u64;
            line.bytes = line.bytes + packets * overhead_bytes - packets * self.overhead_bytes;
        }
        self.overhead_bytes = overhead_bytes;
    }

    /// The line of a flow: two may share one.
    pub(crate) fn line_of(&self, flow: u64) -> usize {
        (mix(flow ^ self.salt) % u64::from(self.config.lines.max(1))) as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// The largest packet that has come, on the link.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.largest_bytes
    }

    fn link_bytes(&self, packet: &Waiting) -> u64 {
        u64::from(packet.ip_bytes) + self.overhead_bytes
    }

    /// Section 4.1: the packet goes to the end of its line; a line that is in no list becomes a new one with a quantum.
    pub(crate) fn push(&mut self, packet: Waiting) {
        let at = self.line_of(packet.flow);
        let bytes = self.link_bytes(&packet);
        self.largest_bytes = self.largest_bytes.max(bytes);
        if self.lines.len() <= at {
            self.lines.resize_with(at + 1, || None);
        }
        let codel = self.config.codel;
        let line = self.lines[at].get_or_insert_with(|| {
            Box::new(Line {
                packets: VecDeque::new(),
                bytes: 0,
                credit: 0,
                codel: CoDel::new(codel),
                listed: false,
            })
        });
        line.codel.arrived(bytes);
        line.packets.push_back(packet);
        line.bytes += bytes;
        if !line.listed {
            line.listed = true;
            line.credit = i64::from(self.config.quantum_bytes);
            self.new.push_back(at);
        }
        self.packets += 1;
    }

    /// There was no room (section 4.1.1): half of the longest line, at most 64 packets, is to go from its head.
    pub(crate) fn overflow(&mut self) {
        if self.excess.is_some() {
            return;
        }
        let lines = self.lines.iter().enumerate();
        let lines = lines.filter_map(|(at, line)| line.as_ref().map(|line| (at, line)));
        let longest = lines.max_by_key(|&(at, line)| (line.bytes, std::cmp::Reverse(at)));
        self.excess = longest
            .map(|(at, line)| (at, line.packets.len().div_ceil(2).min(DROP_BATCH)))
            .filter(|&(_, packets)| packets > 0);
    }

    /// Whether packets wait for being dropped.
    pub(crate) fn is_overfull(&self) -> bool {
        self.excess.is_some()
    }

    /// The next packet that goes for want of room, and its line.
    pub(crate) fn pop_excess(&mut self) -> Option<(usize, Waiting)> {
        let (at, left) = self.excess.take()?;
        let packet = self.take(at)?;
        self.excess = (left > 1).then_some((at, left - 1));
        Some((at, packet))
    }

    /// Section 4.2: the packet that is next, its line, and whether `CoDel` drops it (or marks it, if it can be). A packet that is
    /// dropped costs no credit, so its line is asked again.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<(usize, Waiting, bool)> {
        let at = self.next_line()?;
        let packet = self.take(at)?;
        let bytes = self.link_bytes(&packet);
        let line = self.lines[at].as_mut()?;
        let sojourn_ns = now_ns.saturating_sub(packet.arrived.as_nanos());
        let hit = line.codel.drops(now_ns, sojourn_ns, line.bytes);
        if hit && packet.ecn.is_capable() {
            line.codel.was_marked(now_ns);
        }
        if !hit || packet.ecn.is_capable() {
            line.credit -= bytes as i64;
        }
        Some((at, packet, hit))
    }

    /// Takes any packet out, as long as there is one.
    pub(crate) fn discard(&mut self) -> Option<(usize, Waiting)> {
        self.excess = None;
        let at = self.next_line()?;
        Some((at, self.take(at)?))
    }

    fn take(&mut self, at: usize) -> Option<Waiting> {
        let overhead_bytes = self.overhead_bytes;
        let line = self.lines.get_mut(at)?.as_mut()?;
        let packet = line.packets.pop_front()?;
        line.bytes -= u64::from(packet.ip_bytes) + overhead_bytes;
        self.packets -= 1;
        Some(packet)
    }

    /// Goes through the lists until a line has credit and a packet; those that are passed get a quantum, or leave.
    fn next_line(&mut self) -> Option<usize> {
        if self.packets == 0 {
            return None;
        }
        loop {
            let is_new = !self.new.is_empty();
            let at = *self.new.front().or_else(|| self.old.front())?;
            let line = self.lines[at].as_mut()?;
            let (spent, empty) = (line.credit <= 0, line.packets.is_empty());
            if !spent && !empty {
                return Some(at);
            }
            if is_new {
                self.new.pop_front();
            } else {
                self.old.pop_front();
            }
            if spent {
                line.credit += i64::from(self.config.quantum_bytes.max(1));
                self.old.push_back(at);
                continue;
            }
            line.codel.empty();
            // A new line that ran empty becomes an old one first: it cannot be new over and over to be first always.
            if is_new {
                self.old.push_back(at);
            } else {
                line.listed = false;
            }
        }
    }

    /// The link asked and nothing waits: all lists have run empty.
    pub(crate) fn idle(&mut self) {
        for at in self.new.drain(..).chain(self.old.drain(..)) {
            if let Some(line) = self.lines[at].as_mut() {
                line.codel.empty();
                line.listed = false;
            }
        }
    }
}

/// The finaliser of `SplitMix64`: every bit of the input moves half of the output's.
fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
