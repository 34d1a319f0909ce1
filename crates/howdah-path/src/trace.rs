//! Rates and delays that change by themselves, as recorded or as written down.

use howdah_core::{Rate, Span, units};
use std::fmt;
use std::sync::Arc;

/// A trace that cannot be used, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TraceError {
    line: Option<usize>,
    message: String,
}

impl TraceError {
    pub(crate) fn at(line: usize, message: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            message: message.into(),
        }
    }

    pub(crate) fn whole(message: impl Into<String>) -> Self {
        Self {
            line: None,
            message: message.into(),
        }
    }

    pub(crate) fn empty() -> Self {
        Self::whole("there is nothing in the trace")
    }

    /// The line at fault, counted from 1, if it is a single one.
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for TraceError {}

/// Lines that are not empty, without comments, and their numbers from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(at, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then_some((at + 1, line))
    })
}

/// A rate over time. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTrace(pub(crate) RateShape);

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RateShape {
    /// A rate from each time on.
    Steps(Steps<Rate>),
    /// At each of these times, so many bytes at once.
    Opportunities {
        /// Nanoseconds, ascending, not empty.
        at_ns: Arc<[u64]>,
        bytes: u32,
        /// Not zero, not below the last time.
        period_ns: u64,
    },
}

impl RateTrace {
    /// A rate from each time on: `(time, rate)`, the first at zero, times ascending. The last rate
    /// holds on, or, with `period`, everything begins again after that time.
    ///
    /// # Errors
    /// If there is no step, the first is not at zero, times do not ascend, the period ends before
    /// the last step begins, or the rate is zero throughout what is repeated.
    pub fn steps(steps: Vec<(Span, Rate)>, period: Option<Span>) -> Result<Self, TraceError> {
        let steps = Steps::new(steps, period)?;
        let last_for_ever = steps.period_ns.is_none();
        let moves = |rate: &Rate| *rate != Rate::ZERO;
        if !last_for_ever && !steps.values().any(moves) {
            return Err(TraceError::whole("the rate is zero throughout"));
        }
        Ok(Self(RateShape::Steps(steps)))
    }

    /// Reads lines of a time and a rate, such as `0s 1gbit` and `30s 250mbit`; `#` starts a
    /// comment. As [`steps`](Self::steps).
    ///
    /// # Errors
    /// As there, with the line where it is a single one.
    pub fn parse_steps(text: &str, period: Option<Span>) -> Result<Self, TraceError> {
        let steps = parse_pairs(text, |rate| {
            units::parse_rate(rate).map_err(|error| error.to_string())
        })?;
        Self::steps(steps, period)
    }

    /// Reads mahimahi's format: each line is the millisecond of one opportunity to send
    /// `bytes` (1504 there), and after the last line it begins again. A packet leaves when
    /// enough opportunities have come since it reached the head of the queue; what is left of an
    /// opportunity serves the next packet if that is already waiting, and is lost otherwise.
    ///
    /// # Errors
    /// With the line: if one is not a whole number or smaller than the one before; if the last is 0
    /// or there is none.
    pub fn parse_mahimahi(text: &str, bytes: u32) -> Result<Self, TraceError> {
        let mut at_ns = Vec::new();
        let mut before = 0u64;
        for (number, line) in lines(text) {
            let ms: u64 = line.parse().map_err(|_| {
                TraceError::at(number, format!("'{line}' is not a number of milliseconds"))
            })?;
            if ms < before {
                return Err(TraceError::at(
                    number,
                    format!("{ms} ms comes after {before} ms"),
                ));
            }
            before = ms;
            at_ns.push(Span::from_millis(ms).as_nanos());
        }
        if bytes == 0 {
            return Err(TraceError::whole("opportunities to send nothing"));
        }
        let period_ns = at_ns.last().copied().ok_or_else(TraceError::empty)?;
        if period_ns == 0 {
            return Err(TraceError::whole("the last opportunity is at 0 ms"));
        }
        Ok(Self(RateShape::Opportunities {
            at_ns: at_ns.into(),
            bytes,
            period_ns,
        }))
    }

    /// The highest rate; `None` is unlimited, as it is in the moment of an opportunity.
    pub fn peak(&self) -> Option<Rate> {
        match &self.0 {
            RateShape::Steps(steps) => steps.values().max().copied(),
            RateShape::Opportunities { .. } => None,
        }
    }

    /// Bits that it lets pass between two moments, both from the beginning of the trace on.
    pub fn bits_between(&self, from: Span, to: Span) -> f64 {
        (self.bits_until(to.as_nanos()) - self.bits_until(from.as_nanos())).max(0.0)
    }

    fn bits_until(&self, ns: u64) -> f64 {
        // Whole repetitions, and what is left of the time.
        let repeated = |period_ns: Option<u64>| match period_ns {
            Some(period) => (ns / period, ns % period, period),
            None => (0, ns, 0),
        };
        match &self.0 {
            RateShape::Steps(steps) => {
                let (times, rest, period) = repeated(steps.period_ns);
                let within = |end: u64| {
                    let each = steps.points.iter().enumerate();
                    let bits = each.map(|(index, &(from, rate))| {
                        let next = steps.points.get(index + 1);
                        let until = next.map_or(u64::MAX, |next| next.0).min(end);
                        until.saturating_sub(from) as f64 / 1e9 * rate.as_f64()
                    });
                    bits.sum::<f64>()
                };
                let whole = if times > 0 { within(period) } else { 0.0 };
                times as f64 * whole + within(rest)
            }
            RateShape::Opportunities {
                at_ns,
                bytes,
                period_ns,
            } => {
                let (times, rest, _) = repeated(Some(*period_ns));
                let passed = at_ns.partition_point(|&at| at <= rest);
                let all = times * at_ns.len() as u64 + passed as u64;
                all as f64 * f64::from(*bytes) * 8.0
            }
        }
    }

    /// The mean rate over one period; without a period, the last rate.
    pub fn mean(&self) -> Rate {
        match &self.0 {
            RateShape::Steps(steps) => {
                let Some(period_ns) = steps.period_ns else {
                    return steps.values().next_back().copied().unwrap_or(Rate::ZERO);
                };
                let mut bits = 0u128;
                for (index, &(from, rate)) in steps.points.iter().enumerate() {
                    let until = steps.points.get(index + 1).map_or(period_ns, |next| next.0);
                    bits += u128::from(until - from) * u128::from(rate.bits_per_sec());
                }
                let mean = bits / u128::from(period_ns.max(1));
                Rate::from_bits_per_sec(u64::try_from(mean).unwrap_or(u64::MAX))
            }
            RateShape::Opportunities {
                at_ns,
                bytes,
                period_ns,
            } => Rate::from_bytes_over(
                at_ns.len() as u64 * u64::from(*bytes),
                Span::from_nanos(*period_ns),
            ),
        }
    }
}

/// A delay over time. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct DelayTrace(pub(crate) Steps<Span>);

impl DelayTrace {
    /// A delay from each time on: `(time, delay)`, the first at zero, times ascending. The last
    /// holds on, or, with `period`, everything begins again after that time.
    ///
    /// # Errors
    /// If there is no step, the first is not at zero, times do not ascend, or the period ends
    /// before the last step begins.
    pub fn steps(steps: Vec<(Span, Span)>, period: Option<Span>) -> Result<Self, TraceError> {
        Steps::new(steps, period).map(Self)
    }

    /// Reads lines of a time and a delay, such as `0s 0ms` and `30s 42ms`; `#` starts a comment.
    ///
    /// # Errors
    /// As [`steps`](Self::steps), with the line where it is a single one.
    pub fn parse(text: &str, period: Option<Span>) -> Result<Self, TraceError> {
        let steps = parse_pairs(text, |delay| {
            units::parse_span(delay).map_err(|error| error.to_string())
        })?;
        Self::steps(steps, period)
    }

    /// The smallest delay.
    pub fn min(&self) -> Span {
        self.0.values().min().copied().unwrap_or(Span::ZERO)
    }

    /// The largest delay.
    pub fn max(&self) -> Span {
        self.0.values().max().copied().unwrap_or(Span::ZERO)
    }
}

fn parse_pairs<T>(
    text: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(Span, T)>, TraceError> {
    let mut pairs: Vec<(Span, T)> = Vec::new();
    for (number, line) in lines(text) {
        let wrong = |message: String| TraceError::at(number, message);
        let (time, rest) = line
            .split_once(char::is_whitespace)
            .ok_or_else(|| wrong(format!("'{line}' is not a time and a value")))?;
        let time = units::parse_span(time).map_err(|error| wrong(error.to_string()))?;
        if let Some((before, _)) = pairs.last()
            && *before >= time
        {
            return Err(wrong(format!("{time} comes after {before}")));
        }
        pairs.push((time, value(rest.trim()).map_err(wrong)?));
    }
    Ok(pairs)
}

/// A value from each time on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Steps<T> {
    /// From this nanosecond on, this value; the first at 0, ascending.
    pub(crate) points: Arc<[(u64, T)]>,
    /// When everything begins again.
    pub(crate) period_ns: Option<u64>,
}

impl<T> Steps<T> {
    fn new(steps: Vec<(Span, T)>, period: Option<Span>) -> Result<Self, TraceError> {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            return Err(TraceError::empty());
        };
        if !first.0.is_zero() {
            return Err(TraceError::whole(format!(
                "the first step is at {} and not at 0: a hole",
                first.0
            )));
        }
        if let Some(pair) = steps.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            return Err(TraceError::whole(format!(
                "{} comes after {}",
                pair[1].0, pair[0].0
            )));
        }
        if let Some(period) = period
            && period <= last.0
        {
            return Err(TraceError::whole(format!(
                "the period of {period} ends before the last step at {} begins",
                last.0
            )));
        }
        Ok(Self {
            points: steps
                .into_iter()
                .map(|(time, value)| (time.as_nanos(), value))
                .collect(),
            period_ns: period.map(Span::as_nanos),
        })
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.points.iter().map(|(_, value)| value)
    }
}

/// A place in a stepped trace that mostly moves forward.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StepCursor {
    index: usize,
    /// Begin of the current repetition.
    base_ns: u64,
}

impl StepCursor {
    /// Moves to `now_ns`; returns the value there and when it ends ([`u64::MAX`]: never).
    pub(crate) fn at<T: Copy>(&mut self, steps: &Steps<T>, now_ns: u64) -> (T, u64) {
        let points = &steps.points;
        if let Some(period) = steps.period_ns
            && now_ns.wrapping_sub(self.base_ns) >= period
        {
            self.base_ns = now_ns - now_ns % period;
            self.index = 0;
        }
        let phase = now_ns - self.base_ns;
        if self.index >= points.len() || points[self.index].0 > phase {
            self.index = 0;
        }
        while let Some(next) = points.get(self.index + 1)
            && next.0 <= phase
        {
            self.index += 1;
        }
        let until = match (points.get(self.index + 1), steps.period_ns) {
            (Some(next), _) => self.base_ns.saturating_add(next.0),
            (None, Some(period)) => self.base_ns.saturating_add(period),
            (None, None) => u64::MAX,
        };
        (points[self.index].1, until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_forward_backward_and_in_repetitions() {
        let steps = Steps::new(
            vec![
                (Span::ZERO, 'a'),
                (Span::from_nanos(10), 'b'),
                (Span::from_nanos(15), 'c'),
            ],
            Some(Span::from_nanos(20)),
        )
        .unwrap();
        let mut cursor = StepCursor::default();
        for now in [0, 9, 10, 14, 15, 19, 20, 31, 3, 4_017, 12] {
            let expected = match now % 20 {
                0..10 => ('a', now - now % 20 + 10),
                10..15 => ('b', now - now % 20 + 15),
                _ => ('c', now - now % 20 + 20),
            };
            assert_eq!(cursor.at(&steps, now), expected, "{now}");
        }
    }

    #[test]
    fn errors_name_their_line() {
        let line = |text: &str| {
            RateTrace::parse_steps(text, None)
                .expect_err("wrong")
                .to_string()
        };
        assert_eq!(line(""), "there is nothing in the trace");
        assert_eq!(
            line("# rates\n0s 1gbit\n30s 3 apples\n"),
            "line 3: '3 apples' is not a rate; write it like 10gbit, 500mbit or 100MB/s"
        );
        assert_eq!(
            line("0s 1gbit\n30s 2gbit\n30s 1gbit"),
            "line 3: 30.00s comes after 30.00s"
        );
        assert_eq!(
            line("1s 1gbit"),
            "the first step is at 1.00s and not at 0: a hole"
        );
        assert_eq!(line("0s"), "line 1: '0s' is not a time and a value");
        let mahimahi = |text: &str| {
            RateTrace::parse_mahimahi(text, 1504)
                .expect_err("wrong")
                .to_string()
        };
        assert_eq!(mahimahi("0\n5\n4\n"), "line 3: 4 ms comes after 5 ms");
        assert_eq!(
            mahimahi("0\n-1"),
            "line 2: '-1' is not a number of milliseconds"
        );
        assert_eq!(mahimahi("0\n0"), "the last opportunity is at 0 ms");
        let short = RateTrace::parse_steps("0s 1gbit\n5s 2gbit", Some(Span::from_secs(5)));
        assert!(short.is_err_and(|error| error.line().is_none()));
        let dead = RateTrace::steps(vec![(Span::ZERO, Rate::ZERO)], Some(Span::from_secs(1)));
        assert!(dead.is_err());
    }

    #[test]
    fn what_a_trace_lets_pass_between_two_moments() {
        let s = Span::from_secs;
        let bits = |trace: &RateTrace, from, to| (trace.bits_between(s(from), s(to)) / 1e6).round();
        // 100 Mbit/s for 30 s, then 20.
        let once = RateTrace::parse_steps("0s 100mbit\n30s 20mbit", None).unwrap();
        for (from, to, mbit) in [
            (0, 30, 3000.0),
            (0, 60, 3600.0),
            (20, 40, 1200.0),
            (40, 60, 400.0),
            (9, 9, 0.0),
        ] {
            assert!((bits(&once, from, to) - mbit).abs() < 1e-9, "{from} {to}");
        }
        let again = RateTrace::parse_steps("0s 100mbit\n1s 20mbit", Some(s(4))).unwrap();
        for (from, to, mbit) in [(0, 4, 160.0), (0, 8, 320.0), (4, 5, 100.0), (3, 6, 140.0)] {
            assert!((bits(&again, from, to) - mbit).abs() < 1e-9, "{from} {to}");
        }
        // 4 packets of 1504 bytes in each 3 ms: 1000 times in 3 s.
        let phone = RateTrace::parse_mahimahi("1\n1\n2\n3\n", 1504).unwrap();
        let seen = phone.bits_between(s(3), s(6));
        assert!((seen - 4000.0 * 1504.0 * 8.0).abs() < 1.0, "{seen}");
    }

    #[test]
    fn peak_and_mean() {
        let trace =
            RateTrace::parse_steps("0s 1gbit\n1s 250mbit", Some(Span::from_secs(4))).unwrap();
        assert_eq!(trace.peak(), Some(Rate::from_gbit_per_sec(1)));
        assert_eq!(trace.mean(), Rate::from_bits_per_sec(437_500_000));
        let trace = RateTrace::parse_mahimahi("1\n1\n2\n3\n", 1504).unwrap();
        assert_eq!(trace.peak(), None);
        assert_eq!(
            trace.mean(),
            Rate::from_bytes_over(4 * 1504, Span::from_millis(3))
        );
    }
}
