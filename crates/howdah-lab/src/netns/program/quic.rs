//! QUIC as the library quinn has it, through a small program of ours (peers/quic).

use super::{
    Adapter, AdapterArgs, Figures, Launch, Ready, Recipe, Said, cut_off, last_json, need_peer,
    window_bytes,
};
use crate::netns::Trouble;
use serde::Deserialize;

const PORT: u16 = 4500;

pub(super) const ALL: &[Adapter] = &[
    Adapter {
        name: "quic",
        prepare: |errand, _| prepare(errand, "cubic"),
    },
    Adapter {
        name: "quic-bbr",
        prepare: |errand, _| prepare(errand, "bbr"),
    },
    Adapter {
        name: "sendme",
        prepare: |_, _| Err(Trouble::Skipped(SENDME.to_owned())),
    },
];
/// Why there is no adapter.
const SENDME: &str = "sendme is not built: its sending end comes first and prints a ticket for the receiving one, \
    and it looks for relays in the Internet, which a network of two hosts does not have";

fn prepare(errand: &AdapterArgs<'_>, congestion: &'static str) -> Result<Launch, Trouble> {
    let program = need_peer(errand, "quic-measure")?;
    let at = format!("{}:{PORT}", errand.ends.receiver);
    let mtu = errand.flow.options.packet_bytes.unwrap_or(errand.mtu);
    let settings = [
        at,
        mtu.min(errand.mtu).to_string(),
        window_bytes(errand).to_string(),
        congestion.to_owned(),
    ];
    let size = errand.flow.size_bytes;
    let until = match size {
        Some(bytes) => ["bytes".to_owned(), bytes.to_string()],
        None => ["seconds".to_owned(), format!("{:.3}", errand.seconds)],
    };
    Ok(Launch {
        receiver: Recipe::new(&program)
            .args(["sink"])
            .args(settings.clone())
            .ready(Ready::UdpPort(PORT))
            .ends_itself(),
        sender: Recipe::new(&program)
            .args(["source"])
            .args(settings)
            .args(until)
            .ends_itself(),
        read: Box::new(move |sender, receiver| read(size, congestion, sender, receiver)),
        keep: Vec::new(),
    })
}

/// What both ends of the peer print.
#[derive(Deserialize)]
struct Report {
    bytes: u64,
    seconds: f64,
    congestion: String,
    /// UDP payload.
    sent_bytes: u64,
    lost_bytes: u64,
    mtu: u64,
    window_bytes: u64,
    send_buffer_bytes: u64,
    receive_buffer_bytes: u64,
}

fn read(
    size: Option<u64>,
    congestion: &str,
    sender: &Said,
    receiver: &Said,
) -> Result<Figures, String> {
    let algorithm = format!("quinn, QUIC {congestion}");
    if let Some(figures) = cut_off(size, &algorithm, sender) {
        return Ok(figures);
    }
    let sent: Report = last_json(sender, "the QUIC source")?;
    let received: Result<Report, String> = last_json(receiver, "the QUIC sink");
    if sent.congestion != congestion {
        return Err(format!(
            "asked for {congestion}, quinn used {}",
            sent.congestion
        ));
    }
    let number = |name: &str, value: u64| (format!("quic_{name}"), value.to_string());
    let mut environment = vec![
        number("udp_payload_bytes", sent.mtu),
        number("window_bytes", sent.window_bytes),
        number("send_buffer_bytes", sent.send_buffer_bytes),
    ];
    if let Ok(received) = &received {
        environment.push(number(
            "receive_buffer_bytes",
            received.receive_buffer_bytes,
        ));
    }
    Ok(Figures {
        algorithm,
        delivered_bytes: Some(received?.bytes),
        seconds: Some(sent.seconds),
        sent_bytes: Some(sent.sent_bytes),
        // quinn repeats what it takes for lost.
        retransmitted_bytes: Some(sent.lost_bytes),
        environment,
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_read() {
        let said = |out: &str| Said {
            out: out.to_owned(),
            err: String::new(),
        };
        let sender = said(
            "{\"bytes\": 200000000, \"seconds\": 0.527723, \"congestion\": \"cubic\", \"sent_bytes\": 205426016, \
             \"lost_bytes\": 839040, \"lost_packets\": 570, \"mtu\": 1472, \"window_bytes\": 16000000, \
             \"rtt_ms\": 1.188, \"send_buffer_bytes\": 425984, \"receive_buffer_bytes\": 425984}\n",
        );
        let receiver = said(
            "{\"bytes\": 199000000, \"seconds\": 0.476166, \"congestion\": \"cubic\", \"sent_bytes\": 124552, \
             \"lost_bytes\": 0, \"lost_packets\": 0, \"mtu\": 1472, \"window_bytes\": 16000000, \
             \"rtt_ms\": 2.071, \"send_buffer_bytes\": 425984, \"receive_buffer_bytes\": 425984}\n",
        );
        let figures = read(None, "cubic", &sender, &receiver).unwrap();
        assert_eq!(figures.algorithm, "quinn, QUIC cubic");
        assert_eq!(figures.delivered_bytes, Some(199_000_000));
        assert_eq!(figures.retransmitted_bytes, Some(839_040));
        assert!(read(None, "bbr", &sender, &receiver).is_err());
        assert!(read(None, "cubic", &sender, &said("")).is_err());
        assert!(read(None, "cubic", &said(""), &receiver).is_err());
        let cut_off = read(Some(1), "cubic", &said(""), &said("")).unwrap();
        assert_eq!(cut_off.algorithm, "quinn, QUIC cubic");
    }
}
