//! A handshake of the size of a real one that says nothing, for simulations.

use super::{HandshakeError, NewKeys, Side};
use crate::codec::{Reader, Writer};
use crate::keys::{KeyPair, KeySource};
use howdah_core::num::{saturating_u16, saturating_usize};

/// Flights of the size of the real ones (X25519MLKEM768, Ed25519 raw keys), saying nothing.
pub(crate) struct SimulatedHandshake {
    side: Side,
    parameters: Vec<u8>,
    pub(super) peer_parameters: Option<Vec<u8>>,
    received: Vec<u8>,
    step: u8,
}

const FLIGHT_CLIENT_HELLO: usize = 1500;
const FLIGHT_SERVER_HELLO: usize = 1180;
const FLIGHT_SERVER_FINISHED: usize = 430;
const FLIGHT_CLIENT_FINISHED: usize = 290;

impl SimulatedHandshake {
    pub(super) fn new(side: Side, parameters: Vec<u8>) -> Self {
        Self {
            side,
            parameters,
            peer_parameters: None,
            received: Vec::new(),
            step: 0,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        match self.side {
            Side::Client => self.step >= 5,
            Side::Server => self.step >= 4,
        }
    }

    fn flight(&self, len: usize, out: &mut Vec<u8>) {
        let start = out.len();
        let mut writer = Writer::new(out);
        writer.u16(saturating_u16(len));
        writer.prefixed(&self.parameters);
        out.resize(start + len.max(out.len() - start), 0);
    }

    fn take_flight(&mut self) -> Option<Vec<u8>> {
        let len = usize::from(Reader::new(&self.received).u16().ok()?);
        if len < 2 || self.received.len() < len {
            return None;
        }
        let flight: Vec<u8> = self.received.drain(..len).collect();
        let mut reader = Reader::new(&flight[2..]);
        let parameters = reader
            .varint()
            .ok()
            .and_then(|n| reader.bytes(saturating_usize(n)).ok());
        Some(parameters.unwrap_or_default().to_vec())
    }

    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), HandshakeError> {
        self.received.extend_from_slice(bytes);
        loop {
            let waits = matches!(
                (self.side, self.step),
                (Side::Client, 1 | 3) | (Side::Server, 0 | 3)
            );
            if !waits {
                return Ok(());
            }
            let Some(parameters) = self.take_flight() else {
                return Ok(());
            };
            self.peer_parameters = Some(parameters);
            self.step += 1;
            if self.side == Side::Client && self.step == 2 {
                // The hello is followed by new keys at once.
                return Ok(());
            }
        }
    }

    pub(super) fn write(&mut self, out: &mut Vec<u8>) -> Option<NewKeys> {
        match (self.side, self.step) {
            (Side::Client, 0) => {
                self.flight(FLIGHT_CLIENT_HELLO, out);
                self.step = 1;
                None
            }
            (Side::Client, 2) => {
                self.step = 3;
                Some(NewKeys::Handshake(KeyPair::CLEAR))
            }
            (Side::Client, 4) => {
                self.flight(FLIGHT_CLIENT_FINISHED, out);
                self.step = 5;
                Some(NewKeys::Data(KeyPair::CLEAR, KeySource::Clear))
            }
            (Side::Server, 1) => {
                self.flight(FLIGHT_SERVER_HELLO, out);
                self.step = 2;
                Some(NewKeys::Handshake(KeyPair::CLEAR))
            }
            (Side::Server, 2) => {
                self.flight(FLIGHT_SERVER_FINISHED, out);
                self.step = 3;
                Some(NewKeys::Data(KeyPair::CLEAR, KeySource::Clear))
            }
            _ => None,
        }
    }
}
