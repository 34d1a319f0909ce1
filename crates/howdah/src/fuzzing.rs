//! What `howdah-fuzz` calls: each takes any bytes and panics where something is true that must never be.

pub use crate::receipt::fuzzing::{receipt, receipt_samples};
pub use crate::ssh::fuzzing::{handover, handover_samples};
