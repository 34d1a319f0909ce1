//! What may be said when: each word of a peer in each state.

use howdah_core::{ByteRange, RangeSet};
use howdah_session::SourceIdentity;
use howdah_session::message::{Message, SideReport};
use howdah_session::pace::Pace;
use howdah_session::resume::{GROUP, WireHeld};
use howdah_session::transfer::{End, Get, Incoming, Opened, Outgoing, check_resumed, resumable};
use howdah_session::turns::{Answered, Doing, Heard, Stage};

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
        object: 0,
        side: SideReport::default(),
    }
}

#[test]
fn a_server_does_one_thing_at_a_time() {
    let hears = |doing: Doing, message: &Message| doing.hears(message).ok();
    for (doing, asked, failed) in [
        (Doing::Nothing, Some(Heard::Begin), Some(Heard::Failed)),
        (Doing::Beginning, Some(Heard::Later), Some(Heard::Later)),
        (Doing::One, None, Some(Heard::Failed)),
        (Doing::Tree, Some(Heard::OfTree), Some(Heard::OfTree)),
        (Doing::Files, None, Some(Heard::Failed)),
    ] {
        assert_eq!(hears(doing, &get()), asked, "{doing:?}");
        assert_eq!(hears(doing, &Message::OpenFiles), asked, "{doing:?}");
        let fail = Message::Fail {
            kind: 0,
            message: String::new(),
        };
        assert_eq!(hears(doing, &fail), failed, "{doing:?}");
        assert_eq!(
            hears(doing, &Message::Pace(Pace::default())),
            Some(Heard::Pace)
        );
        let questions = hears(doing, &Message::AskFiles(Vec::new()));
        assert_eq!(questions == Some(Heard::OfFiles), doing == Doing::Files);
    }
    // What a server says itself.
    let sending = Message::FilesOpen { answers: 1 };
    assert!(Doing::Nothing.hears(&sending).is_err());
    assert_eq!(Doing::Nothing.hears(&done()), Ok(Heard::OfObject));
}

#[test]
fn a_client_hears_what_it_has_asked_for_and_once() {
    let sending = Message::Sending {
        object: 1,
        size: None,
        hash: true,
        source: None,
        resumed: false,
        mode: None,
    };
    for stage in [
        Stage::Before,
        Stage::Asked,
        Stage::Moving,
        Stage::Thanking,
        Stage::Over,
    ] {
        let comes = stage.hears(&sending, false);
        assert_eq!(comes.is_ok(), stage == Stage::Asked, "{stage:?}");
        assert_eq!(stage.hears(&done(), false), Ok(Answered::OfObject));
        assert_eq!(stage.hears(&done(), true), Ok(Answered::OfTree));
        let thanks = Message::Thanks {
            side: SideReport::default(),
        };
        let heard = stage.hears(&thanks, false);
        let awaited = stage == Stage::Thanking;
        assert_eq!(heard == Ok(Answered::Thanks), awaited, "{stage:?}");
        // What a client says itself.
        assert!(stage.hears(&get(), false).is_err());
    }
}

#[test]
fn a44_who_has_all_before_the_end_was_told_is_not_believed() {
    let mut out = Outgoing::new(0, true);
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
    let mut out = Outgoing::new(0, true);
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
        let answer = Outgoing::new(1, true).answer(&ask, &opened).ok();
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
        let mut inc = Incoming::new(0, RangeSet::new(), true);
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
        let mut inc = Incoming::new(0, held, hash);
        assert_eq!(inc.on_end(end).is_ok(), good);
        assert_eq!(inc.stored(false, None).hashed, is_held);
    }
}
