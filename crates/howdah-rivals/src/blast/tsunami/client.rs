//! The side that receives.

use super::law::{error_rate, level_rate};
use super::messages::{
    BlockKind, CHALLENGE_BYTES, FILE_BYTES, PROOF_BYTES, Parameters, REVISION, Request, read_file,
    read_header,
};
use super::{TsunamiErrors, TsunamiSettings};
use crate::blast::blocks::Blocks;
use crate::blast::channel::Channel;
use crate::blast::endpoint::{Outcome, Tool};
use crate::blast::storage::Storage;
use howdah_core::{ByteRange, Datagram, Rate, Snapshot, Span, Time, WakeReason};

/// Least time between two reports; the client looks at the clock at every 50th datagram.
const UPDATE: Span = Span::from_millis(350);
const ITERATIONS: u64 = 50;
/// More missing blocks than these are not asked for one by one.
const MOST_REQUESTS: usize = 2048;
/// Entries of the retransmission table at its largest.
const TABLE: usize = 32 * 2048;
/// Requests that the control connection takes before the client has to wait.
const BACKLOG_BYTES: usize = 128 << 10;
/// What may be on its way while a restart is pending, in time at the target rate.
const ON_THE_WIRE: Span = Span::from_millis(500);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stage {
    Revision,
    Challenge,
    Verdict,
    Accepted,
    File,
    Receiving,
    /// All blocks are there; the disk is not done.
    Storing(Time),
    Over,
}

/// A restart that the server has not come to the end of.
#[derive(Clone, Copy, Debug)]
struct Restart {
    /// Highest block that was missing.
    last: u32,
    /// Blocks up to this one may have been on their way.
    on_the_wire: u32,
}

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    settings: TsunamiSettings,
    stage: Stage,
    size_bytes: u64,
    blocks: u32,
    arrived: Blocks,
    ring: Storage,
    /// Block that is expected next.
    next_block: u32,
    /// Missing blocks, in the order of their discovery.
    table: Vec<u32>,
    /// Gaps below this block are in the table already.
    queued_to: u32,
    table_full: bool,
    restart: Option<Restart>,
    iteration: u64,
    updated_at: Time,
    total_blocks: u32,
    this_blocks: u32,
    this_requests: u64,
    error_rate: f64,
    requests: u64,
    began_at: Time,
    done_at: Time,
    delivered_bytes: u64,
    accepted: Option<ByteRange>,
    outcome: Option<Outcome>,
}

impl Client {
    pub(crate) fn new(settings: TsunamiSettings) -> Self {
        let ring_bytes = u64::from(settings.ring_blocks) * u64::from(settings.block_bytes);
        Self {
            stage: Stage::Revision,
            size_bytes: 0,
            blocks: 0,
            arrived: Blocks::default(),
            ring: Storage::new(ring_bytes, settings.disk),
            settings,
            next_block: 1,
            table: Vec::new(),
            queued_to: 1,
            table_full: false,
            restart: None,
            iteration: 0,
            updated_at: Time::ZERO,
            total_blocks: 0,
            this_blocks: 0,
            this_requests: 0,
            error_rate: 0.0,
            requests: 0,
            began_at: Time::ZERO,
            done_at: Time::ZERO,
            delivered_bytes: 0,
            accepted: None,
            outcome: None,
        }
    }

    fn fail(&mut self, channel: &mut Channel, why: &str) {
        self.stage = Stage::Over;
        self.outcome = Some(Outcome::Failed(why.to_owned()));
        channel.close();
    }

    /// One step of the negotiation; false if its message is not all there.
    fn negotiate(&mut self, now: Time, channel: &mut Channel) -> bool {
        match self.stage {
            Stage::Revision => {
                let Some(revision) = channel.read::<4>() else {
                    return false;
                };
                if u32::from_be_bytes(revision) != REVISION {
                    self.fail(channel, "the server speaks another revision");
                    return false;
                }
                self.stage = Stage::Challenge;
            }
            Stage::Challenge => {
                if channel.read::<CHALLENGE_BYTES>().is_none() {
                    return false;
                }
                channel.write(&[0xa5; PROOF_BYTES]);
                self.stage = Stage::Verdict;
            }
            Stage::Verdict => {
                let Some([verdict]) = channel.read::<1>() else {
                    return false;
                };
                if verdict != 0 {
                    self.fail(channel, "the server does not know us");
                    return false;
                }
                channel.write(b"object\n");
                self.stage = Stage::Accepted;
            }
            Stage::Accepted => {
                let Some([verdict]) = channel.read::<1>() else {
                    return false;
                };
                if verdict != 0 {
                    self.fail(channel, "the server does not have the file");
                    return false;
                }
                let parameters = Parameters {
                    block_bytes: self.settings.block_bytes,
                    target_bps: self.settings.target.bits_per_sec().min(u64::from(u32::MAX)) as u32,
                    error_threshold: self.settings.error_threshold,
                    slower: self.settings.slower,
                    faster: self.settings.faster,
                };
                channel.write(&parameters.encode());
                self.stage = Stage::File;
            }
            Stage::File => {
                let Some(bytes) = channel.read::<FILE_BYTES>() else {
                    return false;
                };
                let (size, block_bytes, blocks) = read_file(bytes);
                let fits = size.div_ceil(u64::from(block_bytes.max(1))) == u64::from(blocks);
                if block_bytes != self.settings.block_bytes || !fits || blocks == 0 {
                    self.fail(channel, "the server's sizes make no sense");
                    return false;
                }
                (self.size_bytes, self.blocks) = (size, blocks);
                channel.write(&46_224_u16.to_be_bytes());
                self.stage = Stage::Receiving;
                self.began_at = now;
                self.updated_at = now;
            }
            Stage::Receiving | Stage::Storing(_) | Stage::Over => return false,
        }
        true
    }

    /// Notes the missing blocks from `from` on, below `to`.
    fn note_missing(&mut self, from: u32, to: u32) {
        for block in from.max(self.queued_to)..to {
            if self.arrived.is_marked(u64::from(block)) {
                continue;
            }
            if self.table.len() >= TABLE {
                self.table_full = true;
                break;
            }
            self.table.push(block);
        }
        self.queued_to = self.queued_to.max(to);
    }

    /// Asks again for everything that is missing.
    fn repeat_requests(&mut self, channel: &mut Channel) {
        if self.table.len() > MOST_REQUESTS || self.table_full {
            let first = self.table[0];
            let last = self.table[self.table.len() - 1];
            let wire =
                self.settings.target.bytes_in(ON_THE_WIRE) / u64::from(self.settings.block_bytes);
            channel.write(&Request::Restart(first).encode());
            self.requests += 1;
            self.restart = Some(Restart {
                last,
                on_the_wire: last.saturating_add(wire as u32).min(self.blocks),
            });
            self.next_block = first;
            self.queued_to = first;
            self.total_blocks = first;
            self.this_blocks = first;
            self.this_requests = MOST_REQUESTS as u64;
            self.table.clear();
            self.table_full = false;
            return;
        }
        let arrived = &self.arrived;
        self.table
            .retain(|&block| !arrived.is_marked(u64::from(block)));
        for &block in &self.table {
            channel.write(&Request::Retransmit(block).encode());
        }
        self.this_requests = self.table.len() as u64;
        self.requests += self.this_requests;
    }

    fn report(&mut self, now: Time, channel: &mut Channel) {
        let new = u64::from(self.total_blocks.saturating_sub(self.this_blocks));
        let fill = if self.settings.disk.is_some() {
            self.ring.level_bytes(now) as f64 / self.ring.capacity_bytes().max(1) as f64
        } else {
            0.0
        };
        self.error_rate = match self.settings.errors {
            TsunamiErrors::RequestsAndRing => {
                error_rate(self.error_rate, self.this_requests, new, fill)
            }
            TsunamiErrors::RingAlone => level_rate(self.error_rate, fill),
        };
        channel.write(&Request::ErrorRate(self.error_rate as u32).encode());
        self.this_blocks = self.total_blocks;
        self.this_requests = 0;
        self.updated_at = now;
    }

    /// A block has come. False if it is not to be looked at any further.
    fn take(&mut self, now: Time, block: u32, kind: BlockKind, channel: &mut Channel) -> bool {
        if let Some(restart) = self.restart {
            let stale = block > restart.last && block <= restart.on_the_wire;
            if stale && kind != BlockKind::Terminate {
                return false;
            }
        }
        let fresh = !self.arrived.is_marked(u64::from(block));
        if !fresh && kind != BlockKind::Terminate && self.restart.is_none() {
            return true;
        }
        if fresh {
            // A full ring blocks the client, and its socket overflows.
            if !self.ring.put(now, self.settings.block_bytes) {
                return false;
            }
            self.arrived.mark(u64::from(block));
            let start = u64::from(block - 1) * u64::from(self.settings.block_bytes);
            let left = self.size_bytes.saturating_sub(start);
            let length = left.min(u64::from(self.settings.block_bytes));
            self.delivered_bytes += length;
            self.accepted = Some(ByteRange::with_len(start, length));
        }
        if block > self.next_block {
            self.note_missing(self.next_block, block);
        }
        if kind == BlockKind::Original {
            self.total_blocks = block;
            self.next_block = block + 1;
        }
        if self
            .restart
            .is_some_and(|restart| self.next_block >= restart.last || kind == BlockKind::Terminate)
        {
            self.restart = None;
        }
        // Only the last block makes the client look whether anything is missing.
        if block == self.blocks {
            if self.arrived.marked() == u64::from(self.blocks) {
                self.done_at = now;
                self.stage = Stage::Storing(now + self.ring.time_to_empty(now));
            } else {
                self.repeat_requests(channel);
            }
        }
        true
    }
}

impl Tool for Client {
    const OPENS: bool = true;

    fn on_connected(&mut self, _: Time, channel: &mut Channel) {
        channel.write(&REVISION.to_be_bytes());
    }

    fn on_control(&mut self, now: Time, channel: &mut Channel) {
        while self.negotiate(now, channel) {}
        if channel.has_ended() && self.outcome.is_none() {
            self.fail(channel, "the server closed the connection");
        }
    }

    fn on_data(&mut self, now: Time, header: &[u8], absent: u32, channel: &mut Channel) {
        let Some((block, kind)) = read_header(header) else {
            return;
        };
        let possible = (1..=self.blocks).contains(&block) && absent == self.settings.block_bytes;
        if self.stage != Stage::Receiving || !possible {
            return;
        }
        // A client that waits to write its requests does not read, and its socket overflows.
        if channel.backlog() > BACKLOG_BYTES {
            return;
        }
        self.iteration += 1;
        self.accepted = None;
        if !self.take(now, block, kind, channel) || self.stage != Stage::Receiving {
            return;
        }
        if self.iteration.is_multiple_of(ITERATIONS)
            && (now.since(self.updated_at) > UPDATE || self.total_blocks == 0)
        {
            self.repeat_requests(channel);
            self.report(now, channel);
        }
    }

    fn on_timeout(&mut self, now: Time, channel: &mut Channel) {
        if let Stage::Storing(until) = self.stage
            && now >= until
        {
            channel.write(&Request::Stop.encode());
            self.stage = Stage::Over;
            self.done_at = now;
            self.outcome = Some(Outcome::Done(now));
        }
    }

    fn poll_data(&mut self, _: Time, _: &mut Channel) -> Option<Datagram> {
        None
    }

    fn next_at(&self, _: &Channel) -> Option<(Time, WakeReason)> {
        match self.stage {
            Stage::Storing(until) => Some((until, WakeReason::Disk)),
            _ => None,
        }
    }

    fn take_accepted(&mut self) -> Option<ByteRange> {
        self.accepted.take()
    }

    fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            algorithm: match self.settings.errors {
                TsunamiErrors::RequestsAndRing => "tsunami/client".into(),
                TsunamiErrors::RingAlone => "rtsunami-like/client".into(),
            },
            delivered_bytes: self.delivered_bytes,
            lost_packets: self.requests,
            ..Snapshot::default()
        }
    }

    fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Size over the time from the moment that the port was sent.
    fn displayed_rate(&self) -> Option<Rate> {
        matches!(self.outcome, Some(Outcome::Done(_)))
            .then(|| Rate::from_bytes_over(self.size_bytes, self.done_at.since(self.began_at)))
    }
}
