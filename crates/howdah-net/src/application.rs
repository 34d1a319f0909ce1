//! What runs on top of an endpoint, and how the two speak.

use howdah_core::{ByteRange, ObjectId, Time};
use howdah_proto::endpoint::{Attended, ConnKey, Full};
use howdah_proto::{Connection, Event};
use std::any::Any;
use std::net::SocketAddr;

/// Received bytes and where they belong.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Placement {
    /// Where they start in the buffer.
    pub at: usize,
    /// Which bytes of the object they are.
    pub range: ByteRange,
}

/// What runs on top of an endpoint. All calls come from the endpoint's thread and must not block.
pub trait Application {
    /// Something happened to a connection.
    fn on_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event);

    /// Fills `buffer` with bytes of an outgoing object, from `offset` on. They were announced by
    /// [`Connection::set_readable`].
    fn read(&mut self, key: ConnKey, object: ObjectId, offset: u64, buffer: &mut [u8]);

    /// Whether received bytes can be placed now.
    fn accepts_data(&mut self, key: ConnKey) -> bool;

    /// Received bytes of one object. The buffer may be taken; another one is then left in its place
    /// (of [`Application::take_spare`], or none).
    fn place(&mut self, key: ConnKey, object: ObjectId, buffer: &mut Vec<u8>, parts: &[Placement]);

    /// A buffer that [`place`](Self::place) took and nobody needs any more.
    fn take_spare(&mut self) -> Option<Vec<u8>>;

    /// Moves everything on that does not depend on packets: sources, sinks, deadlines. Called when packets come, timers fire
    /// (which is at least at every keep-alive) or another thread [wakes](crate::Waker::wake_for) the endpoint for it; and whatever
    /// happens, for every connection that is [attended](Self::attended) to.
    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection);

    /// The connections that something else than packets may move on: with a source or a sink.
    fn attended(&self) -> Attended<'_>;

    /// Connections of the same number share their turns where many want one, those of others have their own.
    fn group(&self, key: ConnKey) -> u64 {
        key.0
    }

    /// Whether that connection may end for a newcomer's where a server has as many as it keeps: nothing is under way in it.
    fn gives_way(&self, _key: ConnKey) -> bool {
        false
    }

    /// A method of this trait, or the protocol, has panicked for that connection of a server. The connection is gone
    /// without a word, and what belongs to it should be, too.
    fn on_panic(&mut self, _key: ConnKey, _remote: Option<SocketAddr>) {}

    /// That connection, whose key is proved, goes to another loop of the port: what goes with it, for [`take_in`](Self::take_in) of
    /// that loop's application. `None`: it stays.
    fn hand_over(&mut self, _key: ConnKey) -> Option<Box<dyn Any + Send>> {
        None
    }

    /// A connection has come from another loop of the port, with what that one's application gave it.
    fn take_in(&mut self, _now: Time, _key: ConnKey, _guest: Box<dyn Any + Send>) {}

    /// Somebody was told to come again later, once per round at most.
    fn on_full(&mut self, _now: Time, _full: Full) {}

    /// Called once per round; returning false ends [`Endpoint::run`](crate::Endpoint::run).
    fn keep_running(&mut self, now: Time) -> bool;

    /// When [`poll`](Self::poll) wants to be called at the latest.
    fn next_deadline(&self) -> Option<Time>;
}
