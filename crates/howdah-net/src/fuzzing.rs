//! What `howdah-fuzz` calls.

pub use crate::tunnel::fuzzing::tunnel;
