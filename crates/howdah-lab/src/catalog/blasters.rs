//! The tools that blast UDP, by name.

use super::Options;
use howdah_core::{Rate, Span};
use howdah_rivals::blast::{
    BlastEndpoint, PacedRule, PacedSettings, RbudpMode, RbudpSettings, SendBuffer, SharedBudget,
    TsunamiErrors, TsunamiSettings,
};

/// A blasting tool.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Blaster {
    /// RBUDP.
    Rbudp,
    /// Tsunami, or the model of `RTsunami`.
    Tsunami(TsunamiErrors),
    /// `PA-UDP` or GTP, both models.
    Paced(PacedRule),
}

/// Name, tool and a line about each.
pub(crate) const ALL: &[(&str, Blaster, &str)] = &[
    (
        "rbudp",
        Blaster::Rbudp,
        "RBUDP: blasts at 'rate', then what a bitmap calls missing; a file, or 'chunk' by 'chunk'",
    ),
    (
        "tsunami",
        Blaster::Tsunami(TsunamiErrors::RequestsAndRing),
        "Tsunami 1.1: blocks at an inter-packet delay that error rates change",
    ),
    (
        "rtsunami-like",
        Blaster::Tsunami(TsunamiErrors::RingAlone),
        "model of RTsunami: Tsunami whose rate follows the receiver's ring alone",
    ),
    (
        "pa-udp",
        Blaster::Paced(PacedRule::PaUdp),
        "model of PA-UDP: rate from 'rate', 'memory', disk ('write') and remaining size",
    ),
    (
        "gtp",
        Blaster::Paced(PacedRule::Gtp),
        "model of GTP: the receiver divides its 'budget' max-min among its flows",
    ),
];

/// The tool of that name.
pub(crate) fn find(name: &str) -> Option<Blaster> {
    ALL.iter().find(|tool| tool.0 == name).map(|tool| tool.1)
}

impl Blaster {
    /// Whether somebody must tell it a rate.
    pub(crate) const fn needs_rate(self) -> bool {
        !matches!(self, Self::Tsunami(_))
    }

    /// What the receiving host can take in of all its flows, if that is shared.
    pub(crate) fn budget(self, options: &Options) -> Option<Rate> {
        let own = match self {
            Self::Paced(PacedRule::Gtp) => options.blast.budget_bps.or(options.rate_bps),
            Self::Paced(PacedRule::PaUdp) => options.blast.budget_bps,
            Self::Rbudp | Self::Tsunami(_) => None,
        };
        own.map(Rate::from_bits_per_sec)
    }

    /// Sender and receiver.
    pub(crate) fn pair(
        self,
        options: &Options,
        size_bytes: Option<u64>,
        mtu: u32,
        budget: Option<&SharedBudget>,
    ) -> (BlastEndpoint, BlastEndpoint) {
        let rate = options.rate_bps.map(Rate::from_bits_per_sec);
        let own = &options.blast;
        let held = own.held_ns.map(|ns| SendBuffer {
            bytes: options.send_buffer_bytes.unwrap_or(u64::MAX),
            held: Span::from_nanos(ns),
        });
        let disk = options.write_bps.map(Rate::from_bits_per_sec);
        // A packet number of 4 bytes, UDP's header and IP's.
        let payload_bytes = options.mss_bytes.unwrap_or(1460).min(mtu - 32);
        match self {
            Self::Rbudp => {
                let stream = RbudpSettings::stream(rate.unwrap_or(Rate::ZERO), size_bytes);
                let mode = match (own.chunk_bytes, size_bytes) {
                    (Some(chunk_bytes), _) => RbudpMode::Stream { chunk_bytes },
                    (None, Some(_)) => RbudpMode::File,
                    (None, None) => stream.mode,
                };
                let settings = RbudpSettings {
                    payload_bytes,
                    mode,
                    memory_bytes: own.memory_bytes,
                    ..stream
                };
                (
                    BlastEndpoint::rbudp_sender(&settings, held),
                    BlastEndpoint::rbudp_receiver(&settings),
                )
            }
            Self::Tsunami(errors) => {
                let usual = TsunamiSettings::default();
                let settings = TsunamiSettings {
                    block_bytes: own.block_bytes.unwrap_or(usual.block_bytes),
                    target: rate.unwrap_or(usual.target),
                    size_bytes,
                    disk,
                    errors,
                    ..usual
                };
                (
                    BlastEndpoint::tsunami_server(&settings, mtu, held),
                    BlastEndpoint::tsunami_client(&settings, mtu),
                )
            }
            Self::Paced(rule) => {
                let usual = PacedSettings::pa_udp(rate.unwrap_or(Rate::ZERO), size_bytes);
                let settings = PacedSettings {
                    rule,
                    payload_bytes,
                    memory_bytes: own.memory_bytes.unwrap_or(usual.memory_bytes),
                    disk,
                    ..usual
                };
                (
                    BlastEndpoint::paced_sender(&settings, held),
                    BlastEndpoint::paced_receiver(&settings, budget),
                )
            }
        }
    }
}
