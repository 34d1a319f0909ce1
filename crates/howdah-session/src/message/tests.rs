use super::*;
use crate::files::{AttestedFile, FileVersion};
use crate::lanes::MOST;
use crate::pace::WirePolicy;
use crate::resume::GROUP;
use crate::{PathList, Rule};
use howdah_core::{ByteRange, ObjectId, RangeSet};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// docs/protocol.md, A.5.
#[test]
fn bytes_are_those_of_the_specification() {
    let put = Message::Put {
        object: ObjectId::new(0),
        path: "in/".into(),
        name: Some("a.dat".into()),
        size: Some(300),
        hash: true,
        source: None,
        resume: true,
        reread: false,
        mode: Some(0o640),
    };
    let start = b"\x02\x00\x00\x03in/\x01\x05a.dat\x01\xac\x02\x01\x00\x01\x00\x01\xa0\x03";
    assert_eq!(put.encode(), start);
    let mut ranges = RangeSet::new();
    ranges.insert(ByteRange::new(2 << 20, 5 << 20));
    let ready = Message::Ready {
        object: ObjectId::new(0),
        held: (&ranges).into(),
        values: true,
        changed: None,
    };
    assert_eq!(ready.encode(), [2, 17, 0, 1, 2, 3, 1, 0]);
    let holes = Message::Holes {
        object: ObjectId::new(0),
        ranges: (&ranges).into(),
    };
    assert_eq!(holes.encode(), [2, 21, 0, 1, 2, 3]);
}

/// What was written by the types that stood here before: fields in this order, the time of modification first.
#[test]
fn a_source_is_its_numbers_in_a_row() {
    let source = SourceIdentity {
        size: 300,
        mtime: (-1, 5),
        ctime: (2, 3),
        inode: 9,
    };
    let file = Message::TreeFile {
        object: ObjectId::new(1),
        index: 2,
        size: 300,
        source: Some(source),
    };
    let bytes = [2, 12, 1, 2, 0xac, 2, 1, 0xac, 2, 1, 5, 4, 3, 9];
    assert_eq!(file.encode(), bytes);
    let mut ranges = RangeSet::new();
    ranges.insert(ByteRange::new(0, GROUP));
    let get = Message::Get {
        path: "a".into(),
        window_end: None,
        hash: true,
        held: Some(WireHeld::new(source, &ranges)),
        values: false,
    };
    let bytes = [2, 1, 1, b'a', 0, 1, 1, 0xac, 2, 1, 5, 4, 3, 9, 1, 0, 1, 0];
    assert_eq!(get.encode(), bytes);
}

#[test]
fn f13_patience_stands_behind_a_message_where_older_programs_do_not_look() {
    let put = Message::Room { lack: None };
    assert_eq!(Message::patience(&put.encode()), Duration::ZERO);
    let bytes = put.encode_patient(Span::from_millis(299_001));
    assert_eq!(bytes, [2, 22, 0, 0xac, 0x02]);
    assert_eq!(Message::patience(&bytes), Duration::from_mins(5));
    assert_eq!(Message::decode(&bytes).unwrap(), put);
    let bytes = put.encode_patient(Span::from_secs(1 << 40));
    assert_eq!(Message::patience(&bytes), PATIENCE_MAX);
    assert_eq!(Message::patience(b""), Duration::ZERO);
    assert_eq!(Message::patience(b"\x02\xff"), Duration::ZERO);
}

#[test]
fn o9_how_many_lanes_are_wanted_stands_where_older_programs_do_not_look() {
    let put = Message::Room { lack: None };
    let bytes = put.encode_with(&(300u64, 4u8));
    assert_eq!(Message::patience(&bytes), Duration::from_mins(5));
    assert_eq!(Message::more(&bytes), Some((300u64, 4u8)));
    assert_eq!(Message::decode(&bytes).unwrap(), put);
    // What an older client says has none.
    let old = put.encode_patient(Span::from_secs(300));
    assert_eq!(Message::more::<(u64, u8)>(&old), None);
    let get = put.encode_with(&(true, 4u8));
    assert_eq!(Message::more(&get), Some(true));
    assert_eq!(
        Message::more::<(bool, u8)>(&put.encode_with(&true)),
        None::<(bool, u8)>
    );
    for (said, wanted) in [(None, 1), (Some(0), 1), (Some(4), 4), (Some(255), MOST)] {
        assert_eq!(crate::lanes::wanted(said), wanted);
    }
}

#[test]
fn o9_messages_of_neighbouring_versions_are_understood() {
    let room = Message::Room { lack: None };
    let bytes = room.encode();
    // A newer one says more, which is passed over.
    let newer = [&[VERSION + 1], &bytes[1..], &[7, 7, 7]].concat();
    assert_eq!(Message::decode(&newer).unwrap(), room);
    // An older one says less, which is zero: here the last field is cut off.
    let ready = Message::Ready {
        object: ObjectId::new(3),
        held: (&RangeSet::new()).into(),
        values: true,
        changed: None,
    };
    let bytes = ready.encode();
    assert_eq!(Message::decode(&bytes[..bytes.len() - 1]).unwrap(), ready);
    // What only a newer one knows is told apart from nonsense.
    let version = VERSION + 1;
    assert_eq!(
        Message::decode(&[version, 120, 1]),
        Err(DecodeError::Unknown { version })
    );
    assert_eq!(
        Message::decode(&[VERSION, 120, 1]),
        Err(DecodeError::Nonsense)
    );
}

#[test]
fn o9_of_versions_that_are_too_far_apart_only_failures_are_read() {
    for version in [0, OLDEST - 1, VERSION + 2, 255] {
        let bytes = [&[version], &Message::Room { lack: None }.encode()[1..]].concat();
        assert_eq!(
            Message::decode(&bytes),
            Err(DecodeError::TooFar { version })
        );
        let fail = Message::fail(FailureKind::Protocol, "I am howdah 9.1.0");
        let bytes = [&[version], &fail.encode()[1..]].concat();
        assert_eq!(Message::decode(&bytes), Ok(fail));
    }
    assert_eq!(Message::decode(b""), Err(DecodeError::Empty));
    assert_eq!(Message::decode(&[VERSION]), Err(DecodeError::Nonsense));
}

#[test]
fn o9_why_bytes_were_sent_again_stands_where_older_programs_do_not_look() {
    let side = SideReport {
        repeats: Repeats {
            tail_bytes: 7,
            refused_bytes: 9,
        },
        ..SideReport::default()
    };
    let thanks = Message::Thanks { side };
    assert_eq!(Message::decode(&thanks.encode()).unwrap(), thanks);
    let mut older = thanks.encode();
    older.truncate(older.len() - 2);
    let side = SideReport::default();
    assert_eq!(Message::decode(&older).unwrap(), Message::Thanks { side });
}

#[test]
fn a_text_is_cut_between_characters() {
    let long = "a".to_owned() + &"ä".repeat(MAX_TEXT);
    let Message::Fail { message, .. } = Message::fail(FailureKind::Io, &long) else {
        unreachable!("another message")
    };
    assert_eq!(message.len(), MAX_TEXT - 1);
    assert_eq!(shown("full\u{1b}[2J\n"), "full[2J");
}

fn path() -> impl Strategy<Value = PathBytes> {
    vec(any::<u8>(), 0..9).prop_map(|bytes| PathBytes::from(&*bytes))
}

fn source() -> impl Strategy<Value = SourceIdentity> {
    let all = any::<(u64, (i64, u32), (i64, u32), u64)>();
    all.prop_map(|(size, mtime, ctime, inode)| SourceIdentity {
        size,
        mtime,
        ctime,
        inode,
    })
}

fn group_set() -> impl Strategy<Value = RangeSet> {
    vec((0..50u64, 1..9u64), 0..6).prop_map(|ranges| {
        let all = ranges.into_iter();
        let mut set = RangeSet::new();
        for (start, len) in all {
            set.insert(ByteRange::with_len(start * GROUP, len * GROUP));
        }
        set
    })
}

fn ranges() -> impl Strategy<Value = WireRanges> {
    group_set().prop_map(|set| WireRanges::from(&set))
}

fn held() -> impl Strategy<Value = WireHeld> {
    (source(), group_set()).prop_map(|(source, set)| WireHeld::new(source, &set))
}

fn side() -> impl Strategy<Value = SideReport> {
    let numbers = any::<([u64; 5], u16, u8, bool, bool, u64)>();
    (0.0..1e9, numbers).prop_map(|(cpu_seconds, (n, mtu, bottleneck, hashed, reread, rtt))| {
        SideReport {
            cpu_seconds,
            peak_rss_bytes: n[0],
            wire_bytes: n[1],
            repeated_bytes: n[2],
            packets_acked: n[3],
            packets_lost: n[4],
            rtt_min_us: rtt,
            mtu,
            bottleneck,
            hashed,
            reread,
            repeats: Repeats::default(),
        }
    })
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let rule = ("\\PC{0,6}", any::<bool>(), any::<bool>());
    let rule = rule.prop_map(|(pattern, include, listed)| Rule {
        include,
        pattern,
        listed,
    });
    vec(rule, 0..4)
}

fn options() -> impl Strategy<Value = TreeOptions> {
    let list = option::of(vec(vec(any::<u8>(), 1..9), 0..4));
    (rules(), list, any::<[bool; 6]>(), any::<Option<u64>>()).prop_map(
        |(rules, files, flags, number)| TreeOptions {
            contents: flags[0],
            recursive: flags[1],
            archive: flags[2],
            delete: flags[3],
            mirror: flags[4],
            growing: flags[5],
            max_delete: number,
            backup_dir: number.map(|n| n.to_string()),
            rules: rules.into(),
            files: files.map(|files| files.into_iter().collect::<PathList>()),
            ..TreeOptions::default()
        },
    )
}

fn report() -> impl Strategy<Value = TreeReport> {
    (any::<[u64; 3]>(), vec("\\PC{0,6}", 0..3)).prop_map(|(n, notes)| TreeReport {
        files: n[0],
        bytes: n[1],
        linked: n[2],
        notes,
        ..TreeReport::default()
    })
}

fn request() -> impl Strategy<Value = FilesRequest> {
    let version =
        any::<(u64, (i64, u32), (i64, u32), u64)>().prop_map(|(size, modified, changed, inode)| {
            FileVersion {
                size,
                modified,
                changed,
                inode,
            }
        });
    let file = (path(), option::of(path()), any::<u64>(), any::<[u8; 32]>()).prop_map(
        |(path, at, bytes, blake3)| AttestedFile {
            path,
            at,
            bytes,
            blake3,
        },
    );
    prop_oneof![
        path().prop_map(|path| FilesRequest::Stat { path }),
        path().prop_map(|path| FilesRequest::List { path }),
        (path(), option::of(version), vec(any::<(u64, u64)>(), 0..4)).prop_map(
            |(path, version, ranges)| FilesRequest::Read {
                path,
                version,
                ranges
            }
        ),
        path().prop_map(|path| FilesRequest::Hash { path }),
        (path(), any::<bool>()).prop_map(|(path, parents)| FilesRequest::MakeDir { path, parents }),
        (path(), any::<bool>()).prop_map(|(path, is_dir)| FilesRequest::Remove { path, is_dir }),
        (path(), path()).prop_map(|(path, to)| FilesRequest::Rename { path, to }),
        (path(), any::<u32>(), vec(file, 0..3))
            .prop_map(|(place, part, files)| FilesRequest::Attest { place, part, files }),
        (path(), vec(any::<u8>(), 0..9))
            .prop_map(|(place, statement)| FilesRequest::Sign { place, statement }),
    ]
}

fn object() -> impl Strategy<Value = ObjectId> {
    any::<u64>().prop_map(ObjectId::new)
}

fn of_file() -> impl Strategy<Value = Message> {
    let flags = any::<[bool; 3]>();
    prop_oneof![
        (
            (object(), path(), option::of(path())),
            (any::<Option<u64>>(), option::of(source())),
            (flags, any::<Option<u32>>()),
        )
            .prop_map(|((object, path, name), (size, source), (flags, mode))| {
                Message::Put {
                    object,
                    path,
                    name,
                    size,
                    hash: flags[0],
                    source,
                    resume: flags[1],
                    reread: flags[2],
                    mode,
                }
            }),
        (path(), any::<Option<u64>>(), option::of(held()), flags).prop_map(
            |(path, window_end, held, flags)| Message::Get {
                path,
                window_end,
                hash: flags[0],
                held,
                values: flags[1],
            }
        ),
        (
            (object(), any::<Option<u64>>(), option::of(source())),
            (flags, any::<Option<u32>>()),
        )
            .prop_map(|((object, size, source), (flags, mode))| Message::Sending {
                object,
                size,
                hash: flags[0],
                source,
                resumed: flags[1],
                mode,
            }),
        (object(), any::<u64>(), any::<Option<[u8; 32]>>()).prop_map(|(object, size, blake3)| {
            Message::End {
                object,
                size,
                blake3,
            }
        }),
        (object(), side()).prop_map(|(object, side)| Message::Done { object, side }),
        side().prop_map(|side| Message::Thanks { side }),
        (any::<u8>(), "\\PC{0,9}").prop_map(|(kind, message)| Message::Fail { kind, message }),
        (object(), ranges(), any::<bool>(), option::of("\\PC{0,9}")).prop_map(
            |(object, held, values, changed)| Message::Ready {
                object,
                held,
                values,
                changed,
            }
        ),
        (object(), any::<u64>(), vec(any::<[u8; 32]>(), 0..3)).prop_map(
            |(object, first, values)| Message::Values {
                object,
                first,
                values,
            }
        ),
        (object(), ranges()).prop_map(|(object, ranges)| Message::Holes { object, ranges }),
        option::of("\\PC{0,9}").prop_map(|lack| Message::Room { lack }),
    ]
}

fn of_tree() -> impl Strategy<Value = Message> {
    prop_oneof![
        ((object(), object(), any::<bool>()), path(), options()).prop_map(
            |((manifest, packs, several), path, options)| Message::TreePut {
                manifest,
                packs,
                path,
                several,
                options,
            }
        ),
        object().prop_map(|answers| Message::TreeAccepted { answers }),
        (object(), vec(path(), 0..3), options()).prop_map(|(answers, paths, options)| {
            Message::TreeGet {
                answers,
                paths,
                options,
            }
        }),
        (object(), object()).prop_map(|(manifest, packs)| Message::TreeComes { manifest, packs }),
        (object(), any::<[u64; 2]>(), option::of(source())).prop_map(
            |(object, [index, size], source)| {
                Message::TreeFile {
                    object,
                    index,
                    size,
                    source,
                }
            }
        ),
        object().prop_map(|object| Message::TreeFileMissing { object }),
        (object(), any::<bool>())
            .prop_map(|(object, stored)| Message::TreeSettled { object, stored }),
        (side(), report(), any::<Option<bool>>()).prop_map(|(side, report, renamed)| {
            Message::TreeDone {
                side,
                report,
                renamed,
            }
        }),
        (side(), report()).prop_map(|(side, report)| Message::TreeThanks { side, report }),
        (object(), path(), options()).prop_map(|(answers, path, options)| Message::TreeVerify {
            answers,
            path,
            options,
        }),
        vec(any::<(u64, u64)>(), 0..4).prop_map(|runs| Message::TreePlaced { runs }),
        (
            vec(path(), 0..3),
            rules(),
            vec(vec(any::<u8>(), 0..5), 0..3)
        )
            .prop_map(|(paths, rules, files)| Message::Selection(Selection {
                paths,
                rules,
                files
            })),
    ]
}

fn of_neither() -> impl Strategy<Value = Message> {
    let policy = prop_oneof![
        Just(WirePolicy::Fair),
        Just(WirePolicy::Background),
        any::<u64>().prop_map(|rate_bps| WirePolicy::Fixed { rate_bps }),
    ];
    let finding =
        (path(), any::<(u32, bool, u64, u8)>()).prop_map(|(path, (of, is_dir, bytes, fate))| {
            Finding {
                of,
                path,
                is_dir,
                bytes,
                fate,
            }
        });
    let clean =
        (path(), any::<(bool, Option<i64>)>()).prop_map(|(path, (dry_run, modified_until))| {
            Question::Clean {
                path,
                dry_run,
                modified_until,
            }
        });
    prop_oneof![
        (policy, any::<(Option<u64>, bool, u16)>()).prop_map(
            |(policy, (limit_bps, paused, share_of))| Message::Pace(Pace {
                policy,
                limit_bps,
                paused,
                share_of,
            })
        ),
        vec(path(), 0..3).prop_map(|patterns| Message::Ask(Question::Expand { patterns })),
        clean.prop_map(Message::Ask),
        vec(finding, 0..3).prop_map(Message::Findings),
        (any::<[u64; 4]>(), vec("\\PC{0,9}", 0..3)).prop_map(
            |([names, bytes, in_use, failed], notes)| Message::Answered(Sum {
                names,
                bytes,
                in_use,
                failed,
                notes,
            })
        ),
        Just(Message::OpenFiles),
        object().prop_map(|answers| Message::FilesOpen { answers }),
        vec((any::<u64>(), request()), 0..3).prop_map(Message::AskFiles),
        any::<([u8; 32], u8)>().prop_map(|(token, most)| Message::Lanes { token, most }),
        (any::<[u8; 32]>(), object()).prop_map(|(token, object)| Message::Join { token, object }),
        object().prop_map(|object| Message::Joined { object }),
    ]
}

proptest! {
    #[test]
    fn any_bytes_decode_or_fail(bytes in vec(any::<u8>(), 0..200)) {
        let _ = Message::decode(&bytes);
    }

    /// What one side says is what the other one hears, also where it is of the next version and says more.
    #[test]
    fn messages_come_back_as_they_were(message in prop_oneof![of_file(), of_tree(), of_neither()]) {
        let bytes = message.encode();
        prop_assert_eq!(&Message::decode(&bytes).unwrap(), &message);
        let newer = [&[VERSION + 1], &bytes[1..], &[1; 9]].concat();
        let heard = Message::decode(&newer).unwrap();
        match (heard, &message) {
            // What stands behind these is known.
            (Message::Thanks { .. }, Message::Thanks { .. })
            | (Message::TreeThanks { .. }, Message::TreeThanks { .. }) => {}
            (heard, message) => prop_assert_eq!(&heard, message),
        }
    }

    /// What is heard at all is said again in words that mean the same.
    #[test]
    fn what_was_understood_is_written_as_it_was_meant(
        message in prop_oneof![of_file(), of_tree(), of_neither()],
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = message.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(heard) = Message::decode(&bytes) {
            let again = Message::decode(&heard.encode()).expect("we wrote it");
            prop_assert_eq!(again.encode(), heard.encode());
        }
    }
}
