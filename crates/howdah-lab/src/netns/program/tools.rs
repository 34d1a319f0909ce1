//! Programs that Debian has.

use super::{Errand, Figures, Launch, Program, Ready, Recipe, Said, last_json};
use crate::netns::Trouble;
use crate::netns::kit::in_path;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;

const IPERF_PORT: u16 = 5201;
const UDT_PORT: u16 = 9100;

pub(super) const ALL: &[Program] = &[
    Program {
        name: "iperf3-cubic",
        about: "iperf3 over the kernel's CUBIC",
        install: "apt-get install iperf3",
        prepare: |errand, _| iperf3(errand, "cubic"),
    },
    Program {
        name: "iperf3-bbr",
        about: "iperf3 over the kernel's BBR (version 1)",
        install: "apt-get install iperf3",
        prepare: |errand, _| iperf3(errand, "bbr"),
    },
    Program {
        name: "libudt",
        about: "UDT 4 as Debian ships it (libudt), through a small program of ours",
        install: "make peers",
        prepare: |errand, _| libudt(errand),
    },
];

/// A peer of our own that `make peers` builds, or why the flow is skipped.
fn need_peer(errand: &Errand<'_>, name: &str) -> Result<PathBuf, Trouble> {
    let found = errand.kit.peer(name);
    found.ok_or_else(|| Trouble::Skipped(format!("the peer '{name}' is missing (make peers)")))
}

/// The program, or why the flow is skipped.
pub(super) fn need(name: &str, install: &str) -> Result<PathBuf, Trouble> {
    in_path(name)
        .ok_or_else(|| Trouble::Skipped(format!("the program '{name}' is missing ({install})")))
}

/// What must be under way to fill the path twice, in bytes.
fn window_bytes(errand: &Errand<'_>) -> u64 {
    let bytes = errand.rate_bps.unwrap_or(0) as f64 / 8.0 * errand.rtt_s;
    (2.0 * bytes).clamp(16e6, 1e9) as u64
}

fn libudt(errand: &Errand<'_>) -> Result<Launch, Trouble> {
    let program = need_peer(errand, "udt-measure")?;
    let port = UDT_PORT.to_string();
    let to = errand.ends.receiver.to_string();
    let options = &errand.flow.options;
    // UDT's MSS is the IP packet.
    let mss = options
        .packet_bytes
        .unwrap_or(errand.mtu)
        .min(errand.mtu)
        .to_string();
    let window = window_bytes(errand).to_string();
    let until = match errand.flow.size_bytes {
        Some(bytes) => ["bytes".to_owned(), bytes.to_string()],
        None => ["seconds".to_owned(), format!("{:.3}", errand.seconds)],
    };
    Ok(Launch {
        receiver: Recipe::new(&program)
            .args(["sink", &to, &port, &mss, &window])
            .ready(Ready::UdpPort(UDT_PORT))
            .ends_itself(),
        sender: Recipe::new(&program)
            .args(["source", &to, &port, &mss, &window])
            .args(until)
            .ends_itself(),
        read: Box::new(read_libudt),
        keep: Vec::new(),
    })
}

/// What both ends of the peer print.
#[derive(Deserialize)]
struct Udt {
    bytes: u64,
    seconds: f64,
    #[serde(default)]
    retransmitted_packets: u64,
    #[serde(default)]
    packet_bytes: u64,
}

fn read_libudt(sender: &Said, receiver: &Said) -> Result<Figures, String> {
    let sent: Udt = last_json(sender, "the sender over libudt")?;
    let received: Udt = last_json(receiver, "the receiver over libudt")?;
    let repeated = sent.retransmitted_packets * sent.packet_bytes;
    Ok(Figures {
        algorithm: "libudt".to_owned(),
        delivered_bytes: Some(received.bytes),
        seconds: Some(sent.seconds),
        sent_bytes: Some(sent.bytes + repeated),
        retransmitted_bytes: Some(repeated),
        ..Figures::default()
    })
}

fn iperf3(errand: &Errand<'_>, congestion: &'static str) -> Result<Launch, Trouble> {
    let program = need("iperf3", "apt-get install iperf3")?;
    let port = IPERF_PORT.to_string();
    let to = errand.ends.receiver.to_string();
    let streams = errand.flow.options.streams.unwrap_or(1).to_string();
    let how_much = match errand.flow.size_bytes {
        Some(bytes) => ["-n".to_owned(), bytes.to_string()],
        None => ["-t".to_owned(), format!("{:.0}", errand.seconds.max(1.0))],
    };
    Ok(Launch {
        receiver: Recipe::new(&program)
            .args(["-s", "-1", "-J", "-p", &port])
            .ready(Ready::TcpPort(IPERF_PORT))
            .ends_itself(),
        sender: Recipe::new(&program)
            .args([
                "-c", &to, "-p", &port, "-C", congestion, "-P", &streams, "-J",
            ])
            .args(how_much)
            .ends_itself(),
        read: Box::new(move |sender, receiver| read_iperf3(congestion, sender, receiver)),
        keep: Vec::new(),
    })
}

fn read_iperf3(congestion: &str, sender: &Said, receiver: &Said) -> Result<Figures, String> {
    let parse = |said: &Said, whose: &str| -> Result<Value, String> {
        let value: Value = serde_json::from_str(&said.out)
            .map_err(|error| format!("iperf3 {whose} printed no JSON: {error}"))?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("iperf3 {whose}: {error}")),
            None => Ok(value),
        }
    };
    let (sent, received) = (parse(sender, "-c")?, parse(receiver, "-s")?);
    let used = sent
        .pointer("/end/sender_tcp_congestion")
        .and_then(Value::as_str);
    if used != Some(congestion) {
        return Err(format!(
            "asked for TCP {congestion}, the kernel used {}",
            used.unwrap_or("nobody knows what")
        ));
    }
    let number = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_f64);
    Ok(Figures {
        algorithm: format!("iperf3, kernel {congestion}"),
        delivered_bytes: number(&received, "/end/sum_received/bytes").map(|bytes| bytes as u64),
        seconds: number(&sent, "/end/sum_sent/seconds"),
        sent_bytes: number(&sent, "/end/sum_sent/bytes").map(|bytes| bytes as u64),
        environment: vec![("tcp_congestion".to_owned(), congestion.to_owned())],
        ..Figures::default()
    })
}
