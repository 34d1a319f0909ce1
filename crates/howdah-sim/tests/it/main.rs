//! The tests of the crate that need none of its insides, a module for each subject, as one program: linking a program for each took longer than
//! running them. `tools/run_tests.py` (`make test-programs`) gives each module a process of its own.

mod backlog;
mod determinism;
mod host_queue;
mod hosts;
mod marks;
mod parking_lot;
mod paths;
mod switching;
mod toys;
mod world;
