//! The half of a transfer that reads and sends.

use super::lanes::{Feed, Hub, Outlet};
use crate::{Error, ErrorKind};
use howdah_core::{ObjectId, RangeSet, Span, Time};
use howdah_proto::{Connection, SendLimit};
use howdah_session::holes;
use howdah_session::message::{Message, RATE_CAP};
use howdah_session::resume::{HEAD, MAX_VALUES, WireRanges, runs};
use howdah_session::transfer::{End, Opened, Outgoing};
use howdah_store::{Source, SourceIdentity, StoreError};

/// An object on its way out.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) object: ObjectId,
    source: Source,
    /// What of it has been said and heard.
    outgoing: Outgoing,
    /// It ends when somebody says so; its size is not told before.
    pub(crate) cuttable: bool,
    /// If others may send a part of it.
    feed: Option<Feed>,
    read_error: Option<StoreError>,
    next_values: Time,
    pub(crate) waits: Shares,
    next_sample: Time,
    cpu_before: Span,
    machine: howdah_net::MachineLoad,
    /// Until when the rate is what it is because the receiving host fell behind.
    host_behind: Behind,
    /// The same of the receiver's sink.
    sink_behind: Behind,
}

/// How often it is looked at what limits the sender.
const SAMPLE_EVERY: Span = Span::from_millis(100);
/// Values of groups are told that often: what the receiver does not know it cannot claim.
const VALUES_EVERY: Span = Span::from_millis(10);
/// After packets were dropped at the receiver the rate needs that long to come back.
const BEHIND_FOR: Span = Span::from_secs(1);
/// What limited the sender for that share of the time is called the bottleneck.
const BOTTLENECK_SHARE: f64 = 0.25;

/// Something at the receiver that drops packets now and then.
#[derive(Clone, Copy, Debug, Default)]
struct Behind {
    drops: u64,
    until: Time,
}

impl Behind {
    /// Whether `drops` in all mean that it has been behind lately.
    fn lately(&mut self, now: Time, drops: u64) -> bool {
        if drops > self.drops {
            self.drops = drops;
            self.until = now + BEHIND_FOR;
        }
        now < self.until
    }
}

/// What limited the sender, counted over samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shares {
    samples: u32,
    source: u32,
    sink: u32,
    cpu: u32,
    /// The user allows no more.
    capped: u32,
}

impl Shares {
    /// Index into [`super::message::BOTTLENECKS`].
    pub(crate) fn verdict(&self, fixed_rate: bool) -> u8 {
        let (count, index) = [(self.source, 1), (self.sink, 2), (self.cpu, 3)]
            .into_iter()
            .max()
            .unwrap_or_default();
        if f64::from(count) > BOTTLENECK_SHARE * f64::from(self.samples) {
            index
        } else if fixed_rate || self.capped * 2 > self.samples {
            RATE_CAP
        } else {
            0
        }
    }
}

impl AsRef<Outgoing> for Sending {
    fn as_ref(&self) -> &Outgoing {
        &self.outgoing
    }
}

impl AsMut<Outgoing> for Sending {
    fn as_mut(&mut self) -> &mut Outgoing {
        &mut self.outgoing
    }
}

impl Sending {
    /// Opens the object in `connection`. Bytes below `window_end` may leave at once.
    pub(crate) fn new(
        connection: &mut Connection,
        object: ObjectId,
        source: Source,
        hash: bool,
        window_end: Option<u64>,
    ) -> Self {
        connection.send_object(object, source.size(), window_end.unwrap_or(u64::MAX));
        Self {
            object,
            source,
            outgoing: Outgoing::new(object, hash),
            cuttable: false,
            feed: None,
            read_error: None,
            next_values: Time::ZERO,
            waits: Shares::default(),
            next_sample: Time::ZERO,
            cpu_before: howdah_net::thread_cpu(),
            machine: howdah_net::MachineLoad::default(),
            host_behind: Behind::default(),
            sink_behind: Behind::default(),
        }
    }

    /// Takes it in pieces from now on, if it is worth it: other connections may send some of them. Before anything of it leaves.
    pub(crate) fn share_out(&mut self) {
        self.feed = Outlet::of(&self.source).map(|outlet| Feed::first(&outlet, self.object));
    }

    /// Where others may join, if they may.
    pub(crate) fn hub(&self) -> Option<Hub> {
        let feed = self.feed.as_ref()?;
        Some(Hub::Sends(feed.outlet().clone()))
    }

    /// Leaves the file's holes out and tells which they are. Before the object is announced.
    pub(crate) fn leave_out_holes(&mut self, connection: &mut Connection) {
        if let Some(holes) = self.source.holes() {
            connection.send_control(&holes::announce(self.object, holes).encode());
            match &mut self.feed {
                Some(feed) => feed.leave_out(connection, holes),
                None => connection.skip_sending(self.object, holes),
            }
        }
    }

    /// Bytes of it that the receiver has, by whichever way.
    pub(crate) fn arrived_bytes(&self, connection: &Connection) -> u64 {
        match &self.feed {
            Some(feed) => feed.outlet().there(),
            None => connection.acked_bytes(self.object),
        }
    }

    /// Whether somebody wrote behind the end of a file that may grow.
    pub(crate) fn has_grown(&self) -> bool {
        self.source.has_grown()
    }

    /// That the source is not what was opened any more.
    pub(crate) fn source_changed(&self) -> Option<Error> {
        let unchanged = self.source.verify_unchanged();
        unchanged.err().map(|e| crate::error::from_store(&e))
    }

    /// Why what arrived is not what was hashed, if that is the error: it may have been written to before it was sent.
    pub(crate) fn why_other(&self, error: Error) -> Error {
        let is_other = error.kind() == ErrorKind::Integrity;
        let changed = is_other.then(|| self.source_changed()).flatten();
        changed.unwrap_or(error)
    }

    /// Bytes that could be sent so far.
    pub(crate) fn ready_end(&self) -> u64 {
        self.source.ready_end()
    }

    /// Size and hash, once the end has been told.
    pub(crate) fn told(&self) -> Option<End> {
        self.outgoing.ended()
    }

    /// The receiver of a tree has settled it.
    pub(crate) fn on_settled(&self, stored: bool) -> Result<Option<End>, Error> {
        Ok(self.outgoing.on_settled(stored)?)
    }

    /// Bytes that the receiver had before.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.outgoing.held_bytes()
    }

    pub(crate) fn hashed(&self) -> bool {
        self.outgoing.is_hashed()
    }

    /// Offers the copy as one that can be gone on with: not much is sent before
    /// [`leave_out`](Self::leave_out). `None`: it cannot.
    pub(crate) fn offer(&mut self) -> Option<SourceIdentity> {
        let identity = self.outgoing.offer(self.source.identity())?;
        self.source.hold_at(HEAD);
        Some(identity)
    }

    /// Nothing is sent before [`leave_out`](Self::leave_out).
    pub(crate) fn wait_for_ready(&mut self) {
        self.source.hold_at(0);
        self.outgoing
            .wait_for_ready(self.source.size().unwrap_or(0));
    }

    /// The receiver has `held`.
    pub(crate) fn leave_out(&mut self, connection: &mut Connection, held: RangeSet) {
        match &mut self.feed {
            Some(feed) => feed.leave_out(connection, &held),
            None => connection.skip_sending(self.object, &held),
        }
        self.source.go_on_without(held);
    }

    /// What is known of its source.
    pub(crate) fn opened(&self, mode: Option<u32>) -> Opened {
        Opened {
            size: self.source.size(),
            identity: self.source.identity(),
            mode,
        }
    }

    /// Goes on as the receiver says.
    pub(crate) fn on_ready(
        &mut self,
        connection: &mut Connection,
        held: &WireRanges,
        values: bool,
    ) -> Result<(), Error> {
        let held = self.outgoing.on_ready(held, values)?;
        self.leave_out(connection, held);
        Ok(())
    }

    fn tell_values(&mut self, now: Time, connection: &mut Connection, all: bool) {
        if !self.outgoing.tells_values() || (now < self.next_values && !all) {
            return;
        }
        self.next_values = now + VALUES_EVERY;
        loop {
            let values = self.source.take_values(MAX_VALUES);
            let object = self.object;
            for (first, values) in runs(&values) {
                let message = Message::Values {
                    object,
                    first,
                    values,
                };
                connection.send_control(&message.encode());
            }
            if values.len() < MAX_VALUES {
                return;
            }
        }
    }

    /// Fills a packet. What cannot be read is sent as zeros and told afterwards: the receiver
    /// throws all of it away.
    pub(crate) fn read(&mut self, offset: u64, buffer: &mut [u8]) {
        if let Err(error) = self.source.read_at(offset, buffer) {
            buffer.fill(0);
            self.read_error.get_or_insert(error);
        }
    }

    /// Moves source and connection along.
    pub(crate) fn poll(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        if now >= self.next_sample {
            // At the beginning everybody waits for the source.
            if self.next_sample > Time::ZERO {
                self.sample(now, connection);
            }
            self.next_sample = now + SAMPLE_EVERY;
        }
        if let Some(error) = &self.read_error {
            return Err(crate::error::from_store(error));
        }
        self.feed(connection)?;
        self.tell_values(now, connection, false);
        let all_sent = self.source.size() == Some(connection.sent_end(self.object));
        if self.outgoing.may_end()
            && (all_sent || !self.cuttable)
            && let Some(finished) = self.source.poll_finished()
        {
            let finished = finished.map_err(|e| crate::error::from_store(&e))?;
            self.tell_values(now, connection, true);
            self.end(
                connection,
                End {
                    size: finished.size,
                    blake3: finished.hash,
                },
            );
        }
        Ok(())
    }

    /// Lets the connection send what can be read, or its part of that.
    fn feed(&mut self, connection: &mut Connection) -> Result<(), Error> {
        let Some(feed) = &mut self.feed else {
            connection.set_readable(self.object, self.source.ready_end());
            self.source
                .note_sent_through(connection.sent_end(self.object));
            self.source
                .release_through(connection.acked_prefix(self.object));
            return Ok(());
        };
        if let Some(next) = feed.poll(connection, self.source.ready_end()) {
            self.source.note_sent_through(next);
        }
        match feed.outlet().take_failed() {
            Some(error) => Err(crate::error::from_store(&error)),
            None => Ok(()),
        }
    }

    /// Notes what keeps the sender from being faster.
    fn sample(&mut self, now: Time, connection: &Connection) {
        let cpu = howdah_net::thread_cpu();
        let stats = connection.stats();
        let sink_behind = self.sink_behind.lately(now, stats.peer_sink_drops);
        // This thread has no time left, or this machine has not, or the receiving one.
        let busy = self.host_behind.lately(now, stats.peer_socket_drops)
            || cpu.saturating_sub(self.cpu_before) > SAMPLE_EVERY.mul_f64(0.9)
            || self
                .machine
                .take_busy_share()
                .is_some_and(|share| share > 0.9);
        self.cpu_before = cpu;
        let arrived = self.arrived_bytes(connection);
        let shares = &mut self.waits;
        shares.samples += 1;
        // All has arrived, and the receiver still hashes and syncs.
        shares.capped += u32::from(connection.rate_is_capped());
        let done = self.outgoing.ended().is_some_and(|end| end.size == arrived);
        match connection.send_limit() {
            _ if done => shares.sink += 1,
            SendLimit::Source => shares.source += 1,
            SendLimit::Sink => shares.sink += 1,
            _ if sink_behind => shares.sink += 1,
            _ if busy => shares.cpu += 1,
            _ => {}
        }
    }

    /// Ends the object where it stands (only for made-up bytes).
    pub(crate) fn cut(&mut self, connection: &mut Connection) {
        if self.outgoing.may_end() && !self.hashed() {
            let size = connection.sent_end(self.object);
            self.end(connection, End { size, blake3: None });
        }
    }

    fn end(&mut self, connection: &mut Connection, end: End) {
        let Some(message) = self.outgoing.end(end) else {
            return;
        };
        connection.set_outgoing_size(self.object, end.size);
        connection.send_control(&if self.source.has_grown() {
            message.encode_with(&true)
        } else {
            message.encode()
        });
    }
}
