//! What is known about experiments and protocols beside the results: moments worth a mark, names for
//! people.
//!
//! Plots are chosen from the data, titles come from the scenarios; this table adds what neither can
//! tell. An experiment that is not in it is shown all the same.

/// What is known about an experiment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notes {
    /// Name in the ledger; "J-F1" also speaks for "J-F1-long".
    id: &'static str,
    /// Moments of the scenario worth a mark: seconds and a word.
    pub(crate) moments: &'static [(f64, &'static str)],
    /// Axis whose values share a panel or a group of bars, where there are several to choose from.
    pub(crate) series: &'static str,
}

const fn of(
    id: &'static str,
    moments: &'static [(f64, &'static str)],
    series: &'static str,
) -> Notes {
    Notes {
        id,
        moments,
        series,
    }
}

/// The experiments with something to say about them.
const TABLE: &[Notes] = &[
    of("J-A2", &[], "buffer"),
    of("J-B", &[], "receiver"),
    of("J-C1", &[(30.0, "80 ms"), (90.0, "38 ms")], ""),
    of("J-C2", &[(30.0, "250 Mbit/s"), (90.0, "1 Gbit/s")], ""),
    of("J-F1", &[], "mean"),
    of("J-F2", &[(50.0, "short flows"), (350.0, "end")], ""),
    of("J-F3", &[], "buffer"),
    of("J-G1", &[(30.0, "flow starts")], "buffer"),
    of("J-G2", &[(30.0, "video starts")], "buffer"),
];

/// What is known about an experiment, by the longest name in the table that it begins with.
pub(crate) fn notes(experiment: &str) -> Notes {
    let known = TABLE.iter().filter(|notes| {
        experiment
            .strip_prefix(notes.id)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    known
        .max_by_key(|notes| notes.id.len())
        .copied()
        .unwrap_or(of("", &[], ""))
}

/// Families of experiments in the order of the report, with how their names begin.
const FAMILIES: [(&str, &str); 6] = [
    ("J-", "JGN06: high-speed TCP among other traffic, 1 Gbit/s"),
    ("P", "K14proto: bare protocols, 10 Gbit/s"),
    ("A", "K13app: file movers, 10 Gbit/s"),
    ("W", "WTRL10: end-system aware tools, 1 Gbit/s"),
    ("H-", "Our own protocol's map"),
    ("", "Other experiments"),
];

/// Place of an experiment's family in the report, and the family's name.
pub(crate) fn family(experiment: &str) -> (usize, &'static str) {
    let numbered = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let found = FAMILIES.iter().position(|(prefix, _)| {
        let rest = experiment.strip_prefix(prefix);
        rest.is_some_and(|rest| prefix.len() != 1 || numbered(rest))
    });
    let rank = found.unwrap_or(FAMILIES.len() - 1);
    (rank, FAMILIES[rank].1)
}

/// Whether an experiment belongs to our own protocol's map.
pub(crate) fn is_own_map(experiment: &str) -> bool {
    experiment.starts_with("H-")
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
    ("udt2", "UDT 2 model"),
    ("udt", "UDT 4.11"),
    ("udt4", "UDT 4"),
    ("cubic", "CUBIC (RFC 9438)"),
    ("bbr", "BBR v1"),
    ("bbr1", "BBR v1"),
    ("bbr3", "BBR v3"),
    ("rbudp", "RBUDP"),
    ("tsunami", "Tsunami"),
    ("none", "no flow"),
    ("rtsunami-like", "RTsunami-like model"),
    ("sabul", "SABUL model"),
    ("pa-udp", "PA-UDP model"),
    ("gtp", "GTP model"),
    ("rwtp-like", "RWTP-like model"),
    ("mtp-like", "MTP-like model"),
    ("filecatalyst-like", "FileCatalyst-like model"),
    ("fasp-like", "FASP-like model"),
    ("velocity-like", "Velocity-like model"),
    ("tixstream-like", "TIXstream-like model"),
    ("filecatalyst-direct-like", "FileCatalyst-Direct-like model"),
    ("xdt-like", "XDT-like model"),
    ("expedat-like", "ExpeDat-like model"),
    ("cubic-2.6.32", "CUBIC (Linux 2.6.32)"),
    ("cubic-linux6", "CUBIC (Linux 6)"),
    ("vegas", "Vegas"),
    ("ftp-like", "FTP-like model"),
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
        assert_eq!(notes("J-C1").moments.len(), 2);
        assert_eq!(notes("J-F1-more").series, "mean");
        assert_eq!(notes("J-F10").series, "");
        assert!(family("W1").1.starts_with("WTRL10") && family("Wide").1.starts_with("Other"));
        assert!(family("J-A1").0 < family("H-P").0 && family("H-P").0 < family("x").0);
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
