//! `howdah wan`.

use super::{GilbertElliott, PathArgs};
use clap::Args;
use howdah_core::{Span, units};
use std::ffi::OsString;

/// Emulates a long fat network between two hosts on this machine (Linux)
///
/// The near host is 10.88.0.1, the far host 10.88.0.2 (IPv6: fd88::1 and fd88::2). Queue, rate,
/// loss and delay act on every packet as it would be on the wire. Nothing is left behind when it
/// ends. It needs root or user namespaces, and /dev/net/tun, but no kernel module.
///
/// Examples:
///
///   howdah wan --rate 10gbit --rtt 100ms --loss 1% -- ping -c 3 10.88.0.2
///   howdah wan --rtt 50ms --loss 0.1% --queue 30MB --hold
///   howdah wan --rate 1gbit --rtt 20ms --tcp bpf_hstcp -- ./transfer.sh
///   howdah wan --self-test
#[derive(Args, Debug)]
#[command(verbatim_doc_comment, group = clap::ArgGroup::new("what").required(true))]
pub(crate) struct WanArgs {
    #[command(flatten)]
    pub(crate) path: PathArgs,

    /// Bursts of loss from near to far: chance per packet that one begins, and that it ends
    #[arg(long, value_name = "ENTER,LEAVE", conflicts_with = "loss")]
    pub(crate) ge: Option<GilbertElliott>,

    /// Extra delay of each packet from near to far, from nothing up to this; no packet overtakes another
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) jitter: Option<Span>,

    /// Congestion control of both hosts' TCP: one that the kernel allows to all (reno, bbr), or one
    /// of bpf/, which the kernel then has as long as this runs: bpf_hstcp, bpf_scalable, bpf_htcp,
    /// bpf_fast, bpf_bic, bpf_cubic05 (`make bpf`, and a build with --features bpf)
    #[arg(long, value_name = "NAME", conflicts_with = "self_test")]
    pub(crate) tcp: Option<String>,

    /// Print the names of the two hosts' namespaces and stay until interrupted
    #[arg(long, group = "what")]
    pub(crate) hold: bool,

    /// Measure the emulator itself at --rate: rate, loss, added latency, CPU (half a minute)
    #[arg(long, group = "what")]
    pub(crate) self_test: bool,

    /// What to run in the near host
    #[arg(last = true, value_name = "COMMAND", group = "what")]
    pub(crate) command: Vec<OsString>,
}
