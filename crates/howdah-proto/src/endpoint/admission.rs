//! Who gets in: strangers of another version are told so, and under load strangers must show first that they receive at
//! their address. Those who show that they know this server's key are asked for that at once, others as far as there is
//! time for them. Nothing is kept of either.

use super::allowance::Allowance;
use super::newcomers::Newcomers;
use crate::codec::{COOKIE_LEN, ConnectionId, Cookie, KnockKey, RetryAnswer, RetryPacket, VERSION};
use howdah_core::{Span, Time};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use std::net::{IpAddr, SocketAddr};

/// From so many handshakes under way on, a first packet must carry a cookie.
pub(crate) const COOKIE_THRESHOLD: usize = 32;
/// A cookie is taken for that long after it was made.
const COOKIE_LIFETIME_S: u32 = 15;
/// A secret makes cookies for that long, and is kept once more as long to check them.
const SECRET_PERIOD_S: u32 = 60;
/// Version packets that are sent at once, and per second.
const VERSION_ANSWERS: u64 = 100;
/// Handshakes that begin at once, and per second, without a cookie: each costs more than the packet that it takes to ask for it.
pub(crate) const UNPROVED: u64 = 256;
/// Cookies at once, and per second, for those who do not show that they know the key; and as many for those of them from networks
/// that had none of late.
pub(crate) const COOKIES_FOR_STRANGERS: u64 = 500;
/// What lay in the socket for longer shows that more first packets come than there is time for.
const OVERDUE_AFTER: Span = Span::from_millis(2);
/// And longer still, that there is no time to begin a handshake for who may not be there.
const BUSY_AFTER: Span = Span::from_millis(10);
/// Packets of one network that are answered in a second although they have waited.
const OVERDUE_OF_NETWORK: u32 = 4;
/// Cookies at once, and per second, for others that have waited.
const OVERDUE_ANSWERS: u64 = 2_000;
const MAC_LEN: usize = COOKIE_LEN - 4;

/// A first packet: what it carries in the clear.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct FirstPacket {
    pub(crate) version: u32,
    pub(crate) first_destination: ConnectionId,
    pub(crate) client: ConnectionId,
    pub(crate) cookie: Option<Cookie>,
}

/// What to do with it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// Begin a connection.
    Admit {
        /// The client has shown that it receives at its address.
        validated: bool,
    },
    Answer(RetryPacket),
    Ignore,
}

/// How busy the endpoint is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Load {
    /// Handshakes under way.
    pub(crate) half_open: usize,
    /// There is no place: whoever has a cookie is told to come again after that many seconds.
    pub(crate) full_for_s: Option<u16>,
    /// So long this packet has lain in the socket.
    pub(crate) waited: Span,
}

#[derive(Clone, Copy)]
struct Secret {
    period: u32,
    key: [u8; 32],
}

impl Secret {
    fn new(period: u32, rng: &mut ChaCha20Rng) -> Self {
        let mut key = [0; 32];
        rng.fill_bytes(&mut key);
        Self { period, key }
    }
}

/// See the module.
pub(crate) struct Admission {
    current: Secret,
    previous: Secret,
    /// Where the next secrets come from.
    rng: ChaCha20Rng,
    version_answers: Allowance,
    unproved: Allowance,
    for_strangers: Allowance,
    for_new_strangers: Allowance,
    for_overdue: Allowance,
    newcomers: Newcomers,
    /// Of this server's key.
    key: Option<KnockKey>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // No secrets in logs.
        f.debug_struct("Admission")
            .field("version_answers", &self.version_answers)
            .finish_non_exhaustive()
    }
}

fn seconds(now: Time) -> u32 {
    u32::try_from(now.since(Time::ZERO).as_millis() / 1_000).unwrap_or(u32::MAX)
}

impl Admission {
    /// `seed` is what nobody else may know.
    pub(crate) fn new(key: Option<KnockKey>, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let secret = Secret::new(0, &mut rng);
        Self {
            current: secret,
            previous: secret,
            version_answers: Allowance::new(VERSION_ANSWERS),
            unproved: Allowance::new(UNPROVED),
            for_strangers: Allowance::new(COOKIES_FOR_STRANGERS),
            for_new_strangers: Allowance::new(COOKIES_FOR_STRANGERS),
            for_overdue: Allowance::new(OVERDUE_ANSWERS),
            newcomers: Newcomers::new(Secret::new(0, &mut rng).key),
            rng,
            key,
        }
    }

    /// Judges a first packet from `from`.
    pub(crate) fn judge(
        &mut self,
        now: Time,
        from: SocketAddr,
        knock: &FirstPacket,
        load: Load,
    ) -> Verdict {
        let answer = |answer| {
            Verdict::Answer(RetryPacket::to(
                knock.first_destination,
                knock.client,
                answer,
            ))
        };
        if knock.version != VERSION {
            if !self.version_answers.take(now) {
                return Verdict::Ignore;
            }
            return answer(RetryAnswer::Version {
                spoken: VERSION,
                refused: knock.version,
            });
        }
        self.turn_secrets(now);
        if let Some(cookie) = knock.cookie
            && self.is_good(now, from, knock, cookie)
        {
            return match load.full_for_s {
                Some(seconds) => answer(RetryAnswer::Busy { cookie, seconds }),
                None => Verdict::Admit { validated: true },
            };
        }
        let answers = self.newcomers.answers(now, from.ip());
        if load.waited >= OVERDUE_AFTER
            && answers >= OVERDUE_OF_NETWORK
            && !self.for_overdue.take(now)
        {
            // An answer costs more than to pass a packet over: so the socket empties, for all who have something in it.
            return Verdict::Ignore;
        }
        let is_quiet = load.half_open < COOKIE_THRESHOLD
            && load.full_for_s.is_none()
            && load.waited < BUSY_AFTER;
        if is_quiet && self.unproved.take(now) {
            return Verdict::Admit { validated: false };
        }
        let (first, client) = (knock.first_destination, knock.client);
        let knows_us = self.key.is_some_and(|key| key.is_shown(first, client));
        let allowance = match answers {
            0 => &mut self.for_new_strangers,
            _ => &mut self.for_strangers,
        };
        if !knows_us && !allowance.take(now) {
            return Verdict::Ignore;
        }
        self.newcomers.on_answer(now, from.ip());
        answer(RetryAnswer::Retry(Self::bake(
            seconds(now),
            from,
            knock,
            &self.current,
        )))
    }

    fn turn_secrets(&mut self, now: Time) {
        let period = seconds(now) / SECRET_PERIOD_S;
        if period == self.current.period {
            return;
        }
        let next = Secret::new(period, &mut self.rng);
        self.previous = std::mem::replace(&mut self.current, next);
    }

    /// The time, and a MAC over it and everything that the cookie is good for.
    fn bake(made_s: u32, from: SocketAddr, knock: &FirstPacket, secret: &Secret) -> Cookie {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        let mut text = Vec::with_capacity(16 + 2 + 8 + 8 + 4);
        text.extend_from_slice(&ip);
        text.extend_from_slice(&from.port().to_be_bytes());
        text.extend_from_slice(&knock.first_destination.0.to_be_bytes());
        text.extend_from_slice(&knock.client.0.to_be_bytes());
        text.extend_from_slice(&made_s.to_be_bytes());
        let mac = blake3::keyed_hash(&secret.key, &text);
        let mut cookie = [0; COOKIE_LEN];
        cookie[..4].copy_from_slice(&made_s.to_be_bytes());
        cookie[4..].copy_from_slice(&mac.as_bytes()[..MAC_LEN]);
        Cookie(cookie)
    }

    fn is_good(&self, now: Time, from: SocketAddr, knock: &FirstPacket, cookie: Cookie) -> bool {
        let [a, b, c, d, ..] = cookie.0;
        let made_s = u32::from_be_bytes([a, b, c, d]);
        let age = seconds(now).checked_sub(made_s);
        if age.is_none_or(|age| age > COOKIE_LIFETIME_S) {
            return false;
        }
        [&self.current, &self.previous].into_iter().any(|secret| {
            let ours = Self::bake(made_s, from, knock, secret);
            // Compared in constant time, as the library's hashes are.
            let hash = |cookie: Cookie| {
                let mut bytes = [0; 32];
                bytes[..COOKIE_LEN].copy_from_slice(&cookie.0);
                blake3::Hash::from_bytes(bytes)
            };
            hash(ours) == hash(cookie)
        })
    }
}

/// Longest answer that [`Admission::judge`] gives, in bytes.
#[cfg(test)]
const ANSWER_MAX: usize = 43;
#[cfg(test)]
const _: () = assert!(ANSWER_MAX < crate::codec::limits::MIN_DATAGRAM);

#[cfg(test)]
mod tests {
    use super::*;

    const KNOCK: FirstPacket = FirstPacket {
        version: VERSION,
        first_destination: ConnectionId(7),
        client: ConnectionId(8),
        cookie: None,
    };
    const VALIDATED: Verdict = Verdict::Admit { validated: true };

    fn load(half_open: usize) -> Load {
        Load {
            half_open,
            full_for_s: None,
            waited: Span::ZERO,
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn address(host: u8, port: u16) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, host], port))
    }

    fn cookie(verdict: Verdict) -> Cookie {
        match verdict {
            Verdict::Answer(RetryPacket {
                destination: ConnectionId(8),
                source: ConnectionId(7),
                answer: RetryAnswer::Retry(cookie),
            }) => cookie,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_cookie_is_asked_for_when_many_handshakes_are_under_way() {
        let mut admission = Admission::new(None, [7; 32]);
        let from = address(1, 1);
        let few = admission.judge(at(1), from, &KNOCK, load(COOKIE_THRESHOLD - 1));
        assert_eq!(few, Verdict::Admit { validated: false });
        let cookie = cookie(admission.judge(at(1), from, &KNOCK, load(COOKIE_THRESHOLD)));
        let again = FirstPacket {
            cookie: Some(cookie),
            ..KNOCK
        };
        for half_open in [0, COOKIE_THRESHOLD, 10_000] {
            assert_eq!(
                admission.judge(at(2), from, &again, load(half_open)),
                VALIDATED
            );
        }
    }

    /// The first row of the table of bounds (docs/protocol.md, 18.1): admission itself has no memory that grows.
    #[test]
    fn under_load_nothing_is_kept_of_a_stranger_whose_address_is_not_proved() {
        fn has_no_memory<T: Copy>(_: &T) {}
        let mut admission = Admission::new(None, [7; 32]);
        let Admission {
            current,
            previous,
            version_answers,
            unproved,
            for_strangers,
            for_new_strangers,
            for_overdue,
            // Of as many places as there always are.
            newcomers: _,
            // Nor does this one.
            rng: _,
            key,
        } = &admission;
        has_no_memory(&(*current, *previous, *version_answers, *unproved));
        has_no_memory(&(*for_strangers, *for_new_strangers, *for_overdue, *key));
        for n in 0..100_000u32 {
            let from = SocketAddr::from((n.to_be_bytes(), 7));
            let full = Load {
                full_for_s: (n % 2 == 0).then_some(1),
                ..load(COOKIE_THRESHOLD)
            };
            let verdict =
                admission.judge(at(1) + Span::from_micros(u64::from(n)), from, &KNOCK, full);
            assert!(!matches!(verdict, Verdict::Admit { .. }), "{n}");
        }
    }

    #[test]
    fn wrong_old_and_foreign_cookies_are_refused() {
        let (mut admission, mut other) =
            (Admission::new(None, [7; 32]), Admission::new(None, [8; 32]));
        let from = address(1, 1);
        let made = cookie(admission.judge(at(100), from, &KNOCK, load(COOKIE_THRESHOLD)));
        let with = |cookie| FirstPacket {
            cookie: Some(cookie),
            ..KNOCK
        };
        let good = |admission: &mut Admission, s, from, knock: &FirstPacket| {
            admission.judge(at(s), from, knock, load(COOKIE_THRESHOLD)) == VALIDATED
        };
        assert!(good(&mut admission, 100, from, &with(made)));
        assert!(
            good(&mut admission, 115, from, &with(made)),
            "15 s are allowed"
        );
        assert!(
            !good(&mut admission, 116, from, &with(made)),
            "it is too old"
        );
        assert!(
            !good(&mut admission, 99, from, &with(made)),
            "from the future"
        );
        assert!(!good(&mut admission, 100, address(2, 1), &with(made)));
        assert!(!good(&mut admission, 100, address(1, 2), &with(made)));
        assert!(
            !good(&mut other, 100, from, &with(made)),
            "another server's"
        );
        for (first, client) in [(6, 8), (7, 9), (8, 7)] {
            let knock = FirstPacket {
                first_destination: ConnectionId(first),
                client: ConnectionId(client),
                ..with(made)
            };
            assert!(!good(&mut admission, 100, from, &knock));
        }
        for bit in 0..COOKIE_LEN * 8 {
            let mut wrong = made;
            wrong.0[bit / 8] ^= 1 << (bit % 8);
            assert!(!good(&mut admission, 100, from, &with(wrong)), "bit {bit}");
        }
        // A wrong one harms nobody while there is room.
        let wrong = with(Cookie([0; COOKIE_LEN]));
        let verdict = admission.judge(at(100), from, &wrong, load(0));
        assert_eq!(verdict, Verdict::Admit { validated: false });
    }

    #[test]
    fn cookies_outlive_one_change_of_the_secret_and_no_second_one() {
        let mut admission = Admission::new(None, [7; 32]);
        let from = address(1, 1);
        let made = cookie(admission.judge(at(59), from, &KNOCK, load(COOKIE_THRESHOLD)));
        let again = FirstPacket {
            cookie: Some(made),
            ..KNOCK
        };
        assert_eq!(admission.judge(at(61), from, &again, load(99)), VALIDATED);
        let secret = admission.current.key;
        cookie(admission.judge(at(121), from, &KNOCK, load(99)));
        assert_ne!(secret, admission.current.key);
        assert_eq!(secret, admission.previous.key);
    }

    #[test]
    fn answers_are_smaller_than_questions_and_versions_are_told_seldom() {
        let mut admission = Admission::new(None, [7; 32]);
        let newer = FirstPacket {
            version: VERSION + 1,
            ..KNOCK
        };
        let mut answers = 0;
        for n in 0..10_000 {
            // 10 000 in a second.
            let now = at(5) + Span::from_micros(n * 100);
            let verdict = admission.judge(now, address(1, 1), &newer, load(0));
            match verdict {
                Verdict::Answer(packet) => {
                    let mut out = Vec::new();
                    packet.encode(&mut out);
                    assert!(out.len() <= ANSWER_MAX);
                    answers += 1;
                }
                other => assert_eq!(other, Verdict::Ignore),
            }
        }
        assert!((100..=200).contains(&answers), "{answers}");
        let retry = cookie(admission.judge(at(7), address(1, 1), &KNOCK, load(COOKIE_THRESHOLD)));
        let mut out = Vec::new();
        RetryPacket::to(
            KNOCK.first_destination,
            KNOCK.client,
            RetryAnswer::Retry(retry),
        )
        .encode(&mut out);
        assert!(out.len() <= ANSWER_MAX);
    }

    #[test]
    fn under_load_those_who_know_the_key_are_answered_and_others_are_if_there_is_time() {
        let key = KnockKey::of(b"the server's key");
        let mut admission = Admission::new(Some(key), [7; 32]);
        let knock = |n: u64, knows: bool| {
            let client = ConnectionId(n);
            let first = key.first_destination(client);
            FirstPacket {
                first_destination: ConnectionId(first.0 ^ u64::from(!knows)),
                client,
                ..KNOCK
            }
        };
        let busy = load(COOKIE_THRESHOLD);
        let mut answered = [0; 2];
        // 100,000 of each in a second.
        for n in 0..100_000 {
            let now = at(5) + Span::from_micros(n * 10);
            for knows in [false, true] {
                let verdict = admission.judge(now, address(1, 1), &knock(n, knows), busy);
                answered[usize::from(knows)] += u64::from(verdict != Verdict::Ignore);
            }
        }
        assert_eq!(answered[1], 100_000);
        assert!((COOKIES_FOR_STRANGERS..=2 * COOKIES_FOR_STRANGERS + 2).contains(&answered[0]));
        // A cookie that was given is good whoever has it.
        let stranger = knock(7, false);
        let Verdict::Answer(packet) = admission.judge(at(9), address(1, 1), &stranger, busy) else {
            panic!("a second later");
        };
        let RetryAnswer::Retry(cookie) = packet.answer else {
            panic!("{packet:?}");
        };
        let again = FirstPacket {
            cookie: Some(cookie),
            ..stranger
        };
        assert_eq!(
            admission.judge(at(9), address(1, 1), &again, busy),
            VALIDATED
        );
    }

    #[test]
    fn a_flood_begins_few_handshakes_though_none_of_them_lasts() {
        let mut admission = Admission::new(None, [7; 32]);
        let mut begun = 0;
        for n in 0..100_000 {
            let now = at(5) + Span::from_micros(n * 10);
            let verdict = admission.judge(now, address(1, 1), &KNOCK, load(0));
            begun += u64::from(verdict == Verdict::Admit { validated: false });
        }
        assert!((UNPROVED..=2 * UNPROVED).contains(&begun), "{begun}");
    }

    #[test]
    fn a_full_server_says_so_to_proved_addresses_only() {
        let mut admission = Admission::new(None, [7; 32]);
        let full = Load {
            half_open: 0,
            full_for_s: Some(12),
            waited: Span::ZERO,
        };
        let from = address(1, 1);
        let cookie = cookie(admission.judge(at(1), from, &KNOCK, full));
        let again = FirstPacket {
            cookie: Some(cookie),
            ..KNOCK
        };
        let Verdict::Answer(packet) = admission.judge(at(2), from, &again, full) else {
            panic!("no answer");
        };
        let seconds = 12;
        assert_eq!(packet.answer, RetryAnswer::Busy { cookie, seconds });
        let mut out = Vec::new();
        packet.encode(&mut out);
        assert_eq!(out.len(), ANSWER_MAX);
        let verdict = admission.judge(at(2), address(2, 1), &again, full);
        assert!(matches!(verdict, Verdict::Answer(p) if matches!(p.answer, RetryAnswer::Retry(_))));
    }

    /// 100,000 a second of 200 networks, more than there is time for, and a client of another one each 10 ms.
    #[test]
    fn h10_where_there_is_time_for_few_those_of_new_networks_are_answered() {
        let key = KnockKey::of(b"the server's key");
        for knows in [false, true] {
            let mut admission = Admission::new(Some(key), [7; 32]);
            let mut knock = |n: u64, ip: [u8; 4]| {
                let client = ConnectionId(n);
                let first = key.first_destination(client).0 ^ u64::from(!knows);
                let knock = FirstPacket {
                    first_destination: ConnectionId(first),
                    client,
                    ..KNOCK
                };
                let load = Load {
                    waited: BUSY_AFTER,
                    ..load(0)
                };
                let now = at(5) + Span::from_micros(n * 10);
                match admission.judge(now, SocketAddr::from((ip, 1)), &knock, load) {
                    // Nothing is begun for who has not shown a cookie.
                    Verdict::Admit { .. } => panic!("{knows}"),
                    Verdict::Answer(_) => 1,
                    Verdict::Ignore => 0,
                }
            };
            let (mut flood, mut clients) = (0, 0);
            for n in 0..100_000 {
                flood += knock(n, [127, 1, (n % 200) as u8, 1]);
                if n % 1_000 == 0 {
                    clients += knock(n, [198, 51, (n / 1_000) as u8, 7]);
                }
            }
            let others = if knows {
                OVERDUE_ANSWERS
            } else {
                2 * COOKIES_FOR_STRANGERS
            };
            let most = 2 * (200 * u64::from(OVERDUE_OF_NETWORK) + others);
            assert!((1..=most).contains(&flood), "{flood}");
            // Some share a number with one of the flood.
            assert!(clients >= 85, "{clients}");
        }
    }
}
