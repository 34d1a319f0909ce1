//! The congestion controls under the engine and the simulator: what they make of losses, and of a
//! path to be filled. The objects alone are tested beside their code.
//!
//! Every run has seed 1 (or the seed that is printed) and virtual time, so what is asserted here
//! always comes out the same.

#![allow(unreachable_pub, dead_code, reason = "modules shared with the example")]

mod filling;
mod formulas;
mod losses;
mod support;
mod vegas;
