use super::*;
use howdah_core::Span;

const SMALL: &str = "\
id = \"T-1\"
title = \"A test\"
[path.main]
rate = \"1gbit\"
rtt = \"180ms\"
buffer = { value = \"127packets\", stated = false }
[flow.main]
protocol = \"howdah\"
[measure]
duration = \"300s\"
";

fn plan(text: &str) -> Result<Plan, ScenarioError> {
    parse(Path::new("t.toml"), text, false)
}

fn cell(text: &str) -> Cell {
    plan(text).unwrap().experiments[0].cells[0].clone()
}

#[test]
fn a_small_scenario() {
    let plan = plan(SMALL).unwrap();
    let experiment = &plan.experiments[0];
    assert_eq!(
        (experiment.id.as_str(), experiment.title.as_str()),
        ("T-1", "A test")
    );
    let chosen = ("path.main.buffer".to_owned(), "127packets".to_owned());
    assert_eq!(experiment.chosen, [chosen]);
    let cell = &experiment.cells[0];
    let forward = &cell.paths[0].forward;
    assert_eq!(forward.rate_bps, Some(1_000_000_000));
    assert_eq!(forward.delay_ns, 90_000_000);
    assert_eq!(forward.queue, QueueSpec::Packets(127));
    assert_eq!((forward.mtu_bytes, forward.overhead_bytes), (1500, 38));
    assert_eq!(cell.paths[0].backward, *forward);
    assert_eq!(cell.flows[0].size_bytes, None);
    assert_eq!(cell.measure.duration_ns, Span::from_secs(300).as_nanos());
    assert_eq!(cell.id().len(), 16);
}

/// The id names the result file: if it changes, finished cells are run again.
#[test]
fn ids_depend_on_what_is_run_and_on_nothing_else() {
    let base = cell(SMALL);
    let reworded = SMALL
        .replace("A test", "Another")
        .replace("\"180ms\"", "\"0.18s\"");
    assert_eq!(cell(&reworded).id(), base.id());
    let faster = SMALL.replace("1gbit", "2gbit");
    assert_ne!(cell(&faster).id(), base.id());
    let repeated = plan(&format!("repeats = 3\nseed = 7\n{SMALL}")).unwrap();
    let seeds: Vec<u64> = repeated.cells().map(|cell| cell.seed).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let text = base.canonical();
    assert!(
        text.starts_with("{\"at\":{},\"experiment\":\"T-1\",\"flows\":["),
        "{text}"
    );
}

#[test]
fn directions_can_differ() {
    let text = SMALL.replace(
        "[flow.main]",
        "[path.main.backward]\nloss = \"1%\"\ndelay = \"5ms\"\n[flow.main]",
    );
    let path = &cell(&text).paths[0];
    assert_eq!(path.forward.loss, LossSpec::None);
    assert_eq!(path.backward.loss, LossSpec::Bernoulli(0.01));
    assert_eq!(path.forward.delay_ns, 90_000_000);
    assert_eq!(path.backward.delay_ns, 5_000_000);
}

#[test]
fn a_share_of_the_bdp_is_bytes() {
    let text = SMALL.replace("127packets", "0.5bdp");
    assert_eq!(
        cell(&text).paths[0].forward.queue,
        QueueSpec::Bytes(11_250_000)
    );
    let text = SMALL.replace("\"howdah\"", "\"cubic\"\nsocket_buffer = \"2bdp\"");
    let options = &cell(&text).flows[0].options;
    assert_eq!(options.send_buffer_bytes, Some(45_000_000));
    assert_eq!(options.receive_buffer_bytes, Some(45_000_000));
}

#[test]
fn bursts_have_the_loss_that_is_asked_for() {
    let text = SMALL.replace("rtt =", "loss = \"1%\"\nburst = 5\nrtt =");
    let spec = cell(&text).paths[0].forward.clone();
    let loss = spec.to_config().loss.stationary_loss();
    assert!((loss - 0.01).abs() < 1e-12, "{loss}");
}

#[test]
fn bursts_in_time_and_round_trips_of_unequal_halves() {
    let forward = |text: &str| cell(&SMALL.replace("rtt =", text)).paths[0].forward.clone();
    let LossSpec::Outages { loss, mean_ns } = forward("burst = \"5ms\"\nloss = \"2%\"\nrtt =").loss
    else {
        panic!("not in time");
    };
    assert!((loss - 0.02).abs() < 1e-12);
    assert_eq!(mean_ns, 5_000_000);
    let none = forward("burst = \"5ms\"\nloss = \"0%\"\nrtt =").loss;
    assert_eq!(none, LossSpec::None);
    let path = cell(&SMALL.replace("rtt =", "forward_share = \"100%\"\nrtt =")).paths[0].clone();
    assert_eq!(path.backward.delay_ns, 0);
    assert_eq!(path.forward.delay_ns, 2 * forward("rtt =").delay_ns);
}

#[test]
fn the_timeline_adds_up() {
    let text = format!(
        "{SMALL}[[timeline]]\nat = \"30s\"\nrtt = \"80ms\"\n[[timeline]]\nat = \"90s\"\nrate = \"250mbit\"\n"
    );
    let changes = cell(&text).timeline;
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].forward.delay_ns, 40_000_000);
    assert_eq!(changes[0].forward.rate_bps, Some(1_000_000_000));
    assert_eq!(changes[1].forward.delay_ns, 40_000_000);
    assert_eq!(changes[1].forward.rate_bps, Some(250_000_000));
}

#[test]
fn the_reduced_set_and_several_experiments_in_a_file() {
    let text = format!(
        "{SMALL}[quick.measure]\nduration = \"30s\"\n\
         [experiment.T-2]\ntitle = \"Two\"\n[experiment.T-2.path.main]\nrtt = [\"1ms\", \"2ms\"]\n\
         [experiment.T-3.quick]\nskip = true\n"
    )
    .replace("id = \"T-1\"\n", "");
    let full = plan(&text).unwrap();
    let ids: Vec<&str> = full.experiments.iter().map(|e| e.id.as_str()).collect();
    assert_eq!(ids, ["T-2", "T-3"]);
    assert_eq!(full.experiments[0].cells.len(), 2);
    assert_eq!(full.experiments[0].cells[1].at["rtt"], "2ms");
    let quick = parse(Path::new("t.toml"), &text, true).unwrap();
    assert_eq!(quick.experiments.len(), 1);
    let cell = &quick.experiments[0].cells[0];
    assert_eq!(cell.measure.duration_ns, 30_000_000_000);
}

#[test]
fn absent_flows_leave_the_cell() {
    let text = SMALL.replace("\"howdah\"", "[\"none\", \"howdah\"]")
        + "[stream.cbr]\nrate = \"8mbit\"\npacket = \"200bytes\"\n";
    let plan = plan(&text).unwrap();
    let flows: Vec<usize> = plan.cells().map(|cell| cell.flows.len()).collect();
    assert_eq!(flows, [0, 1]);
    assert_eq!(plan.cells().next().unwrap().at["protocol"], "none");
}

/// Every mistake is an error that names its line and says what would be right.
#[test]
fn mistakes_are_explained() {
    let with = |old: &str, new: &str| {
        let text = SMALL.replace(old, new);
        assert_ne!(text, SMALL, "{old}");
        text
    };
    for (text, line, part) in [
        (
            with("buffer", "bufer"),
            6,
            "unknown key 'bufer' in [path.main]; did you mean 'buffer'?",
        ),
        (
            with("\"howdah\"", "\"howda\""),
            8,
            "unknown protocol 'howda'; did you mean 'howdah'?",
        ),
        (
            with("1gbit", "1 parsec"),
            4,
            "'rate': '1 parsec' is not a rate",
        ),
        (with("1gbit", "0gbit"), 4, "carries nothing"),
        (with("1gbit", "1bit"), 4, "from 1kbit to 10tbit"),
        (with("1gbit", "999999999gbit"), 4, "from 1kbit to 10tbit"),
        (with("T-1", "../../x"), 1, "is no name"),
        (with("rtt =", "loss = 0.01\nrtt ="), 5, "has no unit"),
        (with("rtt =", "burst = 5\nrtt ="), 5, "'loss' is missing"),
        (
            with(
                "rtt =",
                "burst = 5\nloss = { enter = \"1%\", leave = \"10%\" }\nrtt =",
            ),
            5,
            "how long its bursts are",
        ),
        (
            with("rtt =", "burst = \"5 packets\"\nloss = \"1%\"\nrtt ="),
            5,
            "or a time (5ms)",
        ),
        (
            with("rtt =", "rate = \"2gbit\"\nrtt ="),
            5,
            "duplicate key 'rate'",
        ),
        (
            format!("{SMALL}[[timeline]]\nat = \"300s\"\nrtt = \"1ms\"\n"),
            12,
            "it would never happen",
        ),
        (
            with("rtt =", "forward_share = \"150%\"\nrtt ="),
            5,
            "is not a probability",
        ),
        (with("127packets", "-3packets"), 6, "is not an amount"),
        (
            with("rtt =", "host_queue = \"5ms\"\nrtt ="),
            5,
            "write it in packets",
        ),
        (with("\"300s\"", "300"), 10, "is not a time"),
        (with("\"300s\"", "\"0s\""), 10, "no time to measure"),
        (
            with("rtt =", "loss = \"120%\"\nrtt ="),
            5,
            "is not a probability; write it in per cent, like 1%, at most 100%",
        ),
        (
            format!("{SMALL}[stream.s]\nrate = \"1mbit\"\npacket = \"1473bytes\"\n"),
            13,
            "IP packets of 1501 bytes, and the way there takes no more than 1500 ('mtu')",
        ),
        (
            format!("{SMALL}[stream.s]\nrate = \"1mbit\"\nstart = \"3s\"\nstop = \"3s\"\n"),
            14,
            "it begins at 3.00s: nothing would be sent",
        ),
        (
            with("\"howdah\"", "\"reno\"\nmss = 1461"),
            9,
            "IP packets of 1501 bytes",
        ),
        (
            with("\"howdah\"", "\"howdah\"\nmss = 1199"),
            9,
            "datagrams of 1200 bytes at least",
        ),
        (
            with("\"howdah\"", "\"cubic\"\nwarm = true"),
            9,
            "'cubic' remembers no path",
        ),
        (
            with("title", "repeats = 100000000000\ntitle"),
            2,
            "at most 100000 cells",
        ),
        (
            with("[flow.main]", "[flow.main]\nstart = [\"1s\", \"2s\"]")
                .replace("title", "repeats = 50001\ntitle"),
            2,
            "at most 100000 cells",
        ),
        (with("rtt =", "mtu = 100\nrtt ="), 5, "an MTU is from 576"),
        (
            with("rtt =", "delay = \"1ms\"\nrtt ="),
            5,
            "'rtt' (both ways) or 'delay'",
        ),
        (
            with("[flow.main]", "[flow.main]\nvia = \"mian\""),
            8,
            "no path 'mian'; did you mean 'main'?",
        ),
        (
            with("[flow.main]", "[flow.main]\nsize = \"0\""),
            8,
            "0 bytes",
        ),
        (
            with("[flow.main]", "[flow.main]\nstart = \"300s\""),
            8,
            "it would never begin",
        ),
        (with("id = \"T-1\"", "id = 3"), 1, "'id' is a string"),
        (with("duration", "duratoin"), 10, "did you mean 'duration'?"),
        (with("title", "titel"), 2, "did you mean 'title'?"),
        (format!("{SMALL}settle = \"2%\"\n"), 11, "needs a 'warmup'"),
        (
            format!("{SMALL}warmup = \"300s\"\n"),
            11,
            "not shorter than",
        ),
        (
            format!("{SMALL}[[timeline]]\nrtt = \"1ms\"\n"),
            11,
            "'at' is missing",
        ),
        (
            format!("{SMALL}[[timeline]]\nat = \"1s\"\n"),
            11,
            "nothing changes",
        ),
        (
            format!("{SMALL}[[timeline]]\nat = \"1s\"\nhost_queue = \"5packets\"\n"),
            13,
            "unknown key 'host_queue'",
        ),
        (
            with("\"howdah\"", "\"howdah-fixed\""),
            7,
            "must be told its rate",
        ),
    ] {
        let error = plan(&text).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(part), "{message}");
        assert_eq!(error.line(), Some(line), "{message}");
        assert!(message.starts_with("t.toml:"), "{message}");
    }
}

/// What a mistyped unit makes of an amount: a run that never ends, or one in which nothing happens.
#[test]
fn amounts_that_nobody_means_are_explained() {
    let with = |old: &str, new: &str| {
        let text = SMALL.replace(old, new);
        assert_ne!(text, SMALL, "{old}");
        text
    };
    let flow = |keys: &str| with("\"howdah\"", keys);
    let path = |keys: &str| with("rtt =", &format!("{keys}\nrtt ="));
    let rate = |value: &str| with("\"1gbit\"", value);
    let and = |table: &str| format!("{SMALL}{table}\n");
    let rates = "from 1kbit to 10tbit";
    for (text, part) in [
        (and("[stream.s]\nrate = \"10000000000gbit\""), rates),
        (and("[stream.s]\nrate = \"1bit\""), rates),
        (
            and("[group.g]\nprotocol = \"reno\"\nmean = \"1kB\"\nload = \"1bit\""),
            rates,
        ),
        (flow("\"howdah-fixed\"\nrate = \"0bit\""), rates),
        (flow("\"howdah-fixed\"\nrate = \"11tbit\""), rates),
        (flow("\"cubic\"\nread = \"1bit\""), rates),
        (flow("\"cubic\"\nwrite = \"999999gbit\""), rates),
        (
            flow("\"gtp\"\nrate = \"1gbit\"\nbudget = \"99tbit\""),
            rates,
        ),
        (rate("{ steps = \"0s 0bit\" }"), rates),
        (rate("{ steps = \"0s 1gbit\\n1s 99tbit\" }"), rates),
        (path("jitter = \"2h\""), "more than an hour"),
        (
            path("jitter = { normal = \"1ms\", max = \"2h\" }"),
            "more than an hour",
        ),
        (
            path("jitter = { steps = \"0s 0ms\\n1s 2h\" }"),
            "more than an hour",
        ),
        (
            path("aqm = { kind = \"red\", weight = -5.0 }"),
            "above 0, and 1 at most",
        ),
        (
            path("aqm = { kind = \"red\", weight = 1.5 }"),
            "above 0, and 1 at most",
        ),
        (path("overhead = 10001"), "10001 is not from 0 to 10000"),
        (flow("\"cubic\"\nstreams = 257"), "257 is not from 1 to 256"),
        (flow("\"cubic\"\nstreams = 0"), "0 is not from 1 to 256"),
        (
            flow("\"rbudp\"\nrate = \"1gbit\"\nmss = 65001"),
            "65001 is not from",
        ),
        (flow("\"udt\"\npacket = 65536"), "65536 is not from"),
        (and("[host.h]\ncores = 1025"), "1025 is not from 1 to 1024"),
        (
            and("[host.h]\nstall = \"1ns\"\nstall_every = \"1ns\""),
            "at least 10us",
        ),
        (
            and("[stream.s]\nrate = \"1mbit\"\non = \"1ns\"\noff = \"0s\""),
            "'on' is at least 1.0us",
        ),
        (
            rate("{ steps = \"0s 1gbit\", period = \"1ns\" }"),
            "at least 1.0ms",
        ),
        (
            and("interval = \"1ms\"").replace("300s", "1001s"),
            "more than 1000000 of 1.0ms",
        ),
        (
            with("rate = \"1gbit\"\nrtt = \"180ms\"", "rate = \"unlimited\""),
            "it would never end",
        ),
    ] {
        let message = plan(&text).unwrap_err().to_string();
        assert!(message.contains(part), "{message}: {text}");
    }
    for text in [
        with("\"300s\"", "\"300ms\""),
        rate("{ steps = \"0s 1gbit\\n1s 0bit\" }"),
        and("[stream.s]\nrate = \"0mbit\""),
        flow("\"cubic\"\nread = \"none\""),
    ] {
        let plan = plan(&text).unwrap();
        let cell = plan.cells().next().unwrap();
        assert!(cell.streams.is_empty() && cell.measure.interval_ns <= cell.measure.duration_ns);
    }
}

/// A device, for one: it would be read until memory ends.
#[test]
fn files_that_are_no_scenarios_and_no_traces_are_not_read_to_their_ends() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let sparse = |name: &str, bytes| {
        let file = std::fs::File::create(path(name)).unwrap();
        file.set_len(bytes).unwrap();
    };
    sparse("huge.toml", (16 << 20) + 1);
    sparse("huge.trace", (128 << 20) + 1);
    std::fs::write(path("latin.toml"), b"\xff").unwrap();
    std::fs::write(path("empty.toml"), "").unwrap();
    let traced = SMALL.replace("\"1gbit\"", "{ trace = \"huge.trace\" }");
    let many = vec!["\"empty.toml\""; 1_001].join(", ");
    let including = |names: &str| format!("include = [{names}]\n{SMALL}");
    for (text, part) in [
        (including("\"huge.toml\""), "longer than 16 MiB"),
        (including("\"latin.toml\""), "no text (UTF-8)"),
        (including(&many), "more than 1000 files"),
        (traced, "longer than 128 MiB"),
    ] {
        std::fs::write(path("t.toml"), text).unwrap();
        let message = load(&[path("t.toml")], false).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
    let message = load(&[path("huge.toml")], false).unwrap_err().to_string();
    assert!(message.contains("longer than 16 MiB"), "{message}");
}

#[test]
fn files_that_are_not_there() {
    let error = load(&[PathBuf::from("no/such.toml")], false).unwrap_err();
    assert_eq!(error.to_string(), "no/such.toml: there is no such file");
    let dir = tempfile::tempdir().unwrap();
    let error = load(&[dir.path().to_owned()], false).unwrap_err();
    assert!(error.to_string().contains("no scenario"), "{error}");
    std::fs::write(dir.path().join("a.toml"), "include = \"_b.toml\"\n").unwrap();
    let error = load(&[dir.path().to_owned()], false).unwrap_err();
    assert_eq!(error.line(), Some(1), "{error}");
    assert!(
        error.to_string().contains("_b.toml: there is no such file"),
        "{error}"
    );
    std::fs::write(dir.path().join("_b.toml"), SMALL).unwrap();
    let plan = load(&[dir.path().to_owned()], false).unwrap();
    assert_eq!((plan.experiments.len(), plan.files.len()), (1, 2));
    std::fs::write(dir.path().join("c.toml"), SMALL).unwrap();
    let error = load(&[dir.path().to_owned()], false).unwrap_err();
    assert!(
        error.to_string().contains("an experiment 'T-1' already"),
        "{error}"
    );
}

#[test]
fn queues_impairments_and_switches() {
    let text = SMALL.replace(
        "[flow.main]",
        "aqm = \"red\"\nbucket = { rate = \"500mbit\", burst = \"1MB\" }\njitter = { pareto = \"1ms\", shape = 1.5, max = \"50ms\" }\n\
         loss = { gap = \"1%\", deviation = 0.2 }\n[path.main.backward]\naqm = \"codel\"\n\
         loss = { enter = \"1%\", leave = \"10%\" }\n[flow.main]",
    ) + "[[timeline]]\nat = \"1s\"\nrtt = \"2ms\"\norder = \"kept\"\nbacklog = \"dropped\"\n";
    let cell = cell(&text);
    let path = &cell.paths[0];
    let AqmSpec::Red { min, max, .. } = path.forward.aqm else {
        panic!("{:?}", path.forward.aqm);
    };
    assert_eq!(path.forward.bucket, Some((500_000_000, 1_000_000)));
    assert!((min - 12.7).abs() < 1e-9 && (max - 38.1).abs() < 1e-9);
    let codel = AqmSpec::Codel {
        target_ns: 5_000_000,
        interval_ns: 100_000_000,
    };
    assert_eq!(path.backward.aqm, codel);
    assert!(matches!(path.forward.jitter, JitterSpec::Pareto { .. }));
    assert!(matches!(path.forward.loss, LossSpec::NormalGap { .. }));
    assert!(matches!(
        path.backward.loss,
        LossSpec::GilbertElliott { .. }
    ));
    // Only a stored queue can be dropped.
    assert!(path.forward.stored_queue);
    let change = &cell.timeline[0];
    assert_eq!(
        (change.overtake, change.backlog),
        (Some(false), BacklogSpec::Dropped)
    );
}

#[test]
fn hosts_have_costs() {
    let text = SMALL.replace("\"howdah\"", "\"howdah\"\nfrom = \"old\"")
        + "[host.old]\nsent_packet = \"1.5us\"\nsent_byte = \"0.05ns\"\nsocket = \"8MB\"\ncharge = 1.6\n";
    let cell = cell(&text);
    assert_eq!(cell.flows[0].ends, [Some(0), None]);
    let host = &cell.hosts[0];
    assert_eq!((host.sent.packet_ns, host.sent.byte_ps), (1500, 50));
    assert_eq!((host.socket, host.cores), (Some((8_000_000, 160)), 1));
    let error = plan(&text.replace("from = \"old\"", "from = \"new\"")).unwrap_err();
    assert!(error.to_string().contains("no host 'new'"), "{error}");
}

#[test]
fn traces_come_from_files_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("rate.txt");
    let text = SMALL.replace("\"1gbit\"", "{ trace = \"rate.txt\", period = \"60s\" }");
    let file = dir.path().join("s.toml");
    std::fs::write(&file, &text).unwrap();
    let read = || load(std::slice::from_ref(&file), false);

    let error = read().unwrap_err();
    assert_eq!((error.file(), error.line()), (file.as_path(), Some(4)));
    assert!(
        error
            .to_string()
            .contains("rate.txt: there is no such file"),
        "{error}"
    );

    std::fs::write(&trace, "0s 1gbit\n30s 500mbit\n").unwrap();
    let spec = read().unwrap().experiments[0].cells[0].paths[0]
        .forward
        .clone();
    assert_eq!(spec.mean_rate_bps(), 750_000_000);
    assert_eq!(spec.rate_bps, None);
    let hash = spec.rate_trace.unwrap().hash;

    // Another content is another cell.
    std::fs::write(&trace, "0s 1gbit\n30s 501mbit\n").unwrap();
    let other = read().unwrap().experiments[0].cells[0].paths[0]
        .forward
        .clone();
    assert_ne!(other.rate_trace.unwrap().hash, hash);

    // A hole at the beginning; a time that goes back.
    std::fs::write(&trace, "5s 1gbit\n30s 500mbit\n").unwrap();
    let error = read().unwrap_err();
    assert_eq!(error.file(), trace.as_path());
    assert!(error.to_string().contains("a hole"), "{error}");
    std::fs::write(&trace, "0s 1gbit\n30s 500mbit\n20s 1gbit\n").unwrap();
    let error = read().unwrap_err();
    assert_eq!((error.file(), error.line()), (trace.as_path(), Some(3)));
}

#[test]
fn a_sweep_spans_axes_only_where_it_is_asked_for() {
    let plain = cell(SMALL).id();
    let with = |sweep: &str| format!("{SMALL}\n[sweep]\n{sweep}\n");
    let text = with(
        "\"path.main.buffer\" = { values = [\"127packets\", \"10packets\"], source = \"a guess\" }",
    );
    // As if there were no sweep, names of results included.
    assert_eq!(cell(&text).id(), plain);
    let wanted = Wanted {
        sweep: true,
        ..Wanted::default()
    };
    let read = |text: &str| parse_wanted(Path::new("t.toml"), text, wanted);
    let experiments = read(&text).unwrap().experiments;
    let at = experiments[0]
        .cells
        .iter()
        .map(|cell| cell.at["sweep.path.main.buffer"].clone());
    assert_eq!(at.collect::<Vec<_>>(), ["127packets", "10packets"]);
    let words = "127packets, 10packets (a guess)".to_owned();
    assert_eq!(
        experiments[0].swept,
        [("path.main.buffer".to_owned(), words)]
    );
    for (sweep, what) in [
        (
            "\"path.main.buffre\" = { values = [1, 2], source = \"x\" }",
            "no 'path.main.buffre' to sweep",
        ),
        (
            "\"path.main.rtt\" = { values = [\"1ms\"], source = \"x\" }",
            "two or more",
        ),
        (
            "\"path.main.rtt\" = { values = [\"1ms\", \"2ms\"] }",
            "'source'",
        ),
        (
            "\"path.main.rtt\" = { values = [\"1ms\", \"2ms\"], source = \"x\" }",
            "not among those",
        ),
        (
            "\"path.main.rtt\" = { values = [\"1ms\", \"2ms\"], source = \"x\", best = 1 }",
            "unknown key 'best'",
        ),
    ] {
        let message = read(&with(sweep)).unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn flow_lines_and_pie_have_the_rfcs_constants() {
    let with = |aqm: &str| SMALL.replace("[flow.main]", &format!("aqm = {aqm}\n[flow.main]"));
    let aqm = |text: &str| cell(&with(text)).paths[0].forward.aqm;
    let fq = |target_ns, quantum_bytes, lines| AqmSpec::FqCodel {
        target_ns,
        interval_ns: 100_000_000,
        quantum_bytes,
        lines,
    };
    assert_eq!(aqm("\"fq_codel\""), fq(5_000_000, 1514, 1024));
    let text = "{ kind = \"fq_codel\", target = \"2ms\", quantum = \"300bytes\", lines = 16 }";
    assert_eq!(aqm(text), fq(2_000_000, 300, 16));
    let pie = |target_ns, max_burst_ns| AqmSpec::Pie {
        target_ns,
        max_burst_ns,
    };
    assert_eq!(aqm("\"pie\""), pie(15_000_000, 150_000_000));
    let text = "{ kind = \"pie\", target = \"20ms\", max_burst = \"0s\" }";
    assert_eq!(aqm(text), pie(20_000_000, 0));
    for (text, what) in [
        ("{ kind = \"fq_codel\", lines = 100000 }", "from 1 to 65536"),
        (
            "{ kind = \"fq_codel\", quantum = \"1bytes\" }",
            "from 64 to",
        ),
        ("{ kind = \"pie\", target = \"0ms\" }", "no delay to hold"),
        ("\"fqcodel\"", "did you mean 'fq_codel'?"),
    ] {
        let message = plan(&with(text)).unwrap_err().to_string();
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn a_dual_queue_has_a_target() {
    let with = |aqm: &str| SMALL.replace("[flow.main]", &format!("aqm = {aqm}\n[flow.main]"));
    let aqm = |text: &str| cell(&with(text)).paths[0].forward.aqm;
    let target_ns = 15_000_000;
    assert_eq!(aqm("\"dualpi2\""), AqmSpec::DualPi2 { target_ns });
    let target_ns = 5_000_000;
    let text = "{ kind = \"dualpi2\", target = \"5ms\" }";
    assert_eq!(aqm(text), AqmSpec::DualPi2 { target_ns });
    let message = plan(&with("{ kind = \"dualpi2\", target = \"0ms\" }")).unwrap_err();
    assert!(
        message.to_string().contains("no delay to hold"),
        "{message}"
    );
}

#[test]
fn a_start_moves_with_the_seed_and_with_nothing_else() {
    let text = SMALL.replace(
        "\"howdah\"",
        "\"howdah\"\nstart = \"1s\"\nstart_within = \"500ms\"",
    );
    let starts = |text: &str| -> Vec<u64> {
        let plan = plan(&format!("repeats = 4\n{text}")).unwrap();
        plan.cells().map(|cell| cell.flows[0].start_ns).collect()
    };
    let drawn = starts(&text);
    assert_eq!(drawn.len(), 4);
    assert!(
        drawn
            .iter()
            .all(|ns| (1_000_000_000..1_500_000_000).contains(ns))
    );
    assert!(drawn.windows(2).all(|pair| pair[0] != pair[1]));
    assert_eq!(starts(&text), drawn);
    assert_eq!(starts(&text.replace("500ms", "0s")), [1_000_000_000; 4]);
    // Not said: the first as written, the others up to 100 ms later, for the round trip is longer.
    let usual = starts(&text.replace("start_within", "#"));
    assert_eq!(usual[0], 1_000_000_000);
    let moved = 1_000_000_001..1_100_000_000;
    assert!(usual[1..].iter().all(|ns| moved.contains(ns)), "{usual:?}");
    let late = text.replace("500ms", "10000s");
    assert!(
        plan(&late)
            .unwrap_err()
            .to_string()
            .contains("start_within")
    );
}

#[test]
fn hosts_can_be_like_the_testbed_with_one_thing_changed() {
    let with = |host: &str| {
        cell(&(SMALL.replace("\"howdah\"", "\"howdah\"\nto = \"old\"") + "[host.old]\n" + host))
            .hosts[0]
            .clone()
    };
    let like = with("like = \"testbed\"\n");
    assert_eq!(like.disturbance.gather_ns, 60_000);
    assert_eq!(like.disturbance.stall_ns, [1_000_000, 10_000_000]);
    let changed =
        with("like = \"testbed\"\nstall = \"2ms\"\nstall_every = \"1s\"\ngather = \"0us\"\n");
    assert_eq!(changed.disturbance.stall_ns, [200_000, 2_000_000]);
    assert_eq!(changed.disturbance.gather_ns, 0);
    assert_eq!(changed.disturbance.tail_ns, like.disturbance.tail_ns);
    // A host that says nothing of this is what it was, its name in results included.
    let plain = with("sent_packet = \"1us\"\n");
    assert!(
        !serde_json::to_string(&plain)
            .unwrap()
            .contains("disturbance")
    );
    let alone =
        SMALL.replace("\"howdah\"", "\"howdah\"\nto = \"old\"") + "[host.old]\nstall = \"2ms\"\n";
    assert!(
        plan(&alone)
            .unwrap_err()
            .to_string()
            .contains("go together")
    );
}
