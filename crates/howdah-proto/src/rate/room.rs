//! Whether the queue of the path has room for trains of packets that are half a millisecond long.
//!
//! Long trains save wake-ups, but where a queue holds a few packets each of them would overflow it. A queue that was
//! seen to be longer has room; where packets are lost and no such queue was seen, trains stay short.

use howdah_core::Span;

/// A queue of this length has room: six of the longest trains.
const ENOUGH: Span = Span::from_millis(3);

/// See the module.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Room {
    seen: bool,
    lost: bool,
}

impl Room {
    /// What a report says: the queue of now, and whether packets were lost on the way.
    pub(super) fn on_report(&mut self, queue: Span, lost: bool) {
        self.seen |= queue >= ENOUGH;
        self.lost |= lost;
    }

    /// The queue overflowed although it was short.
    pub(super) fn on_short(&mut self) {
        *self = Self {
            seen: false,
            lost: true,
        };
    }

    /// Trains should be short.
    pub(super) fn is_doubtful(self) -> bool {
        self.lost && !self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_makes_it_doubtful_until_a_queue_is_seen() {
        let mut room = Room::default();
        room.on_report(Span::ZERO, false);
        assert!(!room.is_doubtful(), "nothing speaks against it");
        room.on_report(Span::from_millis(2), true);
        assert!(room.is_doubtful());
        room.on_report(ENOUGH, false);
        room.on_report(Span::ZERO, true);
        assert!(!room.is_doubtful());
        room.on_short();
        assert!(room.is_doubtful());
    }
}
