//! What the kernel counts of all TCP connections of a host. A flow's sender has a host of its own, so these are the
//! flow's, whatever program runs there and whether it tells or not.

use howdah_wan::Namespace;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// IPv4, TCP and its timestamps.
const HEADER_BYTES: u32 = 20 + 20 + 12;
/// Tables of `/proc/net` are a few KiB.
const MOST_BYTES: usize = 1 << 16;

/// Payload of a full segment on a route with that MTU. Retransmitted segments are full but for a flow's last one.
pub(super) fn segment_bytes(mtu: u32) -> u64 {
    u64::from(mtu.saturating_sub(HEADER_BYTES))
}

/// Counts of a host since it was made.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct TcpCounts {
    /// `RetransSegs` (RFC 4022).
    pub(super) retransmitted_segments: u64,
    /// `TCPTimeouts`: retransmission timers that expired.
    pub(super) timeouts: u64,
    /// `TCPSackRecovery` and `TCPRenoRecovery`: times that fast recovery began.
    pub(super) recoveries: u64,
}

/// Where they are read. A file of `/proc/net` speaks of the namespace that it was opened in, wherever it is read.
#[derive(Debug)]
pub(super) struct TcpCounters {
    snmp: File,
    netstat: File,
}

impl TcpCounters {
    /// `None` where the kernel does not tell.
    pub(super) fn open(host: &Namespace) -> Option<Self> {
        let open = |name: &str| File::open(format!("/proc/thread-self/net/{name}")).ok();
        host.run_in(|| {
            Some(Self {
                snmp: open("snmp")?,
                netstat: open("netstat")?,
            })
        })
        .ok()?
    }

    pub(super) fn read(&self) -> Option<TcpCounts> {
        let (snmp, netstat) = (whole(&self.snmp)?, whole(&self.netstat)?);
        let of = |table: &str, group, name| value(table, group, name);
        Some(TcpCounts {
            retransmitted_segments: of(&snmp, "Tcp:", "RetransSegs")?,
            timeouts: of(&netstat, "TcpExt:", "TCPTimeouts")?,
            recoveries: of(&netstat, "TcpExt:", "TCPSackRecovery")?
                + of(&netstat, "TcpExt:", "TCPRenoRecovery")?,
        })
    }
}

fn whole(file: &File) -> Option<String> {
    let mut bytes = vec![0; MOST_BYTES];
    let mut filled = 0;
    loop {
        match file.read_at(&mut bytes[filled..], filled as u64).ok()? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    String::from_utf8(bytes).ok()
}

/// A line of names is followed by one of numbers, both beginning with the name of the group.
fn value(table: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.starts_with(group));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut both = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    let (_, value) = both.find(|(known, _)| *known == name)?;
    value.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_below_its_name() {
        let table = "Ip: Forwarding RetransSegs\nIp: 1 9\n\
            Tcp: RtoAlgorithm MaxConn RetransSegs OutRsts\nTcp: 1 -1 42 7\n";
        assert_eq!(value(table, "Tcp:", "RetransSegs"), Some(42));
        assert_eq!(value(table, "Tcp:", "MaxConn"), None);
        assert_eq!(value(table, "Tcp:", "InSegs"), None);
        assert_eq!(value(table, "Udp:", "RetransSegs"), None);
    }

    #[test]
    fn this_kernel_counts() {
        let open = |name: &str| File::open(format!("/proc/self/net/{name}")).unwrap();
        let counters = TcpCounters {
            snmp: open("snmp"),
            netstat: open("netstat"),
        };
        assert!(counters.read().is_some());
    }
}
