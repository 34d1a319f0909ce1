//! The tests of the command, a module for each subject: the daemon, its jobs and its console.
//! `tools/run_tests.py` (`make test-programs`) gives each module a process of its own. They are four programs, `it`, `field`, `daemon` and `faults`: one
//! took fifty seconds of a processor to build after each change of a test, which is why each is a program apart.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

#[path = "../it/support/mod.rs"]
mod support;

mod console;
mod daemon;
mod daemon_bounds;
mod daemon_conditions;
mod daemon_errands;
mod daemon_far;
mod job_limits;
mod metrics;
mod notices;
mod restarts;
mod schedules;
mod watches;
