//! `howdah rival`.

mod bytes;

use crate::args::{RivalArgs, RivalCommand, RivalName, RivalRecvArgs, RivalSendArgs};
use crate::ui::{self, Signals};
use bytes::{Sink, Source};
use howdah::{Error, ErrorKind};
use howdah_core::{Carrier, Observe, Rate};
use howdah_net::plain::{self, Bytes, Patience, Peer, PlainError, PlainReport};
use howdah_rivals::blast::{BlastEndpoint, PacedSettings, RbudpSettings, TsunamiSettings};
use howdah_rivals::model::{self, ModelEndpoint, RateLaw, Settings};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Version of the JSON object.
const SCHEMA: u32 = 1;
/// Of those that are told a rate and were told none.
const USUAL_RATE: Rate = Rate::from_mbit_per_sec(100);
/// IPv4, UDP and UDT 4.
const UDT_HEADER_BYTES: u32 = 44;

pub(super) fn run(command: &RivalCommand) -> anyhow::Result<()> {
    let (args, result) = match command {
        RivalCommand::Send(args) => (&args.common, send(args)),
        RivalCommand::Recv(args) => (&args.common, receive(args)),
    };
    if args.json {
        let line = match &result {
            Ok(moved) => serde_json::to_string(&moved.json(args.name))?,
            Err(error) => ui::failure_json(error)?,
        };
        ui::print(&line)?;
    } else if let Ok(moved) = &result {
        ui::print(&moved.line())?;
    }
    result.map(|_| ())
}

/// What was moved.
struct Moved {
    sends: bool,
    bytes: u64,
    /// Unless nobody wants it.
    hash: Option<blake3::Hash>,
    report: PlainReport,
}

impl Moved {
    fn rate(&self) -> Rate {
        if self.report.took.is_zero() {
            Rate::ZERO
        } else {
            Rate::from_bytes_over(self.bytes, self.report.took)
        }
    }

    fn line(&self) -> String {
        let seconds = self.report.took.as_secs_f64();
        let hash = self.hash.map(|hash| format!(", BLAKE3 {hash}"));
        format!(
            "{} bytes {} in {seconds:.3} s, {}{}",
            self.bytes,
            if self.sends { "sent" } else { "received" },
            self.rate(),
            hash.unwrap_or_default()
        )
    }

    fn json(&self, name: RivalName) -> serde_json::Value {
        let snapshot = &self.report.snapshot;
        serde_json::json!({
            "schema": SCHEMA,
            "rival": name.as_str(),
            "role": if self.sends { "send" } else { "recv" },
            "algorithm": snapshot.algorithm,
            "peer": self.report.peer.to_string(),
            "bytes": self.bytes,
            "seconds": self.report.took.as_secs_f64(),
            "goodput_bps": self.rate().bits_per_sec(),
            "blake3": self.hash.map(|hash| hash.to_string()),
            "sent_bytes": snapshot.sent_bytes,
            "retransmitted_bytes": snapshot.retransmitted_bytes,
            "encrypted": false,
        })
    }
}

fn warn(name: RivalName) {
    ui::say(&format!(
        "{} is unencrypted, unauthenticated and for measurement on networks you own",
        name.as_str()
    ));
}

fn usage<T>(text: String) -> anyhow::Result<T> {
    Err(Error::new(ErrorKind::Usage, text).into())
}

/// Refuses options that the other side's program is given.
fn check(args: &RivalArgs, sends: bool) -> anyhow::Result<()> {
    let (this, other) = if sends {
        ("sends", "receives")
    } else {
        ("receives", "sends")
    };
    let name = args.name.as_str();
    let (rate_here, packet_here) = match args.name {
        RivalName::Udt => (false, true),
        RivalName::Rbudp => (sends, true),
        RivalName::PaUdp => (!sends, true),
        RivalName::Tsunami => (!sends, !sends),
        RivalName::RwtpLike | RivalName::MtpLike | RivalName::FilecatalystLike => (sends, sends),
    };
    if args.rate.is_some() && args.name == RivalName::Udt {
        return usage("udt finds its rate itself: it takes no --rate".to_owned());
    }
    for (given, here, option) in [
        (args.rate.is_some(), rate_here, "--rate"),
        (args.packet.is_some(), packet_here, "--packet"),
    ] {
        if given && !here {
            return usage(format!(
                "{name} takes {option} on the side that {other}, not on the side that {this}"
            ));
        }
    }
    Ok(())
}

fn send(args: &RivalSendArgs) -> anyhow::Result<Moved> {
    check(&args.common, true)?;
    let signals = Signals::install()?;
    let mut source = Source::open(&args.source)?;
    warn(args.common.name);
    let any: IpAddr = match args.to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = howdah_net::bind(SocketAddr::new(any, 0))?;
    let patience = Patience {
        contact: args.wait,
        progress: None,
    };
    let size = source.len();
    let mut trip = Trip {
        socket,
        peer: Peer::Call(args.to),
        bytes: &mut source,
        patience,
        signals,
    };
    let report = drive(&args.common, Some(size), &mut trip)?;
    Ok(Moved {
        sends: true,
        bytes: size,
        hash: if args.common.no_hash {
            None
        } else {
            Some(source.hash()?)
        },
        report,
    })
}

fn receive(args: &RivalRecvArgs) -> anyhow::Result<Moved> {
    check(&args.common, false)?;
    let signals = Signals::install()?;
    let mut sink = Sink::create(args.output.as_deref(), !args.common.no_hash)?;
    warn(args.common.name);
    let socket = howdah_net::bind(args.listen).map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::AddrInUse
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied => ErrorKind::Refused,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot listen on {}: {error}", args.listen))
    })?;
    // Tests and scripts wait for this line.
    ui::say(&format!(
        "waiting for {} on {}",
        args.common.name.as_str(),
        socket.local_addr()?
    ));
    let patience = Patience {
        contact: args.idle_timeout,
        progress: Some(args.idle_timeout),
    };
    let mut trip = Trip {
        socket,
        peer: Peer::Await,
        bytes: &mut sink,
        patience,
        signals,
    };
    let report = drive(&args.common, None, &mut trip)?;
    Ok(Moved {
        sends: false,
        bytes: report.written_bytes,
        hash: sink.finish(!args.common.no_hash)?,
        report,
    })
}

/// Everything that a transfer needs beside the transport.
struct Trip<'a, B> {
    socket: UdpSocket,
    peer: Peer,
    bytes: &'a mut B,
    patience: Patience,
    signals: Signals,
}

impl<B: Bytes> Trip<'_, B> {
    fn with<C: Carrier + Observe>(&mut self, mut carrier: C) -> anyhow::Result<PlainReport> {
        let socket = self.socket.try_clone()?;
        let running = || !self.signals.cancel().is_cancelled();
        let (bytes, patience) = (&mut *self.bytes, self.patience);
        plain::drive(socket, self.peer, &mut carrier, bytes, patience, running)
            .map_err(|error| Error::new(kind(&error), advice(&error)).into())
    }
}

/// Makes one side of the transport and lets it run; the side that sends knows the size.
fn drive<B: Bytes>(
    args: &RivalArgs,
    size: Option<u64>,
    trip: &mut Trip<'_, B>,
) -> anyhow::Result<PlainReport> {
    let rate = args.rate.unwrap_or(USUAL_RATE);
    match args.name {
        RivalName::Udt => {
            let mut config = UdtConfig::default();
            if let Some(packet) = args.packet {
                config.packet_bytes = packet + UDT_HEADER_BYTES;
            }
            let seed = RandomState::new().build_hasher().finish();
            trip.with(match size {
                Some(_) => UdtEndpoint::sender(&config, size, seed),
                None => UdtEndpoint::receiver(&config, seed),
            })
        }
        RivalName::Rbudp => {
            let mut settings = RbudpSettings::stream(rate, size);
            settings.payload_bytes = args.packet.unwrap_or(settings.payload_bytes);
            // Of what comes before its size there is no payload any more: it is blasted again.
            settings.socket_bytes = 0;
            trip.with(match size {
                Some(_) => BlastEndpoint::rbudp_sender(&settings, None),
                None => BlastEndpoint::rbudp_receiver(&settings),
            })
        }
        RivalName::Tsunami => {
            let mut settings = TsunamiSettings {
                target: rate,
                size_bytes: size,
                ..TsunamiSettings::default()
            };
            settings.block_bytes = args.packet.unwrap_or(settings.block_bytes);
            // The kernel fragments, if anybody has to.
            let mtu = u32::MAX;
            trip.with(match size {
                Some(_) => BlastEndpoint::tsunami_server(&settings, mtu, None),
                None => BlastEndpoint::tsunami_client(&settings, mtu),
            })
        }
        RivalName::PaUdp => {
            let mut settings = PacedSettings::pa_udp(rate, size);
            settings.payload_bytes = args.packet.unwrap_or(settings.payload_bytes);
            trip.with(match size {
                Some(_) => BlastEndpoint::paced_sender(&settings, None),
                None => BlastEndpoint::paced_receiver(&settings, None),
            })
        }
        RivalName::RwtpLike => trip.with(model(model::rwtp_like(), args, rate, size)?),
        RivalName::MtpLike => trip.with(model(model::mtp_like(), args, rate, size)?),
        RivalName::FilecatalystLike => {
            trip.with(model(model::filecatalyst_like(), args, rate, size)?)
        }
    }
}

fn model(
    mut settings: Settings,
    args: &RivalArgs,
    rate: Rate,
    size: Option<u64>,
) -> anyhow::Result<ModelEndpoint> {
    settings.law = RateLaw::Fixed(rate);
    settings.unit_bytes = args.packet.unwrap_or(settings.unit_bytes);
    let made = match size {
        Some(_) => ModelEndpoint::sender(&settings, size),
        None => ModelEndpoint::receiver(&settings),
    };
    made.map_err(|error| Error::new(ErrorKind::Usage, error.to_string()).into())
}

fn kind(error: &PlainError) -> ErrorKind {
    match error {
        PlainError::NobodyAnswers(..) | PlainError::GivenUp(_) | PlainError::Stuck(_) => {
            ErrorKind::Network
        }
        PlainError::TooLarge(_) => ErrorKind::Usage,
        PlainError::Bytes(why) if why.kind() == io::ErrorKind::StorageFull => ErrorKind::NoSpace,
        PlainError::Bytes(why) if why.kind() == io::ErrorKind::UnexpectedEof => {
            ErrorKind::SourceChanged
        }
        PlainError::Incomplete { .. } => ErrorKind::Integrity,
        PlainError::Stopped => ErrorKind::Cancelled,
        PlainError::Socket(_) | PlainError::Bytes(_) => ErrorKind::Io,
    }
}

fn advice(error: &PlainError) -> String {
    match error {
        PlainError::TooLarge(_) => format!("{error} (--packet)"),
        _ => error.to_string(),
    }
}
