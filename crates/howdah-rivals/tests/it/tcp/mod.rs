//! The TCP engine in the simulator.

#![allow(missing_docs, reason = "tests")]

mod support;

mod basics;
mod chaos;
mod hostile;
mod local;
mod oracles;
mod receivers;
mod repair;
mod walk;
mod windows;
