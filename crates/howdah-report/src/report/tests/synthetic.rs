//! Campaigns made up for tests. The curves mean nothing.

use crate::ledger::Entry;
use crate::report::load::Loaded;
use crate::result::{
    Campaign, CellResult, CertificateNote, ExperimentNote, FlowResult, GroupResult, Interval,
    LinkResult, Mark, ScenarioText, StreamResult,
};
use std::path::Path;

/// So little that its page can be kept and read: two protocols, two buffers, one of the cells
/// failed, and a grid.
pub(super) fn tiny() -> Loaded {
    let mut loaded = small();
    loaded.cells.retain(|cell| match cell.experiment.as_str() {
        "J-A2" => cell.seed == 1,
        "H-P" => true,
        _ => false,
    });
    loaded.cells[3].error = Some("the disk is full".to_owned());
    for cell in &mut loaded.cells {
        for flow in &mut cell.flows {
            let few = if cell.experiment == "H-P" { 0 } else { 4 };
            flow.intervals.truncate(few);
        }
    }
    loaded
}

/// One of everything that a report can show, in as few cells as that takes.
pub(super) fn small() -> Loaded {
    let mut cells = Vec::new();
    for protocol in ["howdah", "fast"] {
        for buffer in ["127packets", "512packets"] {
            for seed in [2, 1] {
                let at = [("protocol", protocol), ("buffer", buffer), ("rtt", "180ms")];
                cells.push(cell("J-A2", &at, seed, &[protocol], 12));
            }
        }
    }
    cells[6].error = Some("the trace <ends> after 3 s".to_owned());
    cells[6].flows.clear();
    cells[4].shortened = true;
    for (first, second) in [("howdah", "howdah"), ("howdah", "fast"), ("fast", "fast")] {
        let pair = format!("{first}+{second}");
        cells.push(cell("J-E1", &[("pair", &pair)], 1, &[first, second], 6));
    }
    for protocol in ["howdah", "fast"] {
        let mut shorts = cell(
            "J-F1",
            &[("protocol", protocol), ("mean", "300KB")],
            1,
            &[protocol],
            5,
        );
        shorts.groups.push(group(1.0 + protocol.len() as f64));
        shorts.streams.push(stream());
        cells.push(shorts);
    }
    for rtt in ["0ms", "100ms"] {
        for loss in ["0%", "0.1%", "2%"] {
            let mut one = cell("H-P", &[("rtt", rtt), ("loss", loss)], 1, &["howdah"], 4);
            one.flows[0].completion_s = Some(27.0 + (rtt.len() * loss.len()) as f64 / 7.0);
            cells.push(one);
        }
    }
    Loaded {
        campaign: campaign(true),
        cells,
        ledger: ledger(),
        ..Loaded::default()
    }
}

/// A campaign with at least so many cells, each with two flows of 300 s.
pub(super) fn long(cells: usize) -> Loaded {
    let protocols = [
        "howdah",
        "reno",
        "hstcp",
        "scalable",
        "fast",
        "bic",
        "cubic2005",
        "htcp",
        "cubic",
        "bbr1",
        "bbr3",
    ];
    let mut all = Vec::new();
    let mut seed = 0;
    while all.len() < cells {
        seed += 1;
        for protocol in protocols {
            for size in ["100KB", "300KB", "500KB"] {
                let at = [("protocol", protocol), ("mean", size)];
                let mut one = cell("J-F1", &at, seed, &[protocol], 300);
                one.groups
                    .push(group(protocol.len() as f64 + size.len() as f64));
                all.push(one);
            }
            for case in ["1.6mbit", "8mbit"] {
                for buffer in ["127packets", "512packets"] {
                    let at = [("protocol", protocol), ("cbr", case), ("buffer", buffer)];
                    let mut one = cell("J-G1", &at, seed, &[protocol], 300);
                    one.streams = vec![stream(), stream()];
                    all.push(one);
                }
            }
            for rtt in ["38ms", "76ms", "152ms"] {
                let at = [("protocol", protocol), ("rtt2", rtt)];
                all.push(cell("J-D", &at, seed, &[protocol, protocol], 300));
            }
            let at = [("protocol", protocol)];
            all.push(cell("J-C1", &at, seed, &[protocol], 120));
        }
        for (n, first) in protocols.iter().enumerate() {
            for second in &protocols[n..] {
                let pair = format!("{first}+{second}");
                all.push(cell(
                    "J-E1",
                    &[("pair", &pair)],
                    seed,
                    &[first, second],
                    300,
                ));
            }
            let mut one = cell("J-E2", &[("partner", first)], seed, &["hstcp", first], 300);
            one.flows[0].name = "HSTCP".to_owned();
            one.flows[1].name = "partner".to_owned();
            all.push(one);
        }
        for rtt in ["0ms", "50ms", "100ms", "150ms", "200ms", "400ms"] {
            for loss in ["0%", "0.1%", "0.3%", "0.5%", "1%", "1.5%", "2%"] {
                let mut one = cell(
                    "H-P",
                    &[("rtt", rtt), ("loss", loss)],
                    seed,
                    &["howdah"],
                    180,
                );
                one.flows[0].completion_s = Some(27.0 + (rtt.len() * loss.len()) as f64 / 7.0);
                all.push(one);
            }
        }
    }
    Loaded {
        campaign: campaign(false),
        cells: all,
        ledger: ledger(),
        ..Loaded::default()
    }
}

/// A few cells of each paper but JGN06, of which [`small`] has some.
pub(super) fn papers() -> Loaded {
    let mut cells = Vec::new();
    for rtt in ["0ms", "50ms", "200ms"] {
        for loss in ["0%", "0.1%"] {
            for protocol in ["udt", "rbudp"] {
                let at = [("protocol", protocol), ("rtt", rtt), ("loss", loss)];
                let mut one = cell("P1", &at, 1, &[protocol], 4);
                one.flows[0].goodput_bps *= 9.0;
                one.flows[0].sender_cpu_s = Some(1.1);
                one.flows[0].receiver_cpu_s = Some(0.9);
                cells.push(one);
            }
            for protocol in ["velocity-like", "xdt-like"] {
                let at = [("protocol", protocol), ("rtt", rtt), ("loss", loss)];
                let mut one = cell("A1", &at, 1, &[protocol], 4);
                one.flows[0].name = "main".to_owned();
                one.flows[0].goodput_bps = 8.1e9;
                for (name, value) in [
                    ("displayed_bps/main", 8.5e9),
                    ("duration_s/main", 30.0 + rtt.len() as f64),
                    ("discrepancy_s/main", 1.5),
                    ("overhead_s/main", 2.5),
                ] {
                    one.metrics.insert(name.to_owned(), value);
                }
                cells.push(one);
            }
        }
    }
    for tool in ["rbudp", "tsunami", "pa-udp"] {
        for setup in ["ideal", "h2"] {
            let at = [("tool", tool), ("setup", setup)];
            let mut one = cell("W4", &at, 1, &[tool, "reno"], 4);
            one.flows[0].name = "tested".to_owned();
            one.flows[1].name = "tcp".to_owned();
            cells.push(one);
        }
    }
    Loaded {
        campaign: campaign(false),
        cells,
        ledger: ledger(),
        ..Loaded::default()
    }
}

/// Four cells of one testbed: in the simulator all have 900 Mbit/s; on the other one agrees, one does
/// not, one was the host's limit, and one could not be run.
pub(super) fn testbed(name: &str) -> Loaded {
    let real = name == "netns";
    let mut cells = Vec::new();
    let found = [("reno", 1e9), ("cubic", 5e8), ("bbr1", 8e8), ("fast", 0.0)];
    for (protocol, bps) in found {
        let at = [("protocol", protocol), ("rtt", "10ms")];
        let mut one = cell("today", &at, 1, &[protocol], 4);
        one.id = format!("{name}-{}", one.id);
        one.testbed = name.to_owned();
        one.flows[0].goodput_bps = if real { bps } else { 9e8 };
        one.flows[0].steady_goodput_bps = one.flows[0].goodput_bps;
        if real && protocol == "bbr1" {
            one.marks.push(Mark::HostLimited);
            one.certificate = Some(CertificateNote {
                valid: false,
                objections: vec!["31 packets were dropped that were not planned".to_owned()],
                ..CertificateNote::default()
            });
        }
        if real && protocol == "fast" {
            one.skipped = Some("this kernel has no FAST".to_owned());
            one.flows.clear();
        }
        cells.push(one);
    }
    Loaded {
        campaign: campaign(false),
        cells,
        ..Loaded::default()
    }
}

/// Writes a campaign as a runner would.
pub(super) fn store(loaded: &Loaded, dir: &Path) {
    std::fs::create_dir_all(dir.join("cells")).unwrap();
    let json = serde_json::to_string(&loaded.campaign).unwrap();
    std::fs::write(dir.join("campaign.json"), json).unwrap();
    for cell in &loaded.cells {
        let json = serde_json::to_string(cell).unwrap();
        std::fs::write(dir.join(format!("cells/{}.json", cell.id)), json).unwrap();
    }
}

fn campaign(quick: bool) -> Campaign {
    let scenario = |path: &str, text: &str| ScenarioText {
        path: path.to_owned(),
        text: text.to_owned(),
    };
    Campaign {
        format: 1,
        scenarios: vec![
            scenario(
                "scenarios/jgn06/a.toml",
                "experiment = \"J-A2\"\nbuffer = [\"127packets\", \"512packets\"]\n",
            ),
            scenario("scenarios/jgn06/e.toml", "experiment = \"J-E1\"\n"),
            scenario(
                "scenarios/howdah.toml",
                "id = \"H-P\" # < 42 cells\n[path.main]\nrate = \"1gbit\"\nmtu = 9000\n[flow.main]\nprotocol = \"howdah\"\n[measure]\nduration = \"4s\"\n",
            ),
        ],
        commit: "0123abcd".to_owned(),
        dirty: quick,
        machine: [("Processor", "two cores of something"), ("Memory", "8 GiB")]
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .into(),
        command: "howdah lab run scenarios --quick".to_owned(),
        started_unix_s: 1_795_302_301,
        quick,
        experiments: vec![
            ExperimentNote {
                id: "J-A2".to_owned(),
                title: "One flow, two <buffers>".to_owned(),
                paper: "JGN06".to_owned(),
                figure: "Fig. 3".to_owned(),
                note: "The other traffic is not described.".to_owned(),
                file: "scenarios/jgn06/a.toml".to_owned(),
                ..ExperimentNote::default()
            },
            ExperimentNote {
                id: "H-P".to_owned(),
                file: "scenarios/howdah.toml".to_owned(),
                mtu_bytes: Some(9000),
                ..ExperimentNote::default()
            },
        ],
        chosen: [(
            "J-A2".to_owned(),
            vec![("measure.duration".to_owned(), "300s".to_owned())],
        )]
        .into(),
        ..Campaign::default()
    }
}

fn ledger() -> Vec<(String, Vec<Entry>)> {
    let entry = |id: &str, verdict: &str, fitted| Entry {
        id: id.to_owned(),
        paper: "JGN06".to_owned(),
        experiment: "J-A2".to_owned(),
        statement: "FAST does greatly better with a buffer of 512 packets".to_owned(),
        stated: "> 1".to_owned(),
        kind: "~".to_owned(),
        ours: "1.8".to_owned(),
        verdict: verdict.to_owned(),
        standing: if fitted { "fitted" } else { "counts" }.to_owned(),
        reduced: id == "J.a2.1",
        trials: if id == "J.a2.2" { [1, 3, 1] } else { [0; 3] },
        note: "tried <two> buffers".to_owned(),
        ..Entry::default()
    };
    let entries = vec![
        entry("J.a2.1", "holds", false),
        entry("J.a2.2", "shape holds", false),
        entry("J.a2.3", "fails", true),
        entry("J.a2.4", "cannot be judged", false),
    ];
    vec![("sim".to_owned(), entries)]
}

/// A number from 0 to 1 that looks like chance and is none.
fn scatter(words: &[&str], n: u64) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ n;
    for byte in words.iter().flat_map(|w| w.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (hash ^ (hash >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15) as f64 / u64::MAX as f64
}

fn cell(
    experiment: &str,
    at: &[(&str, &str)],
    seed: u64,
    protocols: &[&str],
    seconds: usize,
) -> CellResult {
    let words: Vec<&str> = at.iter().map(|a| a.1).collect();
    let flows: Vec<FlowResult> = protocols
        .iter()
        .enumerate()
        .map(|(n, protocol)| flow(protocol, n, &words, seed, seconds))
        .collect();
    CellResult {
        id: format!("{experiment}-{}-{seed}", words.join("-")),
        experiment: experiment.to_owned(),
        at: at
            .iter()
            .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
            .collect(),
        testbed: "sim".to_owned(),
        seed,
        duration_s: seconds as f64,
        wall_s: 0.5,
        flows,
        links: vec![
            LinkResult {
                name: "main/forward".to_owned(),
                rate_bps: 1e9,
                offered_packets: 100_000,
                queue_drops: 40 * seed,
                utilisation: 0.8 + 0.1 * scatter(&words, seed),
                queue_ms: [0.2, 1.1 + scatter(&words, seed), 1.4],
                ..LinkResult::default()
            },
            LinkResult {
                name: "main/backward".to_owned(),
                rate_bps: 1e9,
                ..LinkResult::default()
            },
        ],
        metrics: if protocols.len() > 1 {
            [("jain".to_owned(), 0.5 + scatter(&words, seed) / 2.0)].into()
        } else {
            [].into()
        },
        ..CellResult::default()
    }
}

fn flow(protocol: &str, n: usize, words: &[&str], seed: u64, seconds: usize) -> FlowResult {
    let share = 0.35 + 0.6 * scatter(words, seed + 7 * n as u64);
    let intervals: Vec<Interval> = (1..=seconds)
        .map(|t| {
            let ramp = 1.0 - (-(t as f64) / 8.0).exp();
            let wave = 1.0 - 0.25 * ((t as f64 * (0.5 + share) / 9.0).fract());
            let goodput_bps = 9.4e8 * share * ramp * wave;
            Interval {
                t_s: t as f64,
                goodput_bps,
                wire_bps: goodput_bps * 1.03,
                retransmitted_bytes: 1500,
                cwnd_bytes: (goodput_bps * 0.18 / 8.0) as u64,
                in_flight_bytes: (goodput_bps * 0.17 / 8.0) as u64,
                srtt_ms: 180.0 + wave,
                queue_ms: 1.5 * wave * ramp,
            }
        })
        .collect();
    let delivered_bytes = intervals.iter().map(|i| (i.goodput_bps / 8.0) as u64).sum();
    FlowResult {
        name: format!("flow {}", n + 1),
        protocol: protocol.to_owned(),
        algorithm: protocol.to_uppercase(),
        end_s: seconds as f64,
        delivered_bytes,
        goodput_bps: 9e8 * share,
        steady_goodput_bps: 9.4e8 * share,
        sent_bytes: delivered_bytes + delivered_bytes / 200,
        retransmitted_bytes: Some(delivered_bytes / 200),
        congestion_events: Some(0),
        timeouts: Some(0),
        forward_packets: delivered_bytes / 1448,
        forward_wire_bytes: delivered_bytes + delivered_bytes / 30,
        feedback_packets: 900,
        feedback_wire_bytes: 60_000 + delivered_bytes / 5000,
        ramp_s: Some(11.0 + share),
        intervals,
        ..FlowResult::default()
    }
}

fn group(scale: f64) -> GroupResult {
    GroupResult {
        reverse: false,
        name: "web".to_owned(),
        algorithm: "reno".to_owned(),
        flows: 3000,
        finished: 2990,
        bytes: 880_000_000,
        offered_bytes: 900_000_000,
        throughput_bps: 1.1e6 / scale,
        completion_s: Some([0.4 * scale, 1.9 * scale, 5.0 * scale]),
        completion_cdf_s: [0.05, 0.2, 0.4, 1.2, 9.0].map(|t| t * scale).to_vec(),
        timeouts: Some(12),
    }
}

fn stream() -> StreamResult {
    let at = |t_s: f64| Interval {
        t_s,
        ..Interval::default()
    };
    StreamResult {
        name: "video".to_owned(),
        sent_packets: 1_500_000,
        lost_packets: 31,
        jitter_ms: 0.04,
        jitter_series_ms: vec![0.01, 0.05, 0.04],
        intervals: [10.0, 20.0, 30.0].map(at).into(),
        ..StreamResult::default()
    }
}
