//! The simulated laboratory in a browser: `make lab-web` builds one HTML file from this and `page/`.
//!
//! [`laboratory`] is what it does; [`abi`] is how JavaScript calls it. The page runs one instance in each of its workers, as
//! many as there are cores; one more takes in what they found, and makes the report.

pub mod abi;
pub mod laboratory;
