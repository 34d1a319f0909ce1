//! The link inside a namespace: device, addresses, kernel settings, and the device's own count of
//! what it dropped.

use crate::WanError;
use crate::netns::{Namespace, ip};
use crate::tun::Tun;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The device's name in both namespaces.
const DEVICE: &str = "wan0";
/// Super-packets that may wait between the kernel and the emulator thread. Not a queue of the
/// path: the emulator empties it as fast as it can, and what overflows counts as unplanned.
const TX_QUEUE_LEN: u32 = 10_000;

/// What a namespace needs so that a TCP sender is limited by the path and its congestion control,
/// not by this machine's defaults: buffers for 1 GiB in flight, the most that a TCP window can
/// announce (asking for more makes the kernel choose a window scale that does not work), and no
/// memory of earlier connections. Everything is per namespace.
const SETTINGS: [(&str, &str); 6] = [
    ("net/ipv4/tcp_rmem", "4096 131072 1073741824"),
    ("net/ipv4/tcp_wmem", "4096 16384 1073741824"),
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // No chatter of our own on the path.
    ("net/ipv6/conf/wan0/router_solicitations", "0"),
    ("net/ipv6/conf/wan0/accept_dad", "0"),
    ("net/ipv6/conf/wan0/addr_gen_mode", "1"),
];

/// The emulator's side of one end.
#[derive(Debug)]
pub(crate) struct Link {
    pub tun: Tun,
    pub drops: DropCount,
}

impl Link {
    /// `route` and `host` are the last two numbers of its addresses.
    pub(crate) fn create(
        namespace: &Namespace,
        (route, host): (u8, u8),
        mtu: u32,
    ) -> Result<Self, WanError> {
        let (tun, drops) = namespace
            .run_in(|| -> Result<_, WanError> {
                let tun = Tun::create(DEVICE)?;
                for (name, value) in SETTINGS {
                    // A kernel without IPv6, or without one of these, still makes a good WAN.
                    match std::fs::write(format!("/proc/sys/{name}"), value) {
                        Ok(()) => {}
                        Err(_) if name.starts_with("net/ipv6") => {}
                        Err(error) => return Err(WanError::system(format!("set {name}"))(error)),
                    }
                }
                Ok((tun, DropCount::open()?))
            })
            .map_err(WanError::system(format!("enter {}", namespace.name())))??;
        let mut script = format!(
            "link set lo up\n\
             link set {DEVICE} mtu {mtu} txqueuelen {TX_QUEUE_LEN} up\n\
             addr add 10.88.{route}.{host}/24 dev {DEVICE}\n"
        );
        // IPv6 needs an MTU of 1280 (RFC 8200, section 5) and may be missing from the kernel.
        if mtu >= 1280 && std::path::Path::new("/proc/net/if_inet6").exists() {
            // Writing to a string cannot fail.
            let _ = writeln!(script, "addr add {} dev {DEVICE} nodad", ipv6(route, host));
        }
        ip(&["-n", namespace.name(), "-batch", "-"], &script)?;
        Ok(Self { tun, drops })
    }
}

/// With the length of its network.
fn ipv6(route: u8, host: u8) -> String {
    match route {
        0 => format!("fd88::{host}/64"),
        route => format!("fd88:{route:x}::{host}/64"),
    }
}

/// Packets that the device refused because the emulator did not fetch them in time.
#[derive(Debug)]
pub(crate) struct DropCount(File);

impl DropCount {
    /// Opened inside the namespace, the file goes on to tell of it.
    fn open() -> Result<Self, WanError> {
        let path = "/proc/thread-self/net/dev";
        File::open(path)
            .map(Self)
            .map_err(WanError::system(format!("open {path}")))
    }

    /// So far.
    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut text = [0; 4096];
        let len = self.0.read_at(&mut text, 0)?;
        let text = String::from_utf8_lossy(&text[..len]);
        tx_dropped(&text, DEVICE).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// The twelfth number behind the device's name in `/proc/net/dev`.
fn tx_dropped(text: &str, device: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.trim_start().strip_prefix(device)?.strip_prefix(':'))?;
    line.split_ascii_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_drop_column() {
        let text = "Inter-|   Receive                                                |  Transmit\n \
                    face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
                    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                    wan0: 100 1 0 0 0 0 0 0 200 2 0 77 0 0 0 0\n";
        assert_eq!(tx_dropped(text, "wan0"), Some(77));
        assert_eq!(tx_dropped(text, "lo"), Some(12));
        assert_eq!(tx_dropped(text, "wan"), None);
    }
}
