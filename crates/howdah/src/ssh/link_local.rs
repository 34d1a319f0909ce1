//! Link-local addresses that another machine has told. What a link is called is each machine's own affair.

use std::net::{SocketAddr, SocketAddrV6};

/// Links that are tried.
const LINKS_MAX: usize = 4;
/// In the kernel's list: the address is of the link only.
const SCOPE_LINK: &str = "20";

/// The addresses as they are written here: a link-local one is tried on every link.
pub(crate) fn as_here(told: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let list = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    on_links(told, &links(&list))
}

fn on_links(told: Vec<SocketAddr>, links: &[u32]) -> Vec<SocketAddr> {
    let on_each = |address| match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => links
            .iter()
            .map(|&link| SocketAddrV6::new(*v6.ip(), v6.port(), 0, link).into())
            .collect(),
        address => vec![address],
    };
    told.into_iter().flat_map(on_each).collect()
}

/// The numbers of the links that have such an address, as the kernel lists them: address, number, prefix, scope, flags, name.
fn links(list: &str) -> Vec<u32> {
    let mut found: Vec<u32> = list
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (number, scope) = (fields.get(1)?, fields.get(3)?);
            (*scope == SCOPE_LINK).then(|| u32::from_str_radix(number, 16).ok())?
        })
        .collect();
    found.dedup();
    found.truncate(LINKS_MAX);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t15_a_link_local_address_is_tried_on_every_link() {
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
                    fe800000000000000000000000000001 0b 40 20 80     eth0\n\
                    20010db8000000000000000000000001 0b 40 00 80     eth0\n\
                    fe800000000000000000000000000002 0c 40 20 80     eth1\n\
                    nonsense\n";
        assert_eq!(links(list), [11, 12]);
        let told = ["[fe80::9%3]:1", "192.0.2.1:1", "[2001:db8::1]:1"];
        let told = told.map(|text| text.parse().expect("an address")).to_vec();
        let here: Vec<String> = on_links(told, &[11, 12])
            .iter()
            .map(ToString::to_string)
            .collect();
        let want = [
            "[fe80::9%11]:1",
            "[fe80::9%12]:1",
            "192.0.2.1:1",
            "[2001:db8::1]:1",
        ];
        assert_eq!(here, want);
    }
}
