//! Loss and jitter.

use super::super::error::ScenarioError;
use super::super::node::Value;
use super::super::one_way::{JitterSpec, LossSpec};
use super::super::read::Table;
use super::trace;
use howdah_core::{Span, units};
use howdah_path::{DelayTrace, LossTrace};

/// The most that is added to a delay, as a delay itself has it.
const MOST_JITTER: Span = Span::from_secs(3600);

pub(super) fn jitter(table: &Table<'_>) -> Result<JitterSpec, ScenarioError> {
    let spec = read_jitter(table)?;
    let most = match &spec {
        JitterSpec::None => 0,
        JitterSpec::Uniform(max)
        | JitterSpec::Normal { max, .. }
        | JitterSpec::Pareto { max, .. } => *max,
        JitterSpec::Trace(spec) => spec.trace.max().as_nanos(),
    };
    if most > MOST_JITTER.as_nanos() {
        return Err(table.error_at("jitter", "a delay of more than an hour"));
    }
    Ok(spec)
}

fn read_jitter(table: &Table<'_>) -> Result<JitterSpec, ScenarioError> {
    let known = [
        "normal", "pareto", "shape", "max", "trace", "steps", "period",
    ];
    let Some(inner) = table.inner("jitter", &known)? else {
        return Ok(match table.span("jitter")? {
            None | Some(Span::ZERO) => JitterSpec::None,
            Some(max) => JitterSpec::Uniform(max.as_nanos()),
        });
    };
    if inner.has("trace") || inner.has("steps") {
        inner.only("trace", "a trace", &["steps", "period"])?;
        let trace = trace::read(&inner, |text, period| Ok(DelayTrace::parse(text, period)))?;
        return Ok(JitterSpec::Trace(trace));
    }
    let max = inner
        .span("max")?
        .ok_or_else(|| inner.error("'max', the most that is added, is missing"))?
        .as_nanos();
    match (inner.span("normal")?, inner.span("pareto")?) {
        (Some(deviation), None) => {
            inner.only("normal", "a normal jitter", &["max"])?;
            Ok(JitterSpec::Normal {
                deviation: deviation.as_nanos(),
                max,
            })
        }
        (None, Some(scale)) => {
            inner.only("pareto", "a Pareto jitter", &["shape", "max"])?;
            let shape = inner.number("shape")?.unwrap_or(1.5);
            if shape <= 1.0 {
                return Err(inner.error_at("shape", "the tail has a mean only above 1"));
            }
            Ok(JitterSpec::Pareto {
                scale: scale.as_nanos(),
                shape,
                max,
            })
        }
        _ => Err(inner.error("one of 'normal', 'pareto' and 'trace'")),
    }
}

pub(super) fn loss(table: &Table<'_>) -> Result<LossSpec, ScenarioError> {
    if table.has("lose") {
        return list(table);
    }
    let known = [
        "enter",
        "leave",
        "good",
        "bad",
        "gap",
        "deviation",
        "trace",
        "period",
    ];
    if let Some(inner) = table.inner("loss", &known)? {
        if table.has("burst") {
            let message = "'loss' is a model of its own, which says how long its bursts are";
            return Err(table.error_at("burst", message));
        }
        return model(&inner);
    }
    if table.has("burst") && !table.has("loss") {
        let message = "bursts of which losses? 'loss' is missing";
        return Err(table.error_at("burst", message));
    }
    let p = table.probability("loss")?.unwrap_or(0.0);
    if p >= 1.0 {
        return Err(table.error_at("loss", "a path that loses everything"));
    }
    if let Some(mean) = burst_time(table)? {
        return Ok(if p > 0.0 {
            LossSpec::Outages {
                loss: p,
                mean_ns: mean.as_nanos(),
            }
        } else {
            LossSpec::None
        });
    }
    let Some(burst) = table.number("burst")? else {
        return Ok(if p > 0.0 {
            LossSpec::Bernoulli(p)
        } else {
            LossSpec::None
        });
    };
    if burst < 1.0 {
        let message = "the mean number of packets lost in a row is at least 1";
        return Err(table.error_at("burst", message));
    }
    // All packets of the bad state are lost, so its stationary share is the loss.
    let leave = 1.0 / burst;
    let enter = p * leave / (1.0 - p);
    if enter > 1.0 {
        let message = "no such bursts at this loss: they would have to overlap";
        return Err(table.error_at("burst", message));
    }
    Ok(if p > 0.0 {
        LossSpec::GilbertElliott {
            enter,
            leave,
            good: 0.0,
            bad: 1.0,
        }
    } else {
        LossSpec::None
    })
}

/// A mean length of bursts as a time, and not in packets.
fn burst_time(table: &Table<'_>) -> Result<Option<Span>, ScenarioError> {
    let is_text = |node: &super::super::node::Node| matches!(node.value, Value::Text(_));
    if !table.node.get("burst").is_some_and(is_text) {
        return Ok(None);
    }
    let mean = table.parse("burst", |text| match units::parse_span(text) {
        Ok(mean) if mean >= Span::from_micros(1) => Ok(mean),
        _ => Err("a number of packets (5) or a time (5ms)"),
    })?;
    Ok(mean)
}

fn list(table: &Table<'_>) -> Result<LossSpec, ScenarioError> {
    if table.has("loss") {
        return Err(table.error_at("lose", "random 'loss' or a list 'lose', not both"));
    }
    let list = table.with("lose", |node| {
        let Value::List(items) = &node.value else {
            return Err("a list of packet numbers".to_owned());
        };
        items
            .iter()
            .map(|item| match item.value {
                Value::Int(number) if number >= 0 => Ok(number as u64),
                _ => Err(format!("{item} is not the number of a packet")),
            })
            .collect()
    })?;
    Ok(LossSpec::List(list.unwrap_or_default()))
}

fn model(table: &Table<'_>) -> Result<LossSpec, ScenarioError> {
    if table.has("trace") {
        table.only(
            "trace",
            "a trace of losses, which has packets and no times and",
            &[],
        )?;
        let trace = trace::read(table, |text, _| Ok(LossTrace::parse(text)))?;
        return Ok(LossSpec::Trace(trace));
    }
    if let Some(loss) = table.probability("gap")? {
        table.only("gap", "losses at normal distances", &["deviation"])?;
        let deviation = table.number("deviation")?.unwrap_or(0.25);
        if !(deviation >= 0.0 && loss > 0.0 && loss < 1.0) {
            return Err(table.error_at("gap", "a loss between 0 and 1, a deviation not below 0"));
        }
        return Ok(LossSpec::NormalGap { loss, deviation });
    }
    table.only(
        "enter",
        "the model of Gilbert and Elliott",
        &["leave", "good", "bad"],
    )?;
    let need = |key: &str| {
        table
            .probability(key)?
            .ok_or_else(|| table.error(format!("'{key}' is missing")))
    };
    let (enter, leave) = (need("enter")?, need("leave")?);
    if enter > 0.0 && leave == 0.0 {
        return Err(table.error_at("leave", "a burst of loss that never ends"));
    }
    Ok(LossSpec::GilbertElliott {
        enter,
        leave,
        good: table.probability("good")?.unwrap_or(0.0),
        bad: table.probability("bad")?.unwrap_or(1.0),
    })
}
