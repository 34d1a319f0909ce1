use super::*;
use crate::result::{Campaign, CertificateNote, ExperimentNote, GroupResult, Mark, StreamResult};

fn cell(protocol: &str, mbit: f64, shortened: bool) -> CellResult {
    CellResult {
        experiment: "P1".to_owned(),
        shortened,
        flows: vec![FlowResult {
            name: "main".to_owned(),
            protocol: protocol.to_owned(),
            goodput_bps: mbit * 1e6,
            steady_goodput_bps: 2.0 * mbit * 1e6,
            end_s: 10.0,
            sender_cpu_s: Some(1.0),
            ..FlowResult::default()
        }],
        metrics: [("feedback_bytes_per_gib/main".to_owned(), 2048.0)].into(),
        ..CellResult::default()
    }
}

#[test]
fn a_table_has_every_system_and_counts_what_fails() {
    let summary = Summary {
        cells: vec![
            cell("rbudp", 1000.0, false),
            cell("rbudp", 50.0, false),
            cell("howdah", 1000.0, true),
        ],
        ..Summary::default()
    };
    let text = markdown(&[("results/p".to_owned(), summary)]);
    for line in [
        "| rbudp | 525 (50\u{2013}1000), 1/2 |",
        "| howdah | 2000 |",
        "| rbudp | 10.0 / - |",
        "| rbudp | 2.0; - |",
        "; 1 of 3 ended early",
        "| P1 | 2 | rbudp 525 | 2000 | 3.81 | rbudp 50 | 2000 | rbudp 2.0 | 2.0 |  |  |",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(text.contains("howdah lab report --comparison results/p"));
}

/// Two experiments of the same work are compared in the cells that both have.
#[test]
fn the_same_work_in_two_experiments_is_put_together() {
    let at = |mut cell: CellResult, experiment: &str, rtt: &str| {
        cell.experiment = experiment.to_owned();
        cell.at = [("rtt".to_owned(), rtt.to_owned())].into();
        cell
    };
    let summary = Summary {
        cells: vec![
            at(cell("xdt-like", 4000.0, false), "A1", "0ms"),
            at(cell("xdt-like", 1000.0, false), "A1", "50ms"),
            at(cell("howdah", 6000.0, false), "A1-today", "0ms"),
        ],
        ..Summary::default()
    };
    let text = markdown(&[("results/a".to_owned(), summary)]);
    assert!(
        text.contains("| A1 + A1-today | 2 | xdt-like 4000 | 6000 | 1.50 |"),
        "{text}"
    );
    // Ours is not in the first alone, nor has the second another.
    assert!(!text.contains("| A1 | 1 |"), "{text}");
    assert!(text.contains("| A1-today | 1 |  | 6000 |  |"), "{text}");
}

/// A campaign of the testbed: eight cells planned, six of them done in whatever way.
fn real() -> Summary {
    let names = ["howdah", "tcp-cubic-x8", "srt", "qcp"];
    let flow = |name: &str, mbit: f64, cpu_s: f64| FlowResult {
        name: "main".to_owned(),
        protocol: name.to_owned(),
        goodput_bps: mbit * 1e6,
        steady_goodput_bps: mbit * 1e6,
        end_s: 10.0,
        sender_cpu_s: Some(cpu_s),
        receiver_cpu_s: Some(2.0 * cpu_s),
        ..FlowResult::default()
    };
    let at = |name: &str, loss: &str| {
        [("protocol", name), ("rtt", "50ms"), ("loss", loss)]
            .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
            .into()
    };
    let cell = |name: &str, loss: &str, mbit: f64, marks: &[Mark]| CellResult {
        id: format!("{name}-{loss}"),
        experiment: "R-TODAY".to_owned(),
        at: at(name, loss),
        testbed: "netns".to_owned(),
        flows: vec![flow(name.trim_end_matches("-x8"), mbit, 5.0)],
        marks: marks.to_vec(),
        runs_bps: vec![mbit * 1e6; 2],
        metrics: [
            ("feedback_bytes_per_gib/main", 8192.0),
            ("memory_sender_bytes/main", 50e6),
            ("memory_receiver_bytes/main", 30e6),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into(),
        ..CellResult::default()
    };
    let mut cells = vec![
        cell("howdah", "0%", 9800.0, &[]),
        cell("howdah", "1%", 9600.0, &[Mark::Unsettled]),
        cell("tcp-cubic-x8", "0%", 9000.0, &[Mark::Invalid]),
        cell("tcp-cubic-x8", "1%", 31.0, &[Mark::Unsettled]),
        cell("srt", "0%", 640.0, &[Mark::Scaled, Mark::Unsettled]),
        cell("qcp", "0%", 0.0, &[]),
    ];
    let share = ("retransmit_share/main".to_owned(), 0.0123);
    cells[3].metrics.extend([share]);
    cells[3].runs_bps = vec![31e6];
    cells[2].certificate = Some(CertificateNote {
        objections: vec!["one piece in a hundred was more than 900 us late forward".to_owned()],
        ..CertificateNote::default()
    });
    cells[5].flows.clear();
    cells[5].skipped = Some("the peer '/opt/peers/qcp' is missing (make peers)".to_owned());

    let mut pair = cell("howdah", "0%", 500.0, &[]);
    pair.experiment = "R-FAIR2".to_owned();
    pair.id = "pair".to_owned();
    pair.at = at("howdah", "0%");
    pair.flows.push(flow("reno", 420.0, 1.0));
    pair.flows[0].completion_s = Some(9.5);
    pair.metrics.insert("jain".to_owned(), 0.9925);
    pair.metrics.insert("change_bps/main/1".to_owned(), 4.4e8);
    pair.metrics.insert("t90_ms/main/1".to_owned(), 812.0);
    pair.groups = vec![GroupResult {
        flows: 60,
        finished: 59,
        completion_s: Some([0.5, 1.5, 3.0]),
        ..GroupResult::default()
    }];
    pair.streams = vec![StreamResult {
        sent_packets: 1000,
        lost_packets: 12,
        jitter_ms: 0.25,
        ..StreamResult::default()
    }];
    let mut crashed = cell("srt", "1%", 0.0, &[]);
    crashed.flows.clear();
    crashed.error = Some("srt-file-transmit (sender) failed: a | b\nat /usr/lib/x".to_owned());
    cells.extend([pair, crashed]);

    let ids = names
        .iter()
        .flat_map(|name| ["0%", "1%"].map(|loss| format!("{name}-{loss}")));
    let note = |id: &str, title: &str, cells: usize| ExperimentNote {
        id: id.to_owned(),
        title: title.to_owned(),
        cells,
        ..ExperimentNote::default()
    };
    Summary {
        campaign: Campaign {
            command: "howdah lab run /x/scenarios/real/today.toml --on netns --runs 2".to_owned(),
            commit: "0123abcd".to_owned(),
            dirty: true,
            machine: [
                ("cores", "2"),
                ("cpu", "Some CPU"),
                ("kernel", "6.18.44-own-1"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
            started_unix_s: 1_795_302_301,
            cells: ids.chain(["pair", "pair2"].map(str::to_owned)).collect(),
            experiments: vec![
                note("R-TODAY", "Ours and today's transports over 10 Gbit/s", 8),
                note("R-FAIR2", "Two flows of one kind", 2),
                note("R-TCP", "One flow beside standard TCP", 0),
            ],
            ..Campaign::default()
        },
        cells,
    }
}

#[test]
fn where_paths_differ_in_rate_each_cell_tells_its_processor_time() {
    let mut summary = real();
    let cell = &mut summary.cells[0];
    assert_eq!(costs::cpu_at_rate(cell), None);
    cell.at.insert("rate".to_owned(), "1gbit".to_owned());
    cell.flows[0].goodput_bps = 1e9;
    cell.flows[0].end_s = 10.0;
    cell.flows[0].sender_cpu_s = Some(0.75);
    cell.flows[0].receiver_cpu_s = Some(1.5);
    assert_eq!(costs::cpu_at_rate(cell).unwrap(), "7.5 / 15.0");
}

/// `HOWDAH_BLESS=1 cargo test -p howdah-lab` writes the golden file anew.
#[test]
fn a_partial_campaign_of_the_testbed_is_shown_as_what_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let written = real();
    let store = crate::store::Store::create(dir.path()).unwrap();
    store.write_campaign(&written.campaign).unwrap();
    for cell in &written.cells {
        store.write(cell).unwrap();
    }
    let summary = store.summary().unwrap();
    let text = markdown(&[("results/today-netns".to_owned(), summary)]);
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/comparison/golden/testbed.md"
    );
    if std::env::var_os("HOWDAH_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    let differs = text.lines().zip(golden.lines()).find(|(a, b)| a != b);
    assert!(
        text == golden,
        "the tables differ from {path} ({differs:?}); look at them, then HOWDAH_BLESS=1"
    );
}

#[test]
fn a_campaign_replaces_its_half_of_the_document_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("comparison.md");
    let simulated = |mbit: f64| Summary {
        cells: vec![cell("rbudp", mbit, false)],
        ..Summary::default()
    };
    let named = |summary: Summary| ("results/a".to_owned(), summary);
    let read = || std::fs::read_to_string(&path).unwrap();
    let (old, new) = (named(simulated(1000.0)), named(simulated(2000.0)));
    for (now, whole) in [
        (&old, vec![old.clone()]),
        (&named(real()), vec![old.clone(), named(real())]),
        (&new, vec![new.clone(), named(real())]),
    ] {
        update(&path, std::slice::from_ref(now)).unwrap();
        assert_eq!(read(), markdown(&whole));
    }
    assert!(read().contains(testbed::HEADING) && read().contains("| rbudp | 2000 |"));
    // Campaigns of the testbed are brought up to date one by one.
    let (mut later, mut again) = (real(), real());
    later.campaign.commit = "89abcdef".to_owned();
    again.campaign.commit = "76543210".to_owned();
    let later = ("results/k14-netns".to_owned(), later);
    let again = ("results/a".to_owned(), again);
    update(&path, std::slice::from_ref(&later)).unwrap();
    assert_eq!(
        read(),
        markdown(&[new.clone(), named(real()), later.clone()])
    );
    update(&path, std::slice::from_ref(&again)).unwrap();
    assert_eq!(read(), markdown(&[new, again, later]));
    // Nothing else is overwritten.
    std::fs::write(&path, "# My notes\n").unwrap();
    let error = update(&path, &[named(real())]).unwrap_err();
    assert!(error.to_string().contains("no comparison"), "{error}");
    assert_eq!(read(), "# My notes\n");
}
