//! Messages of any bytes.

use crate::files::{Header, check, cost};
use crate::message::{Message, SideReport, shown};
use crate::pace::Pace;
use crate::selection::{Asked, Selection};
use crate::{FailureKind, Rule, TreeOptions, TreeReport};
use howdah_core::ObjectId;
use std::time::Duration;

/// What is understood is written so that it means the same, and is bounded.
pub fn message(bytes: &[u8]) {
    if let Ok(header) = Header::decode(bytes) {
        let written = header.encode();
        assert_eq!(Header::decode(&written[4..]), Ok(header), "we wrote it");
    }
    let patience = Message::patience(bytes);
    assert!(patience <= Duration::from_hours(24));
    let Ok(message) = Message::decode(bytes) else {
        return;
    };
    let written = message.encode();
    let again = Message::decode(&written).expect("we wrote it");
    // Not the messages: a number in them may be none.
    assert_eq!(again.encode(), written);
    if let Message::Selection(part) = &message {
        let mut asked = Asked::default();
        let noted = asked.note(part.clone());
        assert!(noted.is_ok(), "one message is not too much");
        let (mut paths, mut options) = (Vec::new(), TreeOptions::default());
        asked.restore(&mut paths, &mut options);
        assert!(options.files.is_none(), "a list that nobody asked with");
    }
    if let Message::Fail { kind, message } = &message {
        let known = FailureKind::from_number(*kind);
        assert!(known.number() == *kind || known == FailureKind::Io);
        assert!(!shown(message).chars().any(char::is_control));
    }
    if let Message::AskFiles(questions) = &message {
        for (_, question) in questions {
            // What is not refused is bounded by its cost.
            assert!(check(question).is_err() || cost(question) <= bytes.len() as u64 * 24 + 64);
        }
    }
}

/// Some that begin a session, and some that end it.
pub fn message_samples() -> Vec<Vec<u8>> {
    let options = TreeOptions {
        recursive: true,
        rules: vec![Rule {
            include: false,
            pattern: "*.key".into(),
            listed: false,
        }]
        .into(),
        files: Some([b"a/b".to_vec()].into_iter().collect()),
        ..TreeOptions::default()
    };
    let side = SideReport::default();
    [
        Message::Put {
            object: ObjectId::new(0),
            path: "a/b".into(),
            name: Some("c".into()),
            size: Some(7),
            hash: true,
            source: None,
            resume: true,
            reread: false,
            mode: Some(0o640),
        },
        Message::Get {
            path: "a".into(),
            window_end: Some(1 << 20),
            hash: true,
            held: None,
            values: true,
        },
        Message::End {
            object: ObjectId::new(0),
            size: 7,
            blake3: Some([7; 32]),
        },
        Message::Done {
            object: ObjectId::new(0),
            side,
        },
        Message::Thanks { side },
        Message::Fail {
            kind: 1,
            message: "no\u{1b}[2J".into(),
        },
        Message::Pace(Pace::default()),
        Message::TreeGet {
            answers: ObjectId::new(1),
            paths: vec!["a".into(), "b".into()],
            options,
        },
        Message::TreeDone {
            side,
            report: TreeReport::default(),
            renamed: Some(true),
        },
        Message::TreePlaced {
            runs: vec![(0, 3), (1, 1)],
        },
        Message::Selection(Selection::default()),
        Message::Values {
            object: ObjectId::new(0),
            first: 2,
            values: vec![[3; 32]],
        },
    ]
    .iter()
    .map(Message::encode)
    .collect()
}
