//! Numbers for people: SI units for rates and times, GiB for data, about three digits that mean something.

/// Groups of three digits are parted from here on.
const LONG: f64 = 10_000.0;
/// A narrow space that never breaks a line.
const THIN: char = '\u{202f}';

/// A number with a fixed count of decimals; from ten thousand on, thousands are parted by a narrow space.
pub(crate) fn plain(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let text = format!("{value:.decimals$}");
    let text = match text.strip_prefix('-') {
        // "-0.0" is zero.
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        Some(rest) => format!("\u{2212}{rest}"),
        None => text,
    };
    if value.abs() < LONG {
        return text;
    }
    let (whole, fraction) = text
        .split_once('.')
        .map_or((&*text, None), |(w, f)| (w, Some(f)));
    let count = whole.chars().count();
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        let left = count - at;
        if at > 0 && left % 3 == 0 && out != "\u{2212}" {
            out.push(THIN);
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// A number with `digits` significant digits, never in powers of ten.
pub(crate) fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return plain(value, 0);
    }
    let exponent = value.abs().log10().floor() as i32;
    let decimals = (digits as i32 - 1 - exponent).clamp(0, 9) as usize;
    plain(value, decimals)
}

/// What a number counts: decides unit and digits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Quantity {
    /// bit/s.
    Rate,
    /// Bytes of data.
    Bytes,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// 0 to 1, written as it is.
    Share,
    /// 0 to 1, written in per cent.
    Percent,
    /// A count.
    Count,
    /// Anything without a unit.
    Number,
}

/// A unit for all values of an axis or a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    /// Name; empty where there is none.
    pub(crate) name: &'static str,
    /// What one of it is, in the base unit.
    pub(crate) one: f64,
    /// Significant digits that a value is written with.
    digits: usize,
    fixed: Option<usize>,
}

impl Unit {
    /// The value as written in this unit, without its name.
    pub(crate) fn write(&self, value: f64) -> String {
        let scaled = value / self.one;
        match self.fixed {
            Some(decimals) => plain(scaled, decimals),
            None => significant(scaled, self.digits),
        }
    }

    /// The value in this unit.
    pub(crate) fn of(&self, value: f64) -> f64 {
        value / self.one
    }
}

impl Quantity {
    /// The unit in which values up to `highest` read well.
    pub(crate) fn unit(self, highest: f64) -> Unit {
        let of = |name, one, digits| Unit {
            name,
            one,
            digits,
            fixed: None,
        };
        let fixed = |name, one, decimals| Unit {
            name,
            one,
            digits: 3,
            fixed: Some(decimals),
        };
        let high = highest.abs();
        match self {
            Self::Rate if high >= 2e9 => of("Gbit/s", 1e9, 3),
            Self::Rate if high >= 1e6 || high == 0.0 => of("Mbit/s", 1e6, 3),
            Self::Rate if high >= 1e3 => of("kbit/s", 1e3, 3),
            Self::Rate => of("bit/s", 1.0, 3),
            Self::Bytes if high >= 1_073_741_824.0 => of("GiB", 1_073_741_824.0, 3),
            Self::Bytes if high >= 1_048_576.0 => of("MiB", 1_048_576.0, 3),
            Self::Bytes if high >= 1024.0 => of("KiB", 1024.0, 3),
            Self::Bytes => fixed("B", 1.0, 0),
            Self::Seconds if high >= 1.0 || high == 0.0 => of("s", 1.0, 3),
            Self::Seconds => of("ms", 1e-3, 3),
            Self::Millis if high >= 10_000.0 => of("s", 1e3, 3),
            Self::Millis if high >= 0.1 || high == 0.0 => of("ms", 1.0, 3),
            Self::Millis => of("\u{b5}s", 1e-3, 3),
            Self::Share => fixed("", 1.0, 3),
            Self::Percent => of("%", 1e-2, 3),
            Self::Count => fixed("", 1.0, 0),
            Self::Number => of("", 1.0, 3),
        }
    }

    /// One value with its own unit.
    pub(crate) fn text(self, value: f64) -> String {
        let unit = self.unit(value);
        if unit.name.is_empty() {
            unit.write(value)
        } else {
            format!("{}\u{a0}{}", unit.write(value), unit.name)
        }
    }
}

/// Seconds since 1970 as "2026-11-21 23:05 UTC".
pub(crate) fn date(unix_s: u64) -> String {
    let (days, second) = ((unix_s / 86_400) as i64, unix_s % 86_400);
    // Days to a civil date, with years that begin in March (Howard Hinnant, "chrono-compatible
    // low-level date algorithms").
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60
    )
}

/// Sorted numbers with runs drawn together: "1\u{2013}5, 9".
pub(crate) fn ranges(numbers: impl IntoIterator<Item = u64>) -> String {
    let mut sorted: Vec<u64> = numbers.into_iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for number in sorted {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}\u{2013}{last}"),
        })
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_that_mean_something() {
        for (value, want) in [
            (938.4, "938"),
            (93.84, "93.8"),
            (0.938_4, "0.938"),
            (12_345.6, "12\u{202f}346"),
            (0.0, "0"),
            (-2.5, "\u{2212}2.50"),
            (f64::NAN, "\u{2013}"),
        ] {
            assert_eq!(significant(value, 3), want);
        }
        assert_eq!(plain(-0.001, 1), "0.0");
        assert_eq!(plain(1_234_567.25, 1), "1\u{202f}234\u{202f}567.2");
        assert_eq!(plain(-123_456.0, 0), "\u{2212}123\u{202f}456");
    }

    #[test]
    fn units_fit_the_value() {
        for (quantity, value, want) in [
            (Quantity::Rate, 9.41e9, "9.41\u{a0}Gbit/s"),
            (Quantity::Rate, 9.41e8, "941\u{a0}Mbit/s"),
            (Quantity::Bytes, 32_212_254_720.0, "30.0\u{a0}GiB"),
            (Quantity::Percent, 0.0213, "2.13\u{a0}%"),
            (Quantity::Millis, 0.051, "51.0\u{a0}\u{b5}s"),
            (Quantity::Share, 0.9444, "0.944"),
            (Quantity::Count, 12.0, "12"),
        ] {
            assert_eq!(quantity.text(value), want);
        }
    }

    #[test]
    fn dates_are_civil() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_302_301), "2026-11-21 23:05 UTC");
    }

    #[test]
    fn runs_of_seeds_are_short() {
        assert_eq!(ranges([3, 1, 2, 9, 5, 4]), "1\u{2013}5, 9");
        assert_eq!(ranges([7, 8]), "7, 8");
        assert_eq!(ranges([]), "");
    }
}
