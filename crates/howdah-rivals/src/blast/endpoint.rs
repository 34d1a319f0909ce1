//! A tool and its control channel as one transport.

use super::channel::Channel;
use super::fragments::Fragments;
use super::segment::{SEGMENT_HEADER_BYTES, Segment};
use super::send_buffer::{HeldBuffer, SendBuffer};
use howdah_core::{
    Arrival, ByteRange, Datagram, Observe, Rate, Snapshot, Span, Time, Transport, WakeReason,
};
use std::fmt::Debug;

/// Silence after which a side that still waits for something is given up. The programs themselves
/// wait for ever; a run must end.
const SILENCE: Span = Span::from_secs(300);

/// How a transfer ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// Complete, and known to be.
    Done(Time),
    /// Given up, and why.
    Failed(String),
}

/// One side of a tool, apart from its control channel. The header of each of its datagrams is
/// shorter than a segment's, which is how the two are told apart where both take the same path: the
/// programs use ports.
pub(crate) trait Tool: Debug {
    /// This side opens the control connection.
    const OPENS: bool;
    /// The control connection stands.
    fn on_connected(&mut self, now: Time, channel: &mut Channel);
    /// More bytes of the control stream have arrived, or its end.
    fn on_control(&mut self, now: Time, channel: &mut Channel);
    /// A datagram has arrived.
    fn on_data(&mut self, now: Time, header: &[u8], absent: u32, channel: &mut Channel);
    /// Time has passed.
    fn on_timeout(&mut self, now: Time, channel: &mut Channel);
    /// The next datagram that is due.
    fn poll_data(&mut self, now: Time, channel: &mut Channel) -> Option<Datagram>;
    /// When a datagram, or [`on_timeout`](Self::on_timeout), is due.
    fn next_at(&self, channel: &Channel) -> Option<(Time, WakeReason)>;
    /// The bytes of the object that the datagram with this header, the last that left or earlier in the same
    /// blast, stands for.
    fn payload_of(&self, _header: &[u8], _absent: u32) -> Option<ByteRange> {
        None
    }
    /// The bytes of the object that the last datagram brought, if it was wanted; once.
    fn take_accepted(&mut self) -> Option<ByteRange> {
        None
    }
    /// How it ended, once it has.
    fn outcome(&self) -> Option<&Outcome>;
    /// State and counters; `finished_at`, `failed`, `srtt` and `timeouts` come from elsewhere.
    fn snapshot(&self) -> Snapshot;
    /// User bytes that have arrived.
    fn delivered_bytes(&self) -> u64;
    /// The rate that the program itself displays at the end.
    fn displayed_rate(&self) -> Option<Rate>;
}

/// One side, complete.
#[derive(Debug)]
pub(crate) struct Endpoint<T> {
    tool: T,
    channel: Channel,
    began: bool,
    connected: bool,
    heard_at: Time,
    held: Option<HeldBuffer>,
    fragments: Option<Box<Fragments>>,
    failed: Option<String>,
    malformed: u64,
}

impl<T: Tool> Endpoint<T> {
    pub(crate) fn new(tool: T, nagle: bool, send_buffer: Option<SendBuffer>) -> Self {
        Self {
            tool,
            channel: Channel::new(nagle),
            began: false,
            connected: false,
            heard_at: Time::ZERO,
            held: send_buffer.map(HeldBuffer::new),
            fragments: None,
            failed: None,
            malformed: 0,
        }
    }

    /// The same, with datagrams of data cut to IP packets of that size.
    pub(crate) fn in_fragments(mut self, mtu: Option<u32>) -> Self {
        self.fragments = mtu.map(|mtu| Box::new(Fragments::new(mtu)));
        self
    }

    pub(crate) const fn tool(&self) -> &T {
        &self.tool
    }

    pub(crate) const fn tool_mut(&mut self) -> &mut T {
        &mut self.tool
    }

    fn begin(&mut self, now: Time) {
        if !self.began {
            self.began = true;
            self.heard_at = now;
            if T::OPENS {
                self.channel.connect();
            }
        }
    }

    fn is_over(&self) -> bool {
        self.failed.is_some() || self.tool.outcome().is_some()
    }

    /// What the channel has brought.
    fn forward(&mut self, now: Time) {
        if self.channel.is_open() && !self.connected {
            self.connected = true;
            if !self.is_over() {
                self.tool.on_connected(now, &mut self.channel);
            }
        }
        if self.connected && !self.is_over() {
            self.tool.on_control(now, &mut self.channel);
        }
        self.check(now);
    }

    fn check(&mut self, now: Time) {
        if self.is_over() {
            return;
        }
        if let Some(why) = self.channel.failure() {
            self.failed = Some(why.to_owned());
        } else if now.since(self.heard_at) >= SILENCE {
            self.failed = Some(format!("nothing was heard for {SILENCE}"));
        }
    }
}

impl<T: Tool> Transport for Endpoint<T> {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        self.begin(now);
        // The checksums of UDP and TCP find it.
        if arrival.corrupt {
            return;
        }
        self.heard_at = now;
        if arrival.bytes.len() < SEGMENT_HEADER_BYTES {
            if self.is_over() {
                return;
            }
            let channel = &mut self.channel;
            if let Some(fragments) = &mut self.fragments {
                if let Some((header, absent)) = fragments.join(arrival.bytes) {
                    self.tool.on_data(now, &header, absent, channel);
                }
            } else {
                self.tool
                    .on_data(now, arrival.bytes, arrival.absent, channel);
            }
        } else if let Some(segment) = Segment::decode(arrival.bytes) {
            self.channel.handle(now, &segment);
            self.forward(now);
        } else {
            self.malformed += 1;
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.begin(now);
        self.channel.on_timeout(now);
        if let Some(held) = &mut self.held {
            held.release(now);
        }
        self.check(now);
        if !self.is_over() {
            self.tool.on_timeout(now, &mut self.channel);
        }
    }

    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize {
        let mut sent = 0;
        while sent < max_datagrams {
            let Some(segment) = self.channel.poll(now) else {
                break;
            };
            out.push(segment);
            sent += 1;
        }
        while sent < max_datagrams && !self.is_over() {
            if let Some(piece) = self.fragments.as_mut().and_then(|f| f.pop()) {
                out.push(piece);
                sent += 1;
                continue;
            }
            if self.held.as_ref().is_some_and(HeldBuffer::is_full) {
                break;
            }
            let Some(datagram) = self.tool.poll_data(now, &mut self.channel) else {
                break;
            };
            if let Some(held) = &mut self.held {
                held.charge(now, datagram.wire_len());
            }
            if let Some(fragments) = &mut self.fragments {
                fragments.cut(&datagram);
            } else {
                out.push(datagram);
                sent += 1;
            }
        }
        sent
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        let mut next = self
            .channel
            .next_at()
            .map(|at| (at, WakeReason::ControlChannel));
        let mut offer = |other: Option<(Time, WakeReason)>| {
            next = match (next, other) {
                (Some(a), Some(b)) => Some(if b.0 < a.0 { b } else { a }),
                (a, b) => a.or(b),
            };
        };
        if !self.is_over() && self.began {
            offer(Some((self.heard_at + SILENCE, WakeReason::IdleTimeout)));
            let due = self.tool.next_at(&self.channel);
            let room_at = self.held.as_ref().and_then(HeldBuffer::room_at);
            offer(match (due, room_at) {
                (Some((at, reason)), Some(room)) => Some((at.max(room), reason)),
                (due, _) => due,
            });
        }
        next
    }
}

impl<T: Tool> Observe for Endpoint<T> {
    fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot {
            srtt: self.channel.srtt(),
            timeouts: self.channel.timeouts(),
            failed: self.failed.clone(),
            ..self.tool.snapshot()
        };
        match self.tool.outcome() {
            Some(Outcome::Done(at)) => snapshot.finished_at = Some(*at),
            Some(Outcome::Failed(why)) => snapshot.failed = Some(why.clone()),
            None => {}
        }
        snapshot
    }
}
