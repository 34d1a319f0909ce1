//! One side of a connection, whichever.

use super::config::UdtConfig;
use super::connection::Connection;
use super::receiver::Receiver;
use super::sender::Sender;
use super::wire::{Body, Control, Packet, decode};
use howdah_core::{
    Arrival, ByteRange, Carrier, Datagram, Observe, Place, Rate, Snapshot, Time, Transport,
    WakeReason,
};

/// One side of a UDT connection: a [`Transport`] that says how it is doing ([`Observe`]).
///
/// Either side may open the connection; the sender does unless it is told to [listen](Self::listening).
#[derive(Debug)]
pub struct UdtEndpoint {
    connection: Connection,
    half: Half,
}

#[derive(Debug)]
enum Half {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

impl UdtEndpoint {
    /// The side that sends: an object of so many bytes, after which it closes, or without end.
    pub fn sender(config: &UdtConfig, object_bytes: Option<u64>, seed: u64) -> Self {
        let config = config.bounded();
        Self {
            connection: Connection::new(&config, true, seed),
            half: Half::Sender(Box::new(Sender::new(config, object_bytes, seed ^ 0x5eed))),
        }
    }

    /// The side that receives and whose application reads at once.
    pub fn receiver(config: &UdtConfig, seed: u64) -> Self {
        let config = config.bounded();
        Self {
            connection: Connection::new(&config, false, seed),
            half: Half::Receiver(Box::new(Receiver::new(config))),
        }
    }

    /// The same side as a listener, before it is driven.
    #[must_use]
    pub fn listening(self, config: &UdtConfig, seed: u64) -> Self {
        Self {
            connection: Connection::new(&config.bounded(), false, seed),
            ..self
        }
    }

    /// The same side as the one that opens the connection, before it is driven.
    #[must_use]
    pub fn connecting(self, config: &UdtConfig, seed: u64) -> Self {
        Self {
            connection: Connection::new(&config.bounded(), true, seed),
            ..self
        }
    }

    /// Whether both sides have agreed to talk.
    pub fn is_open(&self) -> bool {
        self.connection.is_open()
    }

    /// User bytes that have reached the application here.
    pub const fn delivered_bytes(&self) -> u64 {
        match &self.half {
            Half::Sender(_) => 0,
            Half::Receiver(receiver) => receiver.delivered_bytes(),
        }
    }

    /// A sender's period in microseconds per packet.
    pub const fn period_us(&self) -> Option<f64> {
        match &self.half {
            Half::Sender(sender) => Some(sender.period_us()),
            Half::Receiver(_) => None,
        }
    }

    /// What a sender believes the link could carry, in IP packets of full size.
    pub fn capacity(&self) -> Option<Rate> {
        match &self.half {
            Half::Sender(sender) => Some(sender.capacity()),
            Half::Receiver(_) => None,
        }
    }

    fn on_control(&mut self, now: Time, control: &Control<'_>) {
        let connection = &mut self.connection;
        if let Body::Handshake(handshake) = &control.body {
            if connection.on_handshake(now, handshake, control.destination) {
                match &mut self.half {
                    Half::Sender(sender) => sender.open(now, connection),
                    Half::Receiver(receiver) => receiver.open(now, connection),
                }
            }
            return;
        }
        if !connection.is_mine(control.destination) {
            return;
        }
        if !connection.is_open() {
            if !matches!(control.body, Body::Shutdown) {
                connection.repeat_end(now);
            }
            return;
        }
        match &mut self.half {
            Half::Sender(sender) => {
                sender.on_sign_of_life(now);
                match &control.body {
                    Body::Ack(ack) => sender.on_ack(now, ack, connection),
                    Body::Nak(losses) => sender.on_nak(now, losses, connection),
                    Body::Shutdown => {
                        connection.fail("the receiver closed the connection".to_owned());
                    }
                    _ => {}
                }
            }
            Half::Receiver(receiver) => {
                receiver.on_sign_of_life(now);
                match control.body {
                    Body::Ack2(number) => receiver.on_ack2(now, number),
                    Body::MessageDrop { first, last, .. } => {
                        receiver.on_message_drop(first, last, connection);
                    }
                    Body::Shutdown => receiver.on_shutdown(now, connection),
                    _ => {}
                }
            }
        }
    }
}

impl Transport for UdtEndpoint {
    #[inline]
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        // The UDP checksum finds damage, in header and payload.
        if arrival.corrupt {
            return;
        }
        let format = self.connection.format;
        match decode(format, arrival.bytes) {
            Ok(Packet::Data(header)) => {
                if let Half::Receiver(receiver) = &mut self.half
                    && self.connection.is_open()
                    && self.connection.is_mine(header.destination)
                {
                    let carried = arrival.bytes.len() as u32 - format.header_bytes();
                    receiver.on_sign_of_life(now);
                    let payload = carried.saturating_add(arrival.absent);
                    receiver.on_data(now, header.sequence, payload, &mut self.connection);
                }
            }
            Ok(Packet::Control(control)) => self.on_control(now, &control),
            Err(_) => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        if !self.connection.is_open() {
            self.connection.on_timeout(now);
            return;
        }
        match &mut self.half {
            Half::Sender(sender) => sender.on_timeout(now, &mut self.connection),
            Half::Receiver(receiver) => receiver.on_timeout(now, &mut self.connection),
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time, max_datagrams: usize, out: &mut Vec<Datagram>) -> usize {
        let mut sent = self.connection.drain(max_datagrams, out);
        if let Half::Sender(sender) = &mut self.half
            && self.connection.is_open()
        {
            sent += sender.poll_transmit(now, max_datagrams - sent, out, &self.connection);
        }
        sent
    }

    #[inline]
    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        if !self.connection.is_open() {
            return self.connection.next_timeout();
        }
        Some(match &self.half {
            Half::Sender(sender) => sender.next_timeout(),
            Half::Receiver(receiver) => receiver.next_timeout(),
        })
    }
}

impl Carrier for UdtEndpoint {
    /// The wire is the library's own.
    const TAGGED: bool = false;
    const READS_GAPS: bool = true;

    /// Control packets are seen whole.
    fn split<'w>(&self, wire: &'w [u8]) -> Option<(&'w [u8], &'w [u8])> {
        if wire.first()? & 0x80 != 0 {
            return Some((wire, &[]));
        }
        wire.split_at_checked(self.connection.format.header_bytes() as usize)
    }

    fn payload_of(&self, datagram: &Datagram) -> Option<ByteRange> {
        let Half::Sender(sender) = &self.half else {
            return None;
        };
        match decode(self.connection.format, &datagram.bytes) {
            Ok(Packet::Data(header)) => sender.payload_of(header.sequence, &self.connection),
            _ => None,
        }
    }

    /// Packets are numbered and may be short, so only their order says where they belong.
    fn take_accepted(&mut self) -> Option<Place> {
        match &mut self.half {
            Half::Sender(_) => None,
            Half::Receiver(receiver) => receiver.take_accepted().map(Place::Packet),
        }
    }
}

impl Observe for UdtEndpoint {
    fn snapshot(&self) -> Snapshot {
        let failed = self.connection.failed.clone();
        match &self.half {
            Half::Sender(sender) => sender.snapshot(failed),
            Half::Receiver(receiver) => receiver.snapshot(failed),
        }
    }
}
