//! From the first packet to proven identities.

use super::{Connection, Event, State};
use crate::codec::{Frame, Level, RetryAnswer, RetryPacket, VERSION};
use crate::config::Parameters;
use crate::error::{ConnectionError, PeerMisbehaved};
use crate::handshake::{NewKeys, Side};
use crate::keys::KeyRing;
use crate::pmtud::MIN_SIZE;
use crate::rate::{PathKnowledge, RateControl};
use crate::space::{HandshakeSpace, LEVELS};
use howdah_core::{Span, Time};
use std::net::SocketAddr;

/// First wait for an answer; doubles with every try. RFC 9002 says 1 s (333 ms RTT x 3); paths
/// with 2 % loss make a shorter one worth three more datagrams.
const FIRST_RETRY: Span = Span::from_millis(600);
/// What was sent so long ago is sent again when the peer repeats itself.
const REPEAT_AFTER: Span = Span::from_millis(20);
/// Cookies that a client accepts for one connection: the first may have become too old on its way.
const COOKIES_MAX: u8 = 3;
/// So long a server may ask to be left alone, and so often one after the other.
const BUSY_MAX_S: u16 = 60;
const BUSY_ANSWERS_MAX: u32 = 120;
/// Tries are that far apart at most, unless the RTT is longer.
const RETRY_MAX: Span = Span::from_secs(1);
/// ... and at least, as the other side has keys to make: where round trips are short, a lost packet costs as much.
const RETRY_MIN: Span = Span::from_millis(15);

impl Connection {
    /// Feeds TLS what has arrived, and takes what it says.
    pub(super) fn advance_handshake(&mut self, now: Time) {
        loop {
            let mut progressed = false;
            for level in LEVELS {
                // TLS reads the next level only once it has written its keys.
                if level == Level::Handshake && self.opening.spaces[1].keys.is_none() {
                    continue;
                }
                if let Some(bytes) = self.opening.spaces[level.index()].take_readable() {
                    progressed = true;
                    if let Err(error) = self.opening.handshake.read(&bytes) {
                        self.on_handshake_error(now, &error);
                        return;
                    }
                }
            }
            loop {
                let level = usize::from(self.opening.spaces[1].keys.is_some());
                let mut out = Vec::new();
                let change = self.opening.handshake.write(&mut out);
                progressed |= change.is_some() || !out.is_empty();
                self.opening.spaces[level].push_outgoing(&out);
                match change {
                    Some(NewKeys::Handshake(keys)) => self.opening.spaces[1].keys = Some(keys),
                    Some(NewKeys::Data(keys, source)) => {
                        self.opening.data_keys = Some((keys, source));
                    }
                    None => break,
                }
            }
            if !progressed {
                break;
            }
        }
        if self.opening.handshake.is_done() && matches!(self.state, State::Handshaking) {
            self.establish(now);
        }
    }

    fn establish(&mut self, now: Time) {
        let Some((keys, source)) = self.opening.data_keys.take() else {
            return;
        };
        let parameters = self
            .opening
            .handshake
            .peer_parameters()
            .map(Parameters::decode);
        let Some(Ok(parameters)) = parameters else {
            self.on_misbehaved(now, PeerMisbehaved::BadParameters);
            return;
        };
        self.keys = Some(KeyRing::new(keys, source, self.config.key_update_after));
        self.config.idle_timeout = self
            .config
            .idle_timeout
            .min(Span::from_millis(parameters.idle_timeout_ms));
        self.state = State::Established;
        // Of a flight that was sent again nobody knows which copy was answered (Karn).
        if !self.pace.rtt.is_measured()
            && self.opening.flight_retries == 0
            && let Some(at) = self.opening.flight_sent_at
        {
            self.pace.rtt.on_sample(now, now.since(at));
        }
        self.heard.peer_counts_marks = parameters.counts_marks;
        self.heard.peer_thins_reports = parameters.thins_reports;
        self.pace.rate = RateControl::new(self.config.policy, self.config.share);
        self.pace.rate.on_established(self.pace.rtt.smoothed());
        let overhead = if self.reach.remote.is_ipv4() { 28 } else { 48 };
        let ceiling = self.config.max_datagram.min(parameters.max_datagram);
        self.mtu.start(ceiling.max(MIN_SIZE), overhead);
        if let Some(known) = self.config.path {
            self.recall(&known);
        }
        self.apply_rate(now);
        self.pace.pacer.grant(now, RateControl::opening_bytes());
        self.heed_train(now);
        self.alive.last_eliciting_sent_at = now;
        self.alive.last_feedback_at = now;
        if self.side == Side::Server {
            self.opening.done_due = true;
            self.opening.confirmed = true;
            self.begin_marking();
        }
        // What comes before the server has the keys is lost. (It has no flight of its own any more.)
        if self.side == Side::Client && self.config.train {
            self.opening.train.say_twice();
        }
        // (There are no tickets: nothing more is to be said by TLS, and it keeps some kilobytes.)
        let peer_key = self.opening.handshake.end();
        self.events.push_back(Event::Connected { peer_key });
    }

    /// Begins with what is known of the path, for who learns only from the handshake whom he has to do with; for others it is
    /// [`Config::path`](crate::Config::path). Does nothing once data has been sent.
    pub fn begin_with(&mut self, now: Time, known: &PathKnowledge) {
        if matches!(self.state, State::Established) && self.stats.data_bytes_sent == 0 {
            self.recall(known);
            self.apply_rate(now);
        }
    }

    fn recall(&mut self, known: &PathKnowledge) {
        let rtt = self.pace.rtt.smoothed();
        if !self.pace.rtt.is_measured() {
            return;
        }
        self.pace.rate.resume(known, rtt);
        if known.fits(rtt) && known.is_likely(rtt) {
            // A path is filled with these many times sooner than with small ones.
            self.mtu.assume(known.datagram_bytes);
        }
    }

    /// A handshake packet was opened; it `fills` a train, and its hello has most likely come before.
    pub(super) fn on_handshake_frames(
        &mut self,
        now: Time,
        (level, fills): (Level, bool),
        body: &[u8],
    ) -> Result<(), PeerMisbehaved> {
        // Another packet of the flight has found room.
        self.opening.busy_until = None;
        if level == Level::Handshake {
            // Only who received our Initial packets can have these keys.
            self.reach.validated = true;
        }
        for frame in crate::codec::frames(body) {
            let space = &mut self.opening.spaces[level.index()];
            match frame? {
                Frame::Padding => break,
                Frame::Ping => space.ack_due = true,
                Frame::Crypto { offset, bytes } => {
                    if self.side == Side::Client
                        && !self.pace.rtt.is_measured()
                        && self.opening.flight_retries == 0
                        && let Some(at) = self.opening.flight_sent_at
                    {
                        self.pace.rtt.on_sample(now, now.since(at));
                    }
                    let owed = space.ack_due;
                    match space.on_crypto(offset, bytes)? {
                        true => {}
                        false if fills => space.ack_due = owed,
                        false => self.peer_repeats(now),
                    }
                }
                Frame::CryptoAck(offset) => {
                    if !space.on_ack(offset) {
                        self.peer_repeats(now);
                    } else if !self.pace.rtt.is_measured()
                        && self.opening.flight_count == 1
                        && self.opening.flight_retries == 0
                        && let Some(at) = self.opening.flight_sent_at
                    {
                        // Everything was sent at one time, so it is known when.
                        self.pace.rtt.on_sample(now, now.since(at));
                    }
                }
                Frame::Close { code, reason } => {
                    self.on_close_frame(code, reason);
                    return Ok(());
                }
                Frame::Train(seen) if level == Level::Handshake && self.config.train => {
                    self.on_train(now, seen);
                }
                _ => return Err(PeerMisbehaved::MisplacedFrame),
            }
        }
        if self.side == Side::Server && self.opening.confirmed {
            // The client repeats its last flight: it has not heard that we have it.
            self.opening.done_due = true;
        }
        self.advance_handshake(now);
        Ok(())
    }

    /// Somebody who keeps nothing of us answered our first packets. Until a packet of the server
    /// opens, this is all there is to go by; after that it says nothing any more.
    pub(super) fn handle_door(&mut self, now: Time, from: SocketAddr, packet: &RetryPacket) {
        let expected = self.side == Side::Client
            && matches!(self.state, State::Handshaking)
            && !self.opening.peer_id_known
            && from == self.reach.remote
            && packet.destination == self.ids.local
            && packet.source == self.first_destination;
        if !expected {
            return;
        }
        match packet.answer {
            RetryAnswer::Version { spoken, refused } => {
                if refused == VERSION && spoken != VERSION {
                    self.die(ConnectionError::VersionMismatch {
                        ours: VERSION,
                        theirs: spoken,
                    });
                }
            }
            RetryAnswer::Retry(cookie) => {
                // Each packet of a flight has its answer: one of them is enough.
                let fresh = self.opening.busy_until.is_none()
                    && self.opening.flight_sent_at.is_some_and(|at| {
                        self.opening.cookie.is_none() || now.since(at) >= REPEAT_AFTER
                    });
                if fresh && self.opening.cookies_taken < COOKIES_MAX {
                    self.opening.cookies_taken += 1;
                    self.opening.cookie = Some(cookie);
                    self.opening.spaces[0].rewind();
                    // A new flight, whose answer is a sample of the RTT.
                    self.opening.flight_sent_at = None;
                    self.opening.flight_count = 0;
                    self.opening.flight_retries = 0;
                }
            }
            RetryAnswer::Busy { cookie, seconds } => {
                let ours = self.opening.cookie == Some(cookie) && self.opening.busy_until.is_none();
                let bearable = (1..=BUSY_MAX_S).contains(&seconds);
                if ours && bearable && self.opening.busy_told < BUSY_ANSWERS_MAX {
                    let wait = Span::from_secs(seconds.into());
                    self.opening.busy_told += 1;
                    self.opening.busy_until = Some(now + wait);
                    self.events.push_back(Event::Busy(wait));
                }
            }
        }
    }

    /// The server was busy until now: everything begins anew.
    pub(super) fn after_busy(&mut self, now: Time) {
        self.opening.busy_until = None;
        self.opening.started_at = now;
        self.opening.cookie = None;
        self.opening.cookies_taken = 0;
        self.opening.flight_sent_at = None;
        self.opening.flight_count = 0;
        self.opening.flight_retries = 0;
        self.rewind_flight();
    }

    /// The client learnt that the server holds its last flight.
    pub(super) fn on_handshake_confirmed(&mut self) {
        if self.side == Side::Client && !self.opening.confirmed {
            self.opening.confirmed = true;
            self.opening.spaces[1] = HandshakeSpace::default();
            self.begin_marking();
        }
    }

    /// The peer has its keys: packets may overtake those of the handshake from now on.
    fn begin_marking(&mut self) {
        if self.config.ecn && self.heard.peer_counts_marks {
            self.heard.marking.begin();
        }
    }

    pub(super) fn handshake_is_settled(&self) -> bool {
        self.opening.confirmed
    }

    /// When an unanswered flight is sent again.
    pub(super) fn flight_timeout(&self) -> Option<Time> {
        let sent_at = self.opening.flight_sent_at?;
        // A client asks even if all it said is confirmed: the server may have more to say, and may
        // not say it before it has heard more from here (RFC 9002 section 6.2.2.1).
        let waiting = !self.handshake_is_settled()
            && (self.side == Side::Client
                || self.opening.spaces.iter().any(HandshakeSpace::has_unacked));
        waiting.then(|| {
            let first = if self.pace.rtt.is_measured() {
                self.pace.rtt.smoothed() * 2
            } else {
                FIRST_RETRY
            };
            let first = first.max(RETRY_MIN);
            let wait = first * (1 << self.opening.flight_retries.min(4));
            sent_at + wait.min(RETRY_MAX.max(first))
        })
    }

    /// The peer says what it said before: it has not heard the answer.
    fn peer_repeats(&mut self, now: Time) {
        let waited = self.opening.flight_sent_at.map(|at| now.since(at));
        let unheard = self.opening.spaces.iter().any(HandshakeSpace::has_unacked);
        if unheard && waited.is_some_and(|waited| waited >= REPEAT_AFTER) {
            self.opening.flight_retries += 1;
            self.rewind_flight();
        }
    }

    pub(super) fn rewind_flight(&mut self) {
        for space in &mut self.opening.spaces {
            space.rewind();
        }
    }

    /// Everything unconfirmed once more; if all is confirmed, as much as says so.
    pub(super) fn repeat_flight(&mut self) {
        self.rewind_flight();
        if !self.opening.spaces.iter().any(HandshakeSpace::has_unsent) {
            let level = usize::from(self.opening.spaces[1].keys.is_some());
            self.opening.spaces[level].ack_due = true;
        }
    }
}
