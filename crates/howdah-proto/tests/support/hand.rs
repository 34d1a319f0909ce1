//! Two connections driven by hand.
