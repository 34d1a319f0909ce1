//! Programs that measure TCP.

use super::default_tcp::{self, DEFAULT_TCP};
use super::{Adapter, AdapterArgs, Figures, Launch, Ready, Recipe, Said, need};
use crate::netns::Trouble;
use serde_json::Value;

const IPERF_INSTALL: &str = "apt-get install iperf3";
const IPERF_PORT: u16 = 5201;
const NUTTCP_INSTALL: &str = "apt-get install nuttcp";
const NUTTCP_CONTROL_PORT: u16 = 5000;
/// What nuttcp writes at once, in bytes. It sends whole buffers only.
const NUTTCP_BUFFERS: std::ops::RangeInclusive<u64> = 4096..=65_536;

pub(super) const ALL: &[Adapter] = &[
    Adapter {
        name: "iperf3-cubic",
        prepare: |errand, _| iperf3(errand, "cubic"),
    },
    Adapter {
        name: "iperf3-bbr",
        prepare: |errand, _| iperf3(errand, "bbr"),
    },
    Adapter {
        name: "nuttcp",
        prepare: |errand, _| nuttcp(errand),
    },
];

fn iperf3(errand: &AdapterArgs<'_>, congestion: &'static str) -> Result<Launch, Trouble> {
    let program = need("iperf3", IPERF_INSTALL)?;
    let port = IPERF_PORT.to_string();
    let to = errand.ends.receiver.to_string();
    let streams = errand.flow.options.streams.unwrap_or(1).to_string();
    if errand.flow.size_bytes.is_some() {
        return Err(Trouble::Skipped(
            "iperf3 does not deliver a size: it ends when its last byte is in the socket's buffer (nuttcp does)".to_owned(),
        ));
    }
    let seconds = format!("{:.0}", errand.seconds.max(1.0));
    Ok(Launch {
        receiver: Recipe::new(&program)
            .args(["-s", "-1", "-J", "-p", &port])
            .ready(Ready::TcpPort(IPERF_PORT))
            .ends_itself(),
        sender: Recipe::new(&program)
            .args([
                "-c", &to, "-p", &port, "-C", congestion, "-P", &streams, "-J",
            ])
            .args(["-t", &seconds])
            .ends_itself(),
        read: Box::new(move |sender, receiver| read_iperf3(congestion, sender, receiver)),
        keep: Vec::new(),
    })
}

fn read_iperf3(congestion: &str, sender: &Said, receiver: &Said) -> Result<Figures, String> {
    let parse = |said: &Said, whose: &str| -> Result<Value, String> {
        let value: Value = serde_json::from_str(&said.out)
            .map_err(|error| format!("iperf3 {whose} printed no JSON: {error}"))?;
        match value.get("error").and_then(Value::as_str) {
            Some(error) => Err(format!("iperf3 {whose}: {error}")),
            None => Ok(value),
        }
    };
    let (sent, received) = (parse(sender, "-c")?, parse(receiver, "-s")?);
    let used = sent
        .pointer("/end/sender_tcp_congestion")
        .and_then(Value::as_str);
    if used != Some(congestion) {
        return Err(format!(
            "asked for TCP {congestion}, the kernel used {}",
            used.unwrap_or("nobody knows what")
        ));
    }
    let number = |value: &Value, at: &str| value.pointer(at).and_then(Value::as_f64);
    Ok(Figures {
        algorithm: format!("iperf3, kernel {congestion}"),
        delivered_bytes: number(&received, "/end/sum_received/bytes").map(|bytes| bytes as u64),
        seconds: number(&sent, "/end/sum_sent/seconds"),
        over_tcp: true,
        environment: vec![("tcp_congestion".to_owned(), congestion.to_owned())],
        ..Figures::default()
    })
}

fn nuttcp(errand: &AdapterArgs<'_>) -> Result<Launch, Trouble> {
    let program = need("nuttcp", NUTTCP_INSTALL)?;
    let to = errand.ends.receiver.to_string();
    let size = errand.flow.size_bytes;
    let how_much = match size {
        None => vec![format!("-T{:.3}", errand.seconds)],
        Some(bytes) => {
            let fits = NUTTCP_BUFFERS.rev().find(|buffer| bytes % buffer == 0);
            let buffer = fits.ok_or_else(|| {
                Trouble::Skipped(format!(
                    "nuttcp sends whole buffers only, and {bytes} bytes are no multiple of any"
                ))
            })?;
            vec![format!("-l{buffer}"), format!("-n{}", bytes / buffer)]
        }
    };
    let streams = errand.flow.options.streams.unwrap_or(1);
    let mut sender = Recipe::new(&program).args(["-fparse", "-v"]).args(how_much);
    if streams > 1 {
        sender = sender.args([format!("-N{streams}")]);
    }
    Ok(Launch {
        receiver: Recipe::new(&program)
            .args(["-1", "--nofork"])
            .ready(Ready::TcpPort(NUTTCP_CONTROL_PORT))
            .ends_itself(),
        sender: default_tcp::over(sender.args([to]).ends_itself(), errand.ends)?,
        read: Box::new(move |sender, _| read_nuttcp(size, sender)),
        keep: Vec::new(),
    })
}

/// Both ends' figures stand in the transmitter's output, each behind the name of its end.
fn read_nuttcp(size: Option<u64>, sender: &Said) -> Result<Figures, String> {
    let environment = default_tcp::read(sender)?;
    let algorithm = format!("nuttcp, kernel {DEFAULT_TCP}");
    let Some(size) = size else {
        // nuttcp counts what drains after its time as well: the emulator knows when what came.
        return Ok(Figures {
            algorithm,
            over_tcp: true,
            environment,
            ..Figures::default()
        });
    };
    let number = |end: &str, key: &str| {
        let words = sender.out.lines().filter_map(|line| line.strip_prefix(end));
        words
            .flat_map(str::split_ascii_whitespace)
            .find_map(|word| {
                word.strip_prefix(key)?
                    .strip_prefix('=')?
                    .parse::<f64>()
                    .ok()
            })
    };
    // Printed with four places: to a hundred bytes.
    let bytes = |end: &str| {
        let bytes = (number(end, "megabytes")? * 1_048_576.0).round() as u64;
        Some(if bytes.abs_diff(size) < 100 {
            size
        } else {
            bytes
        })
    };
    Ok(Figures {
        algorithm,
        // Absent if it was cut off.
        delivered_bytes: bytes("nuttcp-r:"),
        // The transmitter's end with its last write.
        seconds: number("nuttcp-r:", "real_seconds"),
        over_tcp: true,
        environment,
        ..Figures::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// nuttcp 6.1.2, shortened.
    const NUTTCP: &str = "\
nuttcp-t: v6.1.2: socket
nuttcp-t: buflen=62500 nstream=1 port=5001 mode=tcp host=10.88.0.2
nuttcp-t: connect=10.88.0.2 mss=1448 rtt_ms=20.1
nuttcp-t: send_window_size=3939840 receive_window_size=131072
nuttcp-t: megabytes=190.7349 real_seconds=2.00 rate_KBps=97656.25 rate_Mbps=800.0000
nuttcp-t: retrans=12
nuttcp-t: stats=cpu user=0.0 system=0.7 elapsed=0:02 cpu=38% memory=0i+0d-980maxrss io=0+0pf swaps=1313+8300csw

nuttcp-r: v6.1.2: socket
nuttcp-r: buflen=62500 nstream=1 port=5001 mode=tcp
nuttcp-r: megabytes=190.7349 real_seconds=2.02 rate_KBps=96689.36 rate_Mbps=792.0792
nuttcp-r: megabytes=190.7349 cpu_seconds=0.81 KB_per_cpu_second=6088103.73
";

    fn said(out: &str, err: &str) -> Said {
        Said {
            out: out.to_owned(),
            err: err.to_owned(),
        }
    }

    #[test]
    fn nuttcp_is_read() {
        let said = said(NUTTCP, default_tcp::ROUTE);
        let figures = read_nuttcp(Some(200_000_000), &said).unwrap();
        assert_eq!(figures.delivered_bytes, Some(200_000_000));
        assert_eq!(figures.seconds, Some(2.02));
        assert_eq!(figures.algorithm, "nuttcp, kernel cubic");
        assert_eq!(figures.environment.len(), 1);
        let other = read_nuttcp(Some(300_000_000), &said).unwrap();
        assert_eq!(other.delivered_bytes, Some(200_000_039));
        assert_eq!(read_nuttcp(None, &said).unwrap().delivered_bytes, None);
    }

    #[test]
    fn nuttcp_over_another_tcp_is_an_error() {
        let said = said(
            NUTTCP,
            "10.88.0.2 dev wan0 src 10.88.0.1 uid 0\n    cache\n",
        );
        assert!(read_nuttcp(None, &said).unwrap_err().contains("cubic"));
    }

    #[test]
    fn iperf3_over_another_tcp_is_an_error() {
        let sent =
            r#"{"end":{"sum_sent":{"seconds":2.0,"bytes":100},"sender_tcp_congestion":"bbr"}}"#;
        let received = r#"{"end":{"sum_received":{"bytes":90}}}"#;
        let figures = read_iperf3("bbr", &said(sent, ""), &said(received, "")).unwrap();
        assert_eq!(
            (figures.delivered_bytes, figures.over_tcp),
            (Some(90), true)
        );
        let error = read_iperf3("cubic", &said(sent, ""), &said(received, "")).unwrap_err();
        assert!(error.contains("bbr"), "{error}");
        let failed = r#"{"error":"unable to connect"}"#;
        assert!(read_iperf3("bbr", &said(failed, ""), &said(received, "")).is_err());
    }
}
