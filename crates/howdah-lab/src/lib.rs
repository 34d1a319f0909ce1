//! The laboratory: scenarios, runners, metrics, statistics, ledger and report.
//!
//! Data flows one way: scenario, runner, [`result`], report.

#![forbid(unsafe_code)]

pub mod blasters;
pub mod company;
pub mod comparison;
mod derive;
pub mod fidelity;
mod figures;
pub mod gate;
mod intervals;
pub mod ledger;
pub mod metrics;
pub mod movers;
#[cfg(target_os = "linux")]
pub mod netns;
pub mod protocol;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
mod sheet;
pub mod sim;
pub mod starts;
pub mod stats;
pub mod table;
