//! What is said when a copy is done.

use crate::exit;
use howdah::Summary;
use howdah_core::{Rate, units};
use serde::Serialize;

/// Version of the JSON objects. It changes when a field changes its meaning or goes away.
const SCHEMA: u32 = 1;

/// What `--json` prints after a success.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    schema: u32,
    #[serde(flatten)]
    summary: &'a Summary,
}

#[derive(Debug, Serialize)]
struct Failure<'a> {
    schema: u32,
    error: FailureBody<'a>,
}

#[derive(Debug, Serialize)]
struct FailureBody<'a> {
    kind: &'a str,
    message: String,
}

impl<'a> Report<'a> {
    pub(crate) fn new(summary: &'a Summary) -> Self {
        Self {
            schema: SCHEMA,
            summary,
        }
    }

    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string(self)
    }
}

/// What `--json` prints after a failure.
pub(crate) fn failure_json(error: &anyhow::Error) -> serde_json::Result<String> {
    let kind = exit::name(exit::kind(error));
    let error = FailureBody {
        kind,
        message: format!("{error:#}"),
    };
    serde_json::to_string(&Failure {
        schema: SCHEMA,
        error,
    })
}

/// One line for people.
pub(crate) fn summary_line(summary: &Summary) -> String {
    let verified = match summary.verified.as_str() {
        "blake3" => "content verified end to end (BLAKE3)".to_owned(),
        "aead" => "every packet authenticated".to_owned(),
        "" => "not verified".to_owned(),
        other => format!("verified: {other}"),
    };
    let bottleneck = match summary.bottleneck.as_str() {
        "" | "network" => String::new(),
        other => format!("; limited by the {other}"),
    };
    format!(
        "{} in {:.2} s, {}, loss {:.2} %, {} sent again, {verified}{bottleneck}",
        units::format_bytes(summary.bytes),
        summary.seconds,
        Rate::from_bits_per_sec(summary.goodput_bps as u64),
        summary.loss_rate * 100.0,
        units::format_bytes(summary.retransmitted_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah::ErrorKind;

    #[test]
    fn the_line_for_people() {
        let summary = Summary {
            bytes: 1 << 30,
            seconds: 2.0,
            goodput_bps: 4_294_967_296.0,
            retransmitted_bytes: 1 << 20,
            loss_rate: 0.01,
            verified: "blake3".into(),
            bottleneck: "sink".into(),
            ..Summary::default()
        };
        assert_eq!(
            summary_line(&summary),
            "1.00 GiB in 2.00 s, 4.29 Gbit/s, loss 1.00 %, 1.0 MiB sent again, \
             content verified end to end (BLAKE3); limited by the sink"
        );
    }

    #[test]
    fn json_has_a_schema_and_all_that_was_promised() {
        let json = Report::new(&Summary::default()).to_json().unwrap();
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["schema"], 1);
        for field in [
            "bytes",
            "seconds",
            "goodput_bps",
            "wire_bytes",
            "retransmitted_bytes",
            "feedback_bytes",
            "rtt_min_us",
            "loss_rate",
            "mtu",
            "verified",
        ] {
            assert!(!value[field].is_null(), "{field}");
        }
        for side in ["sender", "receiver"] {
            assert!(value[side]["cpu_seconds"].is_number());
            assert!(value[side]["peak_rss_bytes"].is_number());
        }
        let error = howdah::Error::new(ErrorKind::Network, "nobody answers at [::1]:1");
        assert_eq!(
            failure_json(&error.into()).unwrap(),
            r#"{"schema":1,"error":{"kind":"network","message":"nobody answers at [::1]:1"}}"#
        );
    }
}
