//! `howdah internal`: not for people.

use clap::{Args, Subcommand};
use howdah_core::{Span, units};
use std::net::SocketAddr;

#[derive(Debug, Subcommand)]
pub(crate) enum InternalCommand {
    /// Sends from memory over one kernel TCP connection
    TcpSend(TcpSendArgs),
    /// Receives one kernel TCP connection into nothing
    TcpRecv(TcpRecvArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TcpSendArgs {
    /// Receiver
    #[arg(long)]
    pub(crate) to: SocketAddr,
    /// How long to send
    #[arg(long, value_parser = units::parse_span)]
    pub(crate) time: Span,
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
    /// Largest receive buffer that the kernel may grow to, in bytes
    #[arg(long)]
    pub(crate) buffer: u64,
}
