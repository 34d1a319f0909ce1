//! Packets made by hand.
