//! Values that the library has no type for.

use clap::builder::{OsStringValueParser, TypedValueParser};
use howdah::{Location, Memory};
use howdah_core::{Rate, Span, units};
use std::str::FromStr;

/// One side of a copy; its path may be any bytes.
pub(crate) fn location() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(|given| Location::try_from(&*given))
}

/// `--memory`: what a side of a copy may take.
pub(crate) fn memory(text: &str) -> Result<u64, String> {
    const MOST: u64 = 4 << 30;
    let bytes = units::parse_bytes(text).map_err(|e| e.to_string())?;
    if (Memory::LEAST..=MOST).contains(&bytes) {
        Ok(bytes)
    } else {
        Err("a side of a copy takes from 40MiB to 4GiB".to_owned())
    }
}

/// A time between two sensible ones.
fn span_between(text: &str, least: (Span, &str), most: (Span, &str)) -> Result<Span, String> {
    let span = units::parse_span(text).map_err(|e| e.to_string())?;
    if (least.0..=most.0).contains(&span) {
        Ok(span)
    } else {
        Err(format!("from {} to {} make sense here", least.1, most.1))
    }
}

/// `--idle-timeout`: in less than the first nobody can answer.
pub(crate) fn patience(text: &str) -> Result<Span, String> {
    let (least, most) = (Span::from_millis(100), Span::from_secs(86_400));
    span_between(text, (least, "100ms"), (most, "1d"))
}

/// `--ssh-keep`: ssh takes no more than some billion seconds.
pub(crate) fn ssh_keep(text: &str) -> Result<Span, String> {
    let most = Span::from_secs(365 * 86_400);
    span_between(text, (Span::ZERO, "0"), (most, "365d"))
}

/// `--time` of what is measured: in less nothing is.
pub(crate) fn measured(text: &str) -> Result<Span, String> {
    let (least, most) = (Span::from_millis(10), Span::from_secs(30 * 86_400));
    span_between(text, (least, "10ms"), (most, "30d"))
}

/// `--remote-howdah`: something that a shell could start.
pub(crate) fn command(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("name a program".to_owned());
    }
    Ok(text.to_owned())
}

/// `--by`: milliseconds since 1970.
#[cfg(target_os = "linux")]
pub(crate) fn by(text: &str) -> Result<u64, String> {
    crate::zone::check()?;
    howdah_daemon::times::by(text, &jiff::Zoned::now())
}

/// The same of jobs that come again, as it is written.
#[cfg(target_os = "linux")]
pub(crate) fn by_text(text: &str) -> Result<String, String> {
    by(text).map(|_| text.to_owned())
}

/// A share of packets. As in scenarios it has a unit: 0.5 is a half to one reader and half a per cent to the next.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let share = units::parse_probability(text).map_err(|error| error.to_string())?;
    if share > 0.0 && !text.trim_end().ends_with('%') {
        return Err(format!(
            "'{text}' has no unit; write it in per cent, like 1%"
        ));
    }
    Ok(share)
}

/// The rate of an emulated path: what lies outside is a mistyped unit.
pub(crate) fn path_rate(text: &str) -> Result<Rate, String> {
    let rate = units::parse_rate(text).map_err(|error| error.to_string())?;
    let bounds = Rate::from_bits_per_sec(1000)..=Rate::from_gbit_per_sec(10_000);
    if bounds.contains(&rate) {
        Ok(rate)
    } else {
        Err(format!("{text}: from 1kbit to 10tbit"))
    }
}

/// The round-trip time of an emulated path.
pub(crate) fn path_rtt(text: &str) -> Result<Span, String> {
    let rtt = units::parse_span(text).map_err(|error| error.to_string())?;
    if rtt <= Span::from_secs(3600) {
        Ok(rtt)
    } else {
        Err("a delay of more than an hour".to_owned())
    }
}

/// `--queue`: how much waits in front of the bottleneck.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Queue {
    Bytes(u64),
    Packets(u64),
    Time(Span),
}

impl FromStr for Queue {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Packets to one reader, and bytes to the next.
        let is_bare = text != "0" && text.trim().bytes().all(|byte| byte.is_ascii_digit());
        if let Some(packets) = text.strip_suffix('p') {
            if let Ok(packets) = packets.parse() {
                return Ok(Self::Packets(packets));
            }
        } else if let (true, Ok(span)) = (text.ends_with('s'), units::parse_span(text)) {
            return Ok(Self::Time(span));
        } else if let (false, Ok(bytes)) = (is_bare, units::parse_bytes(text)) {
            return Ok(Self::Bytes(bytes));
        }
        Err("write a time (25ms), a size (30MB) or a number of packets (1000p)".to_owned())
    }
}

/// `--ge`: probabilities per packet of entering and of leaving a burst of loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct GilbertElliott {
    pub(crate) enter: f64,
    pub(crate) leave: f64,
}

impl FromStr for GilbertElliott {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (enter, leave) = text
            .split_once(',')
            .ok_or("write two probabilities, like 0.1%,20%")?;
        let value = Self {
            enter: share(enter)?,
            leave: share(leave)?,
        };
        if value.leave == 0.0 {
            return Err("a burst of loss that never ends loses everything".to_owned());
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_time_bytes_or_packets() {
        for (text, want) in [
            ("25ms", Some(Queue::Time(Span::from_millis(25)))),
            ("1s", Some(Queue::Time(Span::from_secs(1)))),
            ("30MB", Some(Queue::Bytes(30_000_000))),
            ("100bytes", Some(Queue::Bytes(100))),
            ("4096bytes", Some(Queue::Bytes(4096))),
            ("4096", None),
            ("0", Some(Queue::Bytes(0))),
            ("1000p", Some(Queue::Packets(1000))),
            ("p", None),
            ("-1p", None),
            ("ms", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text}");
        }
    }

    #[test]
    fn a_path_is_told_with_units_and_within_reason() {
        assert_eq!((share("1%"), share("0")), (Ok(0.01), Ok(0.0)));
        assert!(share("0.5").is_err_and(|text| text.contains("in per cent, like 1%")));
        assert_eq!(path_rate("10gbit"), Ok(Rate::from_gbit_per_sec(10)));
        for bad in ["0mbit", "1bit", "11tbit"] {
            assert!(
                path_rate(bad).is_err_and(|text| text.contains("from 1kbit")),
                "{bad}"
            );
        }
        assert_eq!(path_rtt("100ms"), Ok(Span::from_millis(100)));
        assert!(path_rtt("2h").is_err_and(|text| text.contains("an hour")));
    }

    #[test]
    fn bursts_need_two_probabilities_and_an_end() {
        assert_eq!(
            "0.1%,20%".parse(),
            Ok(GilbertElliott {
                enter: 0.001,
                leave: 0.2
            })
        );
        for bad in ["1%", "1%,", "1%,0", "1%,200%", "a,b", "0.1,20%"] {
            assert!(bad.parse::<GilbertElliott>().is_err(), "{bad}");
        }
    }
}
