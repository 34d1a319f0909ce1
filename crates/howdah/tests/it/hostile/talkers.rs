//! Who has a key, follows the protocol, and says in it what he should not.

use super::{PER_SECOND, Stage};
use howdah_core::{ObjectId, Span, Time};
use howdah_net::{
    Application, Attended, Clock, ConnKey, Endpoint, EndpointConfig, Placement, bind,
};
use howdah_proto::{Config, Connection, Event};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

/// What is said, and by how many connections.
pub(crate) struct Speech {
    pub(crate) what: &'static str,
    connections: usize,
    /// Words that each one says; then it is there, and silent.
    each: u64,
    /// The n-th one: docs/protocol.md, A.5, and what is none of these.
    word: fn(u64) -> Vec<u8>,
}

const NO_END: u64 = u64::MAX;

/// `Put{0, "so and so", none, 300, true, none, true, false, 0640}`.
fn put(n: u64) -> Vec<u8> {
    let path = format!("{n:06}");
    let (head, tail) = (&[2, 0, 0, 6][..], [0, 1, 0xac, 2, 1, 0, 0, 0, 1, 0xa0, 3]);
    [head, path.as_bytes(), &tail].concat()
}

pub(crate) const SPEECHES: [Speech; 9] = [
    Speech {
        what: "requests of what is not there",
        connections: 1,
        each: NO_END,
        word: |_| vec![2, 1, 1, b'x', 0, 0, 0, 0],
    },
    Speech {
        what: "empty messages",
        connections: 1,
        each: NO_END,
        word: |_| Vec::new(),
    },
    Speech {
        what: "noise in messages",
        connections: 1,
        each: NO_END,
        word: |_| vec![0xff; 300],
    },
    Speech {
        what: "ends of what never began",
        connections: 1,
        each: NO_END,
        word: |_| vec![2, 3, 0, 0xac, 2, 0],
    },
    Speech {
        what: "long messages of nothing",
        connections: 1,
        each: NO_END,
        word: |_| vec![0; 16_000],
    },
    Speech {
        what: "changes of pace",
        connections: 1,
        each: NO_END,
        word: |_| vec![2, 7, 0, 0, 0],
    },
    Speech {
        what: "requests of many connections",
        connections: 16,
        each: NO_END,
        word: |_| vec![2, 1, 1, b'x', 0, 0, 0, 0],
    },
    Speech {
        what: "files that never come",
        connections: 1,
        each: NO_END,
        word: put,
    },
    Speech {
        what: "many files that never come",
        // More than what counts as begun.
        connections: 24,
        each: 1,
        word: put,
    },
];

struct Talker<'a> {
    stage: &'a Stage,
    speech: &'a Speech,
    connected: BTreeSet<ConnKey>,
    /// What each has said.
    words: BTreeMap<ConnKey, u64>,
    /// Whoever spoke last.
    last: ConnKey,
    closed: usize,
    said: u64,
    next: Time,
}

impl Talker<'_> {
    /// Who speaks now: one after the other.
    fn next_speaker(&self) -> Option<ConnKey> {
        let has_words = |key: &ConnKey| self.words.get(key).copied() < Some(self.speech.each);
        let speakers = || self.connected.iter().copied().filter(has_words);
        let after = speakers().find(|key| *key > self.last);
        after.or_else(|| speakers().next())
    }
}

impl Application for Talker<'_> {
    fn on_event(&mut self, _: Time, key: ConnKey, _: &mut Connection, event: Event) {
        match event {
            Event::Connected { .. } => {
                self.connected.insert(key);
            }
            Event::Closed(_) => {
                self.connected.remove(&key);
                self.closed += 1;
            }
            _ => {}
        }
    }

    fn read(&mut self, _: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        buffer.fill(0);
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: ObjectId, _: &mut Vec<u8>, _: &[Placement]) {}

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if now >= self.next && self.next_speaker() == Some(key) {
            connection.send_control(&(self.speech.word)(self.said));
            *self.words.entry(key).or_default() += 1;
            self.last = key;
            self.said += 1;
            self.next = now + Span::from_micros(1_000_000 / PER_SECOND);
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.connected)
    }

    fn keep_running(&mut self, now: Time) -> bool {
        self.next = self.next.max(now);
        let all_is_said = self.connected.len() + self.closed == self.speech.connections
            && self.next_speaker().is_none();
        self.closed < self.speech.connections
            && self.stage.goes_on(self.said)
            && !(all_is_said && self.stage.is_stopped())
    }

    fn next_deadline(&self) -> Option<Time> {
        // Who has said all looks now and then whether it is over.
        let rest = self
            .next_speaker()
            .map_or(Span::from_millis(5), |_| Span::ZERO);
        Some(self.next + rest)
    }
}

/// Says it to the server again and again; how many connections came in.
pub(crate) fn talk(target: SocketAddr, stage: &Stage, protocol: &Config, speech: &Speech) -> u64 {
    let (mut said, mut entered) = (0, 0);
    while entered == 0 || stage.goes_on(said) {
        let socket = bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
        let settings = EndpointConfig {
            protocol: protocol.clone(),
            accept: false,
        };
        let endpoint = Endpoint::new(socket, settings, Clock::new());
        let mut endpoint = endpoint.expect("a socket");
        for _ in 0..speech.connections {
            endpoint.connect(target).expect("a connection");
        }
        let mut talker = Talker {
            stage,
            speech,
            connected: BTreeSet::new(),
            words: BTreeMap::new(),
            last: ConnKey(0),
            closed: 0,
            said,
            next: Time::ZERO,
        };
        endpoint.run(&mut talker).expect("a socket");
        entered += talker.words.len() as u64;
        said = talker.said;
    }
    entered
}
