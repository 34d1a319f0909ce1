//! A client that has two connections for one object, and other plans with the second one than a client of ours.

use super::*;
use crate::access::Rights;
use crate::session::dialogue;
use howdah_core::{ByteRange, ObjectId, RangeSet, Time};
use howdah_net::{Application, Attended, ConnKey, Placement, bind};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Event};
use howdah_session::Memory;
use howdah_session::message::Message;
use std::net::IpAddr;
use std::path::Path;

const SIZE: u64 = 16 << 20;
/// What the connection of the session sends, and the other one.
const FIRST: u8 = 1;
const SECOND: u8 = 2;

/// What the second connection does once it has joined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Second {
    /// It sends all of it as well, and other bytes.
    Contradicts,
    /// It sends nothing, and confirms that it is there.
    Stalls,
    /// It sends what lies behind the end.
    GoesBeyond,
    /// It joins once more.
    JoinsTwice,
    /// It goes.
    Leaves,
}

struct Anybody(PathBuf);

impl Authority for Anybody {
    fn admits(&self, _key: &PublicKey) -> bool {
        true
    }

    fn enter(&self, _key: &PublicKey, _from: IpAddr) -> Result<Rights, Error> {
        let root = self.0.clone();
        let open = move || Root::open(&root).map(Arc::new).map_err(|e| from_store(&e));
        Ok(Rights::below(open).with_memory(Memory::DEFAULT))
    }
}

struct Client {
    second: Second,
    /// Of the session.
    session: Option<ConnKey>,
    object: ObjectId,
    token: Option<[u8; 32]>,
    asked_to_join: bool,
    joined: bool,
    begun: bool,
    /// Became of the object.
    result: Option<Result<(), String>>,
    /// What the second one has heard besides.
    heard: Vec<String>,
    second_is_over: bool,
}

impl Client {
    fn put(&mut self, connection: &mut Connection) {
        self.object = connection.allocate_object();
        let put = Message::Put {
            object: self.object,
            path: "file".into(),
            name: None,
            size: Some(SIZE),
            hash: true,
            source: None,
            resume: false,
            reread: false,
            mode: None,
        };
        // No patience, and two connections.
        connection.send_control(&put.encode_with(&(0u64, 2u8)));
        connection.send_object(self.object, Some(SIZE), u64::MAX);
    }

    fn join(&mut self, connection: &mut Connection) {
        if let Some(token) = self.token {
            self.asked_to_join = true;
            let object = connection.allocate_object();
            connection.send_control(&Message::Join { token, object }.encode());
        }
    }

    fn on_joined(&mut self, now: Time, connection: &mut Connection, object: ObjectId) {
        self.joined = true;
        match self.second {
            Second::Contradicts => {
                connection.send_object(object, Some(SIZE), u64::MAX);
                connection.set_readable(object, SIZE);
            }
            Second::GoesBeyond => {
                connection.send_object(object, Some(2 * SIZE), u64::MAX);
                let mut others = RangeSet::new();
                others.insert(ByteRange::new(0, SIZE));
                connection.skip_sending(object, &others);
                connection.set_readable(object, 2 * SIZE);
            }
            Second::Stalls => {}
            Second::JoinsTwice => self.join(connection),
            Second::Leaves => connection.close(now, CloseCode::Done, ""),
        }
    }

    /// The connection of the session sends all of it and says so.
    fn begin(&mut self, connection: &mut Connection) {
        self.begun = true;
        connection.set_readable(self.object, SIZE);
        let end = Message::End {
            object: self.object,
            size: SIZE,
            blake3: Some(*blake3::hash(&vec![FIRST; SIZE as usize]).as_bytes()),
        };
        connection.send_control(&end.encode());
    }

    fn hear(&mut self, now: Time, is_session: bool, connection: &mut Connection, message: Message) {
        match message {
            Message::Lanes { token, most } if is_session => {
                assert_eq!(most, 2);
                self.token = Some(token);
            }
            Message::Done { .. } if is_session => self.result = Some(Ok(())),
            Message::Fail { message, .. } if is_session => self.result = Some(Err(message)),
            Message::Joined { object } => self.on_joined(now, connection, object),
            Message::Fail { message, .. } => self.heard.push(message),
            _ => {}
        }
    }
}

impl Application for Client {
    fn on_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        let is_session = *self.session.get_or_insert(key) == key;
        match event {
            Event::Connected { .. } if is_session => self.put(connection),
            Event::Control(bytes) => {
                let message = dialogue::decode(&bytes).expect("a server of ours");
                self.hear(now, is_session, connection, message);
            }
            Event::Closed(error) if is_session => {
                self.result.get_or_insert_with(|| Err(error.to_string()));
            }
            Event::Closed(error) => {
                self.second_is_over = true;
                self.heard.push(error.to_string());
            }
            _ => {}
        }
    }

    fn read(&mut self, key: ConnKey, _: ObjectId, _: u64, buffer: &mut [u8]) {
        let is_session = self.session == Some(key);
        buffer.fill(if is_session { FIRST } else { SECOND });
    }

    fn accepts_data(&mut self, _: ConnKey) -> bool {
        true
    }

    fn place(&mut self, _: ConnKey, _: ObjectId, _: &mut Vec<u8>, _: &[Placement]) {}

    fn take_spare(&mut self) -> Option<Vec<u8>> {
        None
    }

    fn poll(&mut self, now: Time, key: ConnKey, connection: &mut Connection) {
        if !connection.is_established() {
            return;
        }
        if self.result.is_some() {
            return connection.close(now, CloseCode::Done, "");
        }
        let is_session = self.session == Some(key);
        if !is_session && !self.asked_to_join {
            self.join(connection);
        }
        // What goes wrong with the second one has gone wrong before the first one ends.
        let waits = matches!(self.second, Second::GoesBeyond | Second::Leaves)
            && !self.second_is_over
            || self.second == Second::JoinsTwice && self.heard.is_empty();
        if is_session && self.joined && !self.begun && !waits {
            self.begin(connection);
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::All
    }

    fn keep_running(&mut self, _: Time) -> bool {
        self.result.is_none()
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// What becomes of the file, and what the second connection has heard.
fn put(root: &Path, second: Second) -> (Result<(), String>, Vec<String>) {
    let key = || Identity::generate().expect("a key");
    let (ours, theirs) = (key(), key());
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let authority = Arc::new(Anybody(root.to_owned()));
    let socket = bind(local).expect("a port");
    let (log, control) = (Log::default(), ServerControl::new());
    let server = Server::on(socket, None, &theirs, authority, log, control).expect("a server");
    let server = server.spread(Vec::new(), 2);
    let target = server.local_addr();
    let cancel = Cancel::new();
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| server.run(&cancel));
        let tls = TlsIdentity::new(ours.rustls_certified_key(), Arc::new(|_: &[u8]| true));
        let mut protocol = Config::new(Security::Tls(tls.expect("a key")));
        protocol.idle_timeout = Span::from_secs(60);
        let settings = EndpointConfig {
            protocol,
            accept: false,
        };
        let socket = bind(local).expect("a port");
        let mut endpoint = Endpoint::new(socket, settings, Clock::new()).expect("a socket");
        for _ in 0..2 {
            endpoint.connect(target).expect("a connection");
        }
        let mut client = Client {
            second,
            session: None,
            object: ObjectId::new(0),
            token: None,
            asked_to_join: false,
            joined: false,
            begun: false,
            result: None,
            heard: Vec::new(),
            second_is_over: false,
        };
        endpoint.run(&mut client).expect("a socket");
        cancel.cancel();
        serving.join().expect("no panic").expect("it ends well");
        (client.result.expect("it has ended"), client.heard)
    })
}

/// The bytes of both come in any order, and those that come first are there: it is what the client has said, or nothing.
#[test]
fn h18_two_lanes_that_contradict_each_other_bring_what_was_promised_or_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let (result, _) = put(dir.path(), Second::Contradicts);
    let there = std::fs::read(dir.path().join("file"));
    match result {
        Ok(()) => assert!(there.expect("it is there") == vec![FIRST; SIZE as usize]),
        Err(text) => {
            assert!(text.contains("not what was sent"), "{text}");
            assert!(there.is_err(), "it has its name");
        }
    }
    let left = std::fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, usize::from(dir.path().join("file").exists()));
}

#[test]
fn h18_a_lane_that_stalls_leaves_or_breaks_the_protocol_is_no_failure_of_the_object() {
    for (second, hears) in [
        (Second::Stalls, None),
        (Second::GoesBeyond, Some("beyond the end")),
        (Second::JoinsTwice, Some("out of turn")),
        (Second::Leaves, Some("closed")),
    ] {
        let dir = tempfile::tempdir().expect("a place");
        let (result, heard) = put(dir.path(), second);
        assert_eq!(result, Ok(()), "{second:?} {heard:?}");
        let there = std::fs::read(dir.path().join("file")).expect("it is there");
        assert!(there == vec![FIRST; SIZE as usize], "{second:?}");
        let is_heard = |part: &str| heard.iter().any(|text| text.contains(part));
        assert!(hears.is_none_or(is_heard), "{second:?}: {heard:?}");
    }
}
