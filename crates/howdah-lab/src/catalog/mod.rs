//! The transports that a scenario can name, and what each can be told: one catalog for simulator and testbed.

mod blasters;
mod movers;
mod options;
mod programs;
pub(crate) mod stacks;
mod takes;

pub use blasters::Blaster;
pub(crate) use movers::find as mover;
pub use movers::{Core, Mover};
pub use options::{BlastOptions, Options};
pub(crate) use takes::{takers, takes};

use howdah_core::Span;
use howdah_proto::MIN_DATAGRAM;
use howdah_rivals::model::{self, Settings};
use howdah_rivals::tcp::cc;
use howdah_rivals::udt::UdtConfig;

/// Our protocol, sharing fairly: the default.
pub const HOWDAH: &str = "howdah";
/// UDT's ancestor.
const SABUL: (&str, &str) = (
    "sabul",
    "model of SABUL, UDT's ancestor: UDP data, TCP control",
);
/// Our protocol at a fixed rate, for a dedicated circuit.
pub const HOWDAH_FIXED: &str = "howdah-fixed";
/// Our protocol, giving way to everybody.
pub const HOWDAH_BACKGROUND: &str = "howdah-background";

/// The library quinn: a model of its CUBIC in the simulator, the library itself on a testbed.
const QUIC: (&str, &str) = (
    "quic",
    "QUIC, the library quinn with its CUBIC; in the simulator that CUBIC, paced, over TCP's engine (model)",
);

/// How our protocol shares a path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Manner {
    /// Fairly: the default.
    Fair,
    /// At the flow's `rate`.
    Fixed,
    /// Taking what is left.
    Background,
}

/// What stands behind a name.
#[derive(Clone, Copy, Debug)]
pub enum Protocol {
    /// Our protocol, exactly as it ships.
    Howdah(Manner),
    /// TCP with that congestion control.
    Tcp(&'static cc::Entry),
    /// UDT, of one version or another.
    Udt(fn() -> UdtConfig),
    /// SABUL.
    Sabul,
    /// QUIC: a model here, a real program on a testbed.
    Quic,
    /// A behavioural model of a proprietary transport.
    Model(fn() -> Settings),
    /// A tool that blasts UDP.
    Blast(Blaster),
    /// A file mover's profile over one of those or over TCP.
    Mover(&'static Mover),
    /// A real program that only a testbed can run: its name.
    Foreign(&'static str),
}

/// A version of UDT by name.
struct Udt {
    name: &'static str,
    config: fn() -> UdtConfig,
    about: &'static str,
}

/// The versions of UDT.
const UDTS: [Udt; 2] = [
    Udt {
        name: "udt",
        config: UdtConfig::default,
        about: "UDT 4.11, as the library that Debian ships",
    },
    Udt {
        name: "udt2",
        config: UdtConfig::v2,
        about: "UDT 2 as of JGN06: reconstructed between versions 1 and 3 (model)",
    },
];

/// A behavioural model by name.
#[derive(Debug)]
struct Model {
    name: &'static str,
    settings: fn() -> Settings,
    about: &'static str,
}

/// The behavioural models of proprietary transports.
const MODELS: [Model; 4] = [
    Model {
        name: "mtp-like",
        settings: model::mtp_like,
        about: "model of MTP (ExpeDat's core): the receiver asks for each piece",
    },
    Model {
        name: "rwtp-like",
        settings: model::rwtp_like,
        about: "model of RWTP (TIXstream's core): preset rate, complete lists of what is missing",
    },
    Model {
        name: "filecatalyst-like",
        settings: model::filecatalyst_like,
        about: "model of FileCatalyst Direct's core: preset rate, a list after each block",
    },
    Model {
        name: "fasp-like",
        settings: model::fasp_like,
        about: "model of Aspera FASP, not validated: the rate follows the queueing delay",
    },
];

/// The protocol of that name.
pub fn find(name: &str) -> Option<Protocol> {
    match name {
        HOWDAH => Some(Protocol::Howdah(Manner::Fair)),
        HOWDAH_FIXED => Some(Protocol::Howdah(Manner::Fixed)),
        HOWDAH_BACKGROUND => Some(Protocol::Howdah(Manner::Background)),
        _ if name == SABUL.0 => Some(Protocol::Sabul),
        _ if name == QUIC.0 => Some(Protocol::Quic),
        _ => {
            let model = MODELS.iter().find(|model| model.name == name);
            let model = model.map(|model| Protocol::Model(model.settings));
            let mover = || movers::find(name).map(Protocol::Mover);
            let udt = UDTS.iter().find(|udt| udt.name == name);
            let udt = udt.map(|udt| Protocol::Udt(udt.config));
            udt.or(model)
                .or_else(mover)
                .or_else(|| blasters::find(name).map(Protocol::Blast))
                .or_else(|| cc::find(name).map(Protocol::Tcp))
                .or_else(|| programs::find(name).map(|known| Protocol::Foreign(known.name)))
        }
    }
}

/// All names, and "none", which leaves a flow out.
pub fn names() -> Vec<&'static str> {
    let ours = [HOWDAH, HOWDAH_FIXED, HOWDAH_BACKGROUND];
    let tcp = cc::ALL.iter().map(|entry| entry.name);
    let models = MODELS.iter().map(|model| model.name);
    let movers = movers::ALL.iter().map(|mover| mover.name);
    let udts = UDTS.iter().map(|udt| udt.name).chain([SABUL.0]);
    let blasters = blasters::ALL.iter().map(|tool| tool.0);
    let programs = programs::ALL.iter().map(|program| program.name);
    let rivals = tcp.chain(udts).chain(models).chain(movers).chain(blasters);
    let rivals = rivals.chain([QUIC.0]).chain(programs);
    ours.into_iter().chain(rivals).chain(["none"]).collect()
}

/// Name and one line about each protocol.
pub fn describe() -> Vec<(&'static str, &'static str)> {
    let mut all = vec![
        (HOWDAH, "our protocol, sharing fairly"),
        (HOWDAH_FIXED, "our protocol at a fixed rate (option 'rate')"),
        (HOWDAH_BACKGROUND, "our protocol, giving way to everybody"),
    ];
    all.extend(cc::ALL.iter().map(|entry| (entry.name, entry.about)));
    all.extend(UDTS.iter().map(|udt| (udt.name, udt.about)));
    all.push(SABUL);
    all.extend(MODELS.iter().map(|model| (model.name, model.about)));
    all.extend(movers::ALL.iter().map(|mover| (mover.name, mover.about)));
    all.extend(blasters::ALL.iter().map(|tool| (tool.0, tool.2)));
    all.push(QUIC);
    all.extend(
        programs::ALL
            .iter()
            .map(|program| (program.name, program.about)),
    );
    all
}

/// After how long a flow of that protocol that is alone and steady does the same again, where a clock of its own decides that; zero where
/// only round trips do. `None`: what was seen of it does not tell what follows (docs/fidelity.md, "Fast-forward").
pub(crate) fn cycle(name: &str) -> Option<Span> {
    match find(name)? {
        // Drains.
        Protocol::Howdah(Manner::Background) => Some(Span::from_secs(10)),
        Protocol::Howdah(_) => Some(Span::from_secs(5)),
        Protocol::Foreign(_) => None,
        Protocol::Tcp(entry) if entry.name.starts_with("bbr") => None,
        _ => Some(Span::ZERO),
    }
}

/// Whether a sized flow of it goes over the whole file in rounds: with another size it is another course.
pub(crate) fn goes_in_rounds(name: &str) -> bool {
    matches!(find(name), Some(Protocol::Blast(_) | Protocol::Sabul))
}

/// Checks the options of a flow of that protocol; the error names the key. Options of TCP are
/// allowed for our protocol too, which has no use for them: a list of protocols shares them.
pub(crate) fn check(name: &str, options: &Options) -> Result<(), (&'static str, String)> {
    match find(name) {
        Some(Protocol::Howdah(Manner::Fixed)) if options.rate_bps.is_none() => {
            Err(("rate", format!("'{name}' must be told its rate")))
        }
        // It would never have a connection.
        Some(Protocol::Howdah(_))
            if options
                .mss_bytes
                .is_some_and(|mss| (mss as usize) < MIN_DATAGRAM) =>
        {
            let text = format!("'{name}' has datagrams of {MIN_DATAGRAM} bytes at least");
            Err(("mss", text))
        }
        Some(Protocol::Blast(tool)) if tool.needs_rate() && options.rate_bps.is_none() => {
            Err(("rate", format!("'{name}' must be told its rate")))
        }
        _ => Ok(()),
    }
}
