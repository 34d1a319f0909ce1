//! Sessions in which somebody asks for one thing after the other, which no client of ours does: what a key may is asked of each
//! of them, and what it may bring goes on one account.

use super::*;
use crate::access::Rights;
use crate::keys::KeyOptions;
use crate::session::dialogue;
use crate::session::sending::Sending;
use howdah_core::{ObjectId, Time};
use howdah_net::{Application, Attended, ConnKey, Placement, bind};
use howdah_proto::error::CloseCode;
use howdah_proto::{Connection, Event};
use howdah_session::message::Message;
use howdah_session::questions::Question;
use howdah_session::{Memory, TreeOptions};
use howdah_store::{Source, SourceSpec, Wake};
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::path::Path;

/// Everybody may what these options say, below that directory.
struct Anybody {
    root: PathBuf,
    options: KeyOptions,
}

impl Authority for Anybody {
    fn admits(&self, _key: &PublicKey) -> bool {
        true
    }

    fn enter(&self, _key: &PublicKey, _from: IpAddr) -> Result<Rights, Error> {
        let root = self.root.clone();
        let open = move || Root::open(&root).map(Arc::new).map_err(|e| from_store(&e));
        let rights = Rights::below(open).bounded(&self.options);
        Ok(rights.with_memory(Memory::DEFAULT))
    }
}

enum Ask {
    /// A file of so many zeros.
    Put(&'static str, u64),
    /// The same without its size, as from a pipe.
    Pipe(&'static str, u64),
    Say(Box<Message>),
}

/// Asks one thing after the other, and hears what becomes of each.
struct Asker {
    asks: VecDeque<Ask>,
    sending: Option<Sending>,
    active: BTreeSet<ConnKey>,
    heard: Vec<Result<(), String>>,
    is_over: bool,
}

impl Asker {
    fn next(&mut self, now: Time, connection: &mut Connection) {
        self.sending = None;
        let ask = self.asks.pop_front();
        let (path, size, is_pipe) = match ask {
            None => {
                connection.close(now, CloseCode::Done, "");
                return;
            }
            Some(Ask::Say(message)) => {
                connection.send_control(&message.encode());
                return;
            }
            Some(Ask::Put(path, size)) => (path, size, false),
            Some(Ask::Pipe(path, size)) => (path, size, true),
        };
        let object = connection.allocate_object();
        let wake: Wake = Arc::new(|| ());
        let source = Source::open(SourceSpec::Zero(size), false, wake).expect("zeros");
        let put = Message::Put {
            object,
            path: path.into(),
            name: None,
            size: (!is_pipe).then_some(size),
            hash: false,
            source: None,
            resume: false,
            reread: false,
            mode: None,
        };
        connection.send_control(&put.encode());
        self.sending = Some(Sending::new(connection, object, source, false, None));
    }
}

impl Application for Asker {
    fn on_event(&mut self, now: Time, key: ConnKey, connection: &mut Connection, event: Event) {
        let heard = match event {
            Event::Connected { .. } => {
                self.active.insert(key);
                return self.next(now, connection);
            }
            Event::Closed(_) => {
                self.is_over = true;
                return;
            }
            Event::Control(bytes) => match dialogue::decode(&bytes).expect("a server of ours") {
                Message::Done { .. } | Message::TreeDone { .. } | Message::Answered(_) => Ok(()),
                Message::Fail { message, .. } => Err(message),
                _ => return,
            },
            _ => return,
        };
        if let Some(sending) = &self.sending {
            connection.finish_sending(sending.object);
        }
        self.heard.push(heard);
        self.next(now, connection);
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

    fn poll(&mut self, now: Time, _: ConnKey, connection: &mut Connection) {
        if let Some(sending) = &mut self.sending {
            sending.poll(now, connection).expect("zeros");
        }
    }

    fn attended(&self) -> Attended<'_> {
        Attended::Only(&self.active)
    }

    fn keep_running(&mut self, _: Time) -> bool {
        !self.is_over
    }

    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// What becomes of each of these in one session.
fn ask(root: &Path, options: KeyOptions, asks: Vec<Ask>) -> Vec<Result<(), String>> {
    let key = || Identity::generate().expect("a key");
    let (ours, theirs) = (key(), key());
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let authority = Arc::new(Anybody {
        root: root.to_owned(),
        options,
    });
    let socket = bind(local).expect("a port");
    let (log, control) = (Log::default(), ServerControl::new());
    let server = Server::on(socket, None, &theirs, authority, log, control).expect("a server");
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
        endpoint.connect(target).expect("a connection");
        let mut asker = Asker {
            asks: asks.into(),
            sending: None,
            active: BTreeSet::new(),
            heard: Vec::new(),
            is_over: false,
        };
        endpoint.run(&mut asker).expect("a socket");
        cancel.cancel();
        serving.join().expect("no panic").expect("it ends well");
        asker.heard
    })
}

fn size(path: &Path) -> u64 {
    path.metadata().expect("it is there").len()
}

#[test]
fn h9_what_a_session_brings_in_many_requests_is_no_more_than_in_one() {
    let dir = tempfile::tempdir().expect("a place");
    let options = KeyOptions {
        max_bytes: Some(100_000),
        max_files: Some(4),
        ..KeyOptions::default()
    };
    let heard = ask(
        dir.path(),
        options,
        vec![
            Ask::Put("a", 60_000),
            Ask::Put("b", 50_000),
            Ask::Pipe("c", 50_000),
            Ask::Put("d", 1_000),
            Ask::Put("e", 1),
        ],
    );
    let (done, over) = (
        |at: usize| heard[at].is_ok(),
        |at: usize, what: &str| heard[at].as_ref().is_err_and(|text| text.contains(what)),
    );
    assert!(done(0), "{heard:?}");
    assert!(
        over(1, "more than 100000 bytes") && over(2, "more than 100000 bytes"),
        "{heard:?}"
    );
    // What has come of the pipe counts, and no less than that was refused.
    assert!(done(3) || over(3, "more than 100000 bytes"), "{heard:?}");
    assert!(over(4, "more than 4 files"), "{heard:?}");
    assert_eq!(size(&dir.path().join("a")), 60_000);
    for name in ["b", "c", "e"] {
        assert!(!dir.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a39_a_key_that_is_good_no_more_begins_nothing_in_a_session_that_is_there() {
    let dir = tempfile::tempdir().expect("a place");
    std::fs::write(dir.path().join("there"), "x").expect("written");
    // As of yesterday: whoever is asked when a session begins has let it in.
    let past = KeyOptions {
        expires: Some("2020-02-29".parse().expect("a day")),
        ..KeyOptions::default()
    };
    let tree = |path: &str| Message::TreePut {
        manifest: ObjectId::new(0),
        packs: ObjectId::new(1),
        path: path.into(),
        several: false,
        options: TreeOptions::default(),
    };
    let get = |path: &str| Message::Get {
        path: path.into(),
        window_end: None,
        hash: false,
        held: None,
        values: false,
    };
    let expand = Message::Ask(Question::Expand {
        patterns: vec!["*".into()],
    });
    let clean = Message::Ask(Question::Clean {
        path: ".".into(),
        dry_run: false,
        modified_until: None,
    });
    let asks = vec![
        Ask::Put("new", 1),
        Ask::Put("null:", 1),
        Ask::Say(Box::new(tree("tree"))),
        Ask::Say(Box::new(get("there"))),
        Ask::Say(Box::new(get("zero:1"))),
        Ask::Say(Box::new(expand)),
        Ask::Say(Box::new(clean)),
    ];
    let many = asks.len();
    let heard = ask(dir.path(), past, asks);
    assert_eq!(heard.len(), many);
    for one in &heard {
        let text = one.as_ref().expect_err("it is refused");
        assert!(text.contains("good no more"), "{heard:?}");
    }
    assert!(!dir.path().join("new").exists());
    let good = KeyOptions {
        expires: Some("2999-12-31".parse().expect("a day")),
        ..KeyOptions::default()
    };
    assert_eq!(ask(dir.path(), good, vec![Ask::Put("new", 1)]), [Ok(())]);
}

/// Whoever tries tokens is told the same each time, and after some tries is cut off.
#[test]
fn who_joins_with_a_token_that_was_made_up_joins_nothing() {
    let dir = tempfile::tempdir().expect("a place");
    let join = |first: u8| {
        let mut token = [7; 32];
        token[0] = first;
        let object = ObjectId::new(0);
        Ask::Say(Box::new(Message::Join { token, object }))
    };
    let asks = vec![Ask::Put("a", 100), join(1), join(2), Ask::Put("b", 100)];
    let heard = ask(dir.path(), KeyOptions::default(), asks);
    let nothing = || Err("there is nothing to join with that".to_owned());
    assert_eq!(heard, [Ok(()), nothing(), nothing(), Ok(())]);
    let tries = (0..20).map(join).collect();
    let heard = ask(dir.path(), KeyOptions::default(), tries);
    assert!((1..20).contains(&heard.len()), "{heard:?}");
    assert!(heard.iter().all(|answer| *answer == nothing()), "{heard:?}");
}
