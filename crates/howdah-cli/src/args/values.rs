//! Values that the library has no type for.

use clap::builder::{OsStringValueParser, TypedValueParser};
use howdah::{Location, Memory};
use howdah_core::{Span, units};
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
    howdah_daemon::times::by(text, &jiff::Zoned::now())
}

/// The same of jobs that come again, as it is written.
#[cfg(target_os = "linux")]
pub(crate) fn by_text(text: &str) -> Result<String, String> {
    by(text).map(|_| text.to_owned())
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
        if let Some(packets) = text.strip_suffix('p') {
            if let Ok(packets) = packets.parse() {
                return Ok(Self::Packets(packets));
            }
        } else if let (true, Ok(span)) = (text.ends_with('s'), units::parse_span(text)) {
            return Ok(Self::Time(span));
        } else if let Ok(bytes) = units::parse_bytes(text) {
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
        let probability = |text: &str| units::parse_probability(text).map_err(|e| e.to_string());
        let value = Self {
            enter: probability(enter)?,
            leave: probability(leave)?,
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
            ("4096", Some(Queue::Bytes(4096))),
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
    fn bursts_need_two_probabilities_and_an_end() {
        assert_eq!(
            "0.1%,20%".parse(),
            Ok(GilbertElliott {
                enter: 0.001,
                leave: 0.2
            })
        );
        for bad in ["1%", "1%,", "1%,0", "1%,200%", "a,b"] {
            assert!(bad.parse::<GilbertElliott>().is_err(), "{bad}");
        }
    }
}
