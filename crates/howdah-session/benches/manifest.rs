//! How long a record of a manifest takes, written and read.
//!
//! `cargo bench -p howdah-session`. Each case runs nine times and the best counts.

use howdah_session::entry::{Entry, Meta, Stamp};
use howdah_session::{Asked, Filter, Gate, ManifestDecoder, ManifestEncoder, Rule, TreeOptions};
use std::hint::black_box;
use std::time::Instant;

const DIRECTORIES: u32 = 200;
const FILES: u32 = 1_000;
/// What a pipe gives at a time.
const PIECE: usize = 60_000;

fn tree() -> Vec<Entry> {
    let mut entries = Vec::new();
    for directory in 0..DIRECTORIES {
        entries.push(Entry::Dir {
            name: format!("run-{directory:05}").into_bytes(),
            meta: Meta::default(),
        });
        entries.extend((0..FILES).map(|file| Entry::File {
            name: format!("IMG_{file:08}.jpg").into_bytes(),
            size: u64::from(file) * 7_919,
            meta: Meta {
                mode: 0o644,
                mtime: Stamp {
                    secs: 1_700_000_000 + i64::from(file),
                    nanos: file * 1_000,
                },
                owner: Some((1_000, 1_000)),
                xattrs: Vec::new(),
            },
            link: None,
            hash: None,
        }));
        entries.push(Entry::Up { complete: true });
    }
    entries.push(Entry::End { complete: true });
    entries
}

fn report(what: &str, records: usize, mut run: impl FnMut()) {
    #[expect(clippy::disallowed_methods, reason = "it measures")]
    let time = |run: &mut dyn FnMut()| {
        let began = Instant::now();
        run();
        began.elapsed()
    };
    let best = (0..9).map(|_| time(&mut run)).min().unwrap_or_default();
    let each = best.as_secs_f64() * 1e9 / records as f64;
    println!("{what:<34} {each:>7.1} ns a record");
}

fn main() {
    let entries = tree();
    let mut bytes = Vec::new();
    howdah_session::wire::put_version(&mut bytes);
    let mut encoder = ManifestEncoder::default();
    for entry in &entries {
        encoder.encode(entry, &mut bytes);
    }
    println!("{} records in {} bytes", entries.len(), bytes.len());

    report("written", entries.len(), || {
        let (mut encoder, mut out) = (ManifestEncoder::default(), Vec::new());
        for entry in &entries {
            out.clear();
            encoder.encode(entry, &mut out);
            black_box(&out);
        }
    });
    report("read, in pieces", entries.len(), || {
        let (mut decoder, mut waiting) = (ManifestDecoder::default(), Vec::new());
        for piece in bytes.chunks(PIECE) {
            waiting.extend_from_slice(piece);
            let mut rest = &waiting[..];
            while let Ok(Some(entry)) = decoder.decode(&mut rest) {
                black_box(&entry);
            }
            let read = waiting.len() - rest.len();
            waiting.drain(..read);
        }
        assert!(waiting.is_empty());
    });
    let options = TreeOptions {
        contents: true,
        rules: ["*.o", "/private/", "build"]
            .map(|pattern| Rule {
                include: false,
                pattern: pattern.to_owned(),
                listed: false,
            })
            .into_iter()
            .collect(),
        ..TreeOptions::default()
    };
    for (what, options) in [
        (
            "let through the gate",
            TreeOptions {
                rules: Vec::new().into(),
                ..options.clone()
            },
        ),
        ("let through the gate and rules", options),
    ] {
        let Ok(filter) = Filter::new(&options) else {
            panic!("the rules are some");
        };
        report(what, entries.len(), || {
            let mut gate = Gate::new(Asked::Anything);
            let passed = |entry| gate.admit(entry, &options, &filter).is_ok();
            assert!(entries.iter().all(passed));
        });
    }
}
