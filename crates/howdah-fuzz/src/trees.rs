//! A receiver of trees, on a real disk, whose sender is anybody: nothing has a name that was not asked for, nothing that was
//! there has changed, and a name has no other content than the one that was told for it.

use crate::keys::scratch;
use crate::structured;
use arbitrary::Arbitrary;
use howdah_session::fuzzing::{gate_samples, manifest_of_files};
use howdah_session::{TreeOptions, TreeReport};
use howdah_store::StoreError;
use howdah_tree::{ReceiverEnds, TreeReceiver, TreeTarget};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A receiver that says nothing for so long hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest stream, in bytes: both fit into the pipes.
const MAX: usize = 1 << 18;

/// Gives a receiver these streams, and waits until it has done what it does with them.
fn receive(
    target: TreeTarget,
    options: &TreeOptions,
    manifest: &[u8],
    packs: &[u8],
) -> Result<TreeReport, StoreError> {
    let (wake, wakes) = channel();
    let wake: howdah_store::Wake = Arc::new(move || {
        let _ = wake.send(());
    });
    let (mut receiver, ends) = TreeReceiver::start(target, true, options, false, wake)?;
    let ReceiverEnds {
        manifest: mut to_manifest,
        packs: mut to_packs,
        mut answers,
    } = ends;
    // Whoever sends does not wait for words.
    let listener = std::thread::spawn(move || io::copy(&mut answers, &mut io::sink()));
    // An error here is the receiver's, which says itself what it is.
    let _ = to_manifest.write_all(&manifest[..manifest.len().min(MAX)]);
    let _ = to_packs.write_all(&packs[..packs.len().min(MAX)]);
    drop((to_manifest, to_packs));
    let since = Instant::now();
    let outcome = loop {
        if let Some(outcome) = receiver.poll_outcome() {
            break outcome;
        }
        assert!(since.elapsed() < PATIENCE, "it hangs");
        let _ = wakes.recv_timeout(Duration::from_millis(20));
    };
    // Nothing is written behind our backs.
    for thread in receiver.stop() {
        assert!(thread.join().is_ok(), "a thread has panicked");
    }
    let _ = listener.join();
    outcome
}

/// Also where a mode that was asked for keeps its owner out, who may change that.
fn opened<T>(path: &Path, read: impl Fn(&Path) -> io::Result<T>) -> T {
    let found = read(path).or_else(|_| {
        fs::set_permissions(path, Permissions::from_mode(0o700))?;
        read(path)
    });
    found.expect("it is there")
}

/// What is told of everything below a directory: kind, mode, and the content or where it leads.
fn picture(dir: &Path) -> BTreeMap<OsString, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    let entries = |dir: &Path| {
        let entries = fs::read_dir(dir)?.map(|entry| {
            let entry = entry?;
            let meta = fs::symlink_metadata(entry.path())?;
            Ok((entry.file_name(), entry.path(), meta))
        });
        entries.collect::<io::Result<Vec<_>>>()
    };
    for (name, path, meta) in opened(dir, entries) {
        let content = if meta.is_symlink() {
            fs::read_link(&path)
                .expect("a link")
                .into_os_string()
                .into_encoded_bytes()
        } else if meta.is_dir() {
            format!("{:?}", picture(&path)).into_bytes()
        } else {
            opened(&path, |path| fs::read(path))
        };
        all.insert(name, (meta.mode(), content));
    }
    all
}

const ASKED: [&str; 2] = ["a", "photos"];

/// The first byte says how the copy was asked for, the second how long the manifest is; the rest are the streams.
pub fn receiver(bytes: &[u8]) {
    let [flags, len, rest @ ..] = bytes else {
        return;
    };
    let (manifest, packs) = rest.split_at(rest.len().min(usize::from(*len) * 2));
    let dir = scratch();
    let (home, outside) = (dir.path().join("home"), dir.path().join("outside"));
    for dir in [&home, &outside, &home.join(".ssh")] {
        fs::create_dir(dir).expect("room");
    }
    for file in [
        outside.join("secret"),
        home.join(".ssh/authorized_keys"),
        home.join("keep"),
        home.join("x.key"),
    ] {
        fs::write(file, "mine").expect("room");
    }
    symlink("../outside", home.join("photos")).expect("room");
    symlink("../outside/secret", home.join("b")).expect("room");
    let (was_home, was_outside) = (picture(&home), picture(&outside));
    let contents = flags & 4 != 0;
    let options = TreeOptions {
        recursive: flags & 1 != 0,
        archive: flags & 2 != 0,
        contents,
        dry_run: flags & 8 != 0,
        mirror: flags & 16 != 0,
        update: flags & 32 != 0,
        ..TreeOptions::default()
    };
    let add_only = flags & 64 != 0;
    let Ok(target) = TreeTarget::local(&home) else {
        panic!("a directory is a target");
    };
    let target = target
        .expecting(ASKED.map(OsString::from))
        .add_only(add_only);
    let _ = receive(target, &options, manifest, packs);
    assert_eq!(picture(&outside), was_outside, "it led outside");
    let home = picture(&home);
    if options.dry_run {
        assert_eq!(home, was_home, "a dry run");
        return;
    }
    for (name, was) in &was_home {
        let may_be_replaced = !add_only && (contents || ASKED.iter().any(|asked| name == asked));
        assert!(
            may_be_replaced || home.get(name) == Some(was),
            "{}",
            name.display()
        );
    }
    for name in home.keys() {
        let is_known = was_home.contains_key(name) || ASKED.iter().any(|asked| name == asked);
        assert!(
            contents || is_known || name == ".howdah-unfinished",
            "{}",
            name.display()
        );
        assert!(
            !name.as_encoded_bytes().ends_with(b".howdah-part"),
            "left behind"
        );
    }
}

pub(crate) fn receiver_samples() -> Vec<Vec<u8>> {
    // The manifests of the gate, without the requests before them.
    let samples = gate_samples();
    let manifests = samples.iter().take(3).map(|sample| &sample[3..]);
    let mut all = Vec::new();
    for manifest in manifests {
        for flags in [1, 3, 5, 7, 1 | 64] {
            all.push([&[flags, 255][..], manifest].concat());
        }
    }
    all
}

#[derive(Arbitrary, Debug)]
struct Told {
    name: u8,
    len: u8,
}

#[derive(Arbitrary, Debug)]
enum Record<'a> {
    /// The next file, as it was told or otherwise.
    File {
        fill: u8,
        len: u8,
        honest: bool,
        newer: bool,
    },
    Missing {
        index: u8,
    },
    Any(&'a [u8]),
    End,
}

const END: u8 = 0;
const FILE: u8 = 1;
const MISSING: u8 = 2;
const NEWER: u8 = 3;

/// Honest manifests and any packs: a file has a content that came with its hash, in its turn, or none.
pub fn packs(bytes: &[u8]) {
    let Some((told, records)) = structured::<(Vec<Told>, Vec<Record<'_>>)>(bytes) else {
        return;
    };
    let mut files: Vec<(String, u64)> = told
        .iter()
        .take(6)
        .map(|told| (format!("f{:03}", told.name), told.len.into()))
        .collect();
    files.sort();
    files.dedup_by(|a, b| a.0 == b.0);
    let manifest = manifest_of_files(&files);
    let mut packs = vec![1];
    // Contents that came whole and with their own hashes: any of them may have become a file.
    let mut honest = vec![Vec::new()];
    let mut is_plain = true;
    for record in records.iter().take(32) {
        match *record {
            Record::File {
                fill,
                len,
                honest: is_honest,
                newer,
            } => {
                let content = vec![fill; len.into()];
                packs.push(if newer { NEWER } else { FILE });
                if newer {
                    packs.extend(1_000_000_000i64.to_be_bytes());
                    packs.extend(7u32.to_be_bytes());
                }
                let len = u8::min(len, 0x7f);
                let content = content[..len.into()].to_vec();
                packs.push(len);
                let hash = *blake3::hash(&content).as_bytes();
                packs.extend(if is_honest { hash } else { [fill; 32] });
                packs.extend(&content);
                honest.push(content);
            }
            Record::Missing { index } => {
                packs.push(MISSING);
                packs.push(index & 0x7f);
            }
            Record::Any(bytes) => {
                packs.extend_from_slice(bytes);
                is_plain &= bytes.is_empty();
            }
            Record::End => packs.push(END),
        }
    }
    let dir = scratch();
    let home = dir.path().join("home");
    fs::create_dir(&home).expect("room");
    let Ok(target) = TreeTarget::local(&home) else {
        panic!("a directory is a target");
    };
    let target = target.expecting(files.iter().map(|(name, _)| name.into()));
    let outcome = receive(target, &TreeOptions::default(), &manifest, &packs);
    let there = picture(&home);
    for (name, (_, content)) in &there {
        if name == ".howdah-unfinished" {
            continue;
        }
        assert!(
            files.iter().any(|(told, _)| name == told.as_str()),
            "{}",
            name.display()
        );
        assert!(
            !is_plain || honest.contains(content),
            "{} has another content",
            name.display()
        );
    }
    if let Ok(report) = outcome {
        assert!(report.files as usize <= there.len());
        assert!(report.failed > 0 || there.len() >= report.files as usize);
    }
}

pub(crate) fn packs_samples() -> Vec<Vec<u8>> {
    // Any bytes are something: what helps here is that there are some.
    (0..4u8)
        .map(|n| {
            (0..60u8)
                .map(|at| at.wrapping_mul(37).wrapping_add(n.wrapping_mul(91)))
                .collect()
        })
        .collect()
}
