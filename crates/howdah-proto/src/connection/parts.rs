//! What a connection is made of, by what it is for.

use super::early::Early;
use super::receive::MAX_UNVALIDATED_BYTES;
use super::train::Train;
use super::transmit::Tail;
use super::{PathChallenge, ReportWish};
use crate::codec::{Cookie, SinkState};
use crate::control::{ControlReceiver, ControlSender};
use crate::handshake::{Handshake, Side};
use crate::keys::{KeyPair, KeySource};
use crate::marking::Marking;
use crate::meter::Meter;
use crate::objects::{Incoming, Outgoing};
use crate::pacer::Pacer;
use crate::rate::sink::{Blame, Refusing};
use crate::rate::socket::SocketDrops;
use crate::rate::{Policy, RateControl, Share};
use crate::received::Received;
use crate::rtt::Rtt;
use crate::space::HandshakeSpace;
use crate::unsent::Unsent;
use crate::witness::Witness;
use howdah_core::{ObjectId, Rate, Time};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// From the first packet until both sides have proved who they are.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) handshake: Handshake,
    pub(super) spaces: [HandshakeSpace; 2],
    pub(super) data_keys: Option<(KeyPair, KeySource)>,
    pub(super) started_at: Time,
    pub(super) flight_sent_at: Option<Time>,
    pub(super) flight_count: u32,
    pub(super) flight_retries: u32,
    pub(super) unreachable: u8,
    pub(super) peer_id_known: bool,
    /// What the server wants to hear again in the first packets.
    pub(super) cookie: Option<Cookie>,
    pub(super) cookies_taken: u8,
    /// The server has no room before.
    pub(super) busy_until: Option<Time>,
    pub(super) busy_told: u32,
    pub(super) done_due: bool,
    pub(super) confirmed: bool,
    pub(super) train: Train,
}

impl Opening {
    pub(super) fn new(handshake: Handshake, side: Side, now: Time) -> Self {
        Self {
            handshake,
            spaces: Default::default(),
            data_keys: None,
            started_at: now,
            flight_sent_at: None,
            flight_count: 0,
            flight_retries: 0,
            unreachable: 0,
            peer_id_known: side == Side::Server,
            cookie: None,
            cookies_taken: 0,
            busy_until: None,
            busy_told: 0,
            done_due: false,
            confirmed: false,
            train: Train::default(),
        }
    }

    /// What is said is a flight's second copy, sent right behind the first.
    pub(super) fn says_twice(&self) -> bool {
        self.train.is_said_twice() && self.flight_retries == 0
    }
}

/// Where the peer is, and how far that is proved.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) remote: SocketAddr,
    pub(super) validated: bool,
    pub(super) bytes_from_unvalidated: u64,
    pub(super) bytes_to_unvalidated: u64,
    pub(super) challenge: Option<PathChallenge>,
    pub(super) response_due: Option<(SocketAddr, u64)>,
    /// Another address than that of the peer, from which packets of the session come, and bytes that may be sent there as more have come.
    elsewhere: Option<(SocketAddr, u64)>,
    /// What this host would not send for its size: datagrams, and their bytes.
    pub(super) too_big: (u64, u64),
}

impl Reach {
    /// Who calls a server has chosen its address; a server has to be shown.
    pub(super) fn new(remote: SocketAddr, side: Side) -> Self {
        Self {
            remote,
            validated: side == Side::Client,
            bytes_from_unvalidated: 0,
            bytes_to_unvalidated: 0,
            challenge: None,
            response_due: None,
            elsewhere: None,
            too_big: (0, 0),
        }
    }

    /// A packet of so many bytes came from an address that is not that of the peer.
    pub(super) fn heard_elsewhere(&mut self, from: SocketAddr, bytes: u64) {
        let before = self.elsewhere.filter(|(address, _)| *address == from);
        let credit = before.map_or(0, |(_, credit)| credit) + bytes;
        self.elsewhere = Some((from, credit.min(MAX_UNVALIDATED_BYTES)));
    }

    /// Whether so many bytes may be sent to that address, which then are.
    pub(super) fn pays_for(&mut self, to: SocketAddr, bytes: u64) -> bool {
        if to == self.remote {
            return true;
        }
        let Some((address, credit)) = &mut self.elsewhere else {
            return false;
        };
        let pays = *address == to && *credit >= bytes;
        *credit -= if pays { bytes } else { 0 };
        pays
    }
}

/// Messages and objects, both ways.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) control_tx: ControlSender,
    pub(super) control_rx: ControlReceiver,
    pub(super) outgoing: Outgoing,
    pub(super) incoming: Incoming,
    /// Of objects that nobody has announced yet.
    pub(super) early: Early,
    pub(super) next_object: ObjectId,
    /// Object -> (window end, must be told).
    pub(super) credits: BTreeMap<ObjectId, (u64, bool)>,
}

impl Streams {
    pub(super) fn new(side: Side) -> Self {
        Self {
            control_tx: ControlSender::default(),
            control_rx: ControlReceiver::default(),
            outgoing: Outgoing::default(),
            incoming: Incoming::default(),
            early: Early::default(),
            next_object: ObjectId::new(u64::from(side == Side::Server)),
            credits: BTreeMap::new(),
        }
    }
}

/// What this host can take: its sink, its socket, and its cap.
#[derive(Debug, Default)]
pub(super) struct Taking {
    pub(super) sink: Option<SinkState>,
    /// What keeps this side's cap.
    pub(super) meter: Option<Meter>,
    pub(super) socket_drops: u64,
    pub(super) sink_drops: u64,
}

/// What came, and what the peer is still to be told of it.
#[derive(Debug)]
pub(super) struct Reporting {
    pub(super) received: Received,
    pub(super) wish: ReportWish,
    /// When something came that is to be reported and had not been wished for.
    pub(super) wished_at: Time,
    /// Packets that need no report, since the last report.
    pub(super) passive_received: u32,
    /// The peer has said last that nothing happens that reports would tell of.
    pub(super) sparse: bool,
    pub(super) last_report_at: Time,
    pub(super) last_report_number: u64,
    pub(super) ack_bits: u64,
    pub(super) ack_due: bool,
    /// The latest datagram brought bytes of an object, and was nothing to answer or to wake up for that was not there before.
    pub(super) is_quiet: bool,
}

impl Reporting {
    pub(super) fn new() -> Self {
        Self {
            received: Received::default(),
            wish: ReportWish::None,
            wished_at: Time::ZERO,
            passive_received: 0,
            sparse: false,
            last_report_at: Time::ZERO,
            last_report_number: 0,
            ack_bits: 0,
            ack_due: false,
            is_quiet: false,
        }
    }
}

/// What the peer's reports say.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) largest_reported: Option<u64>,
    pub(super) sink_limited: bool,
    pub(super) blame: Blame,
    pub(super) refusing: Refusing,
    pub(super) peer_socket: SocketDrops,
    /// What can be true of the peer's reports.
    pub(super) witness: Witness,
    pub(super) marking: Marking,
    /// The peer knows counts of marks.
    pub(super) peer_counts_marks: bool,
    /// The peer can be told that it need not report so often.
    pub(super) peer_thins_reports: bool,
    pub(super) acked_packets: u64,
    pub(super) lost_packets: u64,
    /// When the packets were sent that the latest report calls lost, without what the socket dropped.
    pub(super) lost_sent_at: Vec<Time>,
}

/// How fast to send, and what is left of a transfer.
#[derive(Debug)]
pub(super) struct Pace {
    pub(super) rtt: Rtt,
    pub(super) rate: RateControl,
    pub(super) pacer: Pacer,
    /// The user's limit, in IP packets' bits.
    pub(super) cap: Option<Rate>,
    pub(super) paused: bool,
    pub(super) app_limited_below: u64,
    pub(super) unsent: Unsent,
    pub(super) tail_floor: u64,
    pub(super) tail: Option<Tail>,
}

impl Pace {
    pub(super) fn new(policy: Policy, share: Share) -> Self {
        let rate = RateControl::new(policy, share);
        Self {
            rtt: Rtt::default(),
            pacer: Pacer::new(rate.pacing_rate(), 0),
            rate,
            cap: None,
            paused: false,
            app_limited_below: 0,
            unsent: Unsent::default(),
            tail_floor: 0,
            tail: None,
        }
    }
}

/// When the peer was heard, and what is done when it is not.
#[derive(Debug)]
pub(super) struct Alive {
    /// Something may be under way since then.
    pub(super) awake_since: Option<Time>,
    pub(super) last_received_at: Time,
    pub(super) last_eliciting_sent_at: Time,
    /// When the first packet was sent that the peer must react to, since it was heard.
    pub(super) unanswered_since: Option<Time>,
    pub(super) peer_is_silent: bool,
    pub(super) last_feedback_at: Time,
    pub(super) probe_count: u32,
    pub(super) pings_due: u32,
    /// The next one is to show where this side is, if it has moved: it pays for the question whether it has.
    pub(super) ping_pays: bool,
    pub(super) blackout_told: bool,
}

impl Alive {
    pub(super) fn new(now: Time) -> Self {
        Self {
            awake_since: Some(now),
            last_received_at: now,
            last_eliciting_sent_at: now,
            unanswered_since: None,
            peer_is_silent: false,
            last_feedback_at: now,
            probe_count: 0,
            pings_due: 0,
            ping_pays: false,
            blackout_told: false,
        }
    }
}
