//! Parameters of a connection, and the rules of its version.

use super::wire::Format;
use howdah_core::Span;

/// The period in which UDT does things, in all versions: 10 ms.
pub const SYN: Span = Span::from_millis(10);
/// The same in microseconds.
pub(crate) const SYN_US: u32 = 10_000;

/// How a connection begins to send.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Start {
    /// The window grows by what is acknowledged, without pacing, until the first loss or the largest
    /// window; then the rate is the one at which packets arrived (4.11, ccc.cpp).
    Window,
    /// After so many packets the receiver knows their speed; window and rate follow from it
    /// (version 3 of 2007).
    Quick {
        /// 16.
        packets: u32,
    },
}

/// Who computes the window of rate times (RTT + SYN) plus 16 packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WindowAt {
    /// The sender, from the smoothed speed that it is told (4.11).
    Sender,
    /// The receiver, an eighth of each new value; it announces it in place of its buffer (version 3).
    Receiver,
}

/// Reports of an epoch after the first, each of which may cut the rate again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LaterCuts {
    /// Every n-th cuts, where n is drawn once per epoch, up to the average number of reports in one;
    /// so many reports are looked at (versions 3 and 4: 5).
    Random {
        /// Reports, the first one included.
        reports: u32,
    },
    /// The 16th, the 32nd, the 64th and so on (version 1).
    Doubling,
}

/// Repeated loss reports.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Repeat {
    /// Never; the sender's timer repairs what is lost again (4.9 and later).
    Never,
    /// At most every RTT + 4 deviations + SYN a list of the losses that were last reported k times the
    /// same time ago, after k reports (draft-gg-udt-03, section 3.2; 4.8 and before).
    Draft,
    /// The same with RTT + SYN, as the version-2 bracket reads it.
    EveryRtt,
}

/// What tells the versions apart. Sources of each value: docs/rivals/udt.md.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// For reports: "udt/4.11".
    pub name: &'static str,
    /// Headers.
    pub format: Format,
    /// The start.
    pub start: Start,
    /// The window afterwards.
    pub window_at: WindowAt,
    /// Least increase in packets per SYN; `None` is a byte, 1 / packet size.
    pub least_increase: Option<f64>,
    /// A cut rounds the sending period up to whole microseconds.
    pub whole_microseconds: bool,
    /// The first cut of an epoch stops sending for one SYN.
    pub freeze: bool,
    /// Further cuts in one epoch.
    pub later_cuts: LaterCuts,
    /// What is added to the average number of loss reports in an epoch.
    pub extra_average: f64,
    /// Repeated loss reports.
    pub repeat: Repeat,
    /// A loss report makes the sender send at once, whatever its period says.
    pub loss_wakes: bool,
    /// Least sending period in microseconds.
    pub least_period_us: f64,
    /// Bytes of an application's write, whose last packet is short and is acknowledged at once;
    /// `None` writes whole packets. (appclient.cpp of 4.11 writes 100000.)
    pub write_bytes: Option<u32>,
}

impl Rules {
    /// Version 4.11 of February 2013, the library that Debian ships.
    pub const fn v4_11() -> Self {
        Self {
            name: "udt/4.11",
            format: Format::Udt4,
            start: Start::Window,
            window_at: WindowAt::Sender,
            least_increase: Some(0.01),
            whole_microseconds: true,
            freeze: false,
            later_cuts: LaterCuts::Random { reports: 5 },
            extra_average: 0.0,
            repeat: Repeat::Never,
            loss_wakes: true,
            least_period_us: 0.9,
            write_bytes: Some(100_000),
        }
    }

    /// What is assumed of version 2 (2004 to 2006), between 1.x of 2004 and 3 of 2007: **a
    /// reconstruction**, not a copy of a source.
    pub const fn v2_bracket() -> Self {
        Self {
            name: "udt/2 (bracket)",
            format: Format::Compact,
            start: Start::Quick { packets: 16 },
            window_at: WindowAt::Receiver,
            least_increase: None,
            whole_microseconds: false,
            freeze: true,
            later_cuts: LaterCuts::Random { reports: 5 },
            extra_average: 1.0,
            repeat: Repeat::EveryRtt,
            loss_wakes: false,
            least_period_us: 1.0,
            write_bytes: None,
        }
    }
}

/// A connection. [`Default`] is 4.11 with the library's defaults.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UdtConfig {
    /// The version.
    pub rules: Rules,
    /// Largest IP packet in bytes, the option `UDT_MSS`: 1500. The smaller of both sides counts.
    pub packet_bytes: u32,
    /// Most packets in flight, the option `UDT_FC`: 25600.
    pub flight_packets: u32,
    /// Packets that the sender keeps for repetition, `UDT_SNDBUF`: 8192.
    pub send_buffer_packets: u32,
    /// Packets that the receiver has room for, `UDT_RCVBUF`: 8192. Not more than the flight.
    pub receive_buffer_packets: u32,
}

/// Largest buffer or flight that is accepted, in packets: 2^22 jumbo frames are 37 GB.
const MOST_PACKETS: u32 = 1 << 22;

impl Default for UdtConfig {
    fn default() -> Self {
        Self {
            rules: Rules::v4_11(),
            packet_bytes: 1500,
            flight_packets: 25_600,
            send_buffer_packets: 8192,
            receive_buffer_packets: 8192,
        }
    }
}

impl UdtConfig {
    /// The version-2 bracket with version 3's default buffers: 20 MB on either side.
    pub fn v2() -> Self {
        Self {
            rules: Rules::v2_bracket(),
            send_buffer_packets: 20_000_000 / 1472,
            receive_buffer_packets: 20_000_000 / 1472,
            ..Self::default()
        }
    }

    /// Payload bytes of a full packet: the IP packet less 28 bytes of IPv4 and UDP and the header.
    pub const fn payload_bytes(&self) -> u32 {
        self.packet_bytes - 28 - self.rules.format.header_bytes()
    }

    /// Within the bounds that an endpoint can work with.
    pub(crate) fn bounded(mut self) -> Self {
        self.packet_bytes = self.packet_bytes.clamp(MIN_PACKET_BYTES, MAX_PACKET_BYTES);
        for packets in [
            &mut self.flight_packets,
            &mut self.send_buffer_packets,
            &mut self.receive_buffer_packets,
        ] {
            // The library has no less than 32 packets of buffer either.
            *packets = (*packets).clamp(32, MOST_PACKETS);
        }
        self.receive_buffer_packets = self.receive_buffer_packets.min(self.flight_packets);
        self
    }
}

/// Least IP packet: it must hold a loss report of some words.
pub(crate) const MIN_PACKET_BYTES: u32 = 128;
/// Largest IP packet.
pub(crate) const MAX_PACKET_BYTES: u32 = 65_535;
