//! What the flows met on this machine, for the record.

use howdah_wan::Network;
use std::collections::BTreeMap;
use std::fs;

/// Settings of a namespace that have an influence on TCP, read where the flows live.
const SETTINGS: [&str; 6] = [
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_no_metrics_save",
    "net/core/rmem_max",
    "net/core/wmem_max",
];

pub(super) fn of(network: &Network) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let read = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    if let Ok(kernel) = read("/proc/sys/kernel/osrelease") {
        all.insert("kernel".to_owned(), kernel);
    }
    let offloads = if network.has_udp_offload() {
        "checksum, TCP and UDP segmentation"
    } else {
        "checksum, TCP segmentation"
    };
    all.insert("offloads".to_owned(), offloads.to_owned());
    let inside = network.a(0).run_in(|| {
        SETTINGS
            .iter()
            .filter_map(|name| {
                let text = read(&format!("/proc/sys/{name}")).ok()?;
                let words: Vec<&str> = text.split_whitespace().collect();
                Some((name.replace('/', "."), words.join(" ")))
            })
            .collect::<Vec<_>>()
    });
    all.extend(inside.into_iter().flatten());
    all
}
