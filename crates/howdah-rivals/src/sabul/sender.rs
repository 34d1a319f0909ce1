//! The sending side.

use super::law::Law;
use super::messages::{Message, Reader};
use super::{SYN, SabulSettings};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use crate::udt::sequence::{on_wire, position};
use crate::udt::window_set::WindowSet;
use howdah_core::{Datagram, HeaderBytes, Rate, Snapshot, Span, Time, WakeReason};

#[derive(Debug)]
pub(crate) struct Sender {
    settings: SabulSettings,
    object_bytes: Option<u64>,
    total: u64,
    law: Law,
    reader: Reader,
    next: u64,
    acked: u64,
    lost: WindowSet,
    next_send: Option<Time>,
    freeze: bool,
    progress_at: Time,
    /// Since the last SYN message.
    sent_in_period: u64,
    lost_in_period: u64,
    sent_bytes: u64,
    again_bytes: u64,
    lost_packets: u64,
    expiries: u64,
    outcome: Option<Outcome>,
}

impl Sender {
    pub(super) fn new(settings: SabulSettings, object_bytes: Option<u64>) -> Self {
        let payload = u64::from(settings.payload_bytes());
        Self {
            settings,
            object_bytes,
            total: object_bytes.map_or(u64::MAX, |bytes| bytes.div_ceil(payload)),
            law: Law::new(&settings),
            reader: Reader::default(),
            next: 0,
            acked: 0,
            lost: WindowSet::new(settings.flight_packets as usize),
            next_send: None,
            freeze: false,
            progress_at: Time::ZERO,
            sent_in_period: 0,
            lost_in_period: 0,
            sent_bytes: 0,
            again_bytes: 0,
            lost_packets: 0,
            expiries: 0,
            outcome: None,
        }
    }

    fn fail(&mut self, channel: &mut Channel, why: &str) {
        self.outcome = Some(Outcome::Failed(why.to_owned()));
        channel.close();
    }

    fn on_message(&mut self, now: Time, message: &Message, channel: &mut Channel) {
        match message {
            Message::Ack(next) => {
                let to = position(0, self.acked, *next).unwrap_or(0);
                if to > self.next {
                    self.fail(channel, "the receiver acknowledges what was not sent");
                } else if to > self.acked {
                    self.acked = to;
                    self.lost.slide(to);
                    self.progress_at = now;
                    self.resume(now);
                    if to >= self.total {
                        self.outcome = Some(Outcome::Done(now));
                        channel.close();
                    }
                }
            }
            Message::Losses(gaps) => {
                let mut first_of_report = None;
                for &(first, last) in gaps {
                    let Some(last) = position(0, self.acked, last) else {
                        continue;
                    };
                    let first = position(0, self.acked, first).unwrap_or(0).max(self.acked);
                    if last >= self.next {
                        return self.fail(channel, "the receiver misses what was not sent");
                    }
                    first_of_report.get_or_insert(first);
                    if last >= first {
                        let added = self.lost.insert(first, last + 1);
                        self.lost_packets += added;
                        self.lost_in_period += added;
                    }
                }
                if let Some(first) = first_of_report {
                    self.freeze |= self.law.on_loss(first, self.next.saturating_sub(1));
                }
                self.resume(now);
            }
            Message::Syn => {
                let (sent, lost) = (self.sent_in_period, self.lost_in_period);
                (self.sent_in_period, self.lost_in_period) = (0, 0);
                self.law.on_syn(sent, lost);
            }
            Message::Warning => self.freeze = true,
        }
    }

    fn resume(&mut self, now: Time) {
        if self.next_send.is_none() {
            self.next_send = Some(now);
        }
    }

    fn period(&self) -> Span {
        Span::from_nanos((self.law.period_us() * 1e3) as u64)
    }

    /// The next packet: what was lost first.
    fn choose(&mut self) -> Option<(u64, bool)> {
        if let Some(at) = self.lost.first() {
            self.lost.remove(at);
            return Some((at, true));
        }
        let room = self.next - self.acked < u64::from(self.settings.flight_packets);
        if self.next >= self.total || !room {
            return None;
        }
        self.next += 1;
        Some((self.next - 1, false))
    }
}

impl Tool for Sender {
    const OPENS: bool = false;

    fn on_connected(&mut self, now: Time, channel: &mut Channel) {
        self.next_send = Some(now);
        self.progress_at = now;
        if self.total == 0 {
            self.outcome = Some(Outcome::Done(now));
            channel.close();
        }
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.outcome.is_none() {
            match self.reader.next(channel) {
                Ok(Some(message)) => self.on_message(now, &message, channel),
                Ok(None) => break,
                Err(()) => self.fail(channel, "a message that nobody understands"),
            }
        }
        if channel.has_ended() && self.outcome.is_none() {
            self.fail(channel, "the receiver closed the connection");
        }
    }

    fn on_data(&mut self, _: Time, _: &[u8], _: u32, _: &mut Channel) {}

    fn on_timeout(&mut self, now: Time, channel: &mut Channel) {
        if !channel.is_open() || now < self.progress_at + self.settings.expiry {
            return;
        }
        self.progress_at = now;
        if self.next > self.acked {
            self.expiries += 1;
            self.lost_packets += self.lost.insert(self.acked, self.next);
            self.resume(now);
        }
    }

    fn poll_data(&mut self, now: Time, _: &mut Channel) -> Option<Datagram> {
        if self.next_send.is_none_or(|at| at > now) {
            return None;
        }
        let Some((at, again)) = self.choose() else {
            self.next_send = None;
            return None;
        };
        let pause = if std::mem::take(&mut self.freeze) {
            SYN
        } else {
            Span::ZERO
        };
        self.next_send = Some(now + self.period() + pause);
        let payload = u64::from(self.settings.payload_bytes());
        let end = self.object_bytes.unwrap_or(u64::MAX);
        let len = payload.min(end - at * payload);
        self.sent_in_period += 1;
        self.sent_bytes += len;
        if again {
            self.again_bytes += len;
        }
        Some(Datagram {
            bytes: HeaderBytes::from_slice(&on_wire(0, at).to_be_bytes()),
            absent: len as u32,
        })
    }

    fn next_at(&self, channel: &Channel) -> Option<(Time, WakeReason)> {
        if !channel.is_open() {
            return None;
        }
        let expires = self.progress_at + self.settings.expiry;
        Some(match self.next_send {
            Some(at) if at <= expires => (at, WakeReason::Pacing),
            _ => (expires, WakeReason::IdleTimeout),
        })
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        let payload = u64::from(self.settings.payload_bytes());
        let bits = payload as f64 * 8e6 / self.law.period_us();
        Snapshot {
            algorithm: "sabul".into(),
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.again_bytes,
            lost_packets: self.lost_packets,
            congestion_events: self.law.cuts(),
            in_flight_bytes: (self.next - self.acked).saturating_sub(self.lost.len()) * payload,
            pacing_rate: Some(Rate::from_bits_per_sec(bits as u64)),
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        0
    }

    fn displayed_rate(&self) -> Option<Rate> {
        None
    }
}
