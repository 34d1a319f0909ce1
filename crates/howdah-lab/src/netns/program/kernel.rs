//! The kernel's TCP, through a sender and a sink of our own (`howdah internal`).

use super::{AdapterArgs, Figures, Launch, Ready, Recipe, Said, last_json};
use crate::netns::Trouble;
use howdah_load::READY;
use howdah_load::tcp::{ReceiveReport, SendReport};
use std::path::Path;

const PORT: u16 = 5001;
/// The most that a window can announce.
const MOST_BUFFER_BYTES: u64 = 1 << 30;

/// Congestion controls by the scenario's name: what the kernel calls them if they are built in, and what our BPF
/// programs are called.
const KNOWN: [(&str, Option<&str>, Option<&str>); 11] = [
    ("cubic", Some("cubic"), None),
    // In the simulator the law of Linux 6, where "cubic" is RFC 9438's.
    ("cubic-linux6", Some("cubic"), None),
    ("reno", Some("reno"), None),
    // Linux's "bbr" is version 1.
    ("bbr1", Some("bbr"), None),
    ("hstcp", Some("highspeed"), Some("bpf_hstcp")),
    ("scalable", Some("scalable"), Some("bpf_scalable")),
    ("htcp", Some("htcp"), Some("bpf_htcp")),
    ("fast", None, Some("bpf_fast")),
    ("bic", Some("bic"), Some("bpf_bic")),
    ("cubic2005", None, Some("bpf_cubic05")),
    // Where the kernel has the module; its slow start grows in each round trip.
    ("vegas", Some("vegas"), None),
];

pub(super) fn runs(protocol: &str) -> bool {
    KNOWN.iter().any(|(name, ..)| *name == protocol)
}

/// A congestion control that this kernel has now, and what keeps it there. Our own BPF program of a name is
/// preferred: it is what the paper describes.
pub(super) fn congestion(protocol: &str) -> Result<(String, Vec<Box<dyn Send>>), Trouble> {
    let (_, built_in, bpf) = KNOWN
        .iter()
        .find(|(name, ..)| *name == protocol)
        .ok_or_else(|| Trouble::Skipped(format!("'{protocol}' is no TCP of this kernel")))?;
    let mut why = String::new();
    if let Some(bpf) = bpf {
        match super::super::bpf::load(bpf) {
            Ok((name, keep)) => return Ok((name, vec![keep])),
            Err(reason) => why = reason,
        }
    }
    let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let available = available.unwrap_or_default();
    match built_in {
        Some(name) if available.split_whitespace().any(|known| known == *name) => {
            Ok(((*name).to_owned(), Vec::new()))
        }
        _ => Err(Trouble::Skipped(format!(
            "this kernel has no TCP '{protocol}'{}{why}",
            if why.is_empty() { "" } else { ": " }
        ))),
    }
}

pub(super) fn prepare(errand: &AdapterArgs<'_>, _: &Path) -> Result<Launch, Trouble> {
    let (congestion, keep) = congestion(&errand.flow.protocol)?;
    let to = format!("{}:{PORT}", errand.ends.receiver);
    let options = &errand.flow.options;
    let streams = options.streams.unwrap_or(1).to_string();
    // Linux announces about half of its receive buffer; so twice what the scenario asks for.
    let buffer = |asked: Option<u64>| {
        let bytes = asked.map_or(MOST_BUFFER_BYTES, |bytes| bytes.saturating_mul(2));
        bytes.clamp(1 << 16, MOST_BUFFER_BYTES).to_string()
    };
    let time = format!("{:.3}s", errand.seconds);
    let mut sender = Recipe::new(errand.kit.howdah())
        .args(["internal", "tcp-send", "--to", &to, "--time", &time])
        .args(["--streams", &streams, "--congestion", &congestion])
        .args(["--buffer", &buffer(options.send_buffer_bytes)])
        .ends_itself();
    if let Some(bytes) = errand.flow.size_bytes {
        sender = sender.args(["--size", &bytes.to_string()]);
    }
    Ok(Launch {
        receiver: Recipe::new(errand.kit.howdah())
            .args(["internal", "tcp-recv", "--listen", &to, "--time", "100000s"])
            .args(["--streams", &streams])
            .args(["--buffer", &buffer(options.receive_buffer_bytes)])
            .ready(Ready::Line(READY))
            .ends_itself(),
        sender,
        read: Box::new(read),
        keep,
    })
}

fn read(sender: &Said, receiver: &Said) -> Result<Figures, String> {
    let sent: SendReport = last_json(sender, "the TCP sender")?;
    let received: ReceiveReport = last_json(receiver, "the TCP receiver")?;
    Ok(Figures {
        algorithm: format!("kernel {}", sent.congestion),
        delivered_bytes: Some(received.bytes),
        seconds: Some(sent.seconds),
        over_tcp: true,
        retransmitted_bytes: Some(sent.retransmitted_segments * u64::from(sent.mss_bytes)),
        environment: vec![
            ("tcp_congestion".to_owned(), sent.congestion),
            ("tcp_wmem_max".to_owned(), sent.buffer_limit.to_string()),
            ("tcp_rmem_max".to_owned(), received.buffer_limit.to_string()),
            ("tcp_mss".to_owned(), sent.mss_bytes.to_string()),
        ],
        samples: sent.samples,
        ..Figures::default()
    })
}
