//! What is told of a tree that moves: to its user, to the other side, and to whoever watches that something moves.

use super::{Side, Tree};
use crate::session::sending::Shares;
use howdah_core::{Span, Time};
use howdah_proto::Connection;
use howdah_session::{Change, TreeReport};
use howdah_tree::{LargeFile, LargeTarget, PlacedFile, TreeProgress};

/// Names of files under way that are told, at most.
const NAMES_MAX: usize = 8;
/// A small file is under way for a moment only; what was named that long ago is not any more.
const SMALL_FOR: Span = Span::from_secs(1);

impl Tree {
    /// What this side did.
    pub(crate) fn report(&self) -> TreeReport {
        match &self.side {
            Side::Sender(sender) => sender.report(),
            Side::Receiver(receiver) => receiver.report(),
            Side::Describer(describer) => describer.report(),
            Side::Comparing(_) => TreeReport::default(),
        }
    }

    /// Files that are in place, if that was asked for.
    pub(crate) fn take_placed(&mut self) -> Vec<PlacedFile> {
        std::mem::take(&mut self.placed)
    }

    /// Bytes that interrupted copies had brought, of files that are in place or under way.
    pub(crate) fn resumed_bytes(&self) -> u64 {
        let out = self.out.iter().map(|out| out.sending.held_bytes());
        let into = self.into.iter();
        let into = into.map(|found| found.receiving.held().byte_count());
        self.report().resumed_bytes + out.sum::<u64>() + into.sum::<u64>()
    }

    /// What a dry run would do.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        match &mut self.side {
            Side::Sender(sender) => sender.take_changes(),
            Side::Receiver(receiver) => receiver.take_changes(),
            Side::Describer(_) | Side::Comparing(_) => Vec::new(),
        }
    }

    /// Whether the receiver's last word has been heard.
    pub(crate) fn is_answered(&self) -> bool {
        match &self.side {
            Side::Sender(sender) => !self.needs_answers || sender.is_answered(),
            Side::Receiver(_) | Side::Describer(_) | Side::Comparing(_) => true,
        }
    }

    /// Whether files come here.
    pub(crate) fn is_sender(&self) -> bool {
        matches!(self.side, Side::Sender(_))
    }

    pub(crate) fn is_receiver(&self) -> bool {
        matches!(self.side, Side::Receiver(_))
    }

    /// Whether what is in place was read back from the device.
    pub(crate) fn is_reread(&self) -> bool {
        self.reread
    }

    /// What limited the sender.
    pub(crate) fn waits(&self) -> Shares {
        let packs = self
            .out
            .iter()
            .find(|out| Some(out.sending.object) == self.packs);
        packs.map_or(self.waits, |out| out.sending.waits)
    }

    /// How far it is; the bytes are those at the receiver.
    pub(crate) fn progress(&self, connection: &Connection) -> TreeProgress {
        match &self.side {
            Side::Sender(sender) => {
                let mut progress = sender.progress();
                for out in &self.out {
                    let acked = connection.acked_bytes(out.sending.object);
                    if out.file.is_some() {
                        progress.bytes += acked;
                    } else if Some(out.sending.object) == self.packs {
                        let under_way = out.sending.ready_end().saturating_sub(acked);
                        progress.bytes = progress.bytes.saturating_sub(under_way);
                    }
                }
                progress
            }
            Side::Receiver(receiver) => {
                let mut progress = receiver.progress();
                for found in self.into.iter().filter(|found| found.file.is_some()) {
                    progress.bytes += connection.received_bytes(found.receiving.object);
                }
                progress
            }
            Side::Describer(describer) => describer.progress(),
            // Whoever compares knows.
            Side::Comparing(_) => TreeProgress::default(),
        }
    }

    /// Names of files that are under way now, a few at most: large ones that move, and the last of the small ones as long as
    /// there are some.
    pub(crate) fn under_way(&mut self, now: Time) -> Vec<String> {
        let sent = self.out.iter().filter_map(|out| out.file.as_ref());
        let received = self.into.iter().filter_map(|found| found.file.as_ref());
        let large = sent.map(LargeFile::name);
        let large = large.chain(received.map(LargeTarget::name));
        let mut names: Vec<String> = large.take(NAMES_MAX).collect();
        let small = match &self.side {
            Side::Sender(sender) => sender.progress().current,
            Side::Receiver(receiver) => receiver.progress().current,
            Side::Describer(describer) => return vec![describer.progress().current],
            Side::Comparing(_) => String::new(),
        };
        if small != self.small.0 {
            self.small = (small, now);
        }
        let (small, since) = &self.small;
        if !small.is_empty() && now.since(*since) < SMALL_FOR && names.len() < NAMES_MAX {
            names.push(small.clone());
        }
        names
    }

    /// Whether anything has moved since the last look.
    pub(crate) fn has_moved(&mut self, connection: &Connection) -> bool {
        let report = self.report();
        let out = self.out.iter();
        let acked: u64 = out.map(|o| connection.acked_bytes(o.sending.object)).sum();
        let into = self.into.iter();
        let received: u64 = into
            .map(|i| connection.received_bytes(i.receiving.object))
            .sum();
        let compared = match &self.side {
            Side::Comparing(state) => state.moved(),
            _ => 0,
        };
        let work = compared
            + report.files
            + report.unchanged
            + report.linked
            + report.directories
            + report.bytes;
        let now = (acked, received, work);
        std::mem::replace(&mut self.moved, now) != now
    }
}
