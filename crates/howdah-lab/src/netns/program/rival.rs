//! Other people's transports in our own sans-IO versions, over real sockets: `howdah rival`.

use super::{AdapterArgs, Figures, Launch, Ready, Recipe, Said, cut_off, last_json};
use crate::netns::Trouble;
use serde::Deserialize;
use std::path::Path;

const PORT: u16 = 9000;
/// What is sent if no size is named: more than the time allows.
const ENDLESS_BYTES: u64 = 1 << 42;
/// Largest payload that every one of them can put into a datagram of 1500 bytes, below this for headers.
const HEADER_BYTES: u32 = 28 + 44;

/// Which side is told the rate, and which the payload of a datagram: sender, receiver.
struct Sides {
    name: &'static str,
    rate: [bool; 2],
    packet: [bool; 2],
}

const KNOWN: [Sides; 7] = [
    sides("udt", [false, false], [true, true]),
    sides("rbudp", [true, false], [true, true]),
    sides("tsunami", [false, true], [false, true]),
    sides("pa-udp", [false, true], [true, true]),
    sides("rwtp-like", [true, false], [true, false]),
    sides("mtp-like", [true, false], [true, false]),
    sides("filecatalyst-like", [true, false], [true, false]),
];

const fn sides(name: &'static str, rate: [bool; 2], packet: [bool; 2]) -> Sides {
    Sides { name, rate, packet }
}

pub(super) fn runs(protocol: &str) -> bool {
    KNOWN.iter().any(|known| known.name == protocol)
}

pub(super) fn prepare(errand: &AdapterArgs<'_>, _: &Path) -> Result<Launch, Trouble> {
    let name = errand.flow.protocol.as_str();
    let sides = KNOWN
        .iter()
        .find(|known| known.name == name)
        .ok_or_else(|| Trouble::Skipped(format!("'{name}' has no real sockets")))?;
    let at = format!("{}:{PORT}", errand.ends.receiver);
    let options = &errand.flow.options;
    let whole = options.packet_bytes.map(|bytes| bytes - 44);
    let packet = options.mss_bytes.or(whole);
    let packet = packet.unwrap_or(errand.mtu).min(errand.mtu - HEADER_BYTES);
    let rate = options.rate_bps.or(errand.rate_bps);
    let told = |side: usize| {
        let mut words = vec!["--json".to_owned(), "--no-hash".to_owned()];
        if let Some(rate) = rate.filter(|_| sides.rate[side]) {
            words.extend(["--rate".to_owned(), format!("{rate}bit")]);
        }
        if sides.packet[side] {
            words.extend(["--packet".to_owned(), packet.to_string()]);
        }
        words
    };
    let size = errand.flow.size_bytes;
    let mut sender = Recipe::new(errand.kit.howdah())
        .args(["rival", "send", name, "--to", &at])
        .args(told(0))
        .args([format!("zero:{}", size.unwrap_or(ENDLESS_BYTES))]);
    let mut receiver = Recipe::new(errand.kit.howdah())
        .args(["rival", "recv", name, "--listen", &at])
        .args(told(1))
        .ready(Ready::Line("waiting for "));
    if size.is_some() {
        (sender, receiver) = (sender.ends_itself(), receiver.ends_itself());
    }
    let name = name.to_owned();
    Ok(Launch {
        receiver,
        sender,
        read: Box::new(move |sender, receiver| read(&name, size, sender, receiver)),
        keep: Vec::new(),
    })
}

#[derive(Deserialize)]
struct Report {
    algorithm: String,
    bytes: u64,
    seconds: f64,
    sent_bytes: u64,
    retransmitted_bytes: u64,
}

fn read(name: &str, size: Option<u64>, sender: &Said, receiver: &Said) -> Result<Figures, String> {
    if let Some(figures) = cut_off(size, name, sender) {
        return Ok(figures);
    }
    if size.is_none() {
        // Interrupted in the middle: the emulator's counts stand for what came.
        return Ok(Figures {
            algorithm: name.to_owned(),
            ..Figures::default()
        });
    }
    let sent: Report = last_json(sender, "the sender")?;
    let received: Report = last_json(receiver, "the receiver")?;
    Ok(Figures {
        algorithm: sent.algorithm,
        delivered_bytes: Some(received.bytes),
        seconds: Some(sent.seconds),
        sent_bytes: Some(sent.sent_bytes),
        retransmitted_bytes: Some(sent.retransmitted_bytes),
        ..Figures::default()
    })
}
