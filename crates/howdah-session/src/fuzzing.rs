//! What `howdah-fuzz` calls: messages, the streams of a tree, and the gate that everything in one must pass. Each takes any bytes and panics
//! where something is true that must never be.

mod message;

pub use message::{message, message_samples};

use crate::entry::{Entry, Meta, bounds};
use crate::wire::put_version;
use crate::{
    Answer, AnswerEncoder, Asked, Change, Filter, Gate, ManifestDecoder, ManifestEncoder, Rule,
    TreeOptions, decode_answer,
};
use std::ffi::OsString;

/// What is in a stream up to its end or its first mistake.
fn entries(mut bytes: &[u8]) -> Vec<Entry> {
    let mut decoder = ManifestDecoder::default();
    let mut entries = Vec::new();
    while let Ok(Some(entry)) = decoder.decode(&mut bytes) {
        let is_end = matches!(entry, Entry::End { .. });
        entries.push(entry);
        if is_end {
            break;
        }
    }
    entries
}

/// The same of bytes that come one by one.
fn crumbs(bytes: &[u8]) -> Vec<Entry> {
    let mut decoder = ManifestDecoder::default();
    let (mut entries, mut start) = (Vec::new(), 0);
    for end in 1..=bytes.len() {
        let mut rest = &bytes[start..end];
        match decoder.decode(&mut rest) {
            Ok(None) => {}
            Ok(Some(entry)) => {
                let is_end = matches!(entry, Entry::End { .. });
                entries.push(entry);
                if is_end {
                    break;
                }
            }
            Err(_) => break,
        }
        start = end - rest.len();
    }
    entries
}

fn written(entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_version(&mut bytes);
    let mut encoder = ManifestEncoder::default();
    for entry in entries {
        encoder.encode(entry, &mut bytes);
    }
    bytes
}

fn name_of(entry: &Entry) -> Option<(&[u8], bool)> {
    match entry {
        Entry::Dir { name, .. } => Some((name, true)),
        Entry::File { name, .. }
        | Entry::Symlink { name, .. }
        | Entry::Link { name, .. }
        | Entry::Kept { name }
        | Entry::Other { name, .. }
        | Entry::Ahead { name } => Some((name, false)),
        _ => None,
    }
}

/// Nothing that is read leads out of its directory, is told twice or is larger than it may be; and it is written so that
/// it reads the same.
pub fn manifest(bytes: &[u8]) {
    let read = entries(bytes);
    let mut path: Vec<&[u8]> = Vec::new();
    // In each directory: the last name that is none of a directory, and the last one that is.
    let mut last: Vec<[Option<&[u8]>; 2]> = vec![[None; 2]];
    for entry in &read {
        if let Some((name, is_dir)) = name_of(entry) {
            assert!(!name.is_empty() && name != b"." && name != b"..");
            assert!(!name.contains(&b'/') && !name.contains(&0));
            assert!(name.len() <= bounds::NAME);
            let [others, dirs] = last.last_mut().expect("inside of the top");
            assert!(is_dir || dirs.is_none(), "a name behind directories");
            let before = if is_dir { dirs } else { others };
            assert!(before.is_none_or(|before| before < name), "not in order");
            *before = Some(name);
            let above: usize = path.iter().map(|part| part.len() + 1).sum();
            assert!(above + name.len() <= bounds::PATH);
        }
        match entry {
            Entry::Dir { name, .. } => {
                path.push(name);
                last.push([None; 2]);
                assert!(path.len() <= bounds::DEPTH + 1);
            }
            Entry::Up { .. } => {
                assert!(path.pop().is_some(), "it leaves the top");
                last.pop();
            }
            Entry::File { size, .. } => assert!(*size <= bounds::SIZE),
            Entry::Symlink { target, .. } => {
                assert!(!target.is_empty() && target.len() <= bounds::TARGET);
                assert!(!target.contains(&0));
            }
            Entry::End { .. } => assert!(path.is_empty()),
            _ => {}
        }
    }
    assert_eq!(entries(&written(&read)), read);
    assert_eq!(crumbs(bytes), read);
}

/// What is answered is written so that it reads the same.
pub fn answers(bytes: &[u8]) {
    let read = |mut bytes: &[u8]| {
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = decode_answer(&mut bytes) {
            let is_end = answer == Answer::End;
            answers.push(answer);
            if is_end {
                break;
            }
        }
        answers
    };
    let (mut encoder, mut out) = (AnswerEncoder::default(), Vec::new());
    let mut merged: Vec<Answer> = Vec::new();
    for answer in read(bytes) {
        match answer {
            Answer::Files { wanted, count } => {
                assert!(count > 0, "an answer about nothing");
                // A count is a number to the reader, and work to this writer.
                let count = count.min(1_000);
                for _ in 0..count {
                    encoder.file(wanted, &mut out);
                }
                match merged.last_mut() {
                    Some(Answer::Files {
                        wanted: before,
                        count: so_far,
                    }) if *before == wanted => *so_far += count,
                    _ => merged.push(Answer::Files { wanted, count }),
                }
            }
            Answer::Note(change) => {
                let path = Change::told_path(&change.path);
                assert!(path.len() <= bounds::NOTE);
                assert!(!change.reasons.words().is_empty() || change.reasons.is_empty());
                encoder.note(&change, &mut out);
                merged.push(Answer::Note(change));
            }
            Answer::End => merged.push(Answer::End),
        }
    }
    match merged.last() {
        Some(Answer::End) => encoder.end(&mut out),
        _ => encoder.end_run(&mut out),
    }
    assert_eq!(read(&out), merged);
}

const NAMES: [&str; 8] = ["a", "b", "photos", ".ssh", "a b", "x.key", "B", "keep"];

fn pick(byte: u8) -> &'static str {
    NAMES[usize::from(byte) % NAMES.len()]
}

/// A rule whose meaning this module knows without compiling it.
struct Plain {
    include: bool,
    anchored: bool,
    only_dirs: bool,
    parts: Vec<&'static str>,
}

impl Plain {
    fn rule(&self) -> Rule {
        let pattern = format!(
            "{}{}{}",
            if self.anchored { "/" } else { "" },
            self.parts.join("/"),
            if self.only_dirs { "/" } else { "" },
        );
        Rule {
            include: self.include,
            pattern,
            listed: false,
        }
    }

    fn matches(&self, path: &[Vec<u8>], is_dir: bool) -> bool {
        let parts = self.parts.iter().map(|part| part.as_bytes());
        let enough = self.parts.len() <= path.len();
        let tail = &path[path.len().saturating_sub(self.parts.len())..];
        (is_dir || !self.only_dirs)
            && enough
            && (!self.anchored || self.parts.len() == path.len())
            && tail.iter().map(Vec::as_slice).eq(parts)
    }
}

/// What was requested, as far as this module can say what it means.
struct Request {
    options: TreeOptions,
    asked: Option<Vec<&'static str>>,
    rules: Vec<Plain>,
    listed: Option<Vec<Vec<&'static str>>>,
}

impl Request {
    /// From the first bytes, which it takes away.
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut next = || {
            let (&first, rest) = bytes.split_first()?;
            *bytes = rest;
            Some(first)
        };
        let flags = next()?;
        let asked = next()?;
        let copy_links = next()? & 1 != 0;
        let asked = NAMES.iter().enumerate().filter_map(|(bit, name)| {
            let is_asked = asked & 1 << bit != 0;
            is_asked.then_some(*name)
        });
        let asked = (flags & 0x80 == 0).then(|| asked.collect());
        let mut rules = Vec::new();
        for _ in 0..flags >> 3 & 3 {
            let (how, first, second) = (next()?, next()?, next()?);
            let mut parts = vec![pick(first)];
            if how & 8 != 0 {
                parts.push(pick(second));
            }
            rules.push(Plain {
                include: how & 1 != 0,
                anchored: how & 2 != 0,
                only_dirs: how & 4 != 0,
                parts,
            });
        }
        let listed = if flags & 0x20 != 0 {
            let mut paths = Vec::new();
            for _ in 0..next()? & 3 {
                paths.push(vec![pick(next()?), pick(next()?)]);
            }
            Some(paths)
        } else {
            None
        };
        let bounds = if flags & 0x40 != 0 {
            Some((next()?, next()?))
        } else {
            None
        };
        let options = TreeOptions {
            recursive: flags & 1 != 0,
            archive: flags & 2 != 0,
            contents: flags & 4 != 0,
            copy_links,
            rules: rules.iter().map(Plain::rule).collect(),
            files: listed.as_ref().map(|paths: &Vec<Vec<&str>>| {
                let paths = paths.iter().map(|path| path.join("/").into_bytes());
                paths.collect()
            }),
            min_size: bounds.map(|(min, _)| min.into()),
            max_size: bounds.map(|(_, max)| max.into()),
            ..TreeOptions::default()
        };
        Some(Self {
            options,
            asked,
            rules,
            listed,
        })
    }

    /// Whether the rules and the list leave a path in, all above it included.
    fn takes(&self, path: &[Vec<u8>], is_dir: bool) -> bool {
        let from = usize::from(!self.options.contents) + 1;
        (from..=path.len()).all(|len| {
            let part = &path[..len];
            let is_dir = is_dir || len < path.len();
            let rule = self.rules.iter().find(|rule| rule.matches(part, is_dir));
            let is_listed = |listed: &Vec<Vec<&str>>| {
                listed.iter().any(|path| {
                    let path: Vec<_> = path.iter().map(|part| part.as_bytes().to_vec()).collect();
                    part.starts_with(&path) || is_dir && path.starts_with(part)
                })
            };
            rule.is_none_or(|rule| rule.include) && self.listed.as_ref().is_none_or(is_listed)
        })
    }
}

/// Whatever passes the gate was requested. The first bytes are the request, the others a manifest.
pub fn gate(bytes: &[u8]) {
    let mut rest = bytes;
    let Some(request) = Request::take(&mut rest) else {
        return;
    };
    let filter = Filter::new(&request.options).expect("plain names are patterns");
    let asked = match &request.asked {
        Some(names) => Asked::Names(names.iter().map(OsString::from).collect()),
        None => Asked::Anything,
    };
    let options = &request.options;
    let mut gate = Gate::new(asked);
    let mut path: Vec<Vec<u8>> = Vec::new();
    for entry in entries(rest) {
        if gate.admit(&entry, options, &filter).is_err() {
            // The copy ends there.
            break;
        }
        if let Entry::Up { .. } = entry {
            assert!(path.pop().is_some(), "it leaves what was asked for");
        }
        if let Entry::Top { .. } = entry {
            assert!(
                options.contents && path.is_empty(),
                "a top nobody asked for"
            );
        }
        let Some((name, is_dir)) = name_of(&entry) else {
            continue;
        };
        path.push(name.to_vec());
        if matches!(
            entry,
            Entry::Dir { .. } | Entry::File { .. } | Entry::Symlink { .. } | Entry::Link { .. }
        ) {
            if let Some(names) = &request.asked
                && !options.contents
            {
                let top = names.iter().any(|name| name.as_bytes() == path[0]);
                assert!(top, "{path:?} is not below what was asked for");
            }
            assert!(request.takes(&path, is_dir), "{path:?} was left out");
            assert_ne!(name, b".howdah-unfinished");
            assert!(is_dir || !name.ends_with(b".howdah-part") || !name.starts_with(b"."));
        }
        match &entry {
            Entry::Dir { .. } => assert!(options.recursive || options.contents),
            Entry::Link { .. } => assert!(options.archive),
            Entry::Symlink { .. } => {
                assert!(!options.copy_links, "a link where none is followed");
                assert!(
                    options.recursive || options.contents,
                    "a link where a file was asked for"
                );
            }
            Entry::File { size, link, .. } => {
                assert!(options.archive || link.is_none());
                assert!(options.min_size.is_none_or(|min| *size >= min));
                assert!(options.max_size.is_none_or(|max| *size <= max));
            }
            _ => {}
        }
        if !is_dir {
            path.pop();
        }
    }
}

fn file(name: &str, size: u64) -> Entry {
    Entry::File {
        name: name.into(),
        size,
        meta: Meta {
            mode: 0o644,
            ..Meta::default()
        },
        link: None,
        hash: None,
    }
}

/// The manifest of a sender that has these files and nothing else.
pub fn manifest_of_files(files: &[(String, u64)]) -> Vec<u8> {
    let files = files.iter().map(|(name, size)| file(name, *size));
    let entries: Vec<_> = files.chain([Entry::End { complete: true }]).collect();
    written(&entries)
}

/// One of each kind.
pub fn manifest_samples() -> Vec<Vec<u8>> {
    let meta = Meta {
        mode: 0o755,
        owner: Some((0, 100)),
        xattrs: vec![(b"user.a".to_vec(), b"b".to_vec())],
        ..Meta::default()
    };
    let dir = |name: &str| Entry::Dir {
        name: name.into(),
        meta: Meta::default(),
    };
    let up = || Entry::Up { complete: true };
    let end = || Entry::End { complete: true };
    let linked = Entry::File {
        name: b"first".to_vec(),
        size: 9,
        meta: meta.clone(),
        link: Some(1),
        hash: Some([7; 32]),
    };
    let link = Entry::Link {
        name: b"further".to_vec(),
        link: 1,
        last: true,
    };
    let symlink = Entry::Symlink {
        name: b"sym".to_vec(),
        target: b"../elsewhere".to_vec(),
        meta: Meta::default(),
    };
    let owner = Entry::Owner {
        group: true,
        id: 100,
        name: b"users".to_vec(),
    };
    let top = Entry::Top { meta };
    [
        vec![file("a", 3), dir("photos"), file("x.key", 1), up(), end()],
        vec![
            owner,
            top,
            linked,
            link,
            symlink,
            dir("b"),
            dir("b"),
            up(),
            up(),
            end(),
        ],
        vec![
            Entry::Kept {
                name: b"keep".to_vec(),
            },
            dir(".ssh"),
            file("a b", 200),
            up(),
            end(),
        ],
    ]
    .iter()
    .map(|entries| written(entries))
    .collect()
}

/// Requests before manifests.
pub fn gate_samples() -> Vec<Vec<u8>> {
    let requests: [&[u8]; 6] = [
        &[1, 0b111, 0],
        &[7, 0, 0],
        &[3 | 0x40, 0xff, 1, 0, 100],
        &[5 | 0x08, 0, 0, 0, 5, 0],
        &[1 | 0x10, 0b100, 0, 2, 2, 0, 9, 2, 5],
        &[5 | 0x20, 0, 1, 1, 2, 5],
    ];
    let manifests = manifest_samples();
    let pairs = requests.iter().flat_map(|request| {
        let manifests = manifests.iter();
        manifests.map(|manifest| [request, &manifest[..]].concat())
    });
    pairs.collect()
}

/// Some of each kind, without the version.
pub fn answers_samples() -> Vec<Vec<u8>> {
    let note = |act: u8, path: &[u8]| [&[act << 2 | 2, path.len().to_le_bytes()[0]], path].concat();
    vec![
        vec![1 << 2 | 1, 5 << 2, 3],
        [
            &note(0x10, b"a/b")[..],
            &[7 << 2 | 1],
            &note(0x11, b"c"),
            &[3],
        ]
        .concat(),
        vec![0xfd, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 3],
    ]
}
