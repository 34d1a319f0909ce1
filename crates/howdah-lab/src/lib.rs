//! The laboratory: scenarios and their runs, in virtual time and over real sockets.
//!
//! Data flows one way: the [`catalog`] of transports, [`scenario`]s that name them, testbeds ([`sim`], `netns`) that run their
//! cells, and [`run`], which keeps the [results](howdah_report::result). [`attack`] looks for scenarios by itself,
//! `calibrate` makes this machine a simulated host.

#![forbid(unsafe_code)]

pub mod attack;
#[cfg(target_os = "linux")]
pub mod calibrate;
pub mod catalog;
mod derive;
mod figures;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod replay;
pub mod run;
pub mod scenario;
pub mod sim;
mod start;
mod warm;
