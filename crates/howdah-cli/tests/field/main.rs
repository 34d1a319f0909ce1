//! The tests of the command, a module for each subject: the rows of the field, what people who came from cp, scp and rsync ran into.
//! `tools/run_tests.py` (`make test-programs`) gives each module a process of its own. They are four programs, `it`, `field`, `daemon` and `faults`: one
//! took fifty seconds of a processor to build after each change of a test, which is why each is a program apart.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

#[path = "../it/support/mod.rs"]
mod support;

mod field_backups;
mod field_bare;
mod field_choice;
mod field_clocks;
mod field_ctl;
mod field_dry;
mod field_inside;
mod field_links;
mod field_lists;
mod field_looking;
mod field_operation;
mod field_peers;
mod field_places;
mod field_refused;
mod field_rights;
mod field_selection;
mod field_shells;
mod field_snapshots;
mod field_sources;
mod field_ssh;
mod field_stands;
mod field_streams;
mod field_terminal;
mod field_trial;
mod field_versions;
mod field_words;
