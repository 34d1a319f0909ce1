//! One side of a connection, whichever.

use super::receiver::Receiver;
use super::sender::Sender;
use super::{MetricsCache, ReceiverConfig, Supply, TcpConfig};
use howdah_core::{Arrival, Datagram, Observe, Snapshot, Span, Time, Transport, WakeReason};

/// One side of a TCP connection: a [`Transport`] that says how it is doing ([`Observe`]).
///
/// The sender opens the connection when it is first driven, which is the start of its flow.
#[derive(Debug)]
pub struct TcpEndpoint(Inner);

#[derive(Debug)]
enum Inner {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

impl TcpEndpoint {
    /// The side that opens the connection and sends what `supply` gives. `seed` is for congestion
    /// controls that draw lots.
    pub fn sender(config: &TcpConfig, supply: Supply, seed: u64) -> Self {
        Self(Inner::Sender(Box::new(Sender::new(config, supply, seed))))
    }

    /// The same on a host that remembers what earlier connections to the same destination found.
    pub fn sender_that_remembers(
        config: &TcpConfig,
        supply: Supply,
        seed: u64,
        cache: &MetricsCache,
    ) -> Self {
        let sender = Sender::new(config, supply, seed).remembering(cache);
        Self(Inner::Sender(Box::new(sender)))
    }

    /// The side that listens and reads.
    pub fn receiver(config: &ReceiverConfig) -> Self {
        Self(Inner::Receiver(Box::new(Receiver::new(config))))
    }

    /// How long the host of a sender is busy with an arrival before the transport has it: what it spends on
    /// [`TcpConfig::sack_walk`]. The simulator asks (`World::add_backlog`).
    pub fn handling_time(&self, arrival: &Arrival<'_>) -> Span {
        match &self.0 {
            Inner::Sender(sender) => sender.handling_time(arrival),
            Inner::Receiver(_) => Span::ZERO,
        }
    }

    /// Segments that a receiver has sent (all of them acknowledge); 0 for a sender.
    pub const fn acks_sent(&self) -> u64 {
        match &self.0 {
            Inner::Sender(_) => 0,
            Inner::Receiver(receiver) => receiver.acks_sent(),
        }
    }
}

impl Transport for TcpEndpoint {
    #[inline]
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        match &mut self.0 {
            Inner::Sender(sender) => sender.handle_datagram(now, arrival),
            Inner::Receiver(receiver) => receiver.handle_datagram(now, arrival),
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        match &mut self.0 {
            Inner::Sender(sender) => sender.handle_timeout(now),
            Inner::Receiver(receiver) => receiver.handle_timeout(now),
        }
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        match &mut self.0 {
            Inner::Sender(sender) => sender.poll_transmit(now, max, out),
            Inner::Receiver(receiver) => receiver.poll_transmit(now, max, out),
        }
    }

    fn handle_refused(&mut self, now: Time, datagram: Datagram) -> Option<Datagram> {
        match &mut self.0 {
            Inner::Sender(sender) => sender.handle_refused(now, datagram),
            Inner::Receiver(_) => Some(datagram),
        }
    }

    #[inline]
    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        match &self.0 {
            Inner::Sender(sender) => sender.poll_timeout(),
            Inner::Receiver(receiver) => receiver.poll_timeout(),
        }
    }
}

impl Observe for TcpEndpoint {
    fn snapshot(&self) -> Snapshot {
        match &self.0 {
            Inner::Sender(sender) => sender.snapshot(),
            Inner::Receiver(receiver) => receiver.snapshot(),
        }
    }
}
