//! What a client makes of answers that come from no connection: another version, a cookie.

use howdah_core::{Arrival, Datagram, Span, Time, Transport};
use howdah_proto::Event;
use howdah_proto::codec::{
    ConnectionId, Cookie, Header, Level, RetryAnswer, RetryPacket, VERSION, limits,
};
use howdah_proto::error::ConnectionError;
use howdah_proto::sim::{SimEndpoint, sim_config};

const SEED: u64 = 5;
const CLIENT: ConnectionId = ConnectionId(1);
const COOKIE: Cookie = Cookie([3; 20]);
const HALF_RTT: Span = Span::from_millis(20);

struct Pair {
    now: Time,
    client: SimEndpoint,
    server: SimEndpoint,
}

impl Pair {
    fn new() -> Self {
        Self {
            now: Time::ZERO + Span::from_secs(1),
            client: SimEndpoint::client(sim_config(), SEED),
            server: SimEndpoint::server(sim_config(), SEED, SEED + 1),
        }
    }

    fn flight(&mut self) -> Vec<Datagram> {
        drain(&mut self.client, self.now)
    }

    fn answer(&self, answer: RetryAnswer) -> RetryPacket {
        let first = self.client.connection().first_destination();
        RetryPacket::to(first, CLIENT, answer)
    }

    /// Gives the client an answer.
    fn hear(&mut self, packet: &RetryPacket) {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        deliver(&mut self.client, self.now, &bytes, 0);
    }

    /// Lets both talk until nothing is left to say.
    fn talk(&mut self, mut to_server: Vec<Datagram>) {
        for _ in 0..20 {
            self.now += HALF_RTT;
            for datagram in to_server.drain(..) {
                deliver(&mut self.server, self.now, &datagram.bytes, datagram.absent);
            }
            let to_client = drain(&mut self.server, self.now);
            self.now += HALF_RTT;
            for datagram in to_client {
                deliver(&mut self.client, self.now, &datagram.bytes, datagram.absent);
            }
            to_server = drain(&mut self.client, self.now);
        }
    }
}

fn drain(end: &mut SimEndpoint, now: Time) -> Vec<Datagram> {
    let mut out = Vec::new();
    while end.poll_transmit(now, 64, &mut out) > 0 {}
    out
}

fn deliver(end: &mut SimEndpoint, now: Time, bytes: &[u8], absent: u32) {
    let arrival = Arrival {
        bytes,
        absent,
        corrupt: false,
    };
    end.handle_datagram(now, arrival);
}

/// Number and cookie of each packet, all of them Initial ones of full size.
fn initials(flight: &[Datagram]) -> Vec<(u32, Option<Cookie>)> {
    let fields = |datagram: &Datagram| {
        assert_eq!(datagram.wire_len() as usize, limits::MIN_DATAGRAM);
        match Header::decode(&datagram.bytes).expect("a header").0 {
            Header::Handshake {
                level: Level::Initial,
                number,
                cookie,
                ..
            } => (number, cookie),
            other => panic!("{other:?}"),
        }
    };
    flight.iter().map(fields).collect()
}

#[test]
fn a_client_says_it_again_with_the_cookie_and_gets_in() {
    let mut pair = Pair::new();
    assert_eq!(initials(&pair.flight()), [(0, None), (1, None)]);
    pair.now += HALF_RTT * 2;
    let retry = pair.answer(RetryAnswer::Retry(COOKIE));
    pair.hear(&retry);
    // The second packet of the flight was answered as well.
    pair.hear(&retry);
    let again = pair.flight();
    assert_eq!(initials(&again), [(2, Some(COOKIE)), (3, Some(COOKIE))]);
    pair.hear(&retry);
    assert_eq!(pair.flight(), [], "each packet of a flight has an answer");
    pair.talk(again);
    assert!(pair.client.connection().is_established());
    assert!(pair.server.connection().is_established());
    let rtt = pair.client.connection().rtt();
    assert_eq!(rtt, HALF_RTT * 2, "the detour is no part of the round trip");
    // Afterwards nobody at the door has anything to say.
    let version = RetryAnswer::Version {
        spoken: VERSION + 1,
        refused: VERSION,
    };
    for answer in [version, RetryAnswer::Retry(Cookie([4; 20]))] {
        let packet = pair.answer(answer);
        pair.hear(&packet);
    }
    assert!(pair.client.connection().is_established());
}

#[test]
fn a_client_takes_a_few_cookies_and_no_more() {
    let mut pair = Pair::new();
    pair.flight();
    let mut packets = 0;
    for n in 0..50 {
        pair.now += Span::from_millis(25);
        let retry = pair.answer(RetryAnswer::Retry(Cookie([n; 20])));
        pair.hear(&retry);
        packets += pair.flight().len();
    }
    assert_eq!(packets, 6, "three flights");
}

#[test]
fn another_version_ends_the_attempt_and_is_named() {
    let mut pair = Pair::new();
    pair.flight();
    let spoken = VERSION + 1;
    let packet = pair.answer(RetryAnswer::Version {
        spoken,
        refused: VERSION,
    });
    pair.hear(&packet);
    let error = ConnectionError::VersionMismatch {
        ours: VERSION,
        theirs: spoken,
    };
    assert_eq!(pair.client.take_events(), [Event::Closed(error)]);
}

#[test]
fn answers_that_do_not_fit_say_nothing() {
    let mut pair = Pair::new();
    let first = pair.client.connection().first_destination();
    let version = |spoken, refused| RetryAnswer::Version { spoken, refused };
    let newer = version(VERSION + 1, VERSION);
    let packets = [
        pair.answer(version(VERSION + 1, VERSION - 1)),
        pair.answer(version(VERSION, VERSION)),
        RetryPacket::to(ConnectionId(first.0 ^ 1), CLIENT, newer),
        RetryPacket::to(first, ConnectionId(2), newer),
        RetryPacket::to(CLIENT, first, newer),
        RetryPacket::to(
            ConnectionId(first.0 ^ 1),
            CLIENT,
            RetryAnswer::Retry(COOKIE),
        ),
    ];
    let flight = pair.flight();
    for packet in &packets {
        pair.hear(packet);
        assert_eq!(pair.flight(), [], "{packet:?}");
        // A server knows better than to listen.
        let mut bytes = Vec::new();
        packet.encode(&mut bytes);
        deliver(&mut pair.server, pair.now, &bytes, 0);
        assert!(!pair.server.connection().is_stillborn());
    }
    pair.talk(flight);
    assert!(pair.client.connection().is_established());
}

/// O1: a server that is full says when to come again, and the client does.
#[test]
fn o1_a_client_comes_again_when_a_busy_server_said_and_gets_in() {
    let mut pair = Pair::new();
    pair.flight();
    let retry = pair.answer(RetryAnswer::Retry(COOKIE));
    pair.hear(&retry);
    pair.flight();
    let busy = |cookie, seconds| RetryAnswer::Busy { cookie, seconds };
    // Another's cookie, no time, and an hour are no answers.
    for answer in [
        busy(Cookie([4; 20]), 5),
        busy(COOKIE, 0),
        busy(COOKIE, 3_600),
    ] {
        let packet = pair.answer(answer);
        pair.hear(&packet);
        assert_eq!(pair.client.take_events(), []);
    }
    // Longer in all than a handshake may take.
    for _ in 0..4 {
        let packet = pair.answer(busy(COOKIE, 5));
        pair.hear(&packet);
        // Each packet of the flight has an answer.
        pair.hear(&packet);
        let told = Event::Busy(Span::from_secs(5));
        assert_eq!(pair.client.take_events(), [told], "once");
        pair.now += Span::from_millis(4_990);
        pair.client.handle_timeout(pair.now);
        assert_eq!(pair.flight(), [], "too early");
        pair.now += Span::from_millis(20);
        pair.client.handle_timeout(pair.now);
        let again = initials(&pair.flight());
        assert!(again.len() == 2 && again.iter().all(|(_, cookie)| cookie.is_none()));
        pair.now += HALF_RTT * 2;
        let retry = pair.answer(RetryAnswer::Retry(COOKIE));
        pair.hear(&retry);
        let again = pair.flight();
        assert_eq!(again.len(), 2);
        assert!(!pair.client.connection().is_closed(), "it gave up");
    }
    let packet = pair.answer(busy(COOKIE, 1));
    pair.hear(&packet);
    pair.now += Span::from_millis(1_010);
    pair.client.handle_timeout(pair.now);
    let flight = pair.flight();
    pair.talk(flight);
    assert!(pair.client.connection().is_established());
}
