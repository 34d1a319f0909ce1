//! The message formats byte by byte, and the rate control by itself. Transfers over paths are in
//! the crate's `tests/udt.rs`.

mod rate;
mod wire;
