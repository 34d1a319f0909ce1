//! Behavioural models of transports whose inside is not public: **nothing here is the real thing**.
//!
//! MTP (the core of `ExpeDat`), RWTP (of `TIXstream`), `FileCatalyst` Direct and Aspera FASP are
//! proprietary. Published are what vendors and patents say in words, and what K14proto and K13app
//! measured. This is one engine with few, named parameters ([`Settings`]) and a file for each
//! model, which says of every rule whether it is published or fitted to those measurements:
//!
//! | model | of | drive |
//! |---|---|---|
//! | [`rwtp_like`] | RWTP, K14proto | pushed at a preset rate, periodic lists of everything that is missing |
//! | [`filecatalyst_like`] | `FileCatalyst` Direct, K13app | pushed at a preset rate, a list after each block |
//! | [`fasp_like`] | Aspera FASP (never measured in the papers) | pushed at a rate that follows the queueing delay |
//! | [`mtp_like`] | MTP, K14proto | pulled: the receiver asks for each datagram |
//!
//! # The engine
//!
//! An object is cut into *units*, one per datagram, numbered from 0. The sender says hello and
//! repeats that until it is answered. Then it either **pushes** units at its rate, the receiver
//! reporting what is missing ([`Push`]), or sends just what the receiver **pulls** ([`Pull`]). Units
//! are placed where they belong in any order; the receiver keeps a bit for each. When all are there
//! (and written, where the disk is modelled) it says so until it hears a goodbye. Each side gives up
//! after [`SILENCE`] without a word from the other, and says so.
//!
//! The message formats ([`wire`]) are ours; only their sizes are chosen after what was measured.
//!
//! ```
//! use howdah_rivals::model::{ModelEndpoint, rwtp_like};
//! let settings = rwtp_like();
//! let sender = ModelEndpoint::sender(&settings, Some(30 << 30))?;
//! let receiver = ModelEndpoint::receiver(&settings)?;
//! # let _ = (sender, receiver);
//! # Ok::<(), howdah_rivals::model::SettingsError>(())
//! ```

mod disk;
mod fasp;
mod filecatalyst;
mod law;
mod mtp;
mod pull;
mod receiver;
mod rwtp;
mod sender;
mod settings;
#[cfg(test)]
mod tests;
mod units;
pub mod wire;

pub use fasp::fasp_like;
pub use filecatalyst::filecatalyst_like;
pub use law::RateLaw;
pub use mtp::mtp_like;
pub use rwtp::rwtp_like;
pub use settings::{Drive, Pull, Push, Settings, SettingsError};

use howdah_core::{
    Arrival, ByteRange, Carrier, Datagram, Observe, Place, Snapshot, Span, Time, Transport,
    WakeReason,
};
use receiver::Receiver;
use sender::Sender;

/// How long one side waits for a word from the other before it gives up.
pub const SILENCE: Span = Span::from_secs(30);

/// One end of a transfer by one of the models.
#[derive(Debug)]
pub struct ModelEndpoint(Side);

#[derive(Debug)]
enum Side {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

macro_rules! each {
    ($node:expr, $inner:ident => $call:expr) => {
        match $node {
            Side::Sender($inner) => $call,
            Side::Receiver($inner) => $call,
        }
    };
}

impl ModelEndpoint {
    /// The side that has an object of `size_bytes`, or one without end.
    ///
    /// # Errors
    /// Settings with which nothing can be sent.
    pub fn sender(settings: &Settings, size_bytes: Option<u64>) -> Result<Self, SettingsError> {
        settings.check()?;
        let sender = Sender::new(settings.clone(), size_bytes);
        Ok(Self(Side::Sender(Box::new(sender))))
    }

    /// The side that wants it. It learns the object's size and the units from the sender.
    ///
    /// # Errors
    /// As [`sender`](Self::sender).
    pub fn receiver(settings: &Settings) -> Result<Self, SettingsError> {
        settings.check()?;
        let receiver = Receiver::new(settings.clone());
        Ok(Self(Side::Receiver(Box::new(receiver))))
    }

    /// User bytes that have arrived here, each counted once; 0 at a sender.
    pub fn delivered_bytes(&self) -> u64 {
        match &self.0 {
            Side::Sender(_) => 0,
            Side::Receiver(receiver) => receiver.delivered_bytes(),
        }
    }

    /// When the transfer was known to be complete on this side.
    pub fn finished_at(&self) -> Option<Time> {
        each!(&self.0, side => side.finished_at())
    }

    /// The object's size and unit, once the hello has told this receiver; `None` inside for an
    /// object without end.
    pub fn announced(&self) -> Option<(Option<u64>, u32)> {
        match &self.0 {
            Side::Sender(_) => None,
            Side::Receiver(receiver) => receiver.announced(),
        }
    }
}

impl Transport for ModelEndpoint {
    #[inline]
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        // A damaged datagram does not pass its UDP checksum.
        if !arrival.corrupt {
            each!(&mut self.0, side => side.handle_datagram(now, arrival));
        }
    }

    #[inline]
    fn handle_timeout(&mut self, now: Time) {
        each!(&mut self.0, side => side.handle_timeout(now));
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        let before = out.len();
        each!(&mut self.0, side => side.poll_transmit(now, before + max, out));
        out.len() - before
    }

    #[inline]
    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        each!(&self.0, side => side.poll_timeout())
    }
}

impl Carrier for ModelEndpoint {
    const TAGGED: bool = false;

    fn split<'w>(&self, wire: &'w [u8]) -> Option<(&'w [u8], &'w [u8])> {
        if matches!(wire::decode(wire)?, wire::Message::Data(_)) {
            wire.split_at_checked(wire::DATA_BYTES)
        } else {
            Some((wire, &[]))
        }
    }

    fn payload_of(&self, datagram: &Datagram) -> Option<ByteRange> {
        let Side::Sender(sender) = &self.0 else {
            return None;
        };
        let wire::Message::Data(data) = wire::decode(&datagram.bytes)? else {
            return None;
        };
        let start = data.unit.checked_mul(u64::from(sender.unit_bytes()))?;
        let end = start.checked_add(u64::from(data.bytes))?;
        Some(ByteRange::new(start, end))
    }

    fn take_accepted(&mut self) -> Option<Place> {
        match &mut self.0 {
            Side::Sender(_) => None,
            Side::Receiver(receiver) => receiver.take_accepted().map(Place::Bytes),
        }
    }
}

impl Observe for ModelEndpoint {
    fn snapshot(&self) -> Snapshot {
        each!(&self.0, side => side.snapshot())
    }
}
