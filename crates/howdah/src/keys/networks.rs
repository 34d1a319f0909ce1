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
        let bits = match bits {
            Some(bits) if !bits.bytes().all(|byte| byte.is_ascii_digit()) => return None,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= all)?,
            None => all,
        };
        match (address, address.to_canonical()) {
            // In the clothes of IPv6: addresses of IPv4 are compared without them, and what is wider is half of either.
            (IpAddr::V6(_), address @ IpAddr::V4(_)) => {
                let bits = bits.checked_sub(96)?;
                Some(Self { address, bits })
            }
            _ => Some(Self { address, bits }),
        }
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
        // Written as IPv6, an IPv4 network is one all the same.
        let mapped = Networks::parse("::ffff:192.0.2.0/120,::ffff:198.51.100.7").expect("networks");
        for (address, inside) in [
            ("192.0.2.9", true),
            ("::ffff:192.0.2.9", true),
            ("192.0.3.9", false),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            assert_eq!(mapped.contains(address), inside, "{address}");
        }
        assert!(Networks::parse("::ffff:0.0.0.0/95").is_none());
        let all = Networks::parse("0.0.0.0/0").expect("a network");
        assert!(all.contains("203.0.113.1".parse().expect("an address")));
        assert!(!all.contains("::1".parse().expect("an address")));
    }
}
