//! A receiver whose reports are made by an honest one and changed before they leave.
//!
//! What it says of packet numbers stays true: a number that was left out would find it out. All else is its word alone.

use howdah_core::{Datagram, HeaderBytes};
use howdah_proto::codec::{Frame, FrameWriter, Header, Report, SinkState, frames};

/// Changes a report.
pub type Lie = fn(&mut Report);

/// Applies `lie` to the report in a datagram, if there is one.
pub fn rewrite(datagram: &mut Datagram, lie: Lie) {
    let Ok((Header::Data { .. }, header_len)) = Header::decode(&datagram.bytes) else {
        return;
    };
    let (header, body) = datagram.bytes.split_at(header_len);
    let mut told = false;
    let mut bytes = header.to_vec();
    for frame in frames(body) {
        let mut frame = frame.expect("a frame of ours");
        if let Frame::Report(report) = &mut frame {
            lie(report);
            told = true;
        }
        FrameWriter::new(&mut bytes).frame(&frame);
    }
    if told {
        datagram.bytes = HeaderBytes::from_slice(&bytes);
    }
}

/// As if its clock ran at an eighth of the speed: whatever comes seems to come eight times as fast, and nothing seems to
/// wait anywhere.
pub fn slow_clock(report: &mut Report) {
    const SLOWER: u64 = 8;
    report.largest_rx_time_us /= SLOWER;
    report.delay_us /= SLOWER;
    for sample in &mut report.samples {
        sample.rx_time_us /= SLOWER;
    }
}

/// As if everything had come at once.
pub fn no_time(report: &mut Report) {
    // A microsecond for each number, so that there is an order.
    report.largest_rx_time_us = report.largest / 16;
    for sample in &mut report.samples {
        sample.rx_time_us = sample.number / 16;
    }
}

/// As if each report had been kept back for as long as it was under way.
pub fn long_delay(report: &mut Report) {
    report.delay_us = 1 << 40;
}

/// As if all bytes that were sent had come.
pub fn all_bytes(report: &mut Report) {
    let sent = report.largest.max(1);
    let share = sent as f64 / report.packets.max(1) as f64;
    report.bytes = (report.bytes as f64 * share * 0.98).max(report.bytes as f64) as u64;
}

/// As if the path had lost nothing, and its own sink had refused all that is missing; which is empty and fast.
pub fn refused(report: &mut Report) {
    report.sink_drops = report.largest.saturating_sub(report.packets);
    report.sink = Some(SinkState {
        queued_bytes: 0,
        capacity_bytes: 1 << 40,
        drain_kb_per_s: 1 << 40,
    });
}

/// As if its socket had dropped all that is missing.
pub fn dropped(report: &mut Report) {
    report.socket_drops = report.largest.saturating_sub(report.packets);
}
