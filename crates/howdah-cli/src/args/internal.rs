//! `howdah internal`: not for people.

use clap::{Args, Subcommand};
use howdah_core::{Rate, Span, units};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum InternalCommand {
    /// The other end of a copy over ssh: told what to do on standard input
    FarEnd,
    /// Says what users and groups are called, to a process that may not ask
    Names,
    /// Sends from memory over kernel TCP
    TcpSend(TcpSendArgs),
    /// Receives kernel TCP into nothing
    TcpRecv(TcpRecvArgs),
    /// Sends many short flows over kernel TCP
    ShortSend(ShortSendArgs),
    /// Receives them, until it is interrupted
    ShortRecv(SinkArgs),
    /// Sends a stream of UDP that does not react to the network
    StreamSend(StreamSendArgs),
    /// Counts what comes of it, until it is interrupted
    StreamRecv(SinkArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TcpSendArgs {
    /// Receiver
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// How long to send
    #[arg(long, value_parser = units::parse_span)]
    pub(crate) time: Span,
    /// Bytes to send [default: as many as the time allows]
    #[arg(long, value_parser = units::parse_bytes)]
    pub(crate) size: Option<u64>,
    /// Connections
    #[arg(long, default_value = "1")]
    pub(crate) streams: u32,
    /// Kernel congestion control
    #[arg(long)]
    pub(crate) congestion: String,
    /// Largest send buffer that the kernel may grow to, in bytes
    #[arg(long)]
    pub(crate) buffer: u64,
}

#[derive(Args, Debug)]
pub(crate) struct TcpRecvArgs {
    /// Address and port
    #[arg(long)]
    pub(crate) listen: SocketAddr,
    /// How long to receive, from the first connection
    #[arg(long, value_parser = units::parse_span)]
    pub(crate) time: Span,
    /// Connections
    #[arg(long, default_value = "1")]
    pub(crate) streams: u32,
    /// Largest receive buffer that the kernel may grow to, in bytes
    #[arg(long)]
    pub(crate) buffer: u64,
}

#[derive(Args, Debug)]
pub(crate) struct ShortSendArgs {
    /// Receiver
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// Kernel congestion control
    #[arg(long)]
    pub(crate) congestion: String,
    /// File with the flows: JSON, a list of `start_ns` and `size_bytes`
    #[arg(long)]
    pub(crate) flows: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct SinkArgs {
    /// Address and port
    #[arg(long)]
    pub(crate) listen: SocketAddr,
}

#[derive(Args, Debug)]
pub(crate) struct StreamSendArgs {
    /// Receiver
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// UDP payload bits per second while it is on
    #[arg(long, value_parser = units::parse_rate)]
    pub(crate) rate: Rate,
    /// UDP payload bytes of a datagram
    #[arg(long)]
    pub(crate) packet: u32,
    /// How long to send
    #[arg(long, value_parser = units::parse_span)]
    pub(crate) time: Span,
    /// Length of sending
    #[arg(long, value_parser = units::parse_span, requires = "off")]
    pub(crate) on: Option<Span>,
    /// Length of silence
    #[arg(long, value_parser = units::parse_span, requires = "on")]
    pub(crate) off: Option<Span>,
    /// These are means of exponential distributions
    #[arg(long)]
    pub(crate) exponential: bool,
    /// Of the lengths
    #[arg(long, default_value = "1")]
    pub(crate) seed: u64,
}
