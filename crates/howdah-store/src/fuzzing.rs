//! What `howdah-fuzz` calls: each takes any bytes and panics where something is true that must never be.

pub use crate::journal::fuzzing::{journal, journal_samples};
