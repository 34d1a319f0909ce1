//! What a campaign left behind, and what follows from it: results on disk, statistics, the ledger of published
//! statements, tables and reports. A report is a function of results; how they came about is `howdah-lab`'s business.

#![forbid(unsafe_code)]

pub mod company;
pub mod comparison;
pub mod csv;
pub mod fidelity;
mod figures;
pub mod gate;
mod intervals;
pub mod ledger;
pub mod metrics;
pub mod parcel;
pub mod pivot;
pub mod report;
pub mod result;
mod sheet;
pub mod starts;
pub mod stats;
pub mod store;
pub mod table;
pub mod together;
