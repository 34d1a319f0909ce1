//! What client and server say to each other above the protocol (the messages are those of `howdah-session`), and the two halves of a transfer.

#[cfg(test)]
pub(crate) mod alone;
pub(crate) mod at_cap;
pub(crate) mod blocking;
pub(crate) mod chore;
pub(crate) mod dialogue;
pub(crate) mod files;
pub(crate) mod kept;
pub(crate) mod lanes;
mod large;
pub(crate) mod lengths;
pub(crate) mod pace;
pub(crate) mod places;
pub(crate) mod plans;
pub(crate) mod putting;
pub(crate) mod receiving;
pub(crate) mod selection;
pub(crate) mod sending;
pub(crate) mod streams;
pub(crate) mod tree;

use crate::{Error, ErrorKind};
use howdah_proto::error::{CloseCode, ConnectionError};

/// The end of a connection as the library's error; `peer` names the other side.
pub(crate) fn from_connection(error: &ConnectionError, peer: &str) -> Error {
    use ConnectionError as E;
    match error {
        E::Unreachable => Error::new(
            ErrorKind::Network,
            format!("nobody listens on {peer} (UDP); is 'howdah serve' running there?"),
        ),
        E::NoAnswer => Error::new(
            ErrorKind::Network,
            format!(
                "no answer from {peer}; is 'howdah serve' running there, and does every \
                 firewall on the way let UDP through?"
            ),
        ),
        E::TimedOut => Error::new(
            ErrorKind::Network,
            format!("{peer} fell silent; the other side or the network is down, try again later"),
        ),
        E::VersionMismatch { ours, theirs } => {
            Error::new(ErrorKind::Protocol, other_version(*ours, *theirs, peer))
        }
        E::ClosedByPeer {
            code: CloseCode::Unauthorized,
            reason,
        } => {
            // Whoever is on the list and turned away all the same hears why.
            let why = match &**reason {
                "" | KEY_REFUSED => {
                    "does not accept this key; add the line that 'howdah key show' prints to its \
                     authorized keys"
                }
                why => why,
            };
            Error::new(ErrorKind::Auth, format!("{peer} {why}"))
        }
        E::ClosedByPeer { code, reason } => {
            let kind = match code {
                CloseCode::Done | CloseCode::Application => ErrorKind::Network,
                _ => ErrorKind::Protocol,
            };
            let reason = if reason.is_empty() {
                "no reason given"
            } else {
                reason
            };
            Error::new(kind, format!("{peer} closed the connection: {reason}"))
        }
        E::ClosedLocally => Error::new(ErrorKind::Network, format!("connection to {peer} closed")),
        E::PeerKeyRefused => Error::new(
            ErrorKind::Auth,
            format!("the key of {peer} is not accepted"),
        ),
        E::Handshake(why) => Error::new(
            ErrorKind::Protocol,
            format!("the handshake with {peer} failed: {why}"),
        ),
        other => Error::new(ErrorKind::Protocol, format!("{peer}: {other}")),
    }
}

/// What the protocol says of a key that is not on the list.
const KEY_REFUSED: &str = "key not accepted";

/// Which side is older. The upper bytes of a version say that it is one of Howdah's, the last one
/// counts.
fn other_version(ours: u32, theirs: u32, peer: &str) -> String {
    if ours >> 8 != theirs >> 8 {
        return format!(
            "{peer} speaks another version of the protocol ({theirs:#010x}, this program \
             {ours:#010x}); install the same version of howdah on both"
        );
    }
    let older = if theirs < ours { peer } else { "this program" };
    format!(
        "{peer} speaks version {} of the protocol and this program version {}: {older} is older; \
         install the same version of howdah on both",
        theirs & 0xff,
        ours & 0xff
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_proto::WIRE_VERSION as VERSION;

    #[test]
    fn a_version_that_does_not_fit_names_the_older_side() {
        for (theirs, part) in [
            (
                VERSION + 1,
                "version 2 of the protocol and this program version 1: this program is older",
            ),
            (
                VERSION - 1,
                "version 0 of the protocol and this program version 1: h:1 is older",
            ),
            (0x1234_5678, "another version of the protocol (0x12345678"),
        ] {
            let ours = VERSION;
            let error = from_connection(&ConnectionError::VersionMismatch { ours, theirs }, "h:1");
            assert_eq!(error.kind(), ErrorKind::Protocol);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
