//! What `howdah-fuzz` calls: each takes any bytes and panics where something is true that must never be.

pub use crate::journal::fuzzing::{journal, journal_samples};
pub use crate::trees::fuzzing::{
    answers, answers_samples, gate, gate_samples, manifest, manifest_of_files, manifest_samples,
};
