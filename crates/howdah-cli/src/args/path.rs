//! The path of an emulated world; shared by `wan` and `demo`.

use super::Queue;
use super::values::{path_rate, path_rtt, share};
use clap::Args;
use howdah_core::{Rate, Span};

/// The path between the two hosts of an emulated world.
#[derive(Args, Clone, Debug)]
pub(crate) struct PathArgs {
    /// Rate of the bottleneck, in each direction
    #[arg(long, value_name = "RATE", value_parser = path_rate, default_value = "10gbit")]
    pub(crate) rate: Rate,

    /// Round-trip time without queueing; half of it in each direction
    #[arg(long, value_name = "TIME", value_parser = path_rtt, default_value = "100ms")]
    pub(crate) rtt: Span,

    /// Random loss, in each direction unless --loss-back is given
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "1%")]
    pub(crate) loss: f64,

    /// Random loss from far to near
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub(crate) loss_back: Option<f64>,

    /// Queue in front of the bottleneck: time (25ms), bytes (30MB) or packets (1000p)
    #[arg(long, value_name = "SIZE", default_value = "25ms")]
    pub(crate) queue: Queue,

    /// Largest IP packet, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 9000, value_parser = clap::value_parser!(u16).range(1280..))]
    pub(crate) mtu: u16,

    /// Seed of the random losses; the same seed loses the same packets
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}
