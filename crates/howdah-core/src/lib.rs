//! The words that every other Howdah crate speaks.
//!
//! Nothing here opens a socket, reads a clock or starts a thread.
//!
//! * [`Time`] and [`Span`]: nanoseconds as integers, supplied from outside.
//! * [`Rate`]: bits per second.
//! * [`ByteRange`] and [`RangeSet`]: which bytes of an object are meant.
//! * [`Transport`]: the contract between a protocol and whatever drives it.
//! * [`Carrier`]: what a driver must know beyond that to move real bytes.
//! * [`Observe`]: what an endpoint says about itself to those who measure.
//! * [`Ecn`]: what a packet's header says about congestion.
//! * [`NoWaiting`]: a thread that must not wait for a disk.
//! * [`num`]: conversions between numbers that cannot go wrong unseen.
//! * [`text`]: what editors put into text.
//! * [`units`]: how people write those quantities (`180ms`, `10gbit`, `4GiB`, `1%`).

#![forbid(unsafe_code)]
// A number that becomes a float may lose its last digits (beyond 2^53): what is calculated with floats are rates and times, which are
// never that exact.
#![warn(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss
)]

pub mod carrier;
mod ecn;
mod no_waiting;
pub mod num;
mod object;
mod observe;
mod range;
mod range_set;
mod rate;
pub mod text;
mod time;
pub mod transport;
pub mod units;
mod wake;

pub use carrier::{Carrier, Place};
pub use ecn::Ecn;
pub use no_waiting::{NoWaiting, may_wait, must_not_wait};
pub use object::ObjectId;
pub use observe::{Observe, Snapshot};
pub use range::ByteRange;
pub use range_set::RangeSet;
pub use rate::Rate;
pub use time::{Span, Time};
pub use transport::{Arrival, Datagram, HeaderBytes, Transport};
pub use wake::WakeReason;
