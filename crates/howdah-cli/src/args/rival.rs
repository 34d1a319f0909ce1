//! `howdah rival`.

use clap::{Args, Subcommand};
use howdah::Location;
use howdah_core::{Rate, Span, units};
use howdah_lab::catalog::{self, Protocol};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Moves real bytes with another transport over real sockets, to measure it
///
/// NAME is one of udt, rbudp, tsunami, pa-udp, rwtp-like, mtp-like, filecatalyst-like. Those that end in
/// -like, and the machine around pa-udp's rule, are models of programs whose inside is not public.
///
/// Nothing is encrypted and nobody is authenticated; most of these take their rate from you and
/// yield to nobody. They are for measurement on networks that you own.
///
/// Examples:
///
///   howdah rival recv udt --listen 192.0.2.7:9000
///   howdah rival send udt --to 192.0.2.7:9000 zero:1GiB
///   howdah rival recv rbudp --listen 192.0.2.7:9000 -o copy.bin
///   howdah rival send rbudp --to 192.0.2.7:9000 --rate 900mbit big.bin
///
/// Both sides print the BLAKE3 of what they sent or received; compare the two.
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment, subcommand_required = true)]
pub(crate) enum RivalCommand {
    /// Sends a file, or zeros, to a side that receives
    Send(RivalSendArgs),
    /// Waits for a side that sends, and takes in one object
    Recv(RivalRecvArgs),
}

#[derive(Args, Debug)]
pub(crate) struct RivalSendArgs {
    #[command(flatten)]
    pub(crate) common: RivalArgs,

    /// Address and port of the side that receives
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) to: SocketAddr,

    /// Give up if nobody answers for so long
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "10s")]
    pub(crate) wait: Span,

    /// What to send: a file, or zero:SIZE
    #[arg(value_name = "SRC", value_parser = super::location())]
    pub(crate) source: Location,
}

#[derive(Args, Debug)]
pub(crate) struct RivalRecvArgs {
    #[command(flatten)]
    pub(crate) common: RivalArgs,

    /// Address and UDP port to wait on
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: SocketAddr,

    /// Write to this file, which must not exist [default: hash only]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Give up if no further byte arrives for so long, once the other side has spoken
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "60s")]
    pub(crate) idle_timeout: Span,
}

#[derive(Args, Debug)]
pub(crate) struct RivalArgs {
    /// Which transport
    #[arg(value_name = "NAME")]
    pub(crate) name: RivalName,

    /// Rate, on the side that the program is told it: the sender's (rbudp, ...-like) or the
    /// receiver's (tsunami, pa-udp); udt finds its own [default: 100mbit]
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(crate) rate: Option<Rate>,

    /// Payload bytes of a datagram: on both sides for rbudp and pa-udp, on the receiver's for
    /// tsunami, on the sender's for the others [default: the transport's own]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(256..=64_000))]
    pub(crate) packet: Option<u32>,

    /// Move bytes without hashing them: to measure the transport alone
    #[arg(long)]
    pub(crate) no_hash: bool,

    /// Print one JSON object instead of a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A transport that carries real bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RivalName {
    Udt,
    Rbudp,
    Tsunami,
    PaUdp,
    RwtpLike,
    MtpLike,
    FilecatalystLike,
}

impl RivalName {
    /// All of them.
    pub(crate) const ALL: [Self; 7] = [
        Self::Udt,
        Self::Rbudp,
        Self::Tsunami,
        Self::PaUdp,
        Self::RwtpLike,
        Self::MtpLike,
        Self::FilecatalystLike,
    ];

    /// As on the command line, and in the laboratory.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Udt => "udt",
            Self::Rbudp => "rbudp",
            Self::Tsunami => "tsunami",
            Self::PaUdp => "pa-udp",
            Self::RwtpLike => "rwtp-like",
            Self::MtpLike => "mtp-like",
            Self::FilecatalystLike => "filecatalyst-like",
        }
    }
}

impl FromStr for RivalName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(name) = Self::ALL.into_iter().find(|name| name.as_str() == text) {
            return Ok(name);
        }
        let all = Self::ALL.map(Self::as_str).join(", ");
        Err(match catalog::find(text) {
            Some(Protocol::Foreign(_) | Protocol::Quic) => {
                format!(
                    "{text} is a program of its own, which 'howdah lab run --on netns' runs; here are {all}"
                )
            }
            Some(_) => {
                format!(
                    "{text} runs in the laboratory only and carries no real bytes; these do: {all}"
                )
            }
            None => format!("there is no such transport; there are {all}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_laboratorys() {
        for name in RivalName::ALL {
            assert_eq!(name.as_str().parse(), Ok(name));
            assert!(catalog::find(name.as_str()).is_some(), "{name:?}");
        }
        for (text, part) in [
            ("sabul", "laboratory only"),
            ("fasp-like", "laboratory only"),
            ("cubic", "laboratory only"),
            ("quic", "a program of its own"),
            ("carrier-pigeon", "no such transport"),
        ] {
            let error = text.parse::<RivalName>().unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
