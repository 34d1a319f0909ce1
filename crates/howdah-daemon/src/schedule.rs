//! Jobs that are submitted again and again: when, and what becomes of runs that were missed or would overlap. Decides only; the
//! manager writes the decision and the job in one.

use crate::job::{JobId, Spec};
use crate::times::Times;
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use utoipa::ToSchema;

/// A run that begins later than that was missed.
const LATE: u64 = 60_000;

/// What becomes of runs whose time came while no daemon was there.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// One run for all of them, as soon as there is one.
    #[default]
    Once,
    /// None: the next time counts.
    Skip,
}

/// What becomes of a run whose time comes while the one before is not over.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It does not happen.
    #[default]
    Skip,
    /// Both run.
    Allow,
}

/// What is asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSpec {
    /// Minute, hour, day of the month, month, day of the week: `30 2 * * 1-5`; also `@daily` and the like.
    pub cron: String,
    /// An IANA name, `UTC`, or `local`: that of the machine.
    #[serde(default = "local")]
    pub zone: String,
    /// What is submitted; without times and a name of its own.
    pub job: Spec,
    /// When each of its jobs is to be done.
    #[serde(default, skip_serializing_if = "Times::is_none")]
    pub times: Times,
    /// While no daemon was there.
    #[serde(default)]
    pub missed: Missed,
    /// While the run before is not over.
    #[serde(default)]
    pub overlap: Overlap,
}

fn local() -> String {
    "local".to_owned()
}

/// A schedule, as it is told.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ScheduleView {
    /// Never given twice.
    pub id: i64,
    /// What was asked for.
    pub spec: ScheduleSpec,
    /// The next run, in milliseconds since 1970; none if no such time comes.
    pub next_ms: Option<u64>,
    /// The job of its last run.
    pub last_job: Option<JobId>,
    /// What became of the last time that came, if no job did.
    pub note: Option<String>,
    /// Whether it rests until it is resumed. Times that come meanwhile count as if they had never been.
    pub paused: bool,
}

/// The times of a schedule.
#[derive(Debug)]
pub struct Plan {
    cron: Cron,
    /// Where there is more than one time of day, each of them: what croner takes for times of day, and not for an interval, has one.
    each: Vec<Cron>,
    zone: TimeZone,
}

impl Plan {
    /// What the words mean, or what is wrong with them.
    pub fn new(spec: &ScheduleSpec) -> Result<Self, String> {
        const LONGEST: usize = 256;
        if spec.cron.len() > LONGEST || spec.zone.len() > LONGEST {
            return Err(format!("a time is described in at most {LONGEST} bytes"));
        }
        if spec.job.submission.is_some()
            || spec.job.deadline_ms.is_some()
            || spec.job.by_ms.is_some()
            || spec.job.hold
        {
            return Err(
                "the job of a schedule has no submission, no deadline_ms, no by_ms and no hold of its own: 'times' is for all that come"
                    .to_owned(),
            );
        }
        if !spec.job.after.is_empty() {
            return Err(
                "the job of a schedule comes when its time does, and after no other one: a number means one job, which is over before the next time; \
                 give it a later time, or '--overlap skip' against its own kind"
                    .to_owned(),
            );
        }
        spec.times.check(spec.job.kind)?;
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            .build();
        let cron = parser
            .parse(&spec.cron)
            .map_err(|e| format!("'{}' is no time of a schedule: {e}", spec.cron))?;
        let each = (times_of_day(&spec.cron).iter())
            .filter_map(|time| parser.parse(time).ok())
            .collect();
        let zone = match spec.zone.as_str() {
            "local" => TimeZone::system(),
            name => {
                TimeZone::get(name).map_err(|e| format!("there is no time zone '{name}': {e}"))?
            }
        };
        Ok(Self { cron, each, zone })
    }

    /// The job of a run that is submitted now.
    pub(crate) fn job(&self, spec: &ScheduleSpec, now: u64) -> Result<Spec, String> {
        let mut job = spec.job.clone();
        spec.times.give(&mut job, now, self.zone.clone())?;
        Ok(job)
    }

    /// The first one after that time.
    pub fn next(&self, after: u64) -> Option<u64> {
        let after = Timestamp::from_millisecond(i64::try_from(after).ok()?).ok()?;
        let after = after.to_zoned(self.zone.clone());
        let next = |cron: &Cron| cron.find_next_occurrence(&after, false).ok();
        let next = (self.each.iter().filter_map(next).min()).or_else(|| next(&self.cron))?;
        u64::try_from(next.timestamp().as_millisecond()).ok()
    }
}

/// Minutes and hours that are numbers are times of day, which a day has once, also when its clocks change. With `*` and steps they are
/// intervals, as in other crons, and so are all hours of a day.
fn times_of_day(cron: &str) -> Vec<String> {
    let numbers = |field: &str| -> Option<BTreeSet<u8>> {
        let mut all = BTreeSet::new();
        for part in field.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let part = first.parse::<u8>().ok()?..=last.parse().ok()?;
            if part.is_empty() {
                return None;
            }
            all.extend(part);
        }
        Some(all)
    };
    let fields: Vec<&str> = cron.split_whitespace().collect();
    let [minutes, hours, days @ ..] = &*fields else {
        return Vec::new();
    };
    let (Some(minutes), Some(hours)) = (numbers(minutes), numbers(hours)) else {
        return Vec::new();
    };
    if minutes.len() * hours.len() == 1 || hours.len() == 24 {
        return Vec::new();
    }
    let days = days.join(" ");
    (hours.iter())
        .flat_map(|hour| minutes.iter().map(move |minute| (minute, hour)))
        .map(|(minute, hour)| format!("{minute} {hour} {days}"))
        .collect()
}

/// What is to be done at a time that has come.
#[derive(Debug, Eq, PartialEq)]
pub struct Decision {
    /// Submit it; otherwise why not.
    pub run: Result<(), &'static str>,
    /// When again.
    pub next: Option<u64>,
}

/// The time `due` has come; `busy`: the run before is not over.
pub fn decide(spec: &ScheduleSpec, plan: &Plan, due: u64, now: u64, busy: bool) -> Decision {
    let run = if now.saturating_sub(due) > LATE && spec.missed == Missed::Skip {
        Err("no daemon was there at that time")
    } else if busy && spec.overlap == Overlap::Skip {
        Err("the run before was not over")
    } else {
        Ok(())
    };
    // All that was missed is one run, and a clock that was set back repeats none.
    Decision {
        run,
        next: plan.next(now.max(due)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(cron: &str, zone: &str) -> ScheduleSpec {
        let text = format!(
            r#"{{"cron":"{cron}","zone":"{zone}","job":{{"kind":"verify","arguments":["a","b"],"directory":"/"}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn ms(time: &str) -> u64 {
        u64::try_from(time.parse::<Timestamp>().unwrap().as_millisecond()).unwrap()
    }

    fn next(cron: &str, zone: &str, after: &str) -> String {
        let next = Plan::new(&spec(cron, zone))
            .unwrap()
            .next(ms(after))
            .unwrap();
        Timestamp::from_millisecond(i64::try_from(next).unwrap())
            .unwrap()
            .to_string()
    }

    #[test]
    fn times_are_those_of_the_zone_also_when_its_clock_changes() {
        assert_eq!(
            next("30 2 * * *", "UTC", "2026-11-26T00:00:00Z"),
            "2026-11-26T02:30:00Z"
        );
        assert_eq!(
            next("30 2 * * *", "UTC", "2026-11-26T02:30:00Z"),
            "2026-11-27T02:30:00Z"
        );
        if TimeZone::get("Europe/Berlin").is_err() {
            println!("skipped: this machine knows no time zones");
            return;
        }
        assert_eq!(
            next("0 6 * * *", "Europe/Berlin", "2026-07-01T00:00:00Z"),
            "2026-07-01T04:00:00Z"
        );
        assert_eq!(
            next("0 6 * * *", "Europe/Berlin", "2026-12-01T00:00:00Z"),
            "2026-12-01T05:00:00Z"
        );
        // There is no half past two on that day: it happens all the same, once.
        let plan = Plan::new(&spec("30 2 * * *", "Europe/Berlin")).unwrap();
        let first = plan.next(ms("2027-03-27T12:00:00Z")).unwrap();
        let second = plan.next(first).unwrap();
        assert!(first < ms("2027-03-28T12:00:00Z"), "{first}");
        assert!(second > ms("2027-03-28T12:00:00Z"), "{second}");
    }

    /// Also where there are several, and a day has none of them twice.
    #[test]
    fn each_time_of_a_day_comes_once_when_clocks_change() {
        if TimeZone::get("Europe/Berlin").is_err() {
            println!("skipped: this machine knows no time zones");
            return;
        }
        let of_day = |cron: &str, from: &str| -> Vec<String> {
            let plan = Plan::new(&spec(cron, "Europe/Berlin")).unwrap();
            let end = ms(from) + 24 * 60 * 60 * 1000;
            let mut times = Vec::new();
            let mut at = ms(from);
            while let Some(next) = plan.next(at).filter(|next| *next < end) {
                let time = Timestamp::from_millisecond(i64::try_from(next).unwrap()).unwrap();
                times.push(time.strftime("%H:%M").to_string());
                at = next;
            }
            times
        };
        // From two to three there is nothing in spring, and everything twice in autumn.
        let (spring, autumn) = ("2027-03-27T23:00:00Z", "2026-10-24T22:30:00Z");
        assert_eq!(of_day("30 2,14 * * *", spring), ["01:00", "12:30"]);
        assert_eq!(of_day("30 2,14 * * *", autumn), ["00:30", "13:30"]);
        assert_eq!(
            of_day("0,30 1-3 * * *", autumn),
            ["23:00", "23:30", "00:00", "00:30", "02:00", "02:30"]
        );
        assert_eq!(of_day("10-11 2 28 3 *", spring), ["01:00"]);
        // What is no time of a day but an interval goes by what has passed.
        assert_eq!(of_day("0 * * * *", autumn).len(), 24);
        assert_eq!(of_day("0 0-23 * * *", autumn).len(), 24);
        assert_eq!(of_day("*/20 2 * * *", autumn).len(), 6);
        assert_eq!(of_day("*/20 2 * * *", spring).len(), 0);
    }

    #[test]
    fn names_of_days_and_months_stay_as_they_are() {
        assert_eq!(
            times_of_day("5 1,3 * jan MON-FRI"),
            ["5 1 * jan MON-FRI", "5 3 * jan MON-FRI"]
        );
        for one in [
            "@daily",
            "5 1 * * *",
            "*/5 1 * * *",
            "5 1-9/2 * * *",
            "5 9-1 * * *",
            "",
            "5",
        ] {
            assert!(times_of_day(one).is_empty(), "{one}");
        }
        let most = "0-59 0-22 * * *";
        assert_eq!(times_of_day(most).len(), 60 * 23);
        assert_eq!(
            next(most, "UTC", "2026-11-26T02:30:00Z"),
            "2026-11-26T02:31:00Z"
        );
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (cron, zone) in [
            ("", "UTC"),
            ("x", "UTC"),
            ("61 * * * *", "UTC"),
            ("* * * *", "UTC"),
            ("* * * * * *", "UTC"),
            ("0 0 * * *", "Nowhere/City"),
            ("0 0 * * *", "../../etc/passwd"),
        ] {
            assert!(Plan::new(&spec(cron, zone)).is_err(), "{cron} {zone}");
        }
        let mut named = spec("0 0 * * *", "UTC");
        named.job.submission = Some("x".into());
        assert!(Plan::new(&named).is_err());
        let mut after = spec("0 0 * * *", "UTC");
        after.job.after = vec![JobId(1)];
        assert!(
            Plan::new(&after)
                .unwrap_err()
                .contains("after no other one")
        );
        let mut by = spec("0 0 * * *", "UTC");
        by.times.by = Some("06:00".into());
        assert!(Plan::new(&by).unwrap_err().contains("move bytes"));
        // It never comes.
        let never = Plan::new(&spec("0 0 31 2 *", "UTC"));
        assert!(never.is_err() || never.unwrap().next(0).is_none());
    }

    #[test]
    fn each_job_has_the_times_that_are_counted_from_when_it_comes() {
        let mut spec = spec("30 2 * * *", "UTC");
        spec.job.kind = crate::job::Kind::Cp;
        (spec.times.by, spec.times.deadline_seconds) = (Some("06:00".into()), Some(3_600));
        let plan = Plan::new(&spec).unwrap();
        let job = plan.job(&spec, ms("2026-11-26T02:30:00Z")).unwrap();
        assert_eq!(job.by_ms, Some(ms("2026-11-26T06:00:00Z")));
        assert_eq!(job.deadline_ms, Some(ms("2026-11-26T03:30:00Z")));
        // One that was missed, and comes at noon.
        let job = plan.job(&spec, ms("2026-11-26T12:00:00Z")).unwrap();
        assert_eq!(job.by_ms, Some(ms("2026-11-27T06:00:00Z")));
    }

    #[test]
    fn missed_and_overlapping_runs_follow_their_policies() {
        const DAY: u64 = 86_400_000;
        let due = ms("2026-11-26T02:30:00Z");
        let mut spec = spec("30 2 * * *", "UTC");
        let plan = Plan::new(&spec).unwrap();
        let run = |next| Decision {
            run: Ok(()),
            next: Some(next),
        };
        assert_eq!(decide(&spec, &plan, due, due + 10, false), run(due + DAY));
        // Three days without a daemon are one run.
        assert_eq!(
            decide(&spec, &plan, due, due + 3 * DAY + 1, false),
            run(due + 4 * DAY)
        );
        assert!(decide(&spec, &plan, due, due, true).run.is_err());
        spec.overlap = Overlap::Allow;
        assert_eq!(decide(&spec, &plan, due, due, true), run(due + DAY));
        spec.missed = Missed::Skip;
        assert!(
            decide(&spec, &plan, due, due + LATE + 1, false)
                .run
                .is_err()
        );
        assert!(decide(&spec, &plan, due, due + LATE, false).run.is_ok());
    }

    proptest! {
        /// The next time is later than both now and the one that has come, however the clock was set.
        #[test]
        fn no_time_comes_twice(due in 0..4_000_000_000_000_u64, now in 0..4_000_000_000_000_u64) {
            let spec = spec("*/7 * * * *", "UTC");
            let plan = Plan::new(&spec).unwrap();
            let next = decide(&spec, &plan, due, now, false).next.unwrap();
            prop_assert!(next > due && next > now);
        }
    }
}
