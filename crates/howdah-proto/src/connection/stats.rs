//! What a connection counts.

use crate::marking::EcnState;
use howdah_core::{Rate, Span, Time};

/// Counters since the beginning, and estimates of the moment. Bytes of packets are UDP payload
/// bytes unless they say otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Datagrams sent, those left out that this host refused for their size.
    pub datagrams_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Datagrams sent that carried no object data: handshake, reports, control, probes.
    pub overhead_datagrams_sent: u64,
    /// Their bytes.
    pub overhead_bytes_sent: u64,
    /// Object bytes sent.
    pub data_bytes_sent: u64,
    /// Object bytes sent that had been sent before (repairs and tail repeats).
    pub data_bytes_repeated: u64,
    /// Object bytes of these that were tail repeats.
    pub tail_bytes_repeated: u64,
    /// Object bytes received that were not there yet.
    pub data_bytes_received: u64,
    /// Packets with object data that came, and for which the sink here had no room.
    pub data_packets_without_room: u64,
    /// Object bytes received that were there already.
    pub data_bytes_duplicate: u64,
    /// Datagrams that authenticated.
    pub packets_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Packets that the peer has numbered so far, as far as this side knows: what is missing of them was
    /// lost on the way here, or is late.
    pub packets_numbered_by_peer: u64,
    /// Datagrams received twice.
    pub duplicates_received: u64,
    /// Datagrams thrown away because they did not authenticate or could not be read.
    pub datagrams_refused: u64,
    /// Packets of ours that the peer confirmed.
    pub packets_acked: u64,
    /// Bytes of packets of ours that the peer confirmed, those included that turned up late.
    pub bytes_acked: u64,
    /// Packets of ours that the peer missed.
    pub packets_lost: u64,
    /// Packets called lost that turned up later.
    pub packets_late: u64,
    /// Reports sent.
    pub reports_sent: u64,
    /// Reports received.
    pub reports_received: u64,
    /// When the latest came, or the connection was established: what is confirmed is known until then.
    pub reported_at: Time,
    /// Smoothed round-trip time.
    pub rtt: Span,
    /// The latest round-trip time; zero before the first.
    pub rtt_latest: Span,
    /// Smallest round-trip time.
    pub rtt_min: Span,
    /// UDP payload bytes of a full packet.
    pub datagram_size: u16,
    /// Rate at which packets may leave.
    pub pacing_rate: Rate,
    /// Rate at which they arrived over the last round trip.
    pub delivery_rate: Rate,
    /// What the path carries, as far as the rate control knows; zero before it does.
    pub capacity: Rate,
    /// Time that packets wait in queues on the way.
    pub queue_delay: Span,
    /// Loss over the last round trip.
    pub recent_loss: f64,
    /// Reordering that is waited for before a packet counts as lost.
    pub reorder_window: Span,
    /// Key updates.
    pub key_updates: u64,
    /// Times that the path stopped carrying full packets.
    pub black_holes: u64,
    /// Bytes of packets that are on the way, as far as is known.
    pub bytes_in_flight: u64,
    /// Packets kept in memory because their fate is open.
    pub packets_remembered: u64,
    /// Datagrams that the peer's socket had no room for, because its host did not keep up.
    pub peer_socket_drops: u64,
    /// Packets that the peer's sink had no room for, and that were sent again.
    pub peer_sink_drops: u64,
    /// Still looking for the capacity.
    pub in_startup: bool,
    /// Whether packets can be marked on the way instead of dropped (ECN), or why not.
    pub ecn: EcnState,
    /// Packets of ours that came marked.
    pub packets_marked: u64,
    /// The fixed rate was given up because too little of it arrived.
    pub breaker_tripped: bool,
}
