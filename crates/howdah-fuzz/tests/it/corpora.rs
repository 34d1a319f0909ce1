//! Every target over its corpus, over what a search begins with, and over seeded mutations of both.
//! `HOWDAH_FUZZ_ROUNDS=100000` tries more mutations, `HOWDAH_FUZZ_SEED=2` others, `HOWDAH_FUZZ_ONLY=plan,sheet` those of some targets.

use howdah_fuzz::mutate::Mutator;
use howdah_fuzz::{TARGETS, Target, corpus};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Mutations of each target, and of a slow one.
const ROUNDS: u64 = 4_000;
const SLOW_ROUNDS: u64 = 150;
/// Bytes of all files of corpora.
const CORPORA_MAX: u64 = 300 << 10;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn try_one(target: &Target, bytes: &[u8]) {
    let result = catch_unwind(AssertUnwindSafe(|| (target.run)(bytes)));
    let input = || corpus::hex(bytes);
    assert!(
        result.is_ok(),
        "{} finds something in {}",
        target.name,
        input()
    );
}

fn replay(names: impl Fn(&str) -> bool) {
    let seed = number("HOWDAH_FUZZ_SEED").unwrap_or(1);
    let only = std::env::var("HOWDAH_FUZZ_ONLY").ok();
    let is_asked = |name: &str| {
        let only = only.as_deref();
        only.is_none_or(|only| only.split(',').any(|one| one == name))
    };
    let asked = |target: &&Target| names(target.name) && is_asked(target.name);
    for target in TARGETS.iter().filter(asked) {
        let samples = (target.samples)();
        let all = [corpus::read(target.name), samples].concat();
        for bytes in &all {
            try_one(target, bytes);
        }
        try_one(target, &[]);
        let rounds = if target.is_slow { SLOW_ROUNDS } else { ROUNDS };
        let rounds = number("HOWDAH_FUZZ_ROUNDS").unwrap_or(rounds);
        let mut mutator = Mutator::new(seed);
        for _ in 0..rounds {
            try_one(target, &mutator.next(&all));
        }
        println!(
            "{}: {} inputs and {rounds} mutations",
            target.name,
            all.len()
        );
    }
}

/// A test for each part of the alphabet, so that they run at the same time.
#[test]
fn nothing_is_found_a_to_g() {
    replay(|name| ("a".."h").contains(&name));
}

#[test]
fn nothing_is_found_h_to_o() {
    replay(|name| ("h".."p").contains(&name));
}

#[test]
fn nothing_is_found_p_to_r() {
    replay(|name| ("p".."s").contains(&name));
}

#[test]
fn nothing_is_found_s_to_z() {
    replay(|name| "s" <= name);
}

/// Every target has a corpus and a program, and no corpus is large.
#[test]
fn corpora_are_small_and_complete() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    let mut whole = 0;
    for target in TARGETS {
        let inputs = corpus::read(target.name);
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        whole += fs::metadata(corpus::path(target.name))
            .expect("it was read")
            .len();
        let program = programs.join(format!("{}.rs", target.name));
        let text = fs::read_to_string(&program).expect("each target has a program");
        assert!(text.contains(&format!("howdah_fuzz::run(\"{}\"", target.name)));
    }
    println!("{} targets, {whole} bytes", TARGETS.len());
    assert!(whole <= CORPORA_MAX, "{whole} bytes");
    assert_eq!(
        fs::read_dir(programs).expect("readable").count(),
        TARGETS.len()
    );
}
