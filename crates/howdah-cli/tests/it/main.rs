//! The tests of the command, a module for each subject: what copies, trees, leases and the other commands do.
//! `tools/run_tests.py` (`make test-programs`) gives each module a process of its own. They are four programs, `it`, `field`, `daemon` and `faults`: one
//! took fifty seconds of a processor to build after each change of a test, which is why each is a program apart.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

mod support;

mod audit;
mod clusters;
mod control;
mod copies;
mod doctor;
mod endings;
mod flight;
mod key_options;
mod lab;
mod lease_ends;
mod lease_resumes;
mod leases;
mod manifests;
mod memory;
mod outcome;
mod path_memory;
mod process;
mod push_leases;
mod push_trees;
mod receipts;
mod rivals;
mod short_names;
mod smoke;
mod sparse;
mod ssh;
mod ssh_sharing;
mod telling;
mod testbed;
mod testbed_troubles;
mod tree_leases;
mod tree_property;
mod trees;
mod udt_peer;
mod verify;
