//! How a copy shares the path, and what carries it.

use howdah_core::Rate;

/// How the sender shares the path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RatePolicy {
    /// Fills the path and gives way when its queue grows.
    #[default]
    Fair,
    /// That rate, for a dedicated circuit.
    Fixed(Rate),
    /// Takes what nobody else wants.
    Background,
}

/// What carries the datagrams.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Transport {
    /// UDP; where it does not get through within 3 s, TCP; where that does not either, the ssh channel if
    /// there is one.
    #[default]
    Auto,
    /// UDP or nothing.
    Udp,
    /// TCP without trying UDP, or the ssh channel.
    Tcp,
}
