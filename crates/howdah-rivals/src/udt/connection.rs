//! Opening and closing: two requests and two answers with a cookie between them (version 4), or one
//! of each.

use super::config::{MAX_PACKET_BYTES, MIN_PACKET_BYTES, UdtConfig};
use super::sequence::MASK;
use super::wire::{Body, Control, Format, Handshake, encode_control};
use howdah_core::{Datagram, HeaderBytes, Span, Time, WakeReason};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;

/// A request without an answer is repeated (core.cpp).
const RETRY: Span = Span::from_millis(250);
/// The connecting side gives up (core.cpp).
const CONNECT_TIMEOUT: Span = Span::from_secs(3);
/// How long a side that has ended answers whatever still comes with its end. The library says its end once, and a
/// receiver that misses it reports a lost connection 46 s later; the receiver's first three signs of life fall into
/// this time.
const LINGER: Span = Span::from_secs(2);
/// Stream sockets.
const STREAM: u32 = 1;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Phase {
    /// The connecting side has not been driven yet.
    Idle,
    /// It waits for an answer.
    Asking,
    /// The listening side waits.
    Listening,
    Open,
    /// The end was said, and is said again to whoever does not seem to know.
    Lingering,
    Closed,
}

/// What both sides have agreed on, and how control packets leave.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) format: Format,
    pub(crate) phase: Phase,
    /// Of both directions.
    pub(crate) initial_sequence: u32,
    pub(crate) packet_bytes: u32,
    /// What the other side's handshake allows in flight.
    pub(crate) peer_flight: u32,
    pub(crate) failed: Option<String>,
    flight: u32,
    version: u32,
    socket: u32,
    pub(crate) peer: u32,
    cookie: u32,
    secret: u64,
    connects: bool,
    origin: Time,
    asked_at: Time,
    ended_at: Time,
    out: VecDeque<Datagram>,
}

impl Connection {
    pub(crate) fn new(config: &UdtConfig, connects: bool, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let format = config.rules.format;
        Self {
            format,
            phase: if connects {
                Phase::Idle
            } else {
                Phase::Listening
            },
            initial_sequence: rng.next_u32() & MASK,
            packet_bytes: config.packet_bytes,
            peer_flight: 0,
            failed: None,
            // As the library announces it (core.cpp): never more than the receiver's buffer.
            flight: config.flight_packets.min(config.receive_buffer_packets),
            version: match format {
                Format::Udt4 => 4,
                Format::Compact => 2,
            },
            // Socket ids are positive and 30 bits long; 0 is a listener.
            socket: rng.next_u32() >> 2 | 1,
            peer: 0,
            cookie: 0,
            secret: rng.next_u64(),
            connects,
            origin: Time::ZERO,
            asked_at: Time::ZERO,
            ended_at: Time::ZERO,
            out: VecDeque::new(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    #[inline]
    pub(crate) fn timestamp_us(&self, now: Time) -> u32 {
        now.since(self.origin).as_micros() as u32
    }

    /// Whether a packet for this socket id is for us.
    #[inline]
    pub(crate) fn is_mine(&self, destination: u32) -> bool {
        self.format == Format::Compact || destination == self.socket
    }

    pub(crate) fn send(&mut self, now: Time, body: Body<'_>) {
        let control = Control {
            timestamp_us: self.timestamp_us(now),
            destination: self.peer,
            body,
        };
        let bytes = encode_control(self.format, &control);
        self.push(bytes);
    }

    pub(crate) fn push(&mut self, bytes: HeaderBytes) {
        self.out.push_back(Datagram { bytes, absent: 0 });
    }

    #[inline]
    pub(crate) fn drain(&mut self, max: usize, out: &mut Vec<Datagram>) -> usize {
        let count = self.out.len().min(max);
        if count > 0 {
            out.extend(self.out.drain(..count));
        }
        count
    }

    fn handshake(&self, request: i32) -> Handshake {
        Handshake {
            version: self.version,
            socket_type: STREAM,
            initial_sequence: self.initial_sequence,
            packet_bytes: self.packet_bytes,
            flight_packets: self.flight,
            request,
            socket: self.socket,
            cookie: self.cookie,
            address: [0; 4],
        }
    }

    fn ask(&mut self, now: Time) {
        self.asked_at = now;
        let request = if self.cookie == 0 {
            Handshake::REQUEST
        } else {
            Handshake::RESPONSE
        };
        // A request goes to the listener, whose id is 0.
        self.peer = 0;
        self.send(now, Body::Handshake(self.handshake(request)));
    }

    /// Lets time pass while the connection is not open.
    pub(crate) fn on_timeout(&mut self, now: Time) {
        match self.phase {
            Phase::Idle => {
                self.origin = now;
                self.phase = Phase::Asking;
                self.ask(now);
            }
            Phase::Asking if now >= self.origin + CONNECT_TIMEOUT => {
                self.fail("the other side did not answer within 3 s".to_owned());
            }
            Phase::Asking if now >= self.asked_at + RETRY => self.ask(now),
            Phase::Lingering if now >= self.ended_at + LINGER => self.close(),
            _ => {}
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<(Time, WakeReason)> {
        match self.phase {
            Phase::Idle => Some((Time::ZERO, WakeReason::Open)),
            Phase::Asking => Some((
                (self.asked_at + RETRY).min(self.origin + CONNECT_TIMEOUT),
                WakeReason::HandshakeRetry,
            )),
            Phase::Lingering => Some((self.ended_at + LINGER, WakeReason::Close)),
            _ => None,
        }
    }

    pub(crate) fn fail(&mut self, why: String) {
        self.phase = Phase::Closed;
        self.failed = Some(why);
        self.out.clear();
    }

    /// Says the end, and stays to say it again.
    pub(crate) fn end(&mut self, now: Time) {
        self.send(now, Body::Shutdown);
        self.ended_at = now;
        self.phase = Phase::Lingering;
    }

    /// Something has come from a peer that perhaps missed the end.
    pub(crate) fn repeat_end(&mut self, now: Time) {
        if self.phase == Phase::Lingering {
            self.send(now, Body::Shutdown);
        }
    }

    /// Ends the connection; what is queued still leaves.
    pub(crate) fn close(&mut self) {
        self.phase = Phase::Closed;
    }

    /// A handshake has come. True if the connection is open from now on.
    pub(crate) fn on_handshake(&mut self, now: Time, hs: &Handshake, destination: u32) -> bool {
        match self.phase {
            Phase::Listening => self.on_request(now, hs, destination),
            Phase::Asking if self.is_mine(destination) => self.on_answer(now, hs),
            Phase::Open => {
                // The other side has not heard the answer and asks again. The listener's cookie is
                // its sign that the question was a second one.
                let asks = hs.request == Handshake::REQUEST || destination == 0;
                let again = match self.format {
                    Format::Udt4 => hs.socket == self.peer && asks,
                    Format::Compact => asks && hs.request == Handshake::REQUEST,
                };
                if again && !self.connects {
                    self.send(now, Body::Handshake(self.handshake(Handshake::RESPONSE)));
                }
                false
            }
            _ => false,
        }
    }

    fn on_request(&mut self, now: Time, hs: &Handshake, destination: u32) -> bool {
        if destination != 0 || !valid(hs) {
            return false;
        }
        let cookie = self.cookie_for(hs);
        if self.format == Format::Udt4 {
            if hs.request == Handshake::REQUEST {
                // Nothing is remembered of a first request; its answer repeats it, with a cookie.
                self.peer = hs.socket;
                self.origin = now;
                let answer = Handshake { cookie, ..*hs };
                self.send(now, Body::Handshake(answer));
                return false;
            }
            if hs.request != Handshake::RESPONSE || hs.cookie != cookie {
                return false;
            }
        }
        self.peer = hs.socket;
        if hs.version != self.version || hs.socket_type > STREAM {
            let answer = Handshake {
                request: Handshake::REFUSED,
                ..*hs
            };
            self.send(now, Body::Handshake(answer));
            return false;
        }
        self.origin = now;
        self.cookie = cookie;
        self.initial_sequence = hs.initial_sequence;
        self.accept(hs);
        self.send(now, Body::Handshake(self.handshake(Handshake::RESPONSE)));
        true
    }

    fn on_answer(&mut self, now: Time, hs: &Handshake) -> bool {
        if hs.request == Handshake::REFUSED {
            self.fail("the other side refuses the connection".to_owned());
            return false;
        }
        if !valid(hs) {
            return false;
        }
        if hs.request == Handshake::REQUEST {
            // A cookie: ask again with it, at once. One that is 0 would look like none.
            self.cookie = hs.cookie.max(1);
            self.ask(now);
            return false;
        }
        if hs.request != Handshake::RESPONSE || hs.initial_sequence != self.initial_sequence {
            return false;
        }
        self.peer = hs.socket;
        self.accept(hs);
        true
    }

    fn accept(&mut self, hs: &Handshake) {
        self.packet_bytes = self.packet_bytes.min(hs.packet_bytes);
        self.peer_flight = hs.flight_packets.max(2);
        self.phase = Phase::Open;
    }

    /// A cookie that only this listener can make for this request, and never 0. (The library hashes
    /// address, minute and a secret; a state machine without addresses has the socket id.)
    fn cookie_for(&self, hs: &Handshake) -> u32 {
        let mut mixed = self.secret ^ u64::from(hs.socket) << 32 ^ u64::from(hs.initial_sequence);
        for _ in 0..2 {
            mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        }
        (mixed >> 32) as u32 | 1
    }
}

/// Sizes with which one can work.
fn valid(hs: &Handshake) -> bool {
    (MIN_PACKET_BYTES..=MAX_PACKET_BYTES).contains(&hs.packet_bytes)
        && hs.flight_packets > 0
        && hs.flight_packets <= i32::MAX.cast_unsigned()
}
