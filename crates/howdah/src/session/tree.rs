//! A tree of files over a connection: three streams, and an object for each large file. What is in the
//! streams is the business of `howdah-store`; docs/trees.md specifies both.

mod told;

use super::large::{LargeFiles, Ready};
use super::sending::{Sending, Shares};
use super::streams::{In, Out, packs_limits, receive_stream, send_stream, talk_limits};
use crate::error::from_store;
use crate::{Error, ErrorKind};
use howdah_core::{ObjectId, Time};
use howdah_net::Placement;
use howdah_proto::Connection;
use howdah_session::holes::Announced;
use howdah_session::message::Message;
use howdah_session::transfer::End;
use howdah_session::unconfirmed::{each_run, runs_of};
use howdah_session::{Memory, TreeOptions, TreeReport};
use howdah_store::{SourceIdentity, StoreError, Wake};
use howdah_tree::{
    ComparisonState, PipeWriter, PlacedFile, ReceiverEnds, SenderEnds, TreeDescriber, TreeReceiver,
    TreeSender,
};
use std::thread::JoinHandle;

/// Large files that arrive at a time, at most; the sender keeps to less.
const LARGE_MAX: usize = 32;
/// Files in place that one message tells of, at most: a message is bounded.
const PLACED_MAX: usize = 2048;

#[derive(Debug)]
enum Side {
    Sender(TreeSender),
    Receiver(TreeReceiver),
    /// In a comparison: says what is here, and hashes.
    Describer(TreeDescriber),
    /// Compares what the other side says with something else.
    Comparing(ComparisonState),
}

/// One side of a tree transfer.
#[derive(Debug)]
pub(crate) struct Tree {
    side: Side,
    out: Vec<Out>,
    into: Vec<In>,
    /// Those that come and are not open.
    large: LargeFiles,
    /// The sender's end of the answers, until it is known which object they are; likewise below.
    answers: Option<PipeWriter>,
    /// The object that packs go out as.
    packs: Option<ObjectId>,
    waits: Shares,
    /// What had moved at the last look.
    moved: (u64, u64, u64),
    told: bool,
    /// Of the large file that comes next.
    holes: Announced,
    /// The sender must have every answer before the end: notes of a dry run, or what is there already where that is told.
    needs_answers: bool,
    /// What is stored, or compared, is read from the device.
    reread: bool,
    /// What is in place is for somebody here, not for the peer.
    listens: bool,
    /// Files that are in place, for somebody here.
    placed: Vec<PlacedFile>,
    /// The last small file, and when it was another one.
    small: (String, Time),
    memory: Memory,
    /// Large files that did not arrive as they were hashed; of a sender, those whose source has changed.
    mismatched: u64,
}

impl Tree {
    fn new(side: Side) -> Self {
        Self {
            side,
            out: Vec::new(),
            into: Vec::new(),
            large: LargeFiles::default(),
            answers: None,
            packs: None,
            waits: Shares::default(),
            moved: (0, 0, 0),
            told: false,
            holes: Announced::default(),
            needs_answers: false,
            reread: false,
            listens: true,
            placed: Vec::new(),
            small: (String::new(), Time::ZERO),
            memory: Memory::of(&TreeOptions::default()),
            mismatched: 0,
        }
    }

    /// Large files that did not arrive as they were hashed: a receiver counts each as failed, and the sender as changed if its source has.
    pub(crate) fn mismatched(&self) -> u64 {
        self.mismatched
    }

    /// Sends what was started. `announce` gets the objects of manifest and packs and is what the peer is told, encoded, before
    /// their first bytes leave.
    pub(crate) fn send(
        connection: &mut Connection,
        (sender, ends): (TreeSender, SenderEnds),
        options: &TreeOptions,
        wake: &Wake,
        announce: impl FnOnce(ObjectId, ObjectId) -> Vec<u8>,
    ) -> Result<Self, Error> {
        let mut tree = Self::new(Side::Sender(sender));
        tree.needs_answers = options.dry_run || options.remove_source || options.tells_files;
        tree.memory = Memory::of(options);
        tree.open_sender(connection, ends, wake, announce)?;
        Ok(tree)
    }

    /// Describes: as [`send`](Self::send), and no content leaves.
    pub(crate) fn describe(
        connection: &mut Connection,
        (describer, ends): (TreeDescriber, SenderEnds),
        wake: &Wake,
        announce: impl FnOnce(ObjectId, ObjectId) -> Message,
    ) -> Result<Self, Error> {
        let reread = describer.is_reread();
        let mut tree = Self::new(Side::Describer(describer));
        tree.reread = reread;
        tree.open_sender(connection, ends, wake, |manifest, packs| {
            announce(manifest, packs).encode()
        })?;
        Ok(tree)
    }

    fn open_sender(
        &mut self,
        connection: &mut Connection,
        ends: SenderEnds,
        wake: &Wake,
        announce: impl FnOnce(ObjectId, ObjectId) -> Vec<u8>,
    ) -> Result<(), Error> {
        let (manifest, packs) = (connection.allocate_object(), connection.allocate_object());
        connection.send_control(&announce(manifest, packs));
        self.out = vec![
            send_stream(connection, manifest, ends.manifest, &talk_limits(), wake)?,
            send_stream(
                connection,
                packs,
                ends.packs,
                &packs_limits(self.memory),
                wake,
            )?,
        ];
        self.answers = Some(ends.answers);
        self.packs = Some(packs);
        Ok(())
    }

    /// The answers to what is sent come as that object.
    pub(crate) fn open_answers(
        &mut self,
        connection: &mut Connection,
        object: ObjectId,
        wake: &Wake,
    ) -> Result<(), Error> {
        let tap = self.answers.take().ok_or_else(out_of_turn)?;
        let answers = receive_stream(connection, object, tap, &talk_limits(), wake)?;
        self.into.push(answers);
        Ok(())
    }

    /// Receives; `announce` as in [`send`](Self::send), with the object of the answers. The other
    /// two are opened by [`open_contents`](Self::open_contents).
    pub(crate) fn receive(
        connection: &mut Connection,
        (receiver, ends): (TreeReceiver, ReceiverEnds),
        options: &TreeOptions,
        listens: bool,
        wake: &Wake,
        announce: impl FnOnce(ObjectId) -> Message,
    ) -> Result<(Self, Contents), Error> {
        let mut tree = Self::new(Side::Receiver(receiver));
        tree.large = LargeFiles::start(wake.clone())?;
        tree.needs_answers = options.dry_run || options.remove_source || options.tells_files;
        tree.memory = Memory::of(options);
        tree.reread = options.reread;
        tree.listens = listens;
        let contents = tree.open_receiver(connection, ends, wake, announce)?;
        Ok((tree, contents))
    }

    /// Starts to compare what the other side describes: as [`receive`](Self::receive).
    pub(crate) fn compare(
        connection: &mut Connection,
        ends: ReceiverEnds,
        state: ComparisonState,
        wake: &Wake,
        announce: impl FnOnce(ObjectId) -> Message,
    ) -> Result<(Self, Contents), Error> {
        state.on_done(wake.clone());
        let mut tree = Self::new(Side::Comparing(state));
        let contents = tree.open_receiver(connection, ends, wake, announce)?;
        Ok((tree, contents))
    }

    fn open_receiver(
        &mut self,
        connection: &mut Connection,
        ends: ReceiverEnds,
        wake: &Wake,
        announce: impl FnOnce(ObjectId) -> Message,
    ) -> Result<Contents, Error> {
        let answers = connection.allocate_object();
        connection.send_control(&announce(answers).encode());
        let out = send_stream(connection, answers, ends.answers, &talk_limits(), wake)?;
        self.out.push(out);
        Ok(Contents {
            manifest: ends.manifest,
            packs: ends.packs,
        })
    }

    /// Manifest and packs come as those objects.
    pub(crate) fn open_contents(
        &mut self,
        connection: &mut Connection,
        contents: Contents,
        (manifest, packs): (ObjectId, ObjectId),
        wake: &Wake,
    ) -> Result<(), Error> {
        let Contents {
            manifest: manifest_tap,
            packs: packs_tap,
        } = contents;
        let first = receive_stream(connection, manifest, manifest_tap, &talk_limits(), wake)?;
        self.into.push(first);
        let second = receive_stream(
            connection,
            packs,
            packs_tap,
            &packs_limits(self.memory),
            wake,
        )?;
        self.into.push(second);
        Ok(())
    }

    /// A message that belongs to the transfer. `Some`: the receiver is done, and reports that.
    pub(crate) fn on_message(
        &mut self,
        connection: &mut Connection,
        message: &Message,
    ) -> Result<(), Error> {
        match *message {
            Message::End {
                object,
                size,
                blake3,
            } => match self.into.iter_mut().find(|i| i.receiving.object == object) {
                Some(found) => found.receiving.on_end(connection, End { size, blake3 }),
                // Or of an object that has been given up.
                None => self.large.keep(object, message),
            },
            Message::TreeFile {
                object,
                index,
                size,
                source,
            } => self.on_file(connection, object, (index, size), source),
            Message::Holes { object, ref ranges } => {
                self.holes.note(object, ranges.clone());
                Ok(())
            }
            Message::Ready {
                object,
                ref held,
                values,
                ..
            } => match self.out.iter_mut().find(|o| o.sending.object == object) {
                Some(out) => out.sending.on_ready(connection, held, values),
                // Of an object that has been given up.
                None => Ok(()),
            },
            Message::Values {
                object,
                first,
                ref values,
            } => match self.into.iter_mut().find(|i| i.receiving.object == object) {
                Some(found) => found.receiving.on_values(first, values),
                None => Ok(()),
            },
            Message::TreeSettled { object, stored } => {
                let Some(at) = self.out.iter().position(|o| o.sending.object == object) else {
                    return Ok(());
                };
                let out = self.out.swap_remove(at);
                let end = out.sending.on_settled(stored)?;
                // What was written to after it was hashed cannot arrive as that.
                let is_refused = !stored && out.sending.told().is_some();
                let changed = is_refused.then(|| out.sending.source_changed()).flatten();
                connection.finish_sending(object);
                if Some(object) == self.packs {
                    self.waits = out.sending.waits;
                }
                if let (Side::Sender(sender), Some(file)) = (&mut self.side, out.file) {
                    if stored {
                        let (held, grown) = (out.sending.held_bytes(), out.sending.has_grown());
                        let hash = end.and_then(|end| end.blake3);
                        sender.large_done(file, held, hash, grown);
                    } else if let Some(error) = changed {
                        self.mismatched += 1;
                        sender.large_failed(&file, true, &error.to_string());
                    } else {
                        sender.large_refused(&file);
                    }
                }
                Ok(())
            }
            Message::TreePlaced { ref runs } => {
                let Side::Sender(sender) = &mut self.side else {
                    return Err(out_of_turn());
                };
                for (first, count) in each_run(runs) {
                    sender.are_placed(first, count);
                }
                Ok(())
            }
            Message::TreeFileMissing { object } => {
                let Some(at) = self.into.iter().position(|i| i.receiving.object == object) else {
                    self.large.on_missing(connection, object);
                    return Ok(());
                };
                let gone = self.into.swap_remove(at);
                connection.finish_receiving(object);
                drop(gone.receiving);
                if let (Side::Receiver(receiver), Some(file)) = (&mut self.side, gone.file) {
                    receiver.large_missing(file);
                }
                Ok(())
            }
            _ => Err(out_of_turn()),
        }
    }

    fn on_file(
        &mut self,
        connection: &mut Connection,
        object: ObjectId,
        (index, size): (u64, u64),
        source: Option<SourceIdentity>,
    ) -> Result<(), Error> {
        let Side::Receiver(receiver) = &mut self.side else {
            return Err(out_of_turn());
        };
        if self.into.len() + self.large.len() >= LARGE_MAX {
            return Err(Error::new(
                ErrorKind::Protocol,
                "the sender opens too many files at a time",
            ));
        }
        let holes = self.holes.take(object, Some(size))?;
        let opening = receiver.admit_large(index, size, source, holes.clone());
        let opening = opening.map_err(|e| from_store(&e))?;
        let file = (object, size, source.is_some());
        self.large.admit(connection, file, opening, holes.as_ref())
    }

    /// What is open now takes what has come of it.
    fn poll_large(&mut self, connection: &mut Connection) -> Result<(), Error> {
        while let Some(ready) = self.large.poll(connection)? {
            match (ready, &mut self.side) {
                (Ready::Open(receiving, target, later), _) => {
                    self.into.push(In {
                        receiving: *receiving,
                        file: Some(target),
                    });
                    for message in later {
                        self.on_message(connection, &message)?;
                    }
                }
                (Ready::Missing(target), Side::Receiver(receiver)) => {
                    receiver.large_missing(target);
                }
                (Ready::Missing(_), _) => {}
                (Ready::Refused(object), _) => {
                    let stored = false;
                    connection.send_control(&Message::TreeSettled { object, stored }.encode());
                }
            }
        }
        Ok(())
    }

    /// All bytes of an object have arrived.
    pub(crate) fn on_complete(&mut self, object: ObjectId) {
        if let Some(found) = self.into.iter_mut().find(|i| i.receiving.object == object) {
            found.receiving.on_complete();
        } else {
            self.large.on_complete(object);
        }
    }

    /// Moves everything along. `Some`, once: this side has received all of it.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        connection: &mut Connection,
    ) -> Result<Option<TreeReport>, Error> {
        self.poll_out(now, connection)?;
        let received = self.poll_in(now, connection);
        let outcome = match &mut self.side {
            Side::Receiver(receiver) => receiver.poll_outcome(),
            _ => None,
        };
        // Looked at after the outcome: what is in place is told before the end is.
        self.tell_placed(connection);
        // What a thread says is closer to the cause than that it does not read any more.
        match &mut self.side {
            Side::Sender(sender) => match sender.poll_error() {
                None | Some(StoreError::Aborted) => received.map(|()| None),
                Some(error) => Err(from_store(&error)),
            },
            Side::Receiver(_) => match outcome {
                // The last ones must arrive before the end is told: that closes their stream.
                Some(Ok(_)) if self.needs_answers && !self.out.is_empty() => {
                    received.map(|()| None)
                }
                Some(Ok(report)) if !self.told => {
                    self.told = true;
                    Ok(Some(report))
                }
                None | Some(Ok(_) | Err(StoreError::Aborted)) => received.map(|()| None),
                Some(Err(error)) => Err(from_store(&error)),
            },
            Side::Describer(describer) => match describer.poll_error() {
                None | Some(StoreError::Aborted) => received.map(|()| None),
                Some(error) => Err(from_store(&error)),
            },
            // What comes now is for nobody.
            Side::Comparing(state) if state.is_done() => {
                let first = !std::mem::replace(&mut self.told, true);
                Ok(first.then(TreeReport::default))
            }
            Side::Comparing(_) => received.map(|()| None),
        }
    }

    /// Tells of files that are in place, if somebody wants to hear of each.
    fn tell_placed(&mut self, connection: &mut Connection) {
        let mut indices = Vec::new();
        let mut placed = match &mut self.side {
            Side::Sender(sender) => sender.take_placed(),
            Side::Receiver(receiver) => {
                let placed = receiver.take_placed();
                indices = receiver.take_settled();
                // A sender that removes its files must know whoever else listens.
                if !self.listens || receiver.moves() {
                    indices.extend(placed.iter().map(|file| file.index));
                }
                placed
            }
            Side::Describer(_) | Side::Comparing(_) => return,
        };
        if self.listens {
            self.placed.append(&mut placed);
        }
        for runs in runs_of(indices, PLACED_MAX) {
            connection.send_control(&Message::TreePlaced { runs }.encode());
        }
    }

    fn poll_out(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        if let Side::Sender(sender) = &mut self.side {
            while let Some(mut file) = sender.take_large() {
                let Some(source) = file.take_source() else {
                    continue;
                };
                let object = connection.allocate_object();
                let (index, size) = (file.index, file.size);
                let mut sending = Sending::new(connection, object, source, true, None);
                sending.leave_out_holes(connection);
                let message = Message::TreeFile {
                    object,
                    index,
                    size,
                    source: sending.offer(),
                };
                connection.send_control(&message.encode());
                self.out.push(Out {
                    sending,
                    file: Some(file),
                });
            }
        }
        let mut at = 0;
        while let Some(out) = self.out.get_mut(at) {
            match out.sending.poll(now, connection) {
                Ok(()) => at += 1,
                Err(error) => {
                    let out = self.out.swap_remove(at);
                    let object = out.sending.object;
                    let (Some(file), Side::Sender(sender)) = (&out.file, &mut self.side) else {
                        return Err(error);
                    };
                    // One file that cannot be read is not the end of the others.
                    connection.finish_sending(object);
                    connection.send_control(&Message::TreeFileMissing { object }.encode());
                    let changed = error.kind() == ErrorKind::SourceChanged;
                    sender.large_failed(file, changed, &error.to_string());
                }
            }
        }
        Ok(())
    }

    fn poll_in(&mut self, now: Time, connection: &mut Connection) -> Result<(), Error> {
        self.poll_large(connection)?;
        // The sender is told about the one that is the most behind.
        let fullest = self
            .into
            .iter()
            .filter_map(|i| i.receiving.sink_state())
            .max_by(|a, b| a.fill().total_cmp(&b.fill()));
        if let Some(state) = fullest {
            connection.set_sink_state(state);
        }
        let mut at = 0;
        while let Some(found) = self.into.get_mut(at) {
            let result = match found.receiving.advance(now, connection) {
                Ok(None) => {
                    at += 1;
                    continue;
                }
                Ok(Some(arrived)) => Ok(arrived.hash),
                Err(error) => Err(error),
            };
            let found = self.into.swap_remove(at);
            let object = found.receiving.object;
            let stored = result.is_ok();
            connection.finish_receiving(object);
            match (&mut self.side, found.file, result) {
                (Side::Receiver(receiver), Some(file), Ok(hash)) => receiver.large_done(file, hash),
                (Side::Receiver(receiver), Some(file), Err(error))
                    if error.kind() != ErrorKind::NoSpace =>
                {
                    self.mismatched += u64::from(error.kind() == ErrorKind::Integrity);
                    receiver.large_failed(file, &error.to_string());
                }
                (_, _, result) => {
                    result?;
                }
            }
            connection.send_control(&Message::TreeSettled { object, stored }.encode());
        }
        Ok(())
    }

    /// The receiver says that everything is in place: what is to go at this side may go.
    pub(crate) fn all_placed(&mut self) {
        if let Side::Sender(sender) = &mut self.side {
            sender.all_placed();
        }
    }

    /// Whether the sender has said that something does not come.
    pub(crate) fn lacks(&self) -> bool {
        matches!(&self.side, Side::Receiver(receiver) if receiver.lacks())
    }

    /// Whether it is gone.
    pub(crate) fn has_removed(&mut self) -> bool {
        match &mut self.side {
            Side::Sender(sender) => sender.has_removed(),
            Side::Receiver(_) | Side::Describer(_) | Side::Comparing(_) => true,
        }
    }

    /// The receiver has everything: closes what is still open.
    pub(crate) fn finish(&mut self, connection: &mut Connection) {
        for out in self.out.drain(..) {
            if Some(out.sending.object) == self.packs {
                self.waits = out.sending.waits;
            }
            connection.finish_sending(out.sending.object);
        }
        for found in self.into.drain(..) {
            connection.finish_receiving(found.receiving.object);
        }
        self.large.finish(connection);
    }

    pub(crate) fn read(&mut self, object: ObjectId, offset: u64, buffer: &mut [u8]) {
        match self.out.iter_mut().find(|o| o.sending.object == object) {
            Some(out) => out.sending.read(offset, buffer),
            None => buffer.fill(0),
        }
    }

    pub(crate) fn accepts_data(&self) -> bool {
        let large = self.into.iter().filter(|found| found.file.is_some());
        let states = large.filter_map(|found| found.receiving.sink_state());
        let queued: u64 = states.map(|state| state.queued_bytes).sum();
        queued <= self.memory.large_bytes()
            && self.large.accepts_data()
            && self.into.iter().all(|found| found.receiving.accepts_data())
    }

    pub(crate) fn place(&mut self, object: ObjectId, buffer: &mut Vec<u8>, parts: &[Placement]) {
        if let Some(found) = self.into.iter_mut().find(|i| i.receiving.object == object) {
            found.receiving.place(buffer, parts);
        } else {
            self.large.place(object, buffer, parts);
        }
    }

    pub(crate) fn take_spare(&mut self) -> Option<Vec<u8>> {
        self.into
            .iter_mut()
            .find_map(|found| found.receiving.take_spare())
    }

    /// What is under way ends now; the rest may wait for a disk, and is left to [`stop`](Self::stop).
    pub(crate) fn let_go(&mut self) {
        self.out.clear();
        self.into.clear();
        self.large = LargeFiles::default();
    }

    /// Stops. The threads give what came whole its name; whoever ends the process waits for them.
    pub(crate) fn stop(self) -> Vec<JoinHandle<()>> {
        drop((self.out, self.into, self.large));
        match self.side {
            Side::Sender(_) | Side::Describer(_) | Side::Comparing(_) => Vec::new(),
            Side::Receiver(receiver) => receiver.stop(),
        }
    }
}

/// Where manifest and packs go, before it is known which objects they are.
#[derive(Debug)]
pub(crate) struct Contents {
    manifest: PipeWriter,
    packs: PipeWriter,
}

fn out_of_turn() -> Error {
    Error::new(
        ErrorKind::Protocol,
        "the other side says something about a tree out of turn",
    )
}
