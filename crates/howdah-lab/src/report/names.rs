//! What is known about experiments and protocols beside the results: titles, the papers' figures,
//! moments worth a mark, names for people.
//!
//! Plots are chosen from the data; this table adds what data cannot tell. An experiment that is not
//! in it is shown all the same.

/// What is known about an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    /// Name in the ledger; "J-E1" also speaks for "J-E1-long".
    pub(crate) id: &'static str,
    /// Section that it belongs to.
    pub(crate) family: &'static str,
    /// What it asks, in a few words.
    pub(crate) title: &'static str,
    /// Where the paper shows it; empty where it does not.
    pub(crate) paper: &'static str,
    /// Moments of the scenario worth a mark: seconds and a word.
    pub(crate) moments: &'static [(f64, &'static str)],
    /// Axis whose values share a panel or a group of bars, where there are several to choose from.
    pub(crate) series: &'static str,
}

const JGN06: &str = "JGN06: high-speed TCP among other traffic, 1 Gbit/s";
const K14: &str = "K14proto: bare protocols, 10 Gbit/s";
const K13: &str = "K13app: file movers, 10 Gbit/s";
const WTRL10: &str = "WTRL10: end-system aware tools, 1 Gbit/s";
/// Family of our own protocol's map.
pub(crate) const OWN: &str = "Our own protocol's map";
const OTHER: &str = "Other experiments";

const fn of(
    id: &'static str,
    family: &'static str,
    paper: &'static str,
    title: &'static str,
) -> Notes {
    Notes {
        id,
        family,
        title,
        paper,
        moments: &[],
        series: "",
    }
}

const fn with(
    notes: Notes,
    moments: &'static [(f64, &'static str)],
    series: &'static str,
) -> Notes {
    Notes {
        moments,
        series,
        ..notes
    }
}

/// The experiments with something to say about them. Families are shown in this order.
const TABLE: &[Notes] = &[
    of(
        "J-A1",
        JGN06,
        "Fig. 2",
        "One flow on an emulated path of 180 ms: ramp and recovery",
    ),
    with(
        of(
            "J-A2",
            JGN06,
            "Fig. 3",
            "One flow from Japan to the US: buffers of 127 and 512 packets",
        ),
        &[],
        "buffer",
    ),
    with(
        of(
            "J-B",
            JGN06,
            "Fig. 4",
            "One flow and the receiver's operating system",
        ),
        &[],
        "receiver",
    ),
    with(
        of(
            "J-C1",
            JGN06,
            "Fig. 5",
            "The path becomes longer and shorter again",
        ),
        &[(30.0, "80 ms"), (90.0, "38 ms")],
        "",
    ),
    with(
        of(
            "J-C2",
            JGN06,
            "Fig. 6",
            "The path becomes slower and faster again",
        ),
        &[(30.0, "250 Mbit/s"), (90.0, "1 Gbit/s")],
        "",
    ),
    of(
        "J-D",
        JGN06,
        "Fig. 7",
        "Two flows of one protocol with different round-trip times",
    ),
    of(
        "J-E0",
        JGN06,
        "section V",
        "A high-speed flow beside standard TCP",
    ),
    of(
        "J-E1",
        JGN06,
        "Fig. 8a",
        "Every pair of protocols: how much of the link both use",
    ),
    of(
        "J-E2",
        JGN06,
        "Fig. 8b",
        "HSTCP beside each protocol: who gets what",
    ),
    with(
        of(
            "J-F1",
            JGN06,
            "Fig. 9",
            "A high-speed flow among 3000 short ones",
        ),
        &[],
        "mean",
    ),
    with(
        of("J-F2", JGN06, "Fig. 10", "Short flows come and go"),
        &[(50.0, "short flows"), (350.0, "end")],
        "",
    ),
    with(
        of("J-F3", JGN06, "Fig. 11", "Short flows and the buffer"),
        &[],
        "buffer",
    ),
    with(
        of(
            "J-G1",
            JGN06,
            "Figs. 13 and 15",
            "Video first, a high-speed flow from 30 s",
        ),
        &[(30.0, "flow starts")],
        "buffer",
    ),
    with(
        of(
            "J-G2",
            JGN06,
            "Figs. 12, 14 and 15",
            "A high-speed flow first, video from 30 s",
        ),
        &[(30.0, "video starts")],
        "buffer",
    ),
    of(
        OWN_IDS[0],
        OWN,
        "",
        "Our protocol over the 42 cells of K14proto's grid",
    ),
    of(
        OWN_IDS[1],
        OWN,
        "",
        "Our protocol over the 25 cells of K13app's grid, 30 GiB",
    ),
    of(
        "P1",
        K14,
        "Figs. 3\u{2013}14",
        "Rate, processor time and feedback over RTT and loss",
    ),
    of("P4", K14, "", "Figures that the paper quotes"),
    of(
        "A1",
        K13,
        "Figs. 3\u{2013}17",
        "A file of 30 GiB over RTT and loss",
    ),
    of("W1", WTRL10, "Fig. 1", "Throughput over the file's size"),
    of("W2", WTRL10, "Fig. 2", "Throughput over RTT"),
    of("W3", WTRL10, "Fig. 3", "Parallel flows of one tool"),
    of("W4", WTRL10, "Table 3", "A tool beside TCP, local"),
    of("W5", WTRL10, "Table 4", "A tool beside TCP, 80 ms"),
    of(
        "W6",
        WTRL10,
        "Figs. 4, 5",
        "A second flow three seconds later",
    ),
];

/// Names of our own map's experiments.
pub(crate) const OWN_IDS: [&str; 2] = ["H-P", "H-A"];

/// What is known about an experiment, by the longest name in the table that it begins with.
pub(crate) fn notes(experiment: &str) -> Notes {
    let known = TABLE.iter().filter(|notes| {
        experiment
            .strip_prefix(notes.id)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    if let Some(notes) = known.max_by_key(|notes| notes.id.len()) {
        return *notes;
    }
    let own = experiment.to_ascii_lowercase().starts_with("howdah");
    of("", if own { OWN } else { OTHER }, "", "")
}

/// Place of a family in the report.
pub(crate) fn family_rank(family: &str) -> usize {
    TABLE
        .iter()
        .position(|notes| notes.family == family)
        .unwrap_or(TABLE.len())
}

/// Protocols in the order of tables and legends, with their names for people. The place in this list is
/// the look of a protocol's line everywhere in the report.
const PROTOCOLS: &[(&str, &str)] = &[
    ("howdah", "Howdah"),
    ("reno", "Reno"),
    ("hstcp", "HSTCP"),
    ("scalable", "Scalable"),
    ("fast", "FAST"),
    ("bic", "BIC"),
    ("cubic2005", "CUBIC (2005)"),
    ("htcp", "H-TCP"),
    ("udt2", "UDT 2"),
    ("udt4", "UDT 4"),
    ("cubic", "CUBIC (RFC 9438)"),
    ("bbr", "BBR v1"),
    ("bbr1", "BBR v1"),
    ("bbr3", "BBR v3"),
    ("rbudp", "RBUDP"),
    ("tsunami", "Tsunami"),
    ("none", "no flow"),
    ("pa-udp", "PA-UDP"),
    ("rwtp", "RWTP"),
    ("mtp", "MTP"),
];

/// Name of a protocol for people; as the scenario writes it where it is not known.
pub(crate) fn protocol(name: &str) -> String {
    if let Some(known) = PROTOCOLS.iter().find(|known| known.0 == name) {
        return known.1.to_owned();
    }
    if pair(name).count() < 2 {
        return name.to_owned();
    }
    let parts: Vec<String> = pair(name).map(protocol).collect();
    parts.join(" + ")
}

/// The words of a name that stands for several protocols.
fn pair(name: &str) -> impl Iterator<Item = &str> {
    name.split(['+', '/', ',', ' '])
        .filter(|part| !part.is_empty())
}

/// Place of a protocol in lists; unknown ones come last.
pub(crate) fn protocol_rank(name: &str) -> usize {
    let rank = |name: &str| PROTOCOLS.iter().position(|known| known.0 == name);
    match (rank(name), pair(name).next()) {
        (Some(rank), _) => rank,
        (None, Some(first)) if first != name => rank(first).unwrap_or(PROTOCOLS.len()),
        _ => PROTOCOLS.len(),
    }
}

/// Whether a word is a protocol's name.
pub(crate) fn is_protocol(name: &str) -> bool {
    pair(name).next().is_some() && pair(name).all(|p| protocol_rank(p) < PROTOCOLS.len())
}

/// An axis for people: the last part of its name, acronyms in capitals.
pub(crate) fn axis(name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name).replace('_', " ");
    match last.as_str() {
        "rtt" | "mtu" | "os" => last.to_uppercase(),
        "rtt2" => "RTT of the second".to_owned(),
        "mean" => "mean size".to_owned(),
        "cbr" => "each stream".to_owned(),
        "base rtt" => "RTT".to_owned(),
        "receiver os" => "receiver".to_owned(),
        _ => last.replace("rtt", "RTT"),
    }
}

/// A value for people: a space between number and unit.
pub(crate) fn value(text: &str) -> String {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.is_empty() || number.parse::<f64>().is_err() {
        return text.to_owned();
    }
    let unit = match unit.trim() {
        "kbit" => "kbit/s",
        "mbit" => "Mbit/s",
        "gbit" => "Gbit/s",
        other if other.starts_with(|c: char| c.is_alphabetic() || c == '%') => other,
        _ => return text.to_owned(),
    };
    format!("{number}\u{a0}{unit}")
}

/// A value as a number to sort by, if it is one: with its unit where that scales.
pub(crate) fn order(text: &str) -> Option<f64> {
    let digits = text
        .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_')))
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.replace('_', "").parse().ok()?;
    let unit = unit.trim().to_ascii_lowercase();
    let unit = unit.strip_suffix("/s").unwrap_or(&unit);
    let scale = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "kbit" | "kb" => 1e3,
        "kib" => 1024.0,
        "mbit" | "mb" => 1e6,
        "mib" => 1_048_576.0,
        "gbit" | "gb" => 1e9,
        "gib" => 1_073_741_824.0,
        "min" => 60.0,
        "" | "s" | "b" | "bit" | "%" | "packets" | "bdp" | "ms/s" => 1.0,
        _ => return None,
    };
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experiments_are_found_by_name() {
        assert_eq!(notes("J-A1").paper, "Fig. 2");
        assert_eq!(notes("J-G1-more").series, "buffer");
        assert_eq!(notes("J-C1").moments.len(), 2);
        assert_eq!(notes("W12").family, OTHER);
        assert_eq!(notes("howdah").family, OWN);
        assert!(family_rank(JGN06) < family_rank(OWN) && family_rank(OWN) < family_rank(OTHER));
    }

    #[test]
    fn pairs_are_protocols() {
        assert_eq!(protocol("hstcp+howdah"), "HSTCP + Howdah");
        assert_eq!(protocol("mystery"), "mystery");
        assert!(is_protocol("fast") && is_protocol("hstcp+fast") && !is_protocol("127packets"));
        assert!(protocol_rank("reno") < protocol_rank("hstcp+fast"));
    }

    #[test]
    fn values_read_well_and_sort() {
        for (text, want) in [
            ("127packets", "127\u{a0}packets"),
            ("10gbit", "10\u{a0}Gbit/s"),
            ("0.1%", "0.1\u{a0}%"),
            ("linux", "linux"),
            ("5", "5"),
        ] {
            assert_eq!(value(text), want);
        }
        assert!(order("900us") < order("1ms") && order("1ms") < order("0.1s"));
        assert_eq!(order("winxp"), None);
        assert_eq!(order("2gbit"), Some(2e9));
    }
}
