//! TCP: one engine, and apart from it a file for each congestion control ([`cc`]).

pub mod cc;
