//! Messages of any bytes.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use super::message::{Message, Selection, SideReport};
use super::pace::Pace;
use crate::PathBytes;
use howdah_store::{Rule, TreeOptions, TreeReport};
use std::time::Duration;

/// What is understood is written so that it means the same, and is bounded.
pub fn message(bytes: &[u8]) {
    let patience = Message::patience(bytes);
    assert!(patience <= Duration::from_hours(24));
    let Ok(mut message) = Message::decode(bytes) else {
        return;
    };
    let written = message.encode();
    let again = Message::decode(&written).expect("we wrote it");
    // Not the messages: a number in them may be none.
    assert_eq!(again.encode(), written);
    if let Message::Selection(part) = &mut message {
        let (mut whole, mut taken) = (Selection::default(), 0);
        let count = part.paths.len() + part.rules.len() + part.files.len();
        whole
            .note(&mut taken, part.clone())
            .expect("one message is not too much");
        // Each is counted, also an empty one.
        assert!(taken >= count);
        taken = Selection::MAX_BYTES;
        assert!(count == 0 || whole.note(&mut taken, part.clone()).is_err());
    }
    if let Message::TreeGet { paths, options, .. } = &mut message {
        // Taken apart and put together, it is the same request.
        let (mut left, mut rest) = (paths.clone(), options.clone());
        let mut whole = Selection::default();
        let mut taken = 0;
        for part in Selection::split(&mut left, &mut rest) {
            let Message::Selection(part) = part else {
                panic!("another message");
            };
            whole
                .note(&mut taken, part)
                .expect("it came in one message");
        }
        whole.restore(&mut left, &mut rest);
        let both = |paths: &[PathBytes], options: &TreeOptions| {
            Message::TreeGet {
                answers: 0,
                paths: paths.to_vec(),
                options: options.clone(),
            }
            .encode()
        };
        assert_eq!(both(&left, &rest), both(paths, options));
    }
    if let Message::Fail { kind, message } = &message {
        let told = Message::failure(*kind, message, "peer").to_string();
        assert!(!told.chars().any(char::is_control));
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
        }],
        files: Some(vec![b"a/b".to_vec()]),
        ..TreeOptions::default()
    };
    let side = SideReport::default();
    [
        Message::Put {
            object: 0,
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
            object: 0,
            size: 7,
            blake3: Some([7; 32]),
        },
        Message::Done { object: 0, side },
        Message::Thanks { side },
        Message::Fail {
            kind: 1,
            message: "no\u{1b}[2J".into(),
        },
        Message::Pace(Pace::default()),
        Message::TreeGet {
            answers: 1,
            paths: vec!["a".into(), "b".into()],
            options,
        },
        Message::TreeDone {
            side,
            report: TreeReport::default(),
        },
        Message::TreePlaced {
            runs: vec![(0, 3), (1, 1)],
        },
        Message::Selection(Selection {
            paths: vec!["x".into()],
            ..Selection::default()
        }),
        Message::Values {
            object: 0,
            first: 2,
            values: vec![[3; 32]],
        },
    ]
    .iter()
    .map(Message::encode)
    .collect()
}
