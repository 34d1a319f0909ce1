//! The blasting tools over the simulator.

mod chaos;
mod rbudp;
mod support;
mod tsunami;
