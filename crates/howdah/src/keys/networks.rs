//! Networks that a key may come from: `192.0.2.0/24,2001:db8::/32,198.51.100.7`.

use std::net::IpAddr;

/// See the module. At least one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Networks(Vec<Network>);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Network {
    address: IpAddr,
    /// Leading bits that count.
    bits: u32,
}

/// An address as a number, its leading bit first, and how many bits it has.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (u128::from(address), 128),
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let (_, all) = number(address);
        let bits = bits.map_or(Some(all), |bits| bits.parse().ok())?;
        (bits <= all).then_some(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        let ((ours, len), (theirs, their_len)) = (number(self.address), number(address));
        let differing = (ours ^ theirs).leading_zeros();
        len == their_len && differing >= self.bits
    }
}

impl Networks {
    /// Networks separated by commas; `None` if one of them is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let networks = text.split(',').map(|part| Network::parse(part.trim()));
        Some(Self(networks.collect::<Option<_>>()?))
    }

    /// Whether `address` is in one of them. An IPv4 address in the clothes of IPv6 is an IPv4 address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_their_networks_and_in_no_other() {
        let networks = Networks::parse("192.0.2.0/24, 2001:db8::/32,198.51.100.7,10.1.2.3/31")
            .expect("networks");
        for (address, inside) in [
            ("192.0.2.255", true),
            ("192.0.3.0", false),
            ("::ffff:192.0.2.9", true),
            ("2001:db8:ffff::1", true),
            ("2001:db9::1", false),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
            ("10.1.2.2", true),
            ("10.1.2.4", false),
            ("c000:200::", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(networks.contains(address), inside, "{address}");
        }
        let all = Networks::parse("0.0.0.0/0").expect("a network");
        assert!(all.contains("203.0.113.1".parse().expect("an address")));
        assert!(!all.contains("::1".parse().expect("an address")));
    }
}
