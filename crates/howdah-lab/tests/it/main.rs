//! The tests of the crate that need none of its insides, a module for each subject, as one program: linking a program for each took longer than
//! running them. `tools/run_tests.py` (`make test-programs`) gives each module a process of its own.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

mod attack;
mod background;
mod blasters;
mod company;
mod forward;
mod ftp;
mod headroom;
mod latency;
mod ledger;
mod replay;
mod runs;
mod scenarios;
mod settings;
mod starts;
mod streams;
mod stripe;
mod theory;
mod walk;
