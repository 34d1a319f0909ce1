//! The tests of the command, a module for each subject: faults and attacks: kills, disks, paths, peers and neighbours.
//! `tools/run_tests.py` (`make test-programs`) gives each module a process of its own. They are four programs, `it`, `field`, `daemon` and `faults`: one
//! took fifty seconds of a processor to build after each change of a test, which is why each is a program apart.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

#[path = "../it/support/mod.rs"]
mod support;

mod foreign_disks;
mod full_disks;
mod hostile_leftovers;
mod hostile_neighbours;
mod hostile_plans;
mod hostile_rights;
mod injected;
mod kills;
mod no_udp;
mod odd_places;
mod power_cuts;
mod reconnecting;
mod refusals;
mod resuming;
mod resuming_far;
mod rough_paths;
mod sandbox;
mod slow_disks;
mod swarm;
