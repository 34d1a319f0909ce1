//! Names and rules of a request: how they are told over a connection, and what tells them apart.

use crate::PathBytes;
use howdah_proto::Connection;
use howdah_session::TreeOptions;
use howdah_session::message::Message;
use howdah_session::selection::Telling;

/// What waits to be confirmed; the rest is told as the path takes it.
const UNTOLD_BYTES: usize = 1 << 20;

/// Tells as much as may be on its way. `Some`: that was all, and this is the rest of the request.
pub(crate) fn tell(
    telling: &mut Telling,
    connection: &mut Connection,
) -> Option<(Vec<PathBytes>, TreeOptions)> {
    while connection.control_backlog() < UNTOLD_BYTES {
        let Some(part) = telling.part() else {
            return Some(telling.take_rest());
        };
        connection.send_control(&Message::Selection(part).encode());
    }
    None
}
