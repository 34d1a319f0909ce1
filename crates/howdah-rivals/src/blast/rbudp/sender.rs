//! The side that blasts.

use super::messages::{NAME_BYTES, end_of_blast, header, missing, number, report_bytes};
use super::{RbudpMode, RbudpSettings, packets};
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    /// The receiver names the file, or says that it is ready.
    AwaitRequest,
    /// A blast is under way; this one began at.
    Blast(Time),
    AwaitReport,
    Over,
}

/// A sender.
#[derive(Debug)]
pub(crate) struct Sender {
    settings: RbudpSettings,
    gap: Span,
    stage: Stage,
    /// Bytes of the stream that are complete.
    complete_bytes: u64,
    /// The object (chunk or file) under way.
    object_bytes: u64,
    packets: u64,
    last_payload: u32,
    /// What this blast repeats; all packets in the first one.
    list: Option<Vec<u32>>,
    /// Packets of this blast that have left.
    sent: u64,
    round: u32,
    /// What has come of the report.
    report: Vec<u8>,
    began_at: Option<Time>,
    sent_bytes: u64,
    repeated_bytes: u64,
    lost_packets: u64,
    outcome: Option<Outcome>,
}

/// Largest file: the program keeps its size in a C int.
const MOST_BYTES: u64 = (1 << 31) - 1;

impl Sender {
    pub(crate) fn new(settings: RbudpSettings) -> Self {
        Self {
            gap: settings.gap(),
            settings,
            stage: Stage::AwaitRequest,
            complete_bytes: 0,
            object_bytes: 0,
            packets: 0,
            last_payload: 0,
            list: None,
            sent: 0,
            round: 0,
            report: Vec::new(),
            began_at: None,
            sent_bytes: 0,
            repeated_bytes: 0,
            lost_packets: 0,
            outcome: None,
        }
    }

    /// The size of the next object, or the end.
    fn next_object(&mut self, now: Time, channel: &mut Channel) {
        let left = self
            .settings
            .size_bytes
            .map_or(u64::MAX, |size| size - self.complete_bytes);
        let object = match self.settings.mode {
            RbudpMode::File => left,
            RbudpMode::Stream { chunk_bytes } => left.min(chunk_bytes.max(1)),
        };
        if object == 0 {
            channel.close();
            self.stage = Stage::Over;
            self.outcome = Some(Outcome::Done(now));
            return;
        }
        let limit = self
            .settings
            .memory_bytes
            .unwrap_or(u64::MAX)
            .min(MOST_BYTES);
        if object > limit {
            channel.close();
            self.stage = Stage::Over;
            self.outcome = Some(Outcome::Failed(format!(
                "the program maps all of the {object} bytes, and can have {limit}"
            )));
            return;
        }
        channel.write(&object.to_be_bytes());
        self.object_bytes = object;
        (self.packets, self.last_payload) = packets(object, self.settings.payload_bytes);
        self.list = None;
        self.round = 0;
        self.began_at = self.began_at.or(Some(now));
        self.begin_blast(now);
    }

    fn begin_blast(&mut self, now: Time) {
        self.stage = Stage::Blast(now);
        self.sent = 0;
    }

    fn due_at(&self, began: Time) -> Time {
        began + self.gap * self.sent
    }

    fn on_report(&mut self, now: Time, report: &[u8], channel: &mut Channel) {
        let list = missing(report, self.packets);
        if list.is_empty() {
            self.complete_bytes += self.object_bytes;
            self.next_object(now, channel);
        } else {
            self.lost_packets += list.len() as u64;
            self.list = Some(list);
            self.begin_blast(now);
        }
    }
}

impl Tool for Sender {
    const OPENS: bool = false;

    fn on_connected(&mut self, _: Time, _: &mut Channel) {}

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        match self.stage {
            Stage::AwaitRequest => {
                let request = match self.settings.mode {
                    RbudpMode::File => NAME_BYTES,
                    RbudpMode::Stream { .. } => 1,
                };
                if channel.read_exact(request).is_some() {
                    self.next_object(now, channel);
                }
            }
            Stage::AwaitReport => {
                let whole = report_bytes(self.packets);
                let part = channel.unread().min(whole - self.report.len());
                self.report
                    .extend(channel.read_exact(part).unwrap_or_default());
                if self.report.len() == whole {
                    let report = std::mem::take(&mut self.report);
                    self.on_report(now, &report, channel);
                }
            }
            Stage::Blast(_) | Stage::Over => {}
        }
        if channel.has_ended() && channel.unread() == 0 && self.outcome.is_none() {
            self.outcome = Some(Outcome::Failed("the receiver closed the connection".into()));
        }
    }

    fn on_data(&mut self, _: Time, _: &[u8], _: u32, _: &mut Channel) {}

    fn on_timeout(&mut self, _: Time, _: &mut Channel) {}

    fn poll_data(&mut self, now: Time, channel: &mut Channel) -> Option<Datagram> {
        let Stage::Blast(began) = self.stage else {
            return None;
        };
        // What is late is caught up with at once.
        if self.due_at(began) > now {
            return None;
        }
        let (number, count) = match &self.list {
            None => (self.sent, self.packets),
            Some(list) => (u64::from(list[self.sent as usize]), list.len() as u64),
        };
        let payload = if number + 1 < self.packets {
            self.settings.payload_bytes
        } else {
            self.last_payload
        };
        self.sent_bytes += u64::from(payload);
        if self.list.is_some() {
            self.repeated_bytes += u64::from(payload);
        }
        self.sent += 1;
        if self.sent == count {
            channel.write(&end_of_blast(self.round));
            self.round += 1;
            self.stage = Stage::AwaitReport;
        }
        Some(Datagram {
            bytes: header(number as u32),
            absent: payload,
        })
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        match self.stage {
            Stage::Blast(began) => Some((self.due_at(began), WakeReason::Pacing)),
            _ => None,
        }
    }

    fn payload_of(&self, header: &[u8], absent: u32) -> Option<ByteRange> {
        let before = u64::from(number(header)?) * u64::from(self.settings.payload_bytes);
        Some(ByteRange::with_len(
            self.complete_bytes + before,
            u64::from(absent),
        ))
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: match self.settings.mode {
                RbudpMode::File => "rbudp/file".into(),
                RbudpMode::Stream { .. } => "rbudp/stream".into(),
            },
            sent_bytes: self.sent_bytes,
            retransmitted_bytes: self.repeated_bytes,
            lost_packets: self.lost_packets,
            pacing_rate: Some(Rate::from_bytes_over(
                u64::from(self.settings.payload_bytes),
                self.gap,
            )),
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        0
    }

    fn displayed_rate(&self) -> Option<Rate> {
        match (&self.outcome, self.began_at) {
            (Some(Outcome::Done(at)), Some(began)) => {
                Some(Rate::from_bytes_over(self.complete_bytes, at.since(began)))
            }
            _ => None,
        }
    }
}
