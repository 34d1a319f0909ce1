//! What a change of the path does to the packets that are already on it.
//!
//! A path that is switched to another route, or whose bottleneck moves, can treat what is under way
//! in several ways, and results depend on it: packets of a shorter new route may overtake those on
//! the old one or may not, and what waited in front of the old bottleneck may go on waiting, may
//! drain over the old path, or may be lost. As in the emulator `TheaterQ`, two identities decide:
//! the route's (is it still the same way, on which nobody overtakes?) and the queue's (is it still
//! the same buffer?).

/// How [`OneWay::switch`](crate::OneWay::switch) treats packets that came before the change.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Switch {
    /// Whether later packets may arrive before earlier ones.
    pub order: Order,
    /// What becomes of the packets in the queue.
    pub backlog: Backlog,
}

/// Whether packets that come after a change may arrive before packets that came before it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Order {
    /// No: the route is the same (same route id), and who came first arrives first.
    #[default]
    Kept,
    /// Yes: packets now take another route.
    MayOvertake,
}

/// What a change does to the packets that wait in front of the bottleneck. The one that is being
/// sent, and all that have left the queue, arrive as they would have in any case.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Backlog {
    /// The queue is the same (same queue id). A stored queue goes on at the new rate and over the
    /// new path; in a computed queue, whose packets have their times already, it drains at the old
    /// rate over the old path, and what comes after waits behind it.
    #[default]
    Inherited,
    /// The bottleneck is another one: its queue begins empty, and the old one drains at its own
    /// rate over the old path beside it.
    DrainsOnOldPath,
    /// The bottleneck is another one, and what waited in front of the old one is lost. Needs a
    /// [stored queue](crate::PathConfig::stores_packets).
    Dropped,
}

impl Switch {
    /// From whether route and queue have the same identity as before; a queue left behind drains.
    pub fn from_identity(same_route: bool, same_queue: bool) -> Self {
        Self {
            order: if same_route {
                Order::Kept
            } else {
                Order::MayOvertake
            },
            backlog: if same_queue {
                Backlog::Inherited
            } else {
                Backlog::DrainsOnOldPath
            },
        }
    }
}
