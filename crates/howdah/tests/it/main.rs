//! The tests of the crate that need none of its insides, a module for each subject, as one program: linking a program for each took longer than
//! running them. `tools/run_tests.py` (`make test-programs`) gives each module a process of its own.

#![allow(clippy::unwrap_used, reason = "tests may panic, their helpers too")]

mod accounts;
mod client;
mod company;
mod differential;
mod files;
mod flood;
mod hostile;
mod idle;
mod lanes;
mod loops;
mod networks;
mod overload;
mod support;
