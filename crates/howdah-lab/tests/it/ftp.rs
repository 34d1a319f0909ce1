//! FTP: a TCP connection between the commands of a session.

use howdah_lab::scenario::parse;
use howdah_report::result::CellResult;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Round trips of the session: seven in front of the data connection, one behind it.
const SESSION: f64 = 8.0;

fn run(protocol: &str, rtt_ms: u32, size: &str) -> CellResult {
    let text = format!(
        r#"
id = "T"
[path.main]
rate = "100mbit"
rtt = "{rtt_ms}ms"
buffer = "2bdp"
[flow.main]
{protocol}
size = "{size}"
[measure]
duration = "120s"
until_complete = true
"#
    );
    let plan = parse(Path::new("t.toml"), &text, false).unwrap();
    let cell = plan.cells().next().unwrap();
    howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap()
}

#[test]
fn a_file_takes_its_tcp_and_eight_round_trips() {
    let tcp = "protocol = \"cubic-2.6.32\"\nera = \"linux26\"\nsocket_buffer = \"4MiB\"";
    for rtt_ms in [10, 200] {
        let alone = run(tcp, rtt_ms, "50MB");
        let ftp = run("protocol = \"ftp-like\"", rtt_ms, "50MB");
        let took_s = alone.flows[0].completion_s.unwrap();
        // The displayed rate is that of the data connection.
        assert_eq!(ftp.flows[0].completion_s, Some(took_s));
        let duration_s = ftp.metrics["duration_s/main"];
        let rtt_s = f64::from(rtt_ms) / 1e3;
        println!("{rtt_ms} ms: {took_s:.3} s, with the session {duration_s:.3} s");
        assert!((duration_s - took_s - SESSION * rtt_s).abs() < 1e-6);
        assert!(took_s > 4.0, "faster than the link");
    }
}

/// A handshake, and a segment that is acknowledged, are two round trips more.
#[test]
fn the_smallest_file_takes_ten_round_trips() {
    let ftp = run("protocol = \"ftp-like\"", 200, "1bytes");
    let rounds = ftp.metrics["duration_s/main"] / 0.2;
    assert!((rounds - 10.0).abs() < 0.01, "{rounds}");
}
