//! Quantities that only scenarios write.

use super::one_way::QueueSpec;
use howdah_core::{Rate, Span, units};
use std::ops::RangeInclusive;

/// What lies outside is a mistyped unit.
pub(crate) const RATES: RangeInclusive<Rate> =
    Rate::from_bits_per_sec(1000)..=Rate::from_bits_per_sec(10_000_000_000_000);

/// A rate at which something happens.
pub(crate) fn rate(text: &str) -> Result<Rate, String> {
    match units::parse_rate(text) {
        Ok(rate) if !RATES.contains(&rate) => Err(format!("{text}: from 1kbit to 10tbit")),
        other => other.map_err(|error| error.to_string()),
    }
}

/// A rate of what need not be there: nought is as if it were not.
pub(crate) fn rate_or_none(text: &str) -> Result<Rate, String> {
    match text {
        "none" => Ok(Rate::ZERO),
        text if units::parse_rate(text) == Ok(Rate::ZERO) => Ok(Rate::ZERO),
        text => rate(text),
    }
}

/// How much fits somewhere, as a scenario writes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    Unlimited,
    Packets(u64),
    Bytes(u64),
    Time(Span),
    /// A share of the bandwidth-delay product.
    Bdp(f64),
}

impl Amount {
    /// Reads `127packets`, `4MB`, `25ms`, `0.5bdp` or `unlimited`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        let number = |suffixes: &[&str]| {
            suffixes
                .iter()
                .find_map(|suffix| text.strip_suffix(suffix))
                .map(|number| number.trim().replace('_', ""))
        };
        if let Some(packets) = number(&["packets", "packet"])
            && let Ok(packets) = packets.parse()
        {
            return Ok(Self::Packets(packets));
        }
        if let Some(share) = number(&["bdp", "BDP"])
            && let Ok(share) = share.parse::<f64>()
            && share.is_finite()
            && share >= 0.0
        {
            return Ok(Self::Bdp(share));
        }
        if text.ends_with('s')
            && !text.ends_with("bytes")
            && let Ok(span) = units::parse_span(text)
        {
            return Ok(Self::Time(span));
        }
        let wrong = || {
            format!(
                "'{text}' is not an amount; write it like 127packets, 4MB, 25ms, 0.5bdp or unlimited"
            )
        };
        // A buffer of "127" would be meant in packets by one reader and in bytes by the next.
        if text.bytes().all(|b| b.is_ascii_digit()) && text != "0" {
            return Err(wrong());
        }
        units::parse_bytes(text)
            .map(Self::Bytes)
            .map_err(|_| wrong())
    }

    /// As the limit of a queue in front of `rate` on a path of that round-trip time.
    pub(crate) fn queue(self, rate: Option<Rate>, rtt: Span) -> Result<QueueSpec, String> {
        Ok(match self {
            Self::Unlimited => QueueSpec::Unlimited,
            Self::Packets(packets) => QueueSpec::Packets(packets),
            Self::Bytes(bytes) => QueueSpec::Bytes(bytes),
            Self::Time(span) => QueueSpec::Ns(span.as_nanos()),
            Self::Bdp(share) => QueueSpec::Bytes(bdp(share, rate, rtt)?),
        })
    }

    /// As a number of bytes, for instance of a socket buffer.
    pub(crate) fn bytes(self, rate: Option<Rate>, rtt: Span) -> Result<u64, String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Bdp(share) => bdp(share, rate, rtt),
            Self::Time(span) => rate
                .map(|rate| rate.bytes_in(span))
                .ok_or_else(|| "a time is no size where no path has a rate".to_owned()),
            Self::Unlimited => Ok(u64::MAX),
            Self::Packets(_) => Err("write bytes (10MB) or a share of the BDP (2bdp)".to_owned()),
        }
    }
}

fn bdp(share: f64, rate: Option<Rate>, rtt: Span) -> Result<u64, String> {
    let rate = rate.ok_or("there is no bandwidth-delay product where no path has a rate")?;
    Ok((rate.bytes_in(rtt) as f64 * share).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_units() {
        for (text, want) in [
            ("127packets", Amount::Packets(127)),
            ("512 packets", Amount::Packets(512)),
            ("0.5bdp", Amount::Bdp(0.5)),
            ("25ms", Amount::Time(Span::from_millis(25))),
            ("4MB", Amount::Bytes(4_000_000)),
            ("200bytes", Amount::Bytes(200)),
            ("unlimited", Amount::Unlimited),
        ] {
            assert_eq!(Amount::parse(text), Ok(want), "{text}");
        }
        for bad in ["", "127", "packets", "-1packets", "127 parcels", "-1bdp"] {
            assert!(Amount::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_bdp_of_a_gigabit_over_180_ms_is_22_5_mb() {
        let gbit = Some(Rate::from_gbit_per_sec(1));
        let rtt = Span::from_millis(180);
        assert_eq!(Amount::Bdp(1.0).bytes(gbit, rtt), Ok(22_500_000));
        assert_eq!(
            Amount::Bdp(0.5).queue(gbit, rtt),
            Ok(QueueSpec::Bytes(11_250_000))
        );
        assert!(Amount::Bdp(1.0).bytes(None, rtt).is_err());
    }
}
