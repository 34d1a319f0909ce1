//! The packets of a cell as other people's tools read them: two files in the form of `pcap`, one for each side's interface.
//!
//! Headers are what the transports write, TCP's with its options, and IPv4's and UDP's are made here; contents, which are not simulated,
//! are left out, as by `tcpdump -s`. Flow `n` of the cell, counted from 0 with its groups and streams behind, runs from `10.a.b.1` to
//! `10.a.b.2`, where `n = 256 a + b`.

use howdah_core::Time;
use howdah_sim::{Captured, IPV4_UDP_BYTES};
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A file ends before it has more bytes than these.
const MOST_BYTES: u64 = 256 << 20;
/// Little-endian, times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// `LINKTYPE_RAW`: packets begin with an IP header.
const RAW: u32 = 101;
const SNAP_BYTES: u32 = 65_535;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Of the flow's sender and receiver, where a transport writes no ports.
const PORTS: [u16; 2] = [40_000, 5_001];

/// Both files of a cell, while it runs.
#[derive(Clone)]
pub(crate) struct Capture(Rc<RefCell<[Interface; 2]>>);

impl Capture {
    /// `CELL.sender.pcap` and `CELL.receiver.pcap` in a directory, which is made if it is not there.
    pub(crate) fn create(dir: &Path, cell: &str) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let side = |side: &str| Interface::create(dir.join(format!("{cell}.{side}.pcap")));
        Ok(Self(Rc::new(RefCell::new([
            side("sender")?,
            side("receiver")?,
        ]))))
    }

    /// A packet passes.
    pub(crate) fn see(&self, packet: &Captured<'_>) {
        self.0.borrow_mut()[usize::from(!packet.at_a)].see(packet);
    }

    /// Ends both. What there is to say of them: that they end before the cell does.
    pub(crate) fn finish(self) -> Result<Vec<String>, String> {
        let mut notes = Vec::new();
        for interface in self.0.borrow_mut().iter_mut() {
            let path = interface.path.display();
            if let Some(error) = interface
                .failed
                .take()
                .or_else(|| interface.out.flush().err())
            {
                return Err(format!("{path}: {error}"));
            }
            if let Some(at) = interface.full {
                let mib = MOST_BYTES >> 20;
                notes.push(format!(
                    "{path} has {mib} MiB and ends at {:.3} s of the cell",
                    at.as_secs_f64()
                ));
            }
        }
        Ok(notes)
    }
}

/// One file.
struct Interface {
    path: PathBuf,
    out: BufWriter<File>,
    bytes: u64,
    full: Option<Time>,
    failed: Option<io::Error>,
}

impl Interface {
    fn create(path: PathBuf) -> Result<Self, String> {
        let named = |error: io::Error| format!("{}: {error}", path.display());
        let mut out = BufWriter::with_capacity(1 << 18, File::create(&path).map_err(named)?);
        for word in [MAGIC, 2 | 4 << 16, 0, 0, SNAP_BYTES, RAW] {
            out.write_all(&word.to_le_bytes()).map_err(named)?;
        }
        Ok(Self {
            path,
            out,
            bytes: 24,
            full: None,
            failed: None,
        })
    }

    fn see(&mut self, packet: &Captured<'_>) {
        if self.full.is_some() || self.failed.is_some() {
            return;
        }
        let (headers, len) = headers(packet);
        let kept = len + packet.bytes.len();
        let record = 16 + kept as u64;
        if self.bytes + record > MOST_BYTES {
            self.full = Some(packet.at);
            return;
        }
        self.bytes += record;
        let at = packet.at.as_nanos();
        let words = [
            (at / 1_000_000_000) as u32,
            (at % 1_000_000_000) as u32,
            kept as u32,
            kept as u32 + packet.absent,
        ];
        let written = words
            .into_iter()
            .try_for_each(|word| self.out.write_all(&word.to_le_bytes()))
            .and_then(|()| self.out.write_all(&headers[..len]))
            .and_then(|()| self.out.write_all(packet.bytes));
        self.failed = written.err();
    }
}

/// IPv4's header (RFC 791) and UDP's (RFC 768) if it is no TCP, and their length.
fn headers(packet: &Captured<'_>) -> ([u8; IPV4_BYTES + UDP_BYTES], usize) {
    let mut out = [0; IPV4_BYTES + UDP_BYTES];
    let carried = packet.bytes.len() as u32 + packet.absent;
    let is_udp = packet.header_bytes == IPV4_UDP_BYTES;
    let short = |bytes: u32| u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
    out[0] = 0x45;
    out[1] = packet.ecn as u8;
    out[2..4].copy_from_slice(&short(carried + packet.header_bytes));
    // Nobody may fragment it.
    out[6] = 0x40;
    out[8] = 64;
    out[9] = if is_udp { UDP } else { TCP };
    let [_, _, high, low] = (packet.flow as u32).to_be_bytes();
    // From the flow's sender if that is where it leaves, or if it comes to the other end.
    let from_a = packet.at_a == packet.leaves;
    let (source, target) = if from_a { (1, 2) } else { (2, 1) };
    out[12..16].copy_from_slice(&[10, high, low, source]);
    out[16..20].copy_from_slice(&[10, high, low, target]);
    let sum = checksum(&out[..IPV4_BYTES]);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
    if !is_udp {
        return (out, IPV4_BYTES);
    }
    let [a, b] = PORTS.map(u16::to_be_bytes);
    let (source, target) = if from_a { (a, b) } else { (b, a) };
    out[20..22].copy_from_slice(&source);
    out[22..24].copy_from_slice(&target);
    out[24..26].copy_from_slice(&short(carried + UDP_BYTES as u32));
    (out, IPV4_BYTES + UDP_BYTES)
}

/// RFC 1071.
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}
