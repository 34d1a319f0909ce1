//! This machine as a simulated host: what it does to datagrams, and what they cost it, as a `[host.NAME]` of a scenario.

use howdah_load::LoadError;
use howdah_load::host::figures::{self, Stalls, Tail, quantile};
use howdah_load::host::{self, SEGMENTS};
use howdah_report::result::CellResult;
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Sending calls that are timed: a rare interruption is seen some times.
const CALLS: usize = 20_000;
/// Datagrams leave so far apart where it is watched how they are read: 3.6 Gbit/s.
const APART: Duration = Duration::from_micros(20);
/// Timers that are timed, and for how long each.
const SLEEPS: u32 = 1_000;
const SLEEP: Duration = Duration::from_micros(200);
/// What our own receiver asks for.
const SOCKET_BYTES: usize = 64 << 20;

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Cores.
    pub cores: usize,
    /// What a packet costs; `None`: that takes the testbed, which cannot be had here.
    pub costs: Option<Costs>,
    /// Processor time of a timer, in nanoseconds.
    pub wake_ns: f64,
    /// How late a timer is, in microseconds: in the middle, and 99 % are less late.
    pub late_us: [f64; 2],
    /// Interrupted sending calls: the longest interruption in microseconds, and one in how many calls; `None`: there was none.
    pub tail: Option<(f64, u32)>,
    /// Arrivals are read at this distance, in microseconds; `None`: one by one.
    pub gather_us: Option<f64>,
    /// The longest standstill of a core, and the mean distance of two, in microseconds; `None`: there was none.
    pub stalls: Option<(f64, f64)>,
    /// What a receive buffer is granted, in bytes.
    pub socket_bytes: usize,
    /// What it is charged for each byte of payload of a jumbo frame.
    pub charge: f64,
}

/// Processor time, in nanoseconds, by packets of two sizes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Costs {
    /// For a packet to send, and for each byte of its payload.
    pub sent_ns: [f64; 2],
    /// The same to receive.
    pub received_ns: [f64; 2],
}

impl Calibration {
    /// Measures all but what packets cost. It takes three times `window` and some seconds, and all cores while it looks for standstills.
    ///
    /// # Errors
    ///
    /// The system gives no threads or no UDP over loopback.
    pub fn measure(window: Duration) -> Result<Self, LoadError> {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let (gaps, cores) = host::gaps(window)?;
        let stalls = figures::stalls(&gaps, cores, window);
        let tail = figures::tail(&host::sending_calls(CALLS)?);
        let gather = figures::gather(&host::reads(window, APART)?);
        let (wake, late) = host::sleeps(SLEEPS, SLEEP);
        let (socket_bytes, held) = host::receive_buffer(SOCKET_BYTES)?;
        Ok(Self {
            cores,
            costs: None,
            wake_ns: wake.as_secs_f64() * 1e9,
            late_us: [0.5, 0.99].map(|share| quantile(&late, share).map_or(0.0, us)),
            tail: tail.map(|Tail { longest, calls }| (us(longest), calls)),
            gather_us: gather.map(us),
            stalls: stalls.map(|Stalls { longest, every }| (us(longest), us(every))),
            socket_bytes,
            charge: socket_bytes as f64 / held.max(1) as f64,
        })
    }

    /// As a `[host.NAME]`, with where its figures come from.
    #[must_use]
    pub fn toml(&self, name: &str, machine: &str) -> String {
        let mut text = format!(
            "# A machine as 'howdah lab calibrate' measured it: {machine}.\n# Timers were {:.0} us late in the middle, and 99 % of them less than {:.0} us.\n[host.{name}]\ncores = {}\nbatch = {SEGMENTS}\n",
            self.late_us[0], self.late_us[1], self.cores
        );
        let mut line = |line: String| {
            text.push_str(&line);
            text.push('\n');
        };
        line(format!("wake = \"{:.0}ns\"", self.wake_ns));
        if let Some(costs) = &self.costs {
            for (what, [packet, byte]) in [("sent", costs.sent_ns), ("received", costs.received_ns)]
            {
                line(format!("{what}_packet = \"{packet:.0}ns\""));
                line(format!("{what}_byte = \"{byte:.3}ns\""));
            }
        }
        line(format!("socket = \"{}B\"", self.socket_bytes));
        line(format!("charge = {:.2}", self.charge.clamp(0.1, 100.0)));
        if let Some((longest, calls)) = self.tail {
            line(format!("tail = \"{longest:.0}us\""));
            line(format!("tail_calls = {}", calls.clamp(1, 1024)));
        }
        if let Some(gather) = self.gather_us {
            line(format!("gather = \"{gather:.0}us\""));
        }
        if let Some((longest, every)) = self.stalls {
            line(format!("stall = \"{longest:.0}us\""));
            line(format!("stall_every = \"{every:.0}us\""));
        }
        text
    }
}

/// The scenario whose cells on the testbed say what packets cost, sealed, sent and received: two sizes of them, at rates at which calls are
/// full and timers are few.
#[must_use]
pub fn scenario(duration: Duration) -> String {
    let mut text = "id = \"calibrate\"\ntitle = \"What packets of two sizes cost\"\n".to_owned();
    let _ = write!(
        text,
        "[axes]\n\
         mtu = [{{ name = \"1500\", bytes = 1500, rate = \"2500mbit\" }}, {{ name = \"9000\", bytes = 9000, rate = \"5gbit\" }}]\n\
         [path.main]\nrate = \"$mtu.rate\"\nmtu = \"$mtu.bytes\"\nrtt = \"10ms\"\nbuffer = \"20ms\"\n\
         [flow.main]\nvia = [\"main\"]\nprotocol = \"howdah\"\n[measure]\nduration = \"{}ms\"\n",
        duration.as_millis()
    );
    text
}

/// What these cells say; `None`: not enough.
#[must_use]
pub fn costs(cells: &[CellResult]) -> Option<Costs> {
    // Payload in bytes, and seconds of a processor, of a packet of that MTU: sent, received.
    let of = |mtu: &str| -> Option<[(f64, f64); 2]> {
        let cell = cells
            .iter()
            .find(|cell| cell.at.get("mtu").is_some_and(|at| at == mtu))?;
        let flow = cell.flows.first().filter(|flow| flow.forward_packets > 0)?;
        let packets = flow.forward_packets as f64;
        let payload = flow.delivered_bytes as f64 / packets;
        let each = |cpu_s: Option<f64>| cpu_s.map(|cpu_s| (payload, cpu_s / packets));
        Some([each(flow.sender_cpu_s)?, each(flow.receiver_cpu_s)?])
    };
    let (small, large) = (of("1500")?, of("9000")?);
    let [sent_ns, received_ns] = [0, 1].map(|side| {
        let (packet, byte) = figures::costs(small[side], large[side]);
        [packet * 1e9, byte * 1e9]
    });
    Some(Costs {
        sent_ns,
        received_ns,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use howdah_report::result::FlowResult;

    fn measured() -> Calibration {
        Calibration {
            cores: 2,
            costs: None,
            wake_ns: 3_100.4,
            late_us: [55.0, 140.0],
            tail: Some((480.2, 2_000)),
            gather_us: Some(61.0),
            stalls: Some((9_000.0, 260_000.0)),
            socket_bytes: 8 << 20,
            charge: 1.83,
        }
    }

    /// What it writes is what a scenario reads.
    #[test]
    fn a_measured_machine_is_a_host_of_a_scenario() {
        let costs = Costs {
            sent_ns: [210.0, 0.153],
            received_ns: [190.0, 0.1],
        };
        let all = Calibration {
            costs: Some(costs),
            ..measured()
        };
        let none = Calibration {
            tail: None,
            gather_us: None,
            stalls: None,
            ..measured()
        };
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("t.toml");
        let read = |host: &Calibration| {
            let text = host.toml("near", "two cores");
            let rest = "[path.main]\nrate = \"1gbit\"\nrtt = \"10ms\"\n[flow.main]\nvia = [\"main\"]\nprotocol = \"howdah\"\nfrom = \"near\"\n[measure]\nduration = \"1s\"\n";
            std::fs::write(&path, format!("id = \"t\"\n{text}{rest}")).expect("written");
            let plan = scenario::load(std::slice::from_ref(&path), false).expect("a scenario");
            let cell = plan.cells().next().expect("a cell");
            cell.hosts[0].clone()
        };
        let host = read(&all);
        assert_eq!((host.cores, host.batch, host.wake_ns), (2, 7, 3_100));
        assert_eq!((host.sent.packet_ns, host.sent.byte_ps), (210, 153));
        assert_eq!((host.received.packet_ns, host.received.byte_ps), (190, 100));
        assert_eq!(host.socket, Some((8 << 20, 183)));
        let disturbed = host.disturbance;
        assert_eq!(disturbed.tail_calls, 1_024);
        let [shortest, longest] = disturbed.stall_ns;
        for (found, wanted) in [
            (disturbed.tail_ns, 480_000),
            (disturbed.gather_ns, 61_000),
            (shortest, 900_000),
            (longest, 9_000_000),
            (disturbed.stall_every_ns, 260_000_000),
        ] {
            // A span that is read from text may lack a nanosecond.
            assert!(wanted - found <= 1, "{found} instead of {wanted}");
        }
        let calm = read(&none);
        assert!(calm.disturbance.tail_ns == 0 && calm.disturbance.stall_every_ns == 0);
        assert_eq!(calm.sent.packet_ns, 0);
    }

    #[test]
    fn costs_come_from_packets_of_two_sizes() {
        let cell = |mtu: &str, packets: u64, payload: u64| {
            let cpu_s = packets as f64 * (200e-9 + 0.1e-9 * payload as f64);
            CellResult {
                at: [("mtu".to_owned(), mtu.to_owned())].into(),
                flows: vec![FlowResult {
                    forward_packets: packets,
                    delivered_bytes: packets * payload,
                    sender_cpu_s: Some(cpu_s),
                    receiver_cpu_s: Some(2.0 * cpu_s),
                    ..FlowResult::default()
                }],
                ..CellResult::default()
            }
        };
        let cells = [cell("1500", 300_000, 1_430), cell("9000", 50_000, 8_930)];
        let costs = costs(&cells).expect("both are there");
        for (found, wanted) in costs.sent_ns.into_iter().zip([200.0, 0.1]) {
            assert!((found - wanted).abs() < wanted * 1e-6, "{costs:?}");
        }
        assert!((costs.received_ns[0] - 400.0).abs() < 1e-3, "{costs:?}");
        assert_eq!(super::costs(&cells[..1]), None);
    }

    #[test]
    fn the_scenario_of_the_costs_can_be_run() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("c.toml");
        std::fs::write(&path, scenario(Duration::from_secs(3))).expect("written");
        let plan = scenario::load(&[path], false).expect("a scenario");
        let sizes: Vec<&str> = plan.cells().map(|cell| &*cell.at["mtu"]).collect();
        assert_eq!(sizes, ["1500", "9000"]);
    }
}
