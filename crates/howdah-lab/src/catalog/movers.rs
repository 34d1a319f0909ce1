//! The file movers of K13app, and FTP, with which it compares them, as profiles: **models, not the programs**.
//!
//! A mover is a core (several TCP connections, or one of the [models](howdah_rivals::model)) and the
//! time that it takes before its first and after its last byte: authentication, opening files,
//! allocating, closing, checking. K13app measures the duration of the whole command and the rate
//! that the program displays, and the difference between them. Here
//!
//! * the *displayed rate* is size over the time of the transfer itself, handshakes and ramp included;
//! * the *duration* is that time and the service time before and behind it;
//! * the *discrepancy* (K13app, equation 3) is duration less size over displayed rate, which is the
//!   service time, whatever the network does. What the real programs display is not known better.
//!
//! Service times are **fitted** to the least durations that the paper states, but for FTP's, which is its protocol's; see docs/rivals/movers.md.

use super::Options;
use howdah_core::Span;
use howdah_rivals::model::{self, Settings};

/// What carries the bytes.
#[derive(Clone, Copy, Debug)]
pub enum Core {
    /// TCP connections.
    Tcp {
        /// Congestion control.
        cc: &'static str,
        /// How many connections.
        streams: u32,
        /// Socket buffers in bytes.
        window_bytes: u64,
    },
    /// A behavioural model.
    Model(fn() -> Settings),
}

/// Time before the first byte and behind the last.
#[derive(Clone, Copy, Debug)]
pub struct Service {
    /// Whatever the path.
    pub fixed: Span,
    /// And so many round-trip times.
    pub round_trips: u32,
}

/// A file mover.
#[derive(Clone, Copy, Debug)]
pub struct Mover {
    /// Name in scenarios; ends in "-like".
    pub name: &'static str,
    /// One line.
    pub about: &'static str,
    /// What carries the bytes.
    pub core: Core,
    /// Service time, before and behind together.
    pub service: Service,
}

/// Round trips of FTP (RFC 959) in front of the first byte, but for the handshake of the data connection, which is that of the core: the
/// control connection; the server's greeting (220), which it sends when it has accepted; USER (331); PASS (230); TYPE I (200); PASV (227); and
/// STOR (150), which the client waits for.
const FTP_BEFORE: u32 = 7;
/// And behind the last: QUIT (221). The server says that all is there (226) when it has the end of the data connection,
/// whose acknowledgement is the end of the core's time.
const FTP_AFTER: u32 = 1;

/// All of them.
pub(crate) static ALL: [Mover; 6] = [
    Mover {
        name: "ftp-like",
        about: "model of FTP: one CUBIC connection of 2.6.32 between the commands of a session",
        core: Core::Tcp {
            cc: "cubic-2.6.32",
            streams: 1,
            window_bytes: 4 << 20,
        },
        service: Service {
            fixed: Span::ZERO,
            round_trips: FTP_BEFORE + FTP_AFTER,
        },
    },
    Mover {
        name: "velocity-like",
        about: "model of Velocity: 7 CUBIC connections of 2.6.32 ('streams' says otherwise)",
        core: Core::Tcp {
            cc: "cubic-2.6.32",
            streams: 7,
            window_bytes: 64 << 20,
        },
        service: Service {
            fixed: Span::from_millis(1_350),
            round_trips: 4,
        },
    },
    Mover {
        name: "tixstream-like",
        about: "model of TIXstream: rwtp-like, slower to repair",
        core: Core::Model(tixstream),
        service: Service {
            fixed: Span::from_millis(1_100),
            round_trips: 4,
        },
    },
    Mover {
        name: "filecatalyst-direct-like",
        about: "model of FileCatalyst Direct: filecatalyst-like with its service time",
        core: Core::Model(model::filecatalyst_like),
        service: Service {
            fixed: Span::from_millis(2_100),
            round_trips: 4,
        },
    },
    Mover {
        name: "xdt-like",
        about: "model of XDT Catapult: 4 H-TCP connections with 64 MiB buffers",
        core: Core::Tcp {
            cc: "htcp",
            streams: 4,
            window_bytes: 64 << 20,
        },
        service: Service {
            fixed: Span::from_millis(1_140),
            round_trips: 4,
        },
    },
    Mover {
        name: "expedat-like",
        about: "model of ExpeDat: mtp-like with '-N 25' ('expect_loss' says otherwise)",
        core: Core::Model(expedat),
        service: Service {
            fixed: Span::from_millis(900),
            round_trips: 4,
        },
    },
];

/// `TIXstream` has 3.75 Gbit/s at (200 ms, 1 %) where bare RWTP has more: fitted by a longer wait for
/// repairs that are lost.
fn tixstream() -> Settings {
    let mut settings = model::rwtp_like();
    settings.name = "tixstream-like";
    if let model::Drive::Push(push) = &mut settings.drive {
        push.repair_wait_rtts = 8.5;
    }
    settings
}

/// `-N 25` is read as "expect 2.5 % of loss", in each direction; see `mtp_like`.
fn expedat() -> Settings {
    let mut settings = model::mtp_like();
    settings.name = "expedat-like";
    if let model::Drive::Pull(pull) = &mut settings.drive {
        pull.loss_threshold = 0.05;
    }
    settings
}

/// The mover of that name.
pub(crate) fn find(name: &str) -> Option<&'static Mover> {
    ALL.iter().find(|mover| mover.name == name)
}

impl Mover {
    /// Service time over a path with this round-trip time.
    pub fn service(&self, rtt: Span) -> Span {
        self.service.fixed + rtt * u64::from(self.service.round_trips)
    }

    /// Its own options where the scenario gives none.
    pub(crate) fn options(&self, given: &Options) -> Options {
        let mut options = given.clone();
        if let Core::Tcp {
            streams,
            window_bytes,
            ..
        } = self.core
        {
            // One connection is a TCP by itself.
            let several = (streams > 1).then_some(streams);
            options.streams = options.streams.or(several);
            options.era = options.era.or_else(|| Some("linux26".to_owned()));
            options.send_buffer_bytes = options.send_buffer_bytes.or(Some(window_bytes));
            options.receive_buffer_bytes = options.receive_buffer_bytes.or(Some(window_bytes));
        }
        options
    }
}
