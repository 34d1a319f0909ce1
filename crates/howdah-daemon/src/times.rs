//! Times that jobs are to be done by, as they are written: those of jobs that come again are counted from when one comes.

use crate::job::{Kind, Spec};
use howdah_core::units;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Of each job of a schedule or of a watched directory.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Times {
    /// To be done by then, with the least rate that does it: `06:00` (the next time it is that late, in the schedule's zone), or `8h` after it was submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// If it is not done in that time from its submission, it has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_seconds: Option<u64>,
}

impl Times {
    /// Whether nothing is said.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether they make sense for such a job.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), String> {
        if self.by.is_some() && !matches!(kind, Kind::Cp | Kind::Sync) {
            return Err("a time to be done by is for jobs that move bytes: cp and sync".to_owned());
        }
        if self.deadline_seconds == Some(0) {
            return Err("a deadline is at least a second after the submission".to_owned());
        }
        self.by_ms(0, TimeZone::UTC).map(|_| ())
    }

    /// Gives them to a job that comes now.
    pub(crate) fn give(&self, job: &mut Spec, now_ms: u64, zone: TimeZone) -> Result<(), String> {
        job.by_ms = self.by_ms(now_ms, zone)?;
        let deadline = self.deadline_seconds.map(|time| time.saturating_mul(1_000));
        job.deadline_ms = deadline.map(|time| now_ms.saturating_add(time));
        Ok(())
    }

    fn by_ms(&self, now_ms: u64, zone: TimeZone) -> Result<Option<u64>, String> {
        let Some(text) = &self.by else {
            return Ok(None);
        };
        let now = i64::try_from(now_ms).map_err(|error| error.to_string())?;
        let now = Timestamp::from_millisecond(now).map_err(|error| error.to_string())?;
        by(text, &now.to_zoned(zone)).map(Some)
    }
}

/// Milliseconds since 1970 of `06:00` (the next time it is that late, where that clock hangs), or of `8h` from then on.
///
/// # Errors
///
/// It is neither.
pub fn by(text: &str, now: &Zoned) -> Result<u64, String> {
    let wrong =
        || format!("'{text}' is no time: write 06:00 (the next time it is that late), or 8h");
    let when = if let Some((hour, minute)) = text.split_once(':') {
        let number = |part: &str| -> Option<i8> {
            let digits = part.len() == 2 && part.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten()
        };
        let (hour, minute) = (number(hour), number(minute));
        let (hour, minute) = hour.zip(minute).ok_or_else(wrong)?;
        if hour > 23 || minute > 59 {
            return Err(wrong());
        }
        let on = |day: &Zoned| {
            let date = day.date().at(hour, minute, 0, 0);
            date.to_zoned(day.time_zone().clone())
        };
        let today = on(now).map_err(|_| wrong())?;
        if today > *now {
            today
        } else {
            let tomorrow = now.tomorrow().map_err(|_| wrong())?;
            on(&tomorrow).map_err(|_| wrong())?
        }
    } else {
        let span = units::parse_span(text).map_err(|_| wrong())?;
        let ms = i64::try_from(span.as_millis()).map_err(|_| wrong())?;
        if ms == 0 {
            return Err(wrong());
        }
        now.checked_add(
            jiff::Span::new()
                .try_milliseconds(ms)
                .map_err(|_| wrong())?,
        )
        .map_err(|_| wrong())?
    };
    u64::try_from(when.timestamp().as_millisecond()).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_be_done_by_is_the_next_such_one() {
        const MINUTE: u64 = 60_000;
        let now: Zoned = "2026-11-26T07:30:00+00:00[UTC]".parse().unwrap();
        let in_ms = |text: &str| {
            by(text, &now).map(|when| when - now.timestamp().as_millisecond().unsigned_abs())
        };
        assert_eq!(in_ms("08:00"), Ok(30 * MINUTE));
        assert_eq!(in_ms("07:30"), Ok(24 * 60 * MINUTE));
        assert_eq!(in_ms("06:00"), Ok((22 * 60 + 30) * MINUTE));
        assert_eq!(in_ms("8h"), Ok(8 * 60 * MINUTE));
        for text in [
            "", "6", "6:00", "25:00", "06:60", "-1:00", "06:00:00", "tomorrow", "0s",
        ] {
            assert!(in_ms(text).unwrap_err().contains("06:00"), "{text}");
        }
    }

    #[test]
    fn times_of_jobs_that_come_again_are_counted_from_when_one_comes() {
        let noon = 1_795_521_600_000; // 2026-11-24T12:00:00Z
        let hour = 3_600_000;
        let times = |by: Option<&str>, deadline_seconds| Times {
            by: by.map(str::to_owned),
            deadline_seconds,
        };
        let given = |times: &Times, zone| {
            let mut job = Spec::new(Kind::Cp, Vec::new(), "/");
            times
                .give(&mut job, noon, zone)
                .map(|()| (job.by_ms, job.deadline_ms))
        };
        let all = times(Some("14:00"), Some(60));
        let of = |zone| given(&all, zone).unwrap();
        assert_eq!(
            of(TimeZone::UTC),
            (Some(noon + 2 * hour), Some(noon + 60_000))
        );
        let east = TimeZone::fixed(jiff::tz::offset(1));
        assert_eq!(of(east).0, Some(noon + hour));
        assert_eq!(
            given(&times(Some("8h"), None), TimeZone::UTC),
            Ok((Some(noon + 8 * hour), None))
        );
        assert_eq!(given(&Times::default(), TimeZone::UTC), Ok((None, None)));
        assert!(all.check(Kind::Sync).is_ok() && all.check(Kind::Verify).is_err());
        for wrong in [
            times(Some("25:00"), None),
            times(Some("soon"), None),
            times(None, Some(0)),
        ] {
            assert!(wrong.check(Kind::Cp).is_err(), "{wrong:?}");
        }
    }
}
