//! The receiving half: what is acknowledged, and what is asked for again.

use super::config::{Repeat, SYN, SYN_US, Start, UdtConfig, WindowAt};
use super::connection::Connection;
use super::estimate::Arrivals;
use super::sender::{GIVE_UP_AFTER, MAX_EXPIRIES, Rtt};
use super::sequence::{on_wire, position};
use super::window_set::WindowSet;
use super::wire::{Ack, Body, Format, Report, encode_nak, push_loss};
use howdah_core::{Snapshot, Span, Time, WakeReason};

/// Packets after which a light acknowledgement goes out within a period.
const LIGHT_EVERY: u64 = 64;
/// Acknowledgements whose confirmation is awaited.
const ACK_HISTORY: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct SentAck {
    number: u32,
    to: u64,
    at: Time,
}

/// When a loss was last reported, and how often.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    at: Time,
    times: u32,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    config: UdtConfig,
    /// One past the highest packet that has arrived.
    highest: u64,
    /// Up to here everything was acknowledged and handed to the application.
    acked: u64,
    /// Up to here the sender has confirmed that.
    confirmed: u64,
    lost: WindowSet,
    /// Payload bytes of each packet from `acked` on, at its position modulo the length.
    lengths: Box<[u32]>,
    /// For each loss, as `lengths`; empty where reports are not repeated.
    reported: Box<[Reported]>,
    next_repeat: Option<Time>,
    arrivals: Arrivals,
    rtt: Rtt,
    ack_number: u32,
    history: Box<[SentAck]>,
    newest_confirmed: u32,
    last_ack_at: Time,
    next_ack: Option<Time>,
    /// The period's phase, which idling does not change.
    ack_phase: Time,
    since_ack: u64,
    light_acks: u64,
    /// Flow window that this side computes, and whether it has a measured rate.
    window: u64,
    starting: bool,
    heard_at: Time,
    expiries: u64,
    delivered_bytes: u64,
    accepted: Option<u64>,
    nak_words: Vec<u32>,
    refused_packets: u64,
    lost_packets: u64,
    finished_at: Option<Time>,
}

impl Receiver {
    pub(crate) fn new(config: UdtConfig) -> Self {
        let slots = (config.receive_buffer_packets as usize).next_power_of_two();
        Self {
            config,
            highest: 0,
            acked: 0,
            confirmed: 0,
            lost: WindowSet::new(slots),
            lengths: vec![0; slots].into(),
            reported: if config.rules.repeat == Repeat::Never {
                Box::default()
            } else {
                vec![Reported::default(); slots].into()
            },
            next_repeat: None,
            arrivals: Arrivals::new(0),
            rtt: Rtt::START,
            ack_number: 0,
            history: vec![SentAck::default(); ACK_HISTORY].into(),
            newest_confirmed: 0,
            last_ack_at: Time::ZERO,
            next_ack: None,
            ack_phase: Time::ZERO,
            since_ack: 0,
            light_acks: 1,
            window: 16,
            starting: true,
            heard_at: Time::ZERO,
            expiries: 1,
            delivered_bytes: 0,
            accepted: None,
            nak_words: Vec::new(),
            refused_packets: 0,
            lost_packets: 0,
            finished_at: None,
        }
    }

    /// The connection is open.
    pub(crate) fn open(&mut self, now: Time, connection: &Connection) {
        self.config.packet_bytes = connection.packet_bytes;
        self.arrivals = Arrivals::new(now.as_micros());
        self.ack_phase = now;
        self.heard_at = now;
    }

    pub(crate) fn on_sign_of_life(&mut self, now: Time) {
        self.heard_at = now;
        self.expiries = 1;
    }

    /// A data packet with so many bytes of payload has come.
    pub(crate) fn on_data(
        &mut self,
        now: Time,
        sequence: u32,
        payload_bytes: u32,
        connection: &mut Connection,
    ) {
        self.accepted = None;
        self.since_ack += 1;
        self.arrivals.on_packet(now.as_micros(), sequence);
        let initial = connection.initial_sequence;
        if let Some(at) = position(initial, self.highest, sequence) {
            self.place(now, at, payload_bytes, connection);
        }
        if self.next_ack.is_none() {
            // The clock of the acknowledgements ticks on while nothing comes.
            let periods = now.since(self.ack_phase).as_nanos() / SYN.as_nanos() + 1;
            self.next_ack = Some(self.ack_phase + SYN * periods);
        }
        // A packet that is not full ends a write, and is acknowledged at once.
        if payload_bytes != self.config.payload_bytes() {
            self.next_ack = Some(now);
        }
        self.on_timeout(now, connection);
        if self.since_ack >= LIGHT_EVERY * self.light_acks {
            self.light_ack(now, connection);
        }
    }

    fn place(&mut self, now: Time, at: u64, payload_bytes: u32, connection: &mut Connection) {
        // The application reads at once, so that all room but one packet is free.
        if at < self.acked || at - self.acked >= u64::from(self.config.receive_buffer_packets) - 1 {
            self.refused_packets += 1;
            return;
        }
        if at >= self.highest {
            if at > self.highest {
                self.on_gap(now, at, connection);
            }
            self.highest = at + 1;
        } else if !self.lost.remove(at) {
            return;
        }
        let slots = self.lengths.len() as u64 - 1;
        self.lengths[(at & slots) as usize] = payload_bytes;
        self.accepted = Some(at);
    }

    /// Packets from the highest to `at` are missing: reported at once.
    fn on_gap(&mut self, now: Time, at: u64, connection: &mut Connection) {
        let first = self.highest;
        self.lost_packets += self.lost.insert(first, at);
        let mut words = std::mem::take(&mut self.nak_words);
        words.clear();
        let initial = connection.initial_sequence;
        push_loss(
            &mut words,
            on_wire(initial, first),
            on_wire(initial, at - 1),
        );
        self.send_nak(now, &words, connection);
        self.nak_words = words;
        if !self.reported.is_empty() {
            let slots = self.reported.len() as u64 - 1;
            for at in first..at {
                self.reported[(at & slots) as usize] = Reported { at: now, times: 1 };
            }
            if self.next_repeat.is_none() {
                self.next_repeat = Some(now + self.repeat_period());
            }
        }
    }

    fn send_nak(&mut self, now: Time, words: &[u32], connection: &mut Connection) {
        let timestamp = connection.timestamp_us(now);
        let bytes = encode_nak(connection.format, words, timestamp, connection.peer);
        connection.push(bytes);
        if matches!(self.config.rules.start, Start::Quick { .. }) {
            self.starting = false;
        }
    }

    fn repeat_period(&self) -> Span {
        match self.config.rules.repeat {
            Repeat::EveryRtt => Span::from_micros(u64::from(self.rtt.mean_us)) + SYN,
            Repeat::Draft | Repeat::Never => self.rtt.timeout() + SYN,
        }
    }

    /// Reports again what was asked for k times, longest k periods ago.
    fn repeat_nak(&mut self, now: Time, connection: &mut Connection) {
        let period = self.repeat_period();
        let mut words = std::mem::take(&mut self.nak_words);
        words.clear();
        let most = (self.config.payload_bytes() / 4) as usize;
        let initial = connection.initial_sequence;
        let slots = self.reported.len() as u64 - 1;
        let mut run: Option<(u64, u64)> = None;
        'runs: for (start, end) in self.lost.runs() {
            for at in start..end {
                let reported = &mut self.reported[(at & slots) as usize];
                let due = now.since(reported.at) >= period * u64::from(reported.times);
                if due {
                    *reported = Reported {
                        at: now,
                        times: reported.times + 1,
                    };
                    run = match run {
                        Some((first, last)) if last + 1 == at => Some((first, at)),
                        other => {
                            if let Some((first, last)) = other {
                                push_loss(
                                    &mut words,
                                    on_wire(initial, first),
                                    on_wire(initial, last),
                                );
                            }
                            Some((at, at))
                        }
                    };
                    if words.len() + 2 > most {
                        break 'runs;
                    }
                }
            }
        }
        if let Some((first, last)) = run
            && words.len() + 2 <= most
        {
            push_loss(&mut words, on_wire(initial, first), on_wire(initial, last));
        }
        if !words.is_empty() {
            self.send_nak(now, &words, connection);
        }
        self.nak_words = words;
        self.next_repeat = (!self.lost.is_empty()).then(|| now + period);
    }

    /// The first packet that is missing.
    fn next_expected(&self) -> u64 {
        self.lost.first().unwrap_or(self.highest)
    }

    fn light_ack(&mut self, now: Time, connection: &mut Connection) {
        let to = self.next_expected();
        self.light_acks += 1;
        if to != self.confirmed {
            let next = on_wire(connection.initial_sequence, to);
            connection.send(
                now,
                Body::Ack(Ack {
                    number: 0,
                    next,
                    report: None,
                }),
            );
        }
    }

    /// The clock of acknowledgements ticks.
    fn full_ack(&mut self, now: Time, connection: &mut Connection) {
        let to = self.next_expected();
        if to == self.confirmed {
            return;
        }
        if to > self.acked {
            let slots = self.lengths.len() as u64 - 1;
            for at in self.acked..to {
                self.delivered_bytes += u64::from(self.lengths[(at & slots) as usize]);
            }
            self.acked = to;
            self.lost.slide(to);
        } else if to < self.acked || now.since(self.last_ack_at) < self.rtt.timeout() {
            return;
        }
        self.ack_number = (self.ack_number + 1) & i32::MAX.cast_unsigned();
        let mut report = Report {
            rtt_us: self.rtt.mean_us,
            rtt_var_us: self.rtt.var_us,
            // Less than two would be a deadlock.
            window_packets: (self.config.receive_buffer_packets - 1).max(2),
            arrival_pps: None,
            capacity_pps: None,
        };
        match self.config.rules.window_at {
            WindowAt::Sender => {
                // A rate costs 8 bytes and is worth them once a period.
                if now.since(self.last_ack_at) >= SYN || self.ack_number == 1 {
                    report.arrival_pps = Some(self.arrivals.speed_pps());
                    report.capacity_pps = Some(self.arrivals.capacity_pps());
                    self.last_ack_at = now;
                }
            }
            WindowAt::Receiver => {
                self.compute_window();
                report.window_packets = report.window_packets.min(self.window as u32).max(2);
                report.capacity_pps = Some(if self.starting {
                    0
                } else {
                    self.arrivals.capacity_pps()
                });
                self.last_ack_at = now;
            }
        }
        let ack = Ack {
            number: self.ack_number,
            next: on_wire(connection.initial_sequence, to),
            report: Some(report),
        };
        connection.send(now, Body::Ack(ack));
        self.history[self.ack_number as usize % ACK_HISTORY] = SentAck {
            number: self.ack_number,
            to,
            at: now,
        };
    }

    /// The flow window of rate times (RTT + SYN), plus 16.
    fn compute_window(&mut self) {
        let speed = u64::from(self.arrivals.speed_pps());
        let flow = speed * u64::from(self.rtt.mean_us + SYN_US) / 1_000_000;
        let quick = match self.config.rules.start {
            Start::Quick { packets } => u64::from(packets),
            Start::Window => u64::MAX,
        };
        if self.starting {
            self.window = self.acked.max(16);
            if speed > 0 && self.acked >= quick {
                self.starting = false;
                self.window = flow + 16;
            }
        } else if speed > 0 {
            self.window = (self.window * 7 + flow) / 8 + 16;
        }
        let flight = u64::from(self.config.flight_packets);
        if self.window > flight {
            self.window = flight;
            self.starting = false;
        }
    }

    pub(crate) fn on_ack2(&mut self, now: Time, number: u32) {
        let sent = self.history[number as usize % ACK_HISTORY];
        // 16 bits of the number come back where headers are small.
        let known = match self.config.rules.format {
            Format::Udt4 => sent.number == number,
            Format::Compact => sent.number & 0xffff == number,
        };
        if !known || sent.number <= self.newest_confirmed {
            return;
        }
        self.newest_confirmed = sent.number;
        let rtt_us = now.since(sent.at).as_micros() as u32;
        if rtt_us > 0 {
            self.rtt.sample(rtt_us);
        }
        self.confirmed = self.confirmed.max(sent.to);
    }

    /// A message that the sender has given up: its packets are not waited for.
    pub(crate) fn on_message_drop(&mut self, first: u32, last: u32, connection: &Connection) {
        let initial = connection.initial_sequence;
        let (Some(first), Some(last)) = (
            position(initial, self.highest, first),
            position(initial, self.highest, last),
        ) else {
            return;
        };
        let slots = self.lengths.len() as u64 - 1;
        for at in first.max(self.acked)..(last + 1).min(self.highest) {
            if self.lost.remove(at) {
                self.lengths[(at & slots) as usize] = 0;
            }
        }
    }

    /// The other side has closed.
    pub(crate) fn on_shutdown(&mut self, now: Time, connection: &mut Connection) {
        // What is there is still handed over.
        self.full_ack(now, connection);
        self.next_ack = None;
        if self.lost.is_empty() {
            self.finished_at = Some(now);
            connection.close();
        } else {
            connection.fail("the other side closed with packets missing".to_owned());
        }
    }

    pub(crate) fn on_timeout(&mut self, now: Time, connection: &mut Connection) {
        if self.next_ack.is_some_and(|at| at <= now) {
            self.full_ack(now, connection);
            self.ack_phase = now;
            self.since_ack = 0;
            self.light_acks = 1;
            self.next_ack = (self.next_expected() != self.confirmed).then(|| now + SYN);
        }
        if self.next_repeat.is_some_and(|at| at <= now) {
            self.repeat_nak(now, connection);
        }
        if now >= self.expires_at() {
            if self.expiries > MAX_EXPIRIES && now.since(self.heard_at) > GIVE_UP_AFTER {
                connection.fail("the other side has fallen silent".to_owned());
                return;
            }
            connection.send(now, Body::KeepAlive);
            self.expiries += 1;
            self.heard_at = now;
        }
    }

    fn expires_at(&self) -> Time {
        self.heard_at + self.rtt.expiry(self.expiries)
    }

    #[inline]
    pub(crate) fn next_timeout(&self) -> (Time, WakeReason) {
        let mut next = (self.expires_at(), WakeReason::IdleTimeout);
        if let Some(at) = self.next_ack
            && at < next.0
        {
            next = (at, WakeReason::Acknowledgement);
        }
        if let Some(at) = self.next_repeat
            && at < next.0
        {
            next = (at, WakeReason::LossReport);
        }
        next
    }

    pub(crate) const fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Position of the packet that came last, if it was new.
    pub(crate) const fn take_accepted(&mut self) -> Option<u64> {
        self.accepted.take()
    }

    pub(crate) fn snapshot(&self, failed: Option<String>) -> Snapshot {
        Snapshot {
            algorithm: self.config.rules.name.into(),
            delivered_bytes: self.delivered_bytes,
            lost_packets: self.lost_packets,
            srtt: Some(Span::from_micros(u64::from(self.rtt.mean_us))),
            finished_at: self.finished_at,
            failed,
            ..Snapshot::default()
        }
    }
}
