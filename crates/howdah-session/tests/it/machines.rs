//! What may be said when: each word of a peer in each state.

use howdah_core::{ByteRange, ObjectId, RangeSet};
use howdah_session::client::{self, Stage, Wants};
use howdah_session::message::{Message, SideReport};
use howdah_session::pace::Pace;
use howdah_session::questions::Sum;
use howdah_session::resume::{GROUP, WireHeld};
use howdah_session::selection::Selection;
use howdah_session::server::{Does, Order, Parts, Server, Unheard};
use howdah_session::transfer::{End, Get, Incoming, Opened, Outgoing, check_resumed, resumable};
use howdah_session::{Rule, SourceIdentity, TreeOptions, Wait};

/// The first object of each side.
const CLIENTS: ObjectId = ObjectId::new(0);
const SERVERS: ObjectId = ObjectId::new(1);

const SIZE: u64 = 9 * GROUP + 5;
const END: End = End {
    size: SIZE,
    blake3: Some([7; 32]),
};

fn source() -> SourceIdentity {
    SourceIdentity {
        size: SIZE,
        mtime: (1, 2),
        ctime: (3, 4),
        inode: 5,
    }
}

fn first_groups(count: u64) -> RangeSet {
    let mut ranges = RangeSet::new();
    ranges.insert(ByteRange::new(0, count * GROUP));
    ranges
}

fn get() -> Message {
    Message::Get {
        path: "a".into(),
        window_end: None,
        hash: true,
        held: None,
        values: true,
    }
}

fn done() -> Message {
    Message::Done {
        object: CLIENTS,
        side: SideReport::default(),
    }
}

/// A driver's part that is nothing but the half of an object.
#[derive(Debug)]
struct Half<T>(T);

impl<T> AsRef<T> for Half<T> {
    fn as_ref(&self) -> &T {
        &self.0
    }
}

impl<T> AsMut<T> for Half<T> {
    fn as_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

#[derive(Debug)]
struct Test;

impl Parts for Test {
    type Sending = Half<Outgoing>;
    type Receiving = Half<Incoming>;
    type Landing = ();
    type Question = ();
    type Tree = ();
    type Files = ();
    type Lane = ();
}

const BEGINS: Does<Test> = Does::Begins {
    object: Some(CLIENTS),
    is_complete: false,
};

fn server(does: Does<Test>) -> Server<Test> {
    let mut server = Server::new(None);
    server.does(does);
    server
}

fn fail() -> Message {
    Message::Fail {
        kind: 0,
        message: String::new(),
    }
}

fn put() -> Message {
    Message::Put {
        object: CLIENTS,
        path: "a".into(),
        name: None,
        size: Some(SIZE),
        hash: true,
        source: Some(source()),
        resume: true,
        reread: false,
        mode: None,
    }
}

fn sending() -> Message {
    Message::Sending {
        object: SERVERS,
        size: None,
        hash: true,
        source: None,
        resumed: false,
        mode: None,
    }
}

type Doing = fn() -> Does<Test>;

#[test]
fn a_server_does_one_thing_at_a_time() {
    let sends = || Does::Sends(Half(Outgoing::new(SERVERS, true)));
    let receives = || Does::Receives(Half(Incoming::new(CLIENTS, RangeSet::new(), true)));
    let all: [(Doing, &str, &str); 8] = [
        (|| Does::Nothing, "Get", "Failed"),
        (|| BEGINS, "Nothing", "Nothing"),
        (sends, "", "Failed"),
        (receives, "", "Failed"),
        (|| Does::Lands(()), "", "Failed"),
        (|| Does::Answers(()), "", "Failed"),
        (|| Does::Tree(()), "OfTree", "OfTree"),
        (|| Does::Files(()), "", "Failed"),
    ];
    for (does, asked, failed) in all {
        let hears = |message: Message| match server(does()).hear(message) {
            Ok(order) => {
                let order = format!("{order:?}");
                order.split('(').next().unwrap_or_default().to_owned()
            }
            Err(_) => String::new(),
        };
        let what = format!("{:?}", does());
        assert_eq!(hears(get()), asked, "{what}");
        assert_eq!(hears(fail()), failed, "{what}");
        assert_eq!(
            hears(Message::OpenFiles).is_empty(),
            asked.is_empty(),
            "{what}"
        );
        assert_eq!(hears(Message::Pace(Pace::default())), "Pace");
        let questions = hears(Message::AskFiles(Vec::new()));
        assert_eq!(questions == "AskFiles", what.starts_with("Files"));
    }
    // What a server says itself.
    let said = Message::FilesOpen { answers: SERVERS };
    assert!(server(Does::Nothing).hear(said).is_err());
    assert!(matches!(
        server(Does::Nothing).hear(done()),
        Ok(Order::Nothing)
    ));
}

/// A tree that has failed at the server: what the client said before it heard of that is no fault of his.
#[test]
fn the_last_words_about_a_tree_may_come_late() {
    for late in [
        Message::TreePlaced { runs: vec![(0, 1)] },
        Message::Ready {
            object: ObjectId::new(5),
            held: (&RangeSet::new()).into(),
            values: true,
            changed: None,
        },
        Message::TreeSettled {
            object: ObjectId::new(5),
            stored: true,
        },
    ] {
        let mut server = server(Does::Tree(()));
        server.end();
        assert!(matches!(server.hear(late), Ok(Order::Nothing)));
    }
}

#[test]
fn a_receiver_that_settles_what_has_not_ended_is_not_believed() {
    let mut out = Outgoing::new(ObjectId::new(5), true);
    assert_eq!(out.on_settled(false), Ok(None), "it will not be");
    assert!(out.on_settled(true).is_err());
    out.end(END);
    assert_eq!(out.on_settled(true), Ok(Some(END)));
}

/// Its figures would have said what does not come, and so it took the copy for whole.
#[test]
fn a_client_that_lacks_something_does_not_have_all_without_the_servers_last_words() {
    for lacks in [false, true] {
        let mut client: client::Client<Half<Outgoing>, Half<Incoming>> =
            client::Client::new(Wants::Tree { removes: false });
        client.moves();
        if lacks {
            client.lacks();
        }
        client.thanks();
        assert_eq!(client.has_all(), !lacks);
    }
}

#[test]
fn what_comes_before_its_place_is_open_is_kept_within_bounds() {
    let mut server = server(Does::Nothing);
    assert!(matches!(server.hear(put()), Ok(Order::Put(..))));
    assert!(server.admits(CLIENTS) && !server.admits(SERVERS));
    let end = |object| Message::End {
        object,
        size: SIZE,
        blake3: END.blake3,
    };
    assert!(matches!(server.hear(end(CLIENTS)), Ok(Order::Nothing)));
    assert!(server.catch_up().is_none(), "it is not open");
    server.on_complete(SERVERS);
    server.on_complete(CLIENTS);
    server.receives(Half(Incoming::new(CLIENTS, RangeSet::new(), true)));
    let late = server.catch_up().expect("the end");
    assert!(matches!(server.hear(late), Ok(Order::Size(END))));
    assert!(
        matches!(server.hear(end(SERVERS)), Ok(Order::Nothing)),
        "another"
    );
    let receiving = server.now_mut().receiving().expect("it comes");
    assert_eq!(receiving.0.take_finish(), Some(END), "all of it came early");
    assert!(server.hear(put()).is_err(), "one at a time");
    server.end();
    assert!(matches!(server.hear(put()), Ok(Order::Put(..))));
    let is_kept = |_| server.hear(end(CLIENTS)).is_ok();
    assert_eq!((0..1_000).map(is_kept).filter(|kept| *kept).count(), 256);
    server.end();
    assert!(
        server.catch_up().is_none(),
        "they went with what they were about"
    );
}

/// Each of them may be as long as a message.
#[test]
fn h18_what_comes_before_its_place_is_open_is_little_however_long_it_is() {
    let mut server = server(Does::Nothing);
    let long = || Message::Fail {
        kind: 0,
        message: "x".repeat(60_000),
    };
    for _ in 0..2 {
        assert!(matches!(server.hear(put()), Ok(Order::Put(..))));
        let is_kept = |_| server.hear(long()).is_ok();
        assert_eq!((0..100).map(is_kept).filter(|kept| *kept).count(), 4);
        server.receives(Half(Incoming::new(CLIENTS, RangeSet::new(), true)));
        let caught_up = std::iter::from_fn(|| server.catch_up());
        assert_eq!(caught_up.count(), 4);
        server.end();
    }
}

/// Names and rules that were too much are not left out of what is done: a tree would be deleted that they keep.
#[test]
fn h18_a_request_does_not_begin_without_a_part_of_its_rules() {
    const MOST: usize = 4 << 20;
    let part = |len: usize| {
        let rule = Rule {
            include: false,
            pattern: "x".repeat(len),
            listed: false,
        };
        Message::Selection(Selection {
            rules: vec![rule],
            ..Selection::default()
        })
    };
    let tree = || Message::TreePut {
        manifest: CLIENTS,
        packs: ObjectId::new(2),
        path: "a".into(),
        several: false,
        options: TreeOptions {
            delete: true,
            ..TreeOptions::default()
        },
    };
    let mut server = Server::<Test>::new(Some(MOST));
    let too_much = (0..100).find_map(|_| server.hear(part(60_000)).err());
    assert!(
        matches!(too_much, Some(Unheard::Selection(_))),
        "{too_much:?}"
    );
    assert_eq!(server.held_bytes(), (0, 0), "nothing of it stays");
    // What the client has said before it heard that is of the same request.
    assert!(server.hear(part(10)).is_ok());
    let refused = server.hear(tree());
    assert!(matches!(refused, Err(Unheard::Selection(_))), "{refused:?}");
    assert!(matches!(server.now(), Does::Nothing));
    // The next one is another.
    assert!(server.hear(part(10)).is_ok());
    let Ok(Order::Tree(Message::TreePut { options, .. }, _)) = server.hear(tree()) else {
        panic!("it is as it was asked for");
    };
    assert_eq!(options.rules.len(), 1);
}

#[test]
fn a_client_hears_what_it_has_asked_for_and_once() {
    type Client = client::Client<Half<Outgoing>, Half<Incoming>>;
    let of = |wants, stage| {
        let mut client = Client::new(wants);
        match stage {
            Stage::Before => {}
            Stage::Asked => client.asked(),
            Stage::Moving => client.moves(),
            Stage::Thanking => client.thanks(),
            Stage::Over => client.end(),
        }
        client
    };
    let tree = Wants::Tree { removes: false };
    let all = [
        Wants::Put,
        Wants::PutLease,
        Wants::Get,
        tree,
        Wants::Ask,
        Wants::Files,
    ];
    let stages = [
        Stage::Before,
        Stage::Asked,
        Stage::Moving,
        Stage::Thanking,
        Stage::Over,
    ];
    for (wants, stage) in all.into_iter().flat_map(|w| stages.map(|s| (w, s))) {
        let hear = |message, of_tree| of(wants, stage).hear(message, of_tree);
        let is_asked = |by| stage == Stage::Asked && wants == by;
        let what = format!("{wants:?} {stage:?}");
        assert_eq!(
            hear(sending(), false).is_ok(),
            is_asked(Wants::Get),
            "{what}"
        );
        let files = Message::FilesOpen { answers: SERVERS };
        assert_eq!(hear(files, false).is_ok(), is_asked(Wants::Files), "{what}");
        let found = Message::Findings(Vec::new());
        // Before the question it is not known who answers.
        let is_heard = wants == Wants::Ask && matches!(stage, Stage::Asked | Stage::Moving);
        assert_eq!(hear(found, false).is_ok(), is_heard, "{what}");
        let answered = hear(Message::Answered(Sum::default()), false);
        let is_believed = matches!(answered, Ok(client::Order::Answered(_)));
        assert_eq!(is_believed, is_heard, "{what}");
        assert!(matches!(hear(done(), false), Ok(client::Order::Nothing)));
        assert!(matches!(hear(done(), true), Ok(client::Order::OfTree(_))));
        let side = SideReport::default();
        let heard = hear(Message::Thanks { side }, false);
        let is_thanked = matches!(heard, Ok(client::Order::Thanks(_)));
        assert_eq!(is_thanked, stage == Stage::Thanking, "{what}");
        // What a client says itself.
        assert!(hear(get(), false).is_err());
        assert_eq!(of(wants, stage).has_all(), stage == Stage::Thanking);
    }
    // What is there of a lease may have to be hashed for long before it is said.
    let waits = |wants| of(wants, Stage::Asked).waits_for(false);
    assert_eq!(waits(Wants::Put), Some(Wait::Answer));
    assert_eq!(waits(Wants::PutLease), Some(Wait::Progress));
    let removes = Wants::Tree { removes: true };
    assert!(!of(removes, Stage::Thanking).has_all());
    // It comes as one object, and that once.
    let mut client = of(Wants::Get, Stage::Asked);
    client.receives(Half(Incoming::new(SERVERS, RangeSet::new(), true)));
    assert!(client.hear(sending(), false).is_err());
}

#[test]
fn a44_who_has_all_before_the_end_was_told_is_not_believed() {
    let mut out = Outgoing::new(CLIENTS, true);
    assert!(out.on_done().is_err());
    assert!(out.offer(Some(source())).is_some());
    assert_eq!(out.end(END), None, "what is there must be heard first");
    assert!(out.on_done().is_err());
    let held = out.on_ready(&(&first_groups(3)).into(), true);
    assert_eq!(held.map(|held| held.byte_count()), Ok(3 * GROUP));
    assert!(out.on_ready(&(&RangeSet::new()).into(), true).is_err());
    assert!(out.end(END).is_some());
    assert_eq!(out.end(END), None, "once");
    assert_eq!(out.on_done(), Ok(END));
}

#[test]
fn what_cannot_be_there_is_not_left_out() {
    let mut out = Outgoing::new(CLIENTS, true);
    out.offer(Some(source()));
    assert!(out.on_ready(&(&first_groups(10)).into(), true).is_err());
    // It is still waited for.
    assert!(out.waits_for_ready());
    let opened = Opened {
        size: Some(SIZE),
        identity: Some(source()),
        mode: None,
    };
    for (of, groups, resumed) in [
        (source(), 3, Some(true)),
        (source(), 10, None),
        (
            SourceIdentity {
                inode: 6,
                ..source()
            },
            3,
            Some(false),
        ),
    ] {
        let ask = Get {
            window_end: None,
            held: Some(WireHeld::new(of, &first_groups(groups))),
            values: true,
        };
        let mut out = Outgoing::new(SERVERS, true);
        let answer = out.answer(&ask, &opened).ok();
        assert_eq!(answer.map(|answer| !answer.held.is_empty()), resumed);
    }
    assert!(check_resumed(true, 0).is_err() && check_resumed(false, 1).is_err());
}

#[test]
fn only_what_is_hashed_and_large_and_its_own_size_is_gone_on_with() {
    let small = SourceIdentity {
        size: 5,
        ..source()
    };
    assert_eq!(resumable(Some(source()), Some(SIZE), true), Some(source()));
    for (of, size, hash) in [
        (Some(source()), Some(SIZE), false),
        (Some(source()), Some(SIZE + 1), true),
        (Some(source()), None, true),
        (Some(small), Some(5), true),
        (None, Some(SIZE), true),
    ] {
        assert_eq!(resumable(of, size, hash), None);
    }
}

#[test]
fn an_object_is_finished_once_when_all_and_its_end_are_here_in_either_order() {
    for end_first in [false, true] {
        let mut inc = Incoming::new(CLIENTS, RangeSet::new(), true);
        if end_first {
            assert!(inc.on_end(END).is_ok());
        } else {
            inc.on_complete();
        }
        assert_eq!(inc.take_finish(), None);
        assert_eq!(inc.waits_for_end(), !end_first);
        inc.on_complete();
        if !end_first {
            assert!(inc.on_end(END).is_ok());
        }
        assert!(inc.on_end(END).is_err(), "it was told before");
        assert_eq!(inc.take_finish(), Some(END));
        assert_eq!(inc.take_finish(), None);
        assert!(inc.stored(false, None).hashed);
        inc.on_complete();
        assert_eq!((inc.take_finish(), inc.told()), (None, Some(END)));
    }
}

#[test]
fn a_promised_hash_is_owed_unless_something_was_here() {
    let end = End {
        size: SIZE,
        blake3: None,
    };
    for (held, hash, good) in [
        (RangeSet::new(), true, false),
        (first_groups(1), true, true),
        (RangeSet::new(), false, true),
    ] {
        let is_held = !held.is_empty();
        let mut inc = Incoming::new(CLIENTS, held, hash);
        assert_eq!(inc.on_end(end).is_ok(), good);
        assert_eq!(inc.stored(false, None).hashed, is_held);
    }
}

/// Nothing that comes is hashed then, so it would be taken for compared and is not.
#[test]
fn h18_a_hash_that_was_not_promised_is_none() {
    let mut inc = Incoming::new(CLIENTS, RangeSet::new(), false);
    assert!(inc.on_end(END).is_err());
    assert!(!inc.stored(false, None).hashed);
    assert_eq!(inc.told(), None);
}
