//! The blasting tools over the simulator.

mod chaos;
mod paced;
mod rbudp;
mod support;
mod tsunami;
