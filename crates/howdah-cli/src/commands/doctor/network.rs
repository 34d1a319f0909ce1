//! Sockets and interfaces.

use super::{Finding, ask, read};
use howdah::DEFAULT_PORT;
use howdah_core::units::format_bytes;
use howdah_net::{ENOUGH_RECEIVE_BUFFER, WANTED_RECEIVE_BUFFER, WANTED_SEND_BUFFER};
use serde::Deserialize;
use std::net::{Ipv4Addr, UdpSocket};

/// Smaller ones do not carry what the protocol needs at least.
const LEAST_MTU: u32 = 1_280;

/// As `ip -j link` prints it. One that was not asked for is an object without fields.
#[derive(Debug, Deserialize)]
struct Link {
    ifname: Option<String>,
    mtu: Option<u32>,
}

/// Name and MTU of each interface but the loopback.
fn links(text: &str) -> Option<Vec<(String, u32)>> {
    let links: Vec<Link> = serde_json::from_str(text).ok()?;
    let mut all: Vec<(String, u32)> = links
        .into_iter()
        .filter_map(|link| link.ifname.zip(link.mtu))
        .filter(|(name, _)| name != "lo")
        .collect();
    all.sort();
    Some(all)
}

pub(super) fn check() -> Vec<Finding> {
    let mut findings = Vec::new();
    match howdah_net::socket_report() {
        Ok(report) => {
            findings.push(buffer(
                "udp-receive",
                "net.core.rmem_max",
                report.receive_buffer,
                WANTED_RECEIVE_BUFFER,
                ENOUGH_RECEIVE_BUFFER,
            ));
            findings.push(buffer(
                "udp-send",
                "net.core.wmem_max",
                report.send_buffer,
                WANTED_SEND_BUFFER,
                WANTED_SEND_BUFFER / 8,
            ));
            findings.push(offload("udp-gso", "sent", report.gso_segments));
            findings.push(offload("udp-gro", "received", report.gro_segments));
        }
        Err(error) => findings.push(Finding::change(
            "udp-socket",
            format!("no UDP socket can be made: {error}"),
        )),
    }
    findings.push(port());
    findings.extend(interfaces());
    findings
}

/// `granted` is what the kernel says, which is twice what a program may ask for.
fn buffer(id: &'static str, key: &str, granted: usize, wanted: usize, enough: usize) -> Finding {
    let path = format!("/proc/sys/{}", key.replace('.', "/"));
    let allowed: Option<usize> = read(path).and_then(|text| text.parse().ok());
    let remedies = |finding: Finding| {
        finding
            .remedy(format!("sysctl -w {key}={wanted}"))
            .remedy(format!(
                "echo '{key} = {wanted}' >> /etc/sysctl.d/90-howdah.conf"
            ))
    };
    let size = format_bytes(granted as u64);
    if granted < enough {
        let text = format!("the kernel grants {size}, which overflows at high rates");
        remedies(Finding::change(id, text))
    } else if granted < wanted {
        let text = format!(
            "the kernel grants {size}; {} is better",
            format_bytes(wanted as u64)
        );
        remedies(Finding::note(id, text))
    } else if let Some(allowed) = allowed.filter(|allowed| *allowed * 2 < enough) {
        let others = format_bytes(allowed as u64 * 2);
        let text = format!("{size} granted to root; other users get {others}");
        remedies(Finding::note(id, text))
    } else {
        Finding::ok(id, format!("{size} granted"))
    }
}

fn offload(id: &'static str, what: &str, segments: usize) -> Finding {
    if segments > 1 {
        Finding::ok(id, format!("{segments} datagrams are {what} with one call"))
    } else {
        let text =
            format!("each datagram is {what} by a call of its own, which costs processor time");
        Finding::note(id, text).remedy("a kernel from 5.10 on knows UDP segmentation")
    }
}

fn port() -> Finding {
    match UdpSocket::bind((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT)) {
        Ok(_) => Finding::ok("udp-port", format!("UDP port {DEFAULT_PORT} is free")),
        Err(error) => Finding::note(
            "udp-port",
            format!("UDP port {DEFAULT_PORT}: {error}; perhaps 'howdah serve' runs already"),
        ),
    }
}

/// Those that are up, without the loopback: as `ip` sees them, since /sys may show another namespace's.
fn interfaces() -> Vec<Finding> {
    let Some(all) = ask("ip", &["-j", "link", "show", "up"]).and_then(|text| links(&text)) else {
        return vec![
            Finding::note("mtu", "the interfaces cannot be seen")
                .remedy("apt-get install iproute2"),
        ];
    };
    if all.is_empty() {
        return vec![Finding::note("mtu", "no interface is up but the loopback")];
    }
    let findings = all.into_iter().map(|(name, mtu)| match mtu {
        0..LEAST_MTU => Finding::change("mtu", format!("{name}: {mtu} bytes is too little"))
            .remedy(format!("ip link set dev {name} mtu 1500")),
        9_000.. => Finding::ok("mtu", format!("{name}: {mtu} bytes")),
        _ => Finding::ok(
            "mtu",
            format!(
                "{name}: {mtu} bytes; 9000 costs less processor time, if the whole path has it"
            ),
        ),
    });
    findings.collect()
}

/// The path MTU as the protocol's probes find it; it takes them some round trips.
pub(super) fn path_to(peer: &str) -> anyhow::Result<Finding> {
    let summary = crate::commands::probe::glance(peer)?;
    let rtt = summary.rtt_min_us as f64 / 1e3;
    let text = format!(
        "to {peer}: {} bytes, RTT {rtt:.1} ms, loss {:.2} %",
        summary.mtu,
        summary.loss_rate * 100.0
    );
    Ok(if summary.mtu < 1_400 {
        Finding::note("path-mtu", text).remedy("a tunnel on the way takes a share of each packet")
    } else {
        Finding::ok("path-mtu", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::State;

    #[test]
    fn a_small_buffer_comes_with_the_lines_that_change_it() {
        let finding = buffer(
            "udp-receive",
            "net.core.rmem_max",
            425_984,
            32 << 20,
            4 << 20,
        );
        assert_eq!(finding.state, State::Change);
        assert_eq!(
            finding.remedy,
            [
                "sysctl -w net.core.rmem_max=33554432",
                "echo 'net.core.rmem_max = 33554432' >> /etc/sysctl.d/90-howdah.conf"
            ]
        );
        let finding = buffer("udp-receive", "no.such.key", 8 << 20, 32 << 20, 4 << 20);
        assert_eq!(finding.state, State::Note);
        let finding = buffer("udp-receive", "no.such.key", 64 << 20, 32 << 20, 4 << 20);
        assert_eq!(finding.state, State::Ok);
    }

    #[test]
    fn interfaces_that_were_filtered_out_are_empty_objects() {
        let text =
            r#"[{"ifname":"lo","mtu":65536},{},{"ifname":"eth0","mtu":1400,"flags":["UP"]}]"#;
        assert_eq!(links(text), Some(vec![("eth0".to_owned(), 1400)]));
        assert_eq!(links("Cannot open netlink socket"), None);
    }
}
