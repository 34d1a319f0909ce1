//! What a connection is asked to be, and the stacks of three eras.

use super::IPV4_BYTES;
use super::cc::{self, SlowStart, SlowStartCounting};
use super::segment::{BASE_HEADER_BYTES, TIMESTAMPS_BYTES};
use howdah_core::Span;

/// How the number of segments in flight comes down while losses are being repaired. Congestion
/// controls that [own their recovery](cc::CongestionControl::owns_recovery) ignore it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Recovery {
    /// Linux before 3.2 (rate halving, Mathis and Mahdavi 1999): one segment less for every two
    /// acknowledgements, down to ssthresh, and never more than what is in flight and one. After a
    /// burst of losses less than ssthresh is in flight at the end; slow start fills it up.
    RateHalving,
    /// Proportional rate reduction with the slow-start reduction bound (RFC 6937, Linux from 3.2).
    Proportional,
}

/// How losses are found, apart from the retransmission timer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LossDetection {
    /// A segment is lost when three later ones have arrived (RFC 6675; RFC 6582 without SACK).
    DuplicateAcks {
        /// Forward acknowledgement (Mathis and Mahdavi 1996): one arrival three places further on
        /// is enough. Given up as soon as reordering is seen.
        fack: bool,
        /// The threshold of three rises, to 127 at most, to the reordering that was seen.
        adapt_reordering: bool,
        /// A retransmission is lost when something arrives that was sent first after it
        /// ("event C" of Linux 2.4); otherwise only the timer repairs it.
        lost_retransmissions: bool,
        /// When nothing else may leave, the last segment is sent once more in each recovery: it
        /// shows what is lost behind the last arrival (RFC 6675, `NextSeg` rule 4).
        rescue: bool,
    },
    /// By time: a segment is lost when one that was sent later has arrived and a reordering window
    /// has passed (RACK, RFC 8985), and a probe is sent after two round trips of silence (TLP).
    /// Needs SACK; without it the engine falls back to three duplicate acknowledgements.
    RackTlp,
}

/// What the least retransmission timeout is the least of.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RtoFloor {
    /// Of the whole timeout (RFC 6298).
    Total,
    /// Of what is added to the smoothed round-trip time (Linux).
    Variance,
}

/// The sending side. [`Default`] is [`modern`](Self::modern).
#[derive(Clone, Copy, Debug)]
pub struct TcpConfig {
    /// Largest IP packet in bytes; at least 576.
    pub mtu: u32,
    /// Congestion control.
    pub congestion_control: cc::Entry,
    /// Initial window in segments.
    pub initial_window_segments: u32,
    /// Slow start: what is counted, limited slow start, cached threshold.
    pub slow_start: SlowStart,
    /// Most payload bytes sent and not yet acknowledged: `tcp_wmem[2]`, as payload.
    pub send_buffer_bytes: u64,
    /// Timestamps (RFC 7323) are offered.
    pub timestamps: bool,
    /// Length of a tick of the timestamps.
    pub timestamp_tick: Span,
    /// Selective acknowledgement (RFC 2018) is offered.
    pub sack: bool,
    /// Window scaling (RFC 7323) is offered. Without it the receiver's window is 65535 bytes.
    pub window_scaling: bool,
    /// How the window comes down in recovery.
    pub recovery: Recovery,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Timeout before the first round trip is measured: 1 s (RFC 6298), 3 s (RFC 2988).
    pub initial_rto: Span,
    /// Least timeout: 200 ms (Linux), 1 s (RFC 6298).
    pub min_rto: Span,
    /// What it is the least of.
    pub rto_floor: RtoFloor,
    /// Most that backing off makes of it.
    pub max_rto: Span,
    /// Timeouts in a row after which the connection has failed: `tcp_retries2`.
    pub max_retries: u32,
    /// Timeouts of the SYN after which the connection has failed: `tcp_syn_retries`.
    pub max_syn_retries: u32,
    /// The engine paces algorithms that do not: at twice the window per round trip in slow start
    /// (below half the threshold), 1.2 times after it (Linux `tcp_pacing_ss_ratio`, `_ca_ratio`).
    pub pacing: bool,
    /// A segment that the host's own queue refuses stays with the sender, and the refusal is taken
    /// for congestion: the window comes down to the threshold that a loss would set, without a loss
    /// (Linux 2.4 and 2.6, `tcp_enter_cwr`, the state CWR). Without this a segment waits until the
    /// queue has room, which comes close to today's limit on what a flow may have there
    /// (`tcp_limit_output_bytes`, since 3.6).
    pub local_congestion: bool,
    /// A sender that is not paced lets new data wait until about a millisecond's worth of it may leave at
    /// once (Linux's TSO deferral, in this form since 4.20).
    pub defers_small_bursts: bool,
    /// Most segments that a paced sender releases at once, further limited to what its rate lets
    /// pass in a millisecond (Linux's TSO sizing): fewer events for a burstier flow.
    pub burst_segments: u32,
    /// What the host spends on each segment of its retransmission queue that an acknowledgement with SACK blocks makes it look at, for
    /// each block from the head of the queue (Linux 2.4, `tcp_sacktag_write_queue`); asked by
    /// [`TcpEndpoint::handling_time`](super::TcpEndpoint::handling_time). Zero in every stack here: what it was is not known.
    pub sack_walk: Span,
    /// First sequence number. Any; tests put it just below the wrap.
    pub initial_sequence: u32,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self::modern()
    }
}

/// No limit to speak of: RFC 7323's largest window.
const MAX_WINDOW_BYTES: u64 = (1 << 30) - (1 << 14);

impl TcpConfig {
    /// Linux 2.4 (JGN06: 2.4.20), tuned buffers.
    ///
    /// | field | value | |
    /// |---|---|---|
    /// | `mtu` | 1500 | |
    /// | `congestion_control` | Reno | the only one without patches |
    /// | `initial_window_segments` | 2 | RFC 2581; Linux 2.4 used 2 to 4 |
    /// | `slow_start` | counts acknowledgements | |
    /// | `send_buffer_bytes` | the largest window | the papers tuned it away |
    /// | `timestamps` | every 10 ms | HZ = 100 |
    /// | `sack`, `window_scaling` | on | |
    /// | `recovery` | rate halving | |
    /// | `loss_detection` | FACK, adaptive threshold, event C | |
    /// | `initial_rto`, `min_rto`, `max_rto` | 3 s, 200 ms on the variance, 120 s | |
    /// | `max_retries`, `max_syn_retries` | 15, 5 | |
    /// | `pacing` | off | |
    /// | `local_congestion` | on | |
    /// | `sack_walk` | nothing | not known |
    pub const fn linux24() -> Self {
        Self {
            mtu: 1500,
            congestion_control: cc::reno::ENTRY,
            initial_window_segments: 2,
            slow_start: SlowStart {
                counting: SlowStartCounting::Acks,
                max_ssthresh_segments: None,
                initial_ssthresh_segments: None,
            },
            send_buffer_bytes: MAX_WINDOW_BYTES,
            timestamps: true,
            timestamp_tick: Span::from_millis(10),
            sack: true,
            window_scaling: true,
            recovery: Recovery::RateHalving,
            loss_detection: LossDetection::DuplicateAcks {
                fack: true,
                adapt_reordering: true,
                lost_retransmissions: true,
                rescue: false,
            },
            initial_rto: Span::from_secs(3),
            min_rto: Span::from_millis(200),
            rto_floor: RtoFloor::Variance,
            max_rto: Span::from_secs(120),
            max_retries: 15,
            max_syn_retries: 5,
            pacing: false,
            local_congestion: true,
            defers_small_bursts: false,
            burst_segments: 1,
            sack_walk: Span::ZERO,
            initial_sequence: 1,
        }
    }

    /// Linux 2.6.18 to 2.6.32 (WTRL10, K13app, K14proto).
    ///
    /// As [`linux24`](Self::linux24), but:
    ///
    /// | field | value | |
    /// |---|---|---|
    /// | `initial_window_segments` | 3 | RFC 3390 |
    /// | `timestamp_tick` | 1 ms | HZ = 1000 |
    ///
    /// `congestion_control` is Reno here as everywhere; 2.6.32's own default was CUBIC 2.3.
    pub const fn linux26() -> Self {
        Self {
            initial_window_segments: 3,
            timestamp_tick: Span::from_millis(1),
            ..Self::linux24()
        }
    }

    /// Today's Linux (5.x, 6.x).
    ///
    /// As [`linux26`](Self::linux26), but:
    ///
    /// | field | value | |
    /// |---|---|---|
    /// | `initial_window_segments` | 10 | RFC 6928 |
    /// | `slow_start` | counts segments, no limit | |
    /// | `recovery` | proportional | RFC 6937 |
    /// | `loss_detection` | RACK-TLP | RFC 8985 |
    /// | `initial_rto` | 1 s | RFC 6298 |
    /// | `max_syn_retries` | 6 | |
    /// | `local_congestion` | off | a flow's share of the host's queue is limited |
    /// | `defers_small_bursts` | on | older kernels' rule was another |
    ///
    /// `pacing` stays off: Linux paces Reno and CUBIC only under the fq queueing discipline.
    pub const fn modern() -> Self {
        Self {
            initial_window_segments: 10,
            slow_start: SlowStart {
                counting: SlowStartCounting::Segments { limit: u32::MAX },
                max_ssthresh_segments: None,
                initial_ssthresh_segments: None,
            },
            recovery: Recovery::Proportional,
            loss_detection: LossDetection::RackTlp,
            initial_rto: Span::from_secs(1),
            max_syn_retries: 6,
            local_congestion: false,
            defers_small_bursts: true,
            ..Self::linux26()
        }
    }

    /// The same with another congestion control.
    #[must_use]
    pub const fn with(mut self, congestion_control: cc::Entry) -> Self {
        self.congestion_control = congestion_control;
        self
    }

    /// Payload bytes of a full segment, if the other side's MTU is no smaller and it has
    /// timestamps too.
    pub const fn mss_bytes(&self) -> u32 {
        let options = if self.timestamps { TIMESTAMPS_BYTES } else { 0 };
        self.announced_mss() as u32 - options
    }

    /// What the MSS option says: without TCP options (RFC 6691).
    pub(crate) const fn announced_mss(&self) -> u16 {
        announced_mss(self.mtu)
    }
}

/// MTU less the fixed headers.
const fn announced_mss(mtu: u32) -> u16 {
    let mtu = if mtu < 576 { 576 } else { mtu };
    let mss = mtu - IPV4_BYTES - BASE_HEADER_BYTES;
    if mss > u16::MAX as u32 {
        u16::MAX
    } else {
        mss as u16
    }
}

/// How long an acknowledgement that waits for a second segment may wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AckDelay {
    /// Always this long.
    Fixed(Span),
    /// Linux: between these two, from the smoothed spacing of arrivals.
    Adaptive {
        /// Least, 40 ms.
        min: Span,
        /// Most, 200 ms.
        max: Span,
    },
}

/// When a receiver acknowledges.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AckPolicy {
    /// What reports call it: "linux24".
    pub name: &'static str,
    /// In-order segments for each acknowledgement: 2 by RFC 5681, 1 for no delaying, 8 or more for
    /// a receiver whose driver merges segments (GRO). Out-of-order and duplicate segments, and
    /// those that fill a hole, are acknowledged at once.
    pub every_segments: u32,
    /// How long one may wait.
    pub delay: AckDelay,
    /// Segments at the start of the connection, after duplicates and after a long silence that are
    /// acknowledged one by one (Linux's quick acknowledgements; 16).
    pub quick_segments: u32,
}

/// The receiving side. [`Default`] is [`modern`](Self::modern).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiverConfig {
    /// Largest IP packet that this side asks for, in bytes; at least 576.
    pub mtu: u32,
    /// When it acknowledges.
    pub acks: AckPolicy,
    /// Largest receive buffer: `tcp_rmem[2]`, in bytes.
    pub receive_buffer_bytes: u64,
    /// Share of the buffer that may be advertised: 0.75 in Linux 2.6 (`tcp_adv_win_scale` 2), 0.5
    /// today (1), 1 elsewhere.
    pub window_share: f64,
    /// First window in bytes, from which autotuning grows; `None` advertises all from the start.
    /// (Dynamic right-sizing, Fisk and Feng 2001: twice what arrived in a round trip, and more
    /// while that grows.)
    pub autotune_from_bytes: Option<u64>,
    /// Window scaling is accepted, with at most this shift (14 by RFC 7323: 1 GiB); `None` limits
    /// the window to 65535 bytes.
    pub max_window_scale: Option<u8>,
    /// Timestamps are accepted.
    pub timestamps: bool,
    /// Length of a tick of the timestamps.
    pub timestamp_tick: Span,
    /// SACK is accepted.
    pub sack: bool,
    /// Duplicates are reported (RFC 2883).
    pub dsack: bool,
    /// First sequence number.
    pub initial_sequence: u32,
}

impl Default for ReceiverConfig {
    fn default() -> Self {
        Self::modern()
    }
}

impl ReceiverConfig {
    /// Today's Linux: every second segment, at most 40 ms late, 16 quick ones at the start;
    /// window autotuned from 64 KiB, half of the buffer; SACK, D-SACK, 1 ms timestamps. The buffer
    /// is as large as can be used (2 GiB); the distribution's is 6 MiB.
    pub const fn modern() -> Self {
        Self {
            mtu: 1500,
            acks: AckPolicy {
                name: "modern",
                every_segments: 2,
                delay: AckDelay::Fixed(Span::from_millis(40)),
                quick_segments: 16,
            },
            receive_buffer_bytes: 2 << 30,
            window_share: 0.5,
            autotune_from_bytes: Some(65_535),
            max_window_scale: Some(14),
            timestamps: true,
            timestamp_tick: Span::from_millis(1),
            sack: true,
            dsack: true,
            initial_sequence: 1,
        }
    }

    /// Linux 2.6.18 to 2.6.32: as [`linux24`](Self::linux24), but the window is autotuned, from
    /// 5840 bytes' worth of `tcp_rmem[1]` (64 KiB), to three quarters of the buffer.
    pub const fn linux26() -> Self {
        Self {
            acks: AckPolicy {
                name: "linux26",
                ..Self::linux24().acks
            },
            window_share: 0.75,
            autotune_from_bytes: Some(65_535),
            timestamp_tick: Span::from_millis(1),
            ..Self::linux24()
        }
    }

    /// Linux 2.4.20: 16 quick acknowledgements, then every second segment, 40 to 200 ms late by
    /// the spacing of arrivals; the tuned window from the start; SACK, D-SACK, timestamps each 10 ms.
    pub const fn linux24() -> Self {
        Self {
            acks: AckPolicy {
                name: "linux24",
                every_segments: 2,
                delay: AckDelay::Adaptive {
                    min: Span::from_millis(40),
                    max: Span::from_millis(200),
                },
                quick_segments: 16,
            },
            receive_buffer_bytes: MAX_WINDOW_BYTES,
            window_share: 1.0,
            autotune_from_bytes: None,
            timestamp_tick: Span::from_millis(10),
            ..Self::modern()
        }
    }

    /// FreeBSD 5.3: every second segment, 100 ms; fixed window (`net.inet.tcp.recvspace`, tuned by
    /// the papers); SACK (new in 5.3), no D-SACK, 10 ms timestamps.
    pub const fn freebsd53() -> Self {
        Self {
            acks: AckPolicy {
                name: "freebsd53",
                every_segments: 2,
                delay: AckDelay::Fixed(Span::from_millis(100)),
                quick_segments: 0,
            },
            dsack: false,
            ..Self::linux24()
        }
    }

    /// Windows XP SP2: every second segment, 200 ms; a window fixed when the connection opens and
    /// rounded down to whole segments (`TcpWindowSize`; scaling as the papers' tuning has it, with
    /// `Tcp1323Opts` 3); SACK, no D-SACK, 100 ms timestamps. 22.5 MB is the bandwidth-delay
    /// product of JGN06's long path: a guess that scenarios vary.
    pub const fn winxp_sp2() -> Self {
        Self {
            acks: AckPolicy {
                name: "winxp_sp2",
                every_segments: 2,
                delay: AckDelay::Fixed(Span::from_millis(200)),
                quick_segments: 0,
            },
            receive_buffer_bytes: 22_500_000,
            timestamp_tick: Span::from_millis(100),
            dsack: false,
            ..Self::linux24()
        }
    }

    /// The same acknowledging every `segments`-th segment (1, 2, or 8 for GRO).
    #[must_use]
    pub const fn acking_every(mut self, segments: u32) -> Self {
        self.acks.every_segments = segments;
        self
    }

    /// The largest window that this side will advertise, in bytes.
    pub fn max_window_bytes(&self) -> u64 {
        let wanted = (self.receive_buffer_bytes as f64 * self.window_share.clamp(0.0, 1.0)) as u64;
        let limit = u64::from(u16::MAX) << self.max_window_scale.unwrap_or(0).min(14);
        let mss = u64::from(self.announced_mss());
        wanted.clamp(mss.min(limit), limit)
    }

    pub(crate) const fn announced_mss(&self) -> u16 {
        announced_mss(self.mtu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mss_of_the_papers_mtus() {
        for (mtu, with, without) in [(1500, 1448, 1460), (8900, 8848, 8860), (9000, 8948, 8960)] {
            let config = TcpConfig {
                mtu,
                ..TcpConfig::modern()
            };
            assert_eq!(config.mss_bytes(), with);
            let config = TcpConfig {
                timestamps: false,
                ..config
            };
            assert_eq!(config.mss_bytes(), without);
        }
    }

    #[test]
    fn windows_end_where_rfc_7323_ends_them() {
        let mut config = ReceiverConfig::modern();
        assert_eq!(config.max_window_bytes(), 65_535 << 14);
        config.max_window_scale = None;
        assert_eq!(config.max_window_bytes(), 65_535);
        let linux26 = ReceiverConfig {
            receive_buffer_bytes: 64 << 20,
            ..ReceiverConfig::linux26()
        };
        assert_eq!(linux26.max_window_bytes(), 48 << 20);
    }
}
