//! How people write rates, sizes, times and probabilities.
//!
//! ```
//! use howdah_core::{units, Rate, Span};
//! assert_eq!(units::parse_rate("10gbit").unwrap(), Rate::from_gbit_per_sec(10));
//! assert_eq!(units::parse_span("100ms").unwrap(), Span::from_millis(100));
//! assert_eq!(units::parse_bytes("4GiB").unwrap(), 4 << 30);
//! assert!((units::parse_probability("1%").unwrap() - 0.01).abs() < 1e-12);
//! ```

use crate::num::floor_to_u64;
use crate::{Rate, Span};

/// A quantity that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ParseUnitError {
    /// It is no number with a unit of that quantity.
    #[error("'{text}' is not a {quantity}; write it like {example}")]
    Malformed {
        /// What was read.
        text: String,
        /// What it should have been: "size".
        quantity: &'static str,
        /// How people write one.
        example: &'static str,
    },
    /// It is one, but no variable can hold it.
    #[error(
        "'{text}' is too large: a size is at most {} bytes (16 EiB - 1)",
        u64::MAX
    )]
    TooLarge {
        /// What was read.
        text: String,
    },
}

/// Digits behind the point of a size that are looked at: a TiB has 2^40 bytes, less than 10^13.
const FRACTION_DIGITS: usize = 13;

/// The digits (with at most some points among them) and the unit in lower case.
fn split(text: &str) -> (String, String) {
    let text = text.trim();
    let at = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let unit = text[at..].trim().to_ascii_lowercase();
    (text[..at].replace('_', ""), unit)
}

fn split_number(text: &str) -> Option<(f64, String)> {
    let (number, unit) = split(text);
    Some((number.parse().ok()?, unit))
}

fn parse(
    text: &str,
    quantity: &'static str,
    example: &'static str,
    factor: impl Fn(&str, f64) -> Option<f64>,
) -> Result<f64, ParseUnitError> {
    split_number(text)
        .and_then(|(number, unit)| Some(number * factor(&unit, number)?))
        .filter(|value| value.is_finite() && *value < 1.8e19)
        .ok_or_else(|| ParseUnitError::Malformed {
            text: text.to_owned(),
            quantity,
            example,
        })
}

/// Reads a rate: `10gbit`, `500 Mbit/s`, `2.5Gbps`, `100MB/s`. A unit is required.
pub fn parse_rate(text: &str) -> Result<Rate, ParseUnitError> {
    parse(text, "rate", "10gbit, 500mbit or 100MB/s", |unit, _| {
        let (unit, bits) = if let Some(prefix) = unit.strip_suffix("b/s") {
            // "mb/s" is megabytes; "mbit/s" ends in "t/s" and is handled below.
            (prefix, 8.0)
        } else {
            let unit = unit.strip_suffix("/s").unwrap_or(unit);
            (
                unit.strip_suffix("bit")
                    .or_else(|| unit.strip_suffix("bps"))?,
                1.0,
            )
        };
        let scale = match unit {
            "" => 1.0,
            "k" => 1e3,
            "m" => 1e6,
            "g" => 1e9,
            "t" => 1e12,
            "ki" => 1024.0,
            "mi" => 1024.0 * 1024.0,
            "gi" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        Some(bits * scale)
    })
    .map(|bits| Rate::from_bits_per_sec(floor_to_u64(bits)))
}

/// Reads a size in bytes: `4GiB`, `20MB`, `512`. GiB is 2^30, GB is 10^9, `G` alone is GiB.
///
/// Exact to the byte up to `u64::MAX`; what is left of a fraction of a byte is dropped.
pub fn parse_bytes(text: &str) -> Result<u64, ParseUnitError> {
    let malformed = || ParseUnitError::Malformed {
        text: text.to_owned(),
        quantity: "size",
        example: "4GiB, 500MB or 1048576",
    };
    let too_large = || ParseUnitError::TooLarge {
        text: text.to_owned(),
    };
    let (number, unit) = split(text);
    let factor: u128 = match unit.as_str() {
        "" | "b" | "byte" | "bytes" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(malformed());
    }
    // Of a fraction more digits than these are less than a byte of a TiB, whatever they are.
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let digits = format!("{whole}{fraction}");
    let digits: u128 = digits.parse().map_err(|_| too_large())?;
    let bytes = digits.checked_mul(factor).ok_or_else(too_large)?;
    let scale: u128 = fraction.bytes().map(|_| 10).product();
    u64::try_from(bytes / scale).map_err(|_| too_large())
}

/// Reads a span of time: `100ms`, `20s`, `50us`, `2min`, `12h`, `30d`; `0` needs no unit.
pub fn parse_span(text: &str) -> Result<Span, ParseUnitError> {
    parse(
        text,
        "time",
        "100ms, 20s, 5min, 12h or 30d",
        |unit, number| {
            Some(match unit {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" | "sec" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                "" if number == 0.0 => 1.0,
                _ => return None,
            })
        },
    )
    .map(Span::from_secs_f64)
}

/// Reads a probability: `1%`, `0.01`, `1e-4` is not accepted.
pub fn parse_probability(text: &str) -> Result<f64, ParseUnitError> {
    let error = || ParseUnitError::Malformed {
        text: text.to_owned(),
        quantity: "probability",
        example: "1% or 0.01, at most 100%",
    };
    let value = parse(
        text,
        "probability",
        "1% or 0.01, at most 100%",
        |unit, _| {
            Some(match unit {
                "%" => 0.01,
                "" => 1.0,
                _ => return None,
            })
        },
    )?;
    if value > 1.0 { Err(error()) } else { Ok(value) }
}

/// Prints a byte count for people: `1.50 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", value / 1_048_576.0),
        1_073_741_824..1_099_511_627_776 => format!("{:.2} GiB", value / 1_073_741_824.0),
        _ => format!("{:.2} TiB", value / 1_099_511_627_776.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_tell_bits_from_bytes() {
        for (text, bits) in [
            ("10gbit", 10_000_000_000),
            ("500 Mbit/s", 500_000_000),
            ("2.5Gbps", 2_500_000_000),
            ("100MB/s", 800_000_000),
            ("1MiB/s", 8 << 20),
            ("64kbit", 64_000),
        ] {
            assert_eq!(parse_rate(text).unwrap().bits_per_sec(), bits, "{text}");
        }
        for bad in ["10", "gbit", "10 parsecs", "", "-1gbit", "10gb", "1e99gbit"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_times_probabilities() {
        assert_eq!(parse_bytes("1_000").unwrap(), 1000);
        assert_eq!(parse_bytes("20MB").unwrap(), 20_000_000);
        assert_eq!(parse_bytes("1.5GiB").unwrap(), 3 << 29);
        assert_eq!(parse_span("0").unwrap(), Span::ZERO);
        assert_eq!(parse_span("2min").unwrap(), Span::from_secs(120));
        assert!(parse_span("5").is_err());
        assert!(parse_probability("101%").is_err());
        assert!((parse_probability("0.5").unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn sizes_are_exact_to_the_byte_and_too_large_ones_are_named() {
        for (text, want) in [
            ("9007199254740993", 9_007_199_254_740_993),
            ("18014398509481985", 18_014_398_509_481_985),
            ("9007199254740993KiB", 9_007_199_254_740_993 << 10),
            ("18446744073709551615", u64::MAX),
            ("16777215.9999999999999TiB", u64::MAX),
            ("9007199254740.993kB", 9_007_199_254_740_993),
            ("0.5KiB", 512),
            (".5k", 512),
            ("2.KB", 2_000),
            ("1.9999", 1),
            ("00000000000000000000000000000000000000001", 1),
        ] {
            assert_eq!(parse_bytes(text), Ok(want), "{text}");
        }
        for text in [
            "18446744073709551616",
            "16777216TiB",
            "18014398509481984KiB",
        ] {
            let error = parse_bytes(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{text}' is too large")),
                "{error}"
            );
        }
        let long = format!("1{}", "0".repeat(60));
        let error = parse_bytes(&long).unwrap_err();
        assert!(matches!(error, ParseUnitError::TooLarge { .. }), "{error}");
        for text in ["", ".", "GiB", "1.2.3", "-1", "1 2", "1e3", "4GiBs"] {
            let error = parse_bytes(text).unwrap_err();
            assert!(matches!(error, ParseUnitError::Malformed { .. }), "{error}");
        }
    }

    #[test]
    fn the_error_names_the_text_and_the_remedy() {
        let error = parse_rate("10").unwrap_err().to_string();
        assert_eq!(
            error,
            "'10' is not a rate; write it like 10gbit, 500mbit or 100MB/s"
        );
    }
}
