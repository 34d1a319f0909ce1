//! What the host's own queue refuses.
//!
//! Linux 2.4 and 2.6 hand a copy of each segment to the interface's queue. If that is full, the
//! segment counts as not sent: it stays at the head of what is to be sent, and is tried again with
//! the next acknowledgement. The sender takes the refusal for congestion.

use super::Sender;
use super::scoreboard::Departure;
use crate::tcp::cc::Phase;
use howdah_core::{Datagram, Time};

/// A segment as it was before it left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    index: u64,
    /// Its last departure; `None` if this was the first.
    before: Option<Departure>,
    persist_due: bool,
    timeout_due: bool,
}

impl Sender {
    #[inline]
    pub(super) fn note_leaving(&mut self, index: u64, again: bool) {
        self.leaving = Some(Leaving {
            index,
            before: again.then(|| *self.board.get(index)),
            persist_due: self.persist_due,
            timeout_due: self.timeout_due,
        });
    }

    /// The host has no room for the datagram that left last. A SYN and a bare acknowledgement are
    /// given up: a timer brings the one, nobody misses the other.
    pub(crate) fn handle_refused(&mut self, now: Time, datagram: Datagram) -> Option<Datagram> {
        if !self.config.local_congestion || !self.cc.heeds_local_congestion() {
            return Some(datagram);
        }
        if let Some(leaving) = self.leaving.take() {
            self.take_back(&leaving);
            self.enter_local_congestion(now);
        }
        None
    }

    /// Undoes what [`Sender::send`] noted. The retransmission timer runs on: should nothing be
    /// outstanding, it is the one that tries again.
    fn take_back(&mut self, leaving: &Leaving) {
        let payload = u64::from(self.payload_of(leaving.index));
        if let Some(before) = leaving.before {
            *self.board.get_mut(leaving.index) = before;
            self.board.retransmitted -= 1;
            self.finder.take_back(leaving.index);
            self.repair.take_back_retransmission();
            self.retransmitted_bytes -= payload;
        } else {
            self.board.nxt = leaving.index;
        }
        self.sent_bytes -= payload;
        if self.phase == Phase::Recovery {
            self.repair.sent = self.repair.sent.saturating_sub(1);
        }
        self.persist_due = leaving.persist_due;
        self.timeout_due = leaving.timeout_due;
    }
}
