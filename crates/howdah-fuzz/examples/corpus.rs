//! Between the corpora in here, a line for each input, and the directories that libFuzzer has:
//! `corpus unpack DIR` writes `DIR/TARGET/...`, `corpus pack DIR` takes from there what fits.

use howdah_fuzz::{TARGETS, corpus};
use std::fs;
use std::path::Path;

fn unpack(dir: &Path) {
    for target in TARGETS {
        let dir = dir.join(target.name);
        fs::create_dir_all(&dir).expect("writable");
        let all = [corpus::read(target.name), (target.samples)()].concat();
        for (n, bytes) in all.iter().enumerate() {
            fs::write(dir.join(format!("known-{n:03}")), bytes).expect("writable");
        }
    }
}

/// As many as fit, small and large ones.
fn pack(dir: &Path) {
    for target in TARGETS {
        let Ok(entries) = fs::read_dir(dir.join(target.name)) else {
            println!("{}: nothing new", target.name);
            continue;
        };
        let paths = entries.map(|entry| entry.expect("readable").path());
        let mut all: Vec<Vec<u8>> = paths
            .map(|path| fs::read(path).expect("readable"))
            .collect();
        all.retain(|bytes| !bytes.is_empty());
        all.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        all.dedup();
        let inputs = &all;
        let spread = |count: usize| (0..count).map(move |n| &inputs[n * inputs.len() / count]);
        let fits = |count: &usize| {
            spread(*count).map(|bytes| bytes.len() + 1).sum::<usize>() <= corpus::MAX
        };
        let count = (0..=all.len()).rev().find(fits).unwrap_or(0);
        let taken: Vec<Vec<u8>> = spread(count).cloned().collect();
        corpus::write(target.name, &taken).expect("writable");
        println!("{}: {count} of {}", target.name, all.len());
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["unpack", dir] => unpack(Path::new(dir)),
        ["pack", dir] => pack(Path::new(dir)),
        _ => eprintln!("corpus unpack DIR, or corpus pack DIR"),
    }
}
