//! UDT as Debian has it.

use super::{
    Adapter, AdapterArgs, Figures, Launch, Ready, Recipe, Said, cut_off, last_json, need_peer,
    window_bytes,
};
use crate::netns::Trouble;
use serde::Deserialize;

const UDT_PORT: u16 = 9100;

pub(super) const ALL: &[Adapter] = &[Adapter {
    name: "libudt",
    prepare: |errand, _| libudt(errand),
}];

fn libudt(errand: &AdapterArgs<'_>) -> Result<Launch, Trouble> {
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
    let size = errand.flow.size_bytes;
    let until = match size {
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
        read: Box::new(move |sender, receiver| read_libudt(size, sender, receiver)),
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

fn read_libudt(size: Option<u64>, sender: &Said, receiver: &Said) -> Result<Figures, String> {
    if let Some(figures) = cut_off(size, "libudt", sender) {
        return Ok(figures);
    }
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
            "{\"bytes\": 5000000, \"seconds\": 1.500000, \"retransmitted_packets\": 3, \"packet_bytes\": 1456}\n",
        );
        let receiver = said(
            "{\"bytes\": 4990000, \"seconds\": 1.400000, \"retransmitted_packets\": 0, \"packet_bytes\": 1456}\n",
        );
        let figures = read_libudt(Some(5_000_000), &sender, &receiver).unwrap();
        assert_eq!(figures.delivered_bytes, Some(4_990_000));
        assert_eq!(figures.sent_bytes, Some(5_000_000 + 3 * 1456));
        assert_eq!(figures.retransmitted_bytes, Some(3 * 1456));
        assert!(read_libudt(None, &sender, &said("")).is_err());
        assert!(read_libudt(None, &said(""), &receiver).is_err());
        let cut_off = read_libudt(Some(5_000_000), &said(""), &said("")).unwrap();
        assert_eq!(cut_off.delivered_bytes, None);
    }
}
