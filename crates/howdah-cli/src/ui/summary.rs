//! What is said when a copy is done.

use howdah::Summary;
use howdah_core::{Rate, units};

/// One line for people.
pub(crate) fn summary_line(summary: &Summary) -> String {
    let files = files(summary, "deleted");
    let resumed = if summary.resumed_bytes == 0 {
        String::new()
    } else {
        let bytes = units::format_bytes(summary.resumed_bytes);
        format!(" ({bytes} of it before)")
    };
    let bytes = units::format_bytes(summary.bytes);
    let seconds = summary.seconds;
    if summary.tree.is_some() && summary.bytes == 0 {
        // Of no content there is no rate, and nothing to verify.
        return format!("{files}{bytes} in {seconds:.2} s");
    }
    format!(
        "{files}{bytes}{resumed} in {seconds:.2} s, {}, loss {:.2} %{}, {}{}{}",
        Rate::from_bits_per_sec(summary.goodput_bps as u64),
        summary.loss_rate * 100.0,
        sent_again(summary),
        verified(summary),
        bottleneck(summary),
        reconnects(summary),
    )
}

/// What every copy sends twice, for no loss, is not worth a word up to there.
const UNSAID_BYTES: u64 = 1 << 20;

/// What was sent more than once, and why, where it was not for losses.
fn sent_again(summary: &Summary) -> String {
    let all = summary.retransmitted_bytes;
    let usual = summary.repeated_tail_bytes + summary.repeated_refused_bytes;
    if all <= usual.min(UNSAID_BYTES) {
        return String::new();
    }
    let text = format!(", {} sent again", units::format_bytes(all));
    let causes = [
        (
            summary.repeated_tail_bytes,
            "at the end, in case of a loss there",
        ),
        (
            summary.repeated_refused_bytes,
            "because the destination had no room yet",
        ),
    ];
    // What hardly counts is not worth a word.
    let causes = causes.into_iter().filter(|(bytes, _)| *bytes > all / 10);
    let causes: Vec<_> = causes
        .map(|(bytes, why)| match bytes {
            bytes if bytes >= all => why.to_owned(),
            bytes => format!("{} {why}", units::format_bytes(bytes)),
        })
        .collect();
    if causes.is_empty() {
        return text;
    }
    format!("{text} ({})", causes.join("; "))
}

/// Whose figures these are if there was more than one connection.
fn reconnects(summary: &Summary) -> String {
    let times = match summary.reconnects {
        0 => return String::new(),
        1 => "once".to_owned(),
        n => format!("{n} times"),
    };
    let since = match summary.tree {
        Some(_) => ", and all figures are from then on",
        None => "",
    };
    format!("; connected again {times}{since}")
}

/// One line of a copy that has only been rehearsed.
pub(crate) fn dry_run_line(summary: &Summary) -> String {
    format!(
        "dry run: {}{} would be copied; nothing was written",
        files(summary, "would be deleted"),
        units::format_bytes(summary.bytes)
    )
}

/// How many files of a tree.
fn files(summary: &Summary, deleted: &str) -> String {
    let Some(tree) = &summary.tree else {
        return String::new();
    };
    let files = match tree.files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    };
    let others = [(tree.unchanged, "unchanged"), (tree.linked, "linked")];
    let others = others.iter().filter(|(count, _)| *count > 0);
    let others: Vec<_> = others
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    let others = match others.join(", ") {
        none if none.is_empty() => none,
        others => format!(" ({others})"),
    };
    let deleted = match tree.deleted {
        0 => String::new(),
        count => format!(", {count} {deleted}"),
    };
    let removed = match tree.removed {
        0 => String::new(),
        count => format!(", {count} removed from the source"),
    };
    format!("{files}{others}{deleted}{removed}, ")
}

fn verified(summary: &Summary) -> String {
    match summary.verified.as_str() {
        "blake3" => "content verified end to end (BLAKE3)".to_owned(),
        "reread" => "content verified end to end and read back from the device (BLAKE3)".to_owned(),
        "aead" => "every packet authenticated".to_owned(),
        "" => "not verified".to_owned(),
        other => format!("verified: {other}"),
    }
}

fn bottleneck(summary: &Summary) -> String {
    let name = match summary.bottleneck.as_str() {
        "" => return String::new(),
        "cpu" => "processor",
        "sink" => "destination",
        "rate cap" => "limit on the rate",
        other => other,
    };
    format!("; limited by the {name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah::TreeReport;

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
             content verified end to end (BLAKE3); limited by the destination"
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
        let summary = Summary {
            reconnects: 2,
            ..summary
        };
        let line = summary_line(&summary);
        assert!(line.ends_with("; connected again 2 times"), "{line}");
    }

    #[test]
    fn o9_what_was_sent_again_says_why() {
        let line = |tail: u64, refused: u64| {
            let summary = Summary {
                bytes: 1 << 30,
                seconds: 1.0,
                retransmitted_bytes: 26 << 20,
                repeated_tail_bytes: tail << 20,
                repeated_refused_bytes: refused << 20,
                ..Summary::default()
            };
            let line = summary_line(&summary);
            let (_, rest) = line.split_once("loss 0.00 %, ").expect("it has a loss");
            let (again, _) = rest.split_once(", not verified").expect("and an end");
            again.to_owned()
        };
        assert_eq!(line(0, 0), "26.0 MiB sent again");
        assert_eq!(
            line(26, 0),
            "26.0 MiB sent again (at the end, in case of a loss there)"
        );
        assert_eq!(
            line(6, 20),
            "26.0 MiB sent again (6.0 MiB at the end, in case of a loss there; 20.0 MiB because the destination had no \
             room yet)"
        );
        assert_eq!(line(1, 0), "26.0 MiB sent again");
        for small in [0, 9, 1 << 20] {
            let summary = Summary {
                retransmitted_bytes: small,
                repeated_tail_bytes: small,
                ..Summary::default()
            };
            let line = summary_line(&summary);
            assert!(line.contains("loss 0.00 %, not verified"), "{line}");
        }
        let lost = Summary {
            retransmitted_bytes: 1,
            ..Summary::default()
        };
        assert!(summary_line(&lost).contains("1 B sent again"));
    }

    #[test]
    fn a_tree_without_content_has_no_rate_and_a_dry_run_verifies_nothing() {
        let tree = TreeReport {
            unchanged: 4,
            deleted: 2,
            ..TreeReport::default()
        };
        let mut summary = Summary {
            seconds: 0.5,
            verified: "blake3".into(),
            bottleneck: "source".into(),
            tree: Some(tree),
            ..Summary::default()
        };
        assert_eq!(
            summary_line(&summary),
            "0 files (4 unchanged), 2 deleted, 0 B in 0.50 s"
        );
        summary.tree.as_mut().unwrap().linked = 3;
        assert_eq!(
            summary_line(&summary),
            "0 files (4 unchanged, 3 linked), 2 deleted, 0 B in 0.50 s"
        );
        summary.tree.as_mut().unwrap().linked = 0;
        summary.tree.as_mut().unwrap().files = 1;
        summary.bytes = 5;
        assert_eq!(
            dry_run_line(&summary),
            "dry run: 1 file (4 unchanged), 2 would be deleted, 5 B would be copied; nothing was written"
        );
    }
}
