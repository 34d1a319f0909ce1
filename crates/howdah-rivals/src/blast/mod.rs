//! Tools that blast UDP and repair over a TCP connection beside it: RBUDP, Tsunami, `PA-UDP` and
//! GTP.
//!
//! # What they share
//!
//! * The object is cut into blocks, each of which a datagram names by number. The receiver keeps a
//!   bit per block; nothing is kept in order.
//! * Datagrams leave at a rate, whatever the path makes of them; there is no window.
//! * Control messages go over TCP. Here they go over a TCP in miniature, with contents, on the same
//!   path as the data (see the module `channel`).
//! * A receiver may have memory in front of a disk.
//!
//! A [`BlastEndpoint`] is one side, data and control together. What a datagram of data does not say
//! is absent, as everywhere; a segment of the control channel is there in full. Where the two meet
//! on one path they are told apart by the length of what is there: headers of data are shorter than
//! a segment's.
//!
//! What arrives marked as corrupt is dropped, as the checksums of UDP and TCP would have it.

mod blocks;
mod budget;
pub(crate) mod channel;
pub(crate) mod endpoint;
mod fragments;
mod paced;
mod rbudp;
mod segment;
mod send_buffer;
mod storage;
mod tsunami;

pub use budget::SharedBudget;
pub use paced::{PacedRule, PacedSettings, pa_udp_rate};
pub use rbudp::{RbudpMode, RbudpSettings};
pub use send_buffer::SendBuffer;
pub use tsunami::{TsunamiErrors, TsunamiSettings};

use endpoint::{Endpoint, Tool};
use howdah_core::{Arrival, Datagram, Observe, Rate, Snapshot, Time, Transport, WakeReason};

/// One side of a blasting tool.
#[derive(Debug)]
pub struct BlastEndpoint(Side);

#[derive(Debug)]
enum Side {
    RbudpSender(Box<Endpoint<rbudp::Sender>>),
    RbudpReceiver(Box<Endpoint<rbudp::Receiver>>),
    TsunamiServer(Box<Endpoint<tsunami::Server>>),
    TsunamiClient(Box<Endpoint<tsunami::Client>>),
    PacedSender(Box<Endpoint<paced::Sender>>),
    PacedReceiver(Box<Endpoint<paced::Receiver>>),
}

macro_rules! each {
    ($side:expr, $inner:ident => $call:expr) => {
        match $side {
            Side::RbudpSender($inner) => $call,
            Side::RbudpReceiver($inner) => $call,
            Side::TsunamiServer($inner) => $call,
            Side::TsunamiClient($inner) => $call,
            Side::PacedSender($inner) => $call,
            Side::PacedReceiver($inner) => $call,
        }
    };
}

mod carry;

impl BlastEndpoint {
    /// RBUDP's sender. `send_buffer` makes a socket that blocks; without it nothing holds the
    /// sender up.
    pub fn rbudp_sender(settings: &RbudpSettings, send_buffer: Option<SendBuffer>) -> Self {
        let endpoint = Endpoint::new(rbudp::Sender::new(*settings), true, send_buffer);
        Self(Side::RbudpSender(Box::new(endpoint)))
    }

    /// RBUDP's receiver, which must be told the same settings.
    pub fn rbudp_receiver(settings: &RbudpSettings) -> Self {
        let endpoint = Endpoint::new(rbudp::Receiver::new(*settings), true, None);
        Self(Side::RbudpReceiver(Box::new(endpoint)))
    }

    /// Tsunami's server, the side that sends. IP packets have at most `mtu` bytes; larger datagrams
    /// travel in fragments.
    pub fn tsunami_server(
        settings: &TsunamiSettings,
        mtu: u32,
        send_buffer: Option<SendBuffer>,
    ) -> Self {
        let endpoint = Endpoint::new(tsunami::Server::new(*settings), false, send_buffer);
        Self(Side::TsunamiServer(Box::new(
            endpoint.in_fragments(tsunami_fragments(settings, mtu)),
        )))
    }

    /// Tsunami's client, which receives and must be told the same settings.
    pub fn tsunami_client(settings: &TsunamiSettings, mtu: u32) -> Self {
        let endpoint = Endpoint::new(tsunami::Client::new(*settings), false, None);
        Self(Side::TsunamiClient(Box::new(
            endpoint.in_fragments(tsunami_fragments(settings, mtu)),
        )))
    }

    /// The sender of `PA-UDP` or GTP.
    pub fn paced_sender(settings: &PacedSettings, send_buffer: Option<SendBuffer>) -> Self {
        let endpoint = Endpoint::new(paced::Sender::new(*settings), false, send_buffer);
        Self(Side::PacedSender(Box::new(endpoint)))
    }

    /// The receiver of `PA-UDP` or GTP, which must be told the same settings. With a `budget` it
    /// shares what the host can take with the other flows of that budget.
    pub fn paced_receiver(settings: &PacedSettings, budget: Option<&SharedBudget>) -> Self {
        let receiver = paced::Receiver::new(*settings, budget.cloned());
        Self(Side::PacedReceiver(Box::new(Endpoint::new(
            receiver, false, None,
        ))))
    }

    /// User bytes that have arrived here, each counted once.
    pub fn delivered_bytes(&self) -> u64 {
        each!(&self.0, side => side.tool().delivered_bytes())
    }

    /// The rate that the program displays at its end, on the side that displays one. It leaves out
    /// the negotiation, which goodput counts.
    pub fn displayed_rate(&self) -> Option<Rate> {
        each!(&self.0, side => side.tool().displayed_rate())
    }
}

/// The packet size to cut datagrams to, if they are larger.
fn tsunami_fragments(settings: &TsunamiSettings, mtu: u32) -> Option<u32> {
    // Block, its header, UDP's and IP's.
    (settings.block_bytes + 6 + 28 > mtu).then_some(mtu)
}

impl Transport for BlastEndpoint {
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        each!(&mut self.0, side => side.handle_datagram(now, arrival));
    }

    fn handle_timeout(&mut self, now: Time) {
        each!(&mut self.0, side => side.handle_timeout(now));
    }

    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize {
        each!(&mut self.0, side => side.poll_transmit(now, max_datagrams, out))
    }

    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        each!(&self.0, side => side.poll_timeout())
    }
}

impl Observe for BlastEndpoint {
    fn snapshot(&self) -> Snapshot {
        each!(&self.0, side => side.snapshot())
    }
}
