//! Drives the Howdah protocol over a real UDP socket.
//!
//! [`Endpoint`] owns one socket and all connections on it, and runs them on the thread that calls
//! [`Endpoint::run`]: receive, open, decide, read, seal, send. One thread per endpoint does all of
//! it because a transfer moves bytes in one direction only, so that a second thread would mostly
//! hand packets over and wait; disks are kept off this thread by the [`Application`], which
//! hands buffers to threads of its own and wakes the endpoint with a [`Waker`].
//!
//! A server's port may have several loops, each an [`Endpoint`] with a thread and a socket of its own ([`share`],
//! [`Endpoint::further`]): each connection is on one of them.
//!
//! [`plain`] drives transports that are not ours, in the clear, to measure them.
//!
//! `unsafe` is confined to `sys`, for socket options that no library wraps.

mod application;
mod buffers;
mod clock;
mod counts;
mod endpoint;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod isolation;
mod mail;
mod parcel;
pub mod plain;
#[cfg(target_os = "linux")]
mod receive;
mod share;
mod socket;
mod sys;
mod train;
mod tunnel;
mod usage;
mod waker;

pub use application::{Application, Placement};
pub use clock::Clock;
pub use counts::{TurnCount, TurnCounts};
pub use endpoint::Endpoint;
pub use howdah_proto::endpoint::{Allowance, Attended, ConnKey, EndpointConfig, Full, LOOPS_MAX};
pub use share::{share, usual_loops};
pub use socket::{
    ENOUGH_RECEIVE_BUFFER, SocketReport, WANTED_RECEIVE_BUFFER, WANTED_SEND_BUFFER, bind, listen,
    socket_report,
};
pub use tunnel::{Lanes, Proved, Tunnel, TunnelListener};
pub use usage::{MachineLoad, Usage, thread_cpu, usage};
pub use waker::Waker;
