//! What is said when a copy is done.

use howdah::Summary;
use howdah_core::{Rate, units};

/// One line for people.
pub(crate) fn summary_line(summary: &Summary) -> String {
    let verified = match summary.verified.as_str() {
        "blake3" => "content verified end to end (BLAKE3)".to_owned(),
        "reread" => "content verified end to end and read back from the device (BLAKE3)".to_owned(),
        "aead" => "every packet authenticated".to_owned(),
        "" => "not verified".to_owned(),
        other => format!("verified: {other}"),
    };
    let bottleneck = match summary.bottleneck.as_str() {
        "" | "network" => String::new(),
        other => format!("; limited by the {other}"),
    };
    let files = match &summary.tree {
        Some(tree) if tree.unchanged > 0 => {
            format!("{} files ({} unchanged), ", tree.files, tree.unchanged)
        }
        Some(tree) => format!("{} files, ", tree.files),
        None => String::new(),
    };
    let resumed = if summary.resumed_bytes == 0 {
        String::new()
    } else {
        let bytes = units::format_bytes(summary.resumed_bytes);
        format!(" ({bytes} of it before)")
    };
    format!(
        "{files}{}{resumed} in {:.2} s, {}, loss {:.2} %, {} sent again, {verified}{bottleneck}",
        units::format_bytes(summary.bytes),
        summary.seconds,
        Rate::from_bits_per_sec(summary.goodput_bps as u64),
        summary.loss_rate * 100.0,
        units::format_bytes(summary.retransmitted_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_for_people() {
        let summary = Summary {
            bytes: 1 << 30,
            seconds: 2.0,
            goodput_bps: 4_294_967_296.0,
            retransmitted_bytes: 1 << 20,
            loss_rate: 0.01,
            verified: "blake3".into(),
            bottleneck: "sink".into(),
            ..Summary::default()
        };
        assert_eq!(
            summary_line(&summary),
            "1.00 GiB in 2.00 s, 4.29 Gbit/s, loss 1.00 %, 1.0 MiB sent again, \
             content verified end to end (BLAKE3); limited by the sink"
        );
        let summary = Summary {
            resumed_bytes: 512 << 20,
            verified: "reread".into(),
            ..summary
        };
        let line = summary_line(&summary);
        assert!(
            line.starts_with("1.00 GiB (512.0 MiB of it before) in 2.00 s"),
            "{line}"
        );
        assert!(line.contains("read back from the device"), "{line}");
    }
}
