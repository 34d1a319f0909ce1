//! What is fuzzed: a function for each thing that reads bytes from strangers. It takes any bytes and panics where something
//! is true that must never be.
//!
//! `make fuzz` runs them under libFuzzer (`fuzz/`), `make test` over the corpora in here and over seeded mutations of them.

#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

mod connection;
mod files;
mod keys;
mod pair;
mod text;
mod trees;
mod udt;
mod wire;

pub mod corpus;
pub mod mutate;

pub use connection::connection;
pub use files::{daemon, plan, record, recording, sheet};
pub use keys::{authorized_keys, keys, known_hosts};
pub use pair::pair;
pub use text::{glob, location, scenario};
pub use trees::{packs, receiver};
pub use udt::udt;
pub use wire::{frames, header, report, varint};

use arbitrary::{Arbitrary, Unstructured};

/// One of them.
#[derive(Clone, Copy)]
pub struct Target {
    /// Also that of its corpus and of its program in `fuzz/`.
    pub name: &'static str,
    /// It panics where it finds something.
    pub run: fn(&[u8]),
    /// What a search begins with.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Inputs that take as long as a few milliseconds: fewer are tried.
    pub is_slow: bool,
}

const fn target(name: &'static str, run: fn(&[u8]), samples: fn() -> Vec<Vec<u8>>) -> Target {
    Target {
        name,
        run,
        samples,
        is_slow: false,
    }
}

const fn slow(target: Target) -> Target {
    Target {
        is_slow: true,
        ..target
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target(
        "answers",
        howdah_session::fuzzing::answers,
        howdah_session::fuzzing::answers_samples,
    ),
    slow(target(
        "authorized_keys",
        authorized_keys,
        keys::authorized_keys_samples,
    )),
    slow(target("connection", connection, Vec::new)),
    target(
        "cookie",
        howdah_proto::endpoint::fuzzing::cookie,
        howdah_proto::endpoint::fuzzing::cookie_samples,
    ),
    slow(target("daemon", daemon, files::daemon_samples)),
    target("frames", frames, Vec::new),
    target(
        "gate",
        howdah_session::fuzzing::gate,
        howdah_session::fuzzing::gate_samples,
    ),
    target("glob", glob, text::glob_samples),
    target(
        "handover",
        howdah::fuzzing::handover,
        howdah::fuzzing::handover_samples,
    ),
    target("header", header, Vec::new),
    target(
        "journal",
        howdah_store::fuzzing::journal,
        howdah_store::fuzzing::journal_samples,
    ),
    target("keys", keys, keys::keys_samples),
    slow(target(
        "known_hosts",
        known_hosts,
        keys::known_hosts_samples,
    )),
    target("location", location, text::location_samples),
    target(
        "manifest",
        howdah_session::fuzzing::manifest,
        howdah_session::fuzzing::manifest_samples,
    ),
    target(
        "message",
        howdah_session::fuzzing::message,
        howdah_session::fuzzing::message_samples,
    ),
    slow(target("packs", packs, trees::packs_samples)),
    slow(target("pair", pair, Vec::new)),
    target("plan", plan, files::plan_samples),
    target(
        "receipt",
        howdah::fuzzing::receipt,
        howdah::fuzzing::receipt_samples,
    ),
    target("record", record, files::record_samples),
    slow(target("recording", recording, files::recording_samples)),
    slow(target("receiver", receiver, trees::receiver_samples)),
    target("report", report, Vec::new),
    slow(target("scenario", scenario, text::scenario_samples)),
    target("sheet", sheet, files::sheet_samples),
    target("tunnel", howdah_net::fuzzing::tunnel, Vec::new),
    slow(target("udt", udt, Vec::new)),
    target("varint", varint, Vec::new),
];

/// Runs one by its name.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name);
    (target.expect("a target of that name").run)(bytes);
}

/// Bytes as something with more form.
fn structured<'a, T: Arbitrary<'a>>(bytes: &'a [u8]) -> Option<T> {
    T::arbitrary_take_rest(Unstructured::new(bytes)).ok()
}
