//! What a server knows of one client.

use super::control::Meter;
use crate::access::Rights;
use crate::session::at_cap::AtCap;
use crate::session::chore::Chore;
use crate::session::holes::Announced;
use crate::session::putting::Put;
use crate::session::receiving::Receiving;
use crate::session::selection::Asked;
use crate::session::sending::Sending;
use crate::session::tree::Tree;
use crate::session::waits::{Wait, WaitClock};
use howdah_core::Time;
use howdah_net::Usage;
use howdah_store::RoomWait;

/// One client.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) start: Usage,
    pub(super) peer: String,
    pub(super) rights: Rights,
    /// Of the client; empty if it is of an unknown kind.
    pub(super) key: String,
    pub(super) sending: Option<Sending>,
    pub(super) receiving: Option<Receiving>,
    pub(super) tree: Option<Tree>,
    pub(super) chore: Option<Chore>,
    /// Of what comes next.
    pub(super) holes: Announced,
    /// Names and rules that came before the request that they belong to.
    pub(super) asked: Asked,
    /// What it is that comes, or will come when its place is free.
    pub(super) put: Option<Put>,
    /// Its patience with full disks.
    pub(super) room: RoomWait,
    /// Another connection of the same client wants to go on with it.
    pub(super) superseded: bool,
    pub(super) what: String,
    pub(super) wait: WaitClock,
    pub(super) at_cap: AtCap,
    pub(super) meter: Meter,
    /// Nothing has been asked for since then.
    pub(super) idle_since: Option<Time>,
    /// It was told to go, and is cut off then.
    pub(super) cut_at: Option<Time>,
}

impl Session {
    /// Of a client that was let in.
    pub(super) fn new(now: Time, peer: String, key: String, rights: Rights) -> Self {
        Self {
            start: howdah_net::usage(),
            peer,
            rights,
            key,
            sending: None,
            receiving: None,
            tree: None,
            chore: None,
            holes: Announced::default(),
            asked: Asked::default(),
            put: None,
            room: RoomWait::default(),
            superseded: false,
            what: String::new(),
            wait: WaitClock::default(),
            at_cap: AtCap::default(),
            meter: Meter::new(now),
            idle_since: Some(now),
            cut_at: None,
        }
    }

    /// Whether it has a transfer under way.
    pub(super) fn is_busy(&self) -> bool {
        self.sending.is_some()
            || self.receiving.is_some()
            || self.put.is_some()
            || self.tree.is_some()
            || self.chore.is_some()
    }

    /// Whether the data comes from the client.
    pub(super) fn receives(&self) -> bool {
        self.put.is_some() || self.tree.as_ref().is_some_and(Tree::is_receiver)
    }

    /// What of the client is missing now. Its [`Message::Done`] may take for ever: behind a pipe sits
    /// somebody who reads.
    pub(super) fn waits_for(&self) -> Option<Wait> {
        match (&self.sending, &self.receiving) {
            // Its walk through the disk may take for ever.
            _ if self.tree.is_some() || self.chore.is_some() => None,
            (None, None) if self.put.is_some() => None,
            (None, None) => Some(Wait::Request),
            (_, Some(receiving)) => receiving.waits_for_end().then_some(Wait::End),
            (Some(_), None) => None,
        }
    }
}
