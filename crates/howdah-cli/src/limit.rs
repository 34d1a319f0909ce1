//! `--limit`: a rate, or a timetable of rates.

use crate::zone;
use howdah::Throttle;
use howdah_core::{Rate, units};
use std::fmt;
use std::str::FromStr;

/// What is allowed at some time. Less is smaller.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Allowed {
    Nothing,
    AtMost(Rate),
    Unlimited,
}

/// A limit that may depend on the time of day, in the machine's own time zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Limit {
    slots: Vec<Slot>,
    otherwise: Allowed,
    /// As it was written.
    text: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Slot {
    /// Bit 0 is Monday.
    days: u8,
    /// Minutes since midnight; it ends on the next day if the end is not after the start.
    from: u16,
    to: u16,
    allowed: Allowed,
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const EVERY_DAY: u8 = 0b111_1111;
const DAY_MINUTES: u16 = 24 * 60;
/// More entries are a mistake.
const MAX_SLOTS: usize = 64;
const EXAMPLE: &str =
    "write a rate (2gbit), none, or a timetable like '08:00-18:00 500mbit, else 5gbit'";

impl Limit {
    /// What is allowed on that day (0 is Monday) at that minute of the day. The first entry that fits counts.
    pub(crate) fn at(&self, day: u8, minute: u16) -> Allowed {
        let fits = |slot: &&Slot| {
            let today = slot.days >> day & 1 == 1;
            let yesterday = slot.days >> ((day + 6) % 7) & 1 == 1;
            if slot.from < slot.to {
                today && (slot.from..slot.to).contains(&minute)
            } else {
                today && minute >= slot.from || yesterday && minute < slot.to
            }
        };
        self.slots
            .iter()
            .find(fits)
            .map_or(self.otherwise, |s| s.allowed)
    }

    /// What is allowed now.
    pub(crate) fn now(&self) -> Allowed {
        if self.slots.is_empty() {
            return self.otherwise;
        }
        let now = jiff::Zoned::now();
        let day = now.weekday().to_monday_zero_offset().unsigned_abs();
        let minute =
            u16::from(now.hour().unsigned_abs()) * 60 + u16::from(now.minute().unsigned_abs());
        self.at(day, minute)
    }
}

impl Allowed {
    /// As a daemon says it: none is everything, 0 nothing.
    pub(crate) fn of_bps(bps: Option<u64>) -> Self {
        match bps {
            None => Self::Unlimited,
            Some(0) => Self::Nothing,
            Some(bps) => Self::AtMost(Rate::from_bits_per_sec(bps)),
        }
    }

    /// As a daemon is told.
    #[cfg(target_os = "linux")]
    pub(crate) fn bps(self) -> Option<u64> {
        match self {
            Self::Unlimited => None,
            Self::AtMost(rate) => Some(rate.bits_per_sec()),
            Self::Nothing => Some(0),
        }
    }

    /// What the daemon that started this process allows until it says something else.
    pub(crate) fn of_daemon() -> Self {
        #[cfg(target_os = "linux")]
        if let Ok(share) = std::env::var(howdah_daemon::process::SHARE) {
            return share
                .parse()
                .map_or(Self::Unlimited, |bps| Self::of_bps(Some(bps)));
        }
        Self::Unlimited
    }

    /// Makes a copy keep it.
    pub(crate) fn apply(self, throttle: &Throttle) {
        match self {
            Self::Unlimited => throttle.set_limit(None),
            Self::AtMost(rate) => throttle.set_limit(Some(rate)),
            Self::Nothing => {}
        }
        throttle.set_paused(self == Self::Nothing);
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match &*text.to_ascii_lowercase() {
            "none" | "off" | "unlimited" => Ok(Self::Unlimited),
            "pause" => Ok(Self::Nothing),
            _ => match units::parse_rate(text) {
                Ok(rate) if rate >= Throttle::MIN => Ok(Self::AtMost(rate)),
                Ok(rate) => Err(format!(
                    "{rate} is too little for a connection to stay alive; at least {}, or 'pause'",
                    Throttle::MIN
                )),
                Err(error) => Err(format!("{error}; 'none' is no limit")),
            },
        }
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut limit = Self {
            slots: Vec::new(),
            otherwise: Allowed::Unlimited,
            text: text.trim().to_owned(),
        };
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        if entries.len() > MAX_SLOTS {
            return Err(format!("more than {MAX_SLOTS} entries"));
        }
        let mut otherwise = None;
        for entry in &entries {
            if otherwise.is_some() {
                return Err(format!("nothing may follow the last resort; {EXAMPLE}"));
            }
            let (first, rest) = entry.split_once(' ').unwrap_or((entry, ""));
            if first.eq_ignore_ascii_case("else") && !rest.is_empty() {
                otherwise = Some(rest.trim().parse()?);
            } else if entry.contains(':') {
                limit.slots.push(slot(entry)?);
            } else if entries.len() == 1 {
                otherwise = Some(entry.parse()?);
            } else {
                return Err(format!("'{entry}' has no time of day; {EXAMPLE}"));
            }
        }
        limit.otherwise = otherwise.unwrap_or(Allowed::Unlimited);
        if !limit.slots.is_empty() {
            zone::check()?;
        }
        Ok(limit)
    }
}

/// `[mon-fri] 08:00-18:00 500mbit`
fn slot(entry: &str) -> Result<Slot, String> {
    let wrong = || format!("'{entry}' cannot be read; {EXAMPLE}");
    let (first, rest) = entry.split_once(' ').ok_or_else(wrong)?;
    let (days, times, value) = if first.contains(':') {
        (EVERY_DAY, first, rest)
    } else {
        let (times, value) = rest.trim().split_once(' ').ok_or_else(wrong)?;
        let days = weekdays(&first.to_ascii_lowercase()).ok_or_else(wrong)?;
        (days, times, value)
    };
    let (from, to) = times.split_once('-').ok_or_else(wrong)?;
    let from = minutes(from)
        .filter(|&m| m < DAY_MINUTES)
        .ok_or_else(wrong)?;
    let to = minutes(to).ok_or_else(wrong)?;
    if from == to {
        return Err(format!("'{entry}' begins when it ends; {EXAMPLE}"));
    }
    Ok(Slot {
        days,
        from,
        to,
        allowed: value.trim().parse()?,
    })
}

/// `mon`, `mon-fri`, `sat-mon`.
fn weekdays(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|d| *d == name);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    let length = (last + 7 - first) % 7;
    Some((0..=length).fold(0, |days, n| days | 1 << ((first + n) % 7)))
}

/// `08:30`, `24:00`.
fn minutes(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let digits = |part: &str| part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(hours) || !digits(minutes) {
        return None;
    }
    let (hours, minutes): (u16, u16) = (hours.parse().ok()?, minutes.parse().ok()?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= DAY_MINUTES).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn mbit(n: u64) -> Allowed {
        Allowed::AtMost(Rate::from_mbit_per_sec(n))
    }

    #[test]
    fn one_rate_holds_always() {
        let limit: Limit = "2gbit".parse().unwrap();
        assert_eq!(limit.at(0, 0), mbit(2_000));
        assert_eq!(limit.now(), mbit(2_000));
        assert_eq!(
            "none".parse::<Limit>().unwrap().at(3, 7),
            Allowed::Unlimited
        );
    }

    #[test]
    fn a_timetable_names_the_hours() {
        let limit: Limit = "08:00-18:00 500mbit, else 5gbit".parse().unwrap();
        let at = |hour: u16, minute: u16| limit.at(2, hour * 60 + minute);
        assert_eq!(at(7, 59), mbit(5_000));
        assert_eq!(at(8, 0), mbit(500));
        assert_eq!(at(17, 59), mbit(500));
        assert_eq!(at(18, 0), mbit(5_000));
    }

    #[test]
    fn days_and_nights() {
        let text =
            "Mon-Fri 08:00-18:00 100mbit, sat-sun 22:00-06:00 Pause, 23:00-24:00 none, Else 1Gbit";
        let limit: Limit = text.parse().unwrap();
        let at = |day, hour: u16| limit.at(day, hour * 60);
        assert_eq!(at(0, 9), mbit(100));
        assert_eq!(at(5, 9), mbit(1_000));
        assert_eq!(at(5, 22), Allowed::Nothing);
        assert_eq!(at(6, 5), Allowed::Nothing);
        assert_eq!(at(0, 5), Allowed::Nothing, "the night of Sunday");
        assert_eq!(at(5, 5), mbit(1_000), "the night of Friday");
        assert_eq!(at(2, 23), Allowed::Unlimited);
        assert_eq!(limit.to_string(), text);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [
            ("", "not a rate"),
            ("10", "10gbit"),
            ("0", "'none' is no limit"),
            ("1MB", "'1MB' is not a rate"),
            ("Mon 08:00-18:00 1GB, ELSE none", "'1GB' is not a rate"),
            ("1kbit", "at least 64.0 kbit/s"),
            ("08:00-18:00", "cannot be read"),
            ("08:00-08:00 1gbit", "begins when it ends"),
            ("8:00-18:00 1gbit", "cannot be read"),
            ("08:00-25:00 1gbit", "cannot be read"),
            ("08:00-18:61 1gbit", "cannot be read"),
            ("someday 08:00-18:00 1gbit", "cannot be read"),
            ("1gbit, 2gbit", "no time of day"),
            ("else 1gbit, else 2gbit", "nothing may follow"),
            ("08:00-18:00 fast", "'fast'"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn it_is_applied_to_a_copy() {
        let throttle = Throttle::new();
        mbit(7).apply(&throttle);
        assert_eq!(throttle.limit(), Some(Rate::from_mbit_per_sec(7)));
        Allowed::Nothing.apply(&throttle);
        assert!(throttle.is_paused());
        Allowed::Unlimited.apply(&throttle);
        assert_eq!((throttle.limit(), throttle.is_paused()), (None, false));
    }
}
