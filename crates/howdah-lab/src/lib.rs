//! The laboratory: scenarios, runners, metrics, statistics, ledger and report.
//!
//! Data flows one way: scenario, runner, [`result`], report.

#![forbid(unsafe_code)]

pub mod ledger;
pub mod report;
pub mod result;
