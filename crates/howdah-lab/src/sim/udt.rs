//! UDT's and SABUL's endpoints from a scenario's options.

use super::node::{Node, Pair, Wish};
use howdah_core::Rate;
use howdah_rivals::sabul::{SabulEndpoint, SabulSettings};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use howdah_sim::IPV4_UDP_BYTES;

/// A path that does not say what fits has this `mtu`.
const NO_MTU: u32 = 65_535;

/// The connection that the options ask for. Buffers become packets as the library makes them of bytes:
/// by the size of a packet without IP and UDP headers.
fn configure(mut config: UdtConfig, wish: &Wish<'_>) -> UdtConfig {
    let options = wish.options;
    let headers = config.packet_bytes - config.payload_bytes();
    config.packet_bytes = match (options.packet_bytes, options.mss_bytes) {
        (Some(packet), _) => packet,
        (None, Some(payload)) => payload + headers,
        (None, None) if wish.mtu < NO_MTU => wish.mtu,
        (None, None) => config.packet_bytes,
    };
    let packets = |bytes: u64| {
        let packet = u64::from(config.packet_bytes.saturating_sub(IPV4_UDP_BYTES).max(1));
        u32::try_from(bytes / packet).unwrap_or(u32::MAX)
    };
    let (send, receive) = (options.send_buffer_bytes, options.receive_buffer_bytes);
    config.send_buffer_packets = send.map_or(config.send_buffer_packets, packets);
    config.receive_buffer_packets = receive.map_or(config.receive_buffer_packets, packets);
    config.flight_packets = options.flight_packets.unwrap_or(config.flight_packets);
    if let Some(bytes) = options.app_write_bytes {
        // 0: the application writes whole packets.
        config.rules.write_bytes = (bytes > 0).then_some(bytes);
    }
    config
}

/// The endpoints of a flow.
pub(super) fn pair(config: UdtConfig, wish: &Wish<'_>) -> Pair {
    let config = configure(config, wish);
    let [seed, other] = wish.seeds;
    Pair {
        sender: Node::Udt(UdtEndpoint::sender(&config, wish.size_bytes, seed)),
        receiver: Node::Udt(UdtEndpoint::receiver(&config, other)),
        header_bytes: IPV4_UDP_BYTES,
    }
}

/// The endpoints of a SABUL flow. `rate` is where it starts and the most that it sends.
pub(super) fn sabul(wish: &Wish<'_>) -> Pair {
    let options = wish.options;
    let mut settings = SabulSettings::default();
    let headers = settings.packet_bytes - settings.payload_bytes();
    let payload = options.mss_bytes.map(|payload| payload + headers);
    settings.packet_bytes = options
        .packet_bytes
        .or(payload)
        .unwrap_or_else(|| settings.packet_bytes.min(wish.mtu));
    settings.flight_packets = options.flight_packets.unwrap_or(settings.flight_packets);
    if let Some(bps) = options.rate_bps {
        settings = settings.at_most(Rate::from_bits_per_sec(bps));
    }
    Pair {
        sender: Node::Sabul(SabulEndpoint::sender(&settings, wish.size_bytes)),
        receiver: Node::Sabul(SabulEndpoint::receiver(&settings)),
        header_bytes: IPV4_UDP_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::Options;
    use howdah_core::Time;

    fn configured(mtu: u32, options: &Options) -> UdtConfig {
        let wish = Wish {
            protocol: "udt",
            options,
            size_bytes: None,
            start: Time::ZERO,
            mtu,
            marks: false,
            seeds: [1, 2],
            budget: None,
            cache: None,
            known: None,
        };
        configure(UdtConfig::default(), &wish)
    }

    #[test]
    fn packets_and_buffers_follow_the_options() {
        let plain = Options::default();
        assert_eq!(configured(1500, &plain), UdtConfig::default());
        assert_eq!(configured(65_535, &plain).packet_bytes, 1500);
        assert_eq!(configured(9000, &plain).payload_bytes(), 8956);
        let jumbo = Options {
            packet_bytes: Some(8800),
            receive_buffer_bytes: Some(64 << 20),
            app_write_bytes: Some(0),
            flight_packets: Some(100_000),
            ..Options::default()
        };
        let config = configured(9000, &jumbo);
        assert_eq!(config.payload_bytes(), 8756);
        assert_eq!(config.receive_buffer_packets, (64 << 20) / 8772);
        assert_eq!(config.send_buffer_packets, 8192);
        assert_eq!(config.rules.write_bytes, None);
        assert_eq!(config.flight_packets, 100_000);
    }
}
