//! Settings that mean nothing, or two things at once, are refused: each message names the key and the remedy.

use howdah_lab::run::Only;
use howdah_lab::scenario;
use std::path::Path;

const BASE: &str = "id = 'T'\n[path.main]\nrate = '10mbit'\nrtt = '20ms'\nbuffer = '50packets'\n[flow.a]\nprotocol = 'reno'\n[measure]\nduration = '5s'\n";

fn read(text: &str) -> Result<scenario::Plan, String> {
    let plan = scenario::parse(Path::new("t.toml"), text, false);
    plan.map_err(|error| error.to_string())
}

fn refused(text: &str, parts: &[&str]) {
    let Err(message) = read(text) else {
        panic!("taken without a word: {text}");
    };
    for part in parts {
        assert!(message.contains(part), "{message}: {text}");
    }
}

fn path(keys: &str) -> String {
    BASE.replace("[flow.a]", &format!("{keys}\n[flow.a]"))
}

fn flow(keys: &str) -> String {
    BASE.replace("protocol = 'reno'", keys)
}

fn and(tables: &str) -> String {
    BASE.replace("[measure]", &format!("{tables}\n[measure]"))
}

#[test]
fn a_queue_is_told_only_what_its_kind_knows() {
    refused(
        &path("aqm = { target = '5ms' }"),
        &["'kind' is missing", "fq_codel"],
    );
    refused(
        &path("aqm = { kind = 'codel', min = 5, max = 15 }"),
        &["'min' says nothing of codel, which takes target, interval"],
    );
    refused(
        &path("aqm = { kind = 'red', target = '5ms' }"),
        &["'target' says nothing of red"],
    );
    refused(
        &path("aqm = { kind = 'droptail', target = '5ms' }"),
        &["'target' says nothing of droptail, which takes nothing more"],
    );
    refused(
        &path("aqm = { kind = 'codel', target = '100ms', interval = '5ms' }"),
        &["below 'interval'"],
    );
    refused(
        &path("aqm = { kind = 'fq_codel', interval = '0ms' }"),
        &["below 'interval'"],
    );
    refused(&path("aqm = 'code'"), &["did you mean 'codel'?"]);
    for good in [
        "aqm = { kind = 'codel', target = '2ms', interval = '40ms' }",
        "aqm = { kind = 'red', min = 5, max = 15, gentle = false }",
        "aqm = { kind = 'droptail' }",
        "aqm = 'pie'",
    ] {
        read(&path(good)).unwrap();
    }
}

#[test]
fn losses_and_delays_are_of_one_model() {
    refused(
        &path("loss = { gap = '1%', enter = '1%', leave = '10%' }"),
        &["'enter' says nothing of losses at normal distances"],
    );
    refused(
        &path("loss = { enter = '1%', leave = '10%', deviation = 0.2 }"),
        &["'deviation' says nothing of the model of Gilbert and Elliott"],
    );
    refused(
        &path("jitter = { normal = '1ms', max = '5ms', shape = 2.0 }"),
        &["'shape' says nothing of a normal jitter"],
    );
    refused(
        &path("jitter = { steps = '0s 1ms', normal = '1ms' }"),
        &["'normal' says nothing of a trace"],
    );
    refused(
        &path("reorder = '10%'"),
        &["'reorder'", "without a 'jitter'"],
    );
    read(&path("reorder = '10%'\njitter = '1ms'")).unwrap();
    // One direction may have it from the path as a whole.
    read(&path(
        "reorder = '10%'\n[path.main.forward]\njitter = '1ms'",
    ))
    .unwrap();
    refused(
        &path("forward_share = '100%'").replace("rtt = '20ms'\n", ""),
        &["'forward_share'", "'rtt'"],
    );
    refused(
        &path("base_rtt = '5ms'").replace("rtt = '20ms'", "delay = '10ms'"),
        &["'base_rtt'", "with 'delay'"],
    );
    refused(
        &BASE.replace("rate = '10mbit'\n", ""),
        &["'buffer'", "without a 'rate'"],
    );
    read(&BASE.replace("rate = '10mbit'", "rate = 'unlimited'")).unwrap();
}

#[test]
fn streams_groups_and_hosts_say_nothing_in_vain() {
    refused(
        &and("[stream.s]\nrate = '1mbit'\nexponential = true"),
        &["'exponential'", "'on' and 'off' are missing"],
    );
    refused(
        &and(
            "[group.g]\nprotocol = 'reno'\ncount = 10\nmean = '10kB'\nstart = '1s'\nwindow = '100s'",
        ),
        &["'window'", "the measurement ends after 5.00s"],
    );
    let host = |keys: &str| {
        let text = and(&format!("[host.h]\n{keys}"));
        text.replace("'reno'", "'reno'\nfrom = 'h'")
    };
    refused(&host("charge = 2.0"), &["'charge'", "'socket' is missing"]);
    refused(
        &host("tail_calls = 5"),
        &["'tail_calls'", "'tail' is missing"],
    );
    refused(&host("split = true"), &["'split'", "'cores' is missing"]);
    refused(
        &and("[host.h]\nsent_packet = '1us'"),
        &["[host.h]", "no flow is 'from' or 'to'"],
    );
    refused(
        &and("[path.other]\nrate = '5mbit'\nrtt = '1ms'").replace("'reno'", "'reno'\nvia = 'main'"),
        &["[path.other]", "nothing goes 'via'"],
    );
    // What stands beside "like" counts instead, each by itself.
    let socket = |keys: &str| {
        let plan = read(&host(keys)).unwrap();
        plan.cells().next().unwrap().hosts[0].socket
    };
    assert_eq!(socket("like = 'testbed'"), Some((64 << 20, 180)));
    assert_eq!(
        socket("like = 'testbed'\ncharge = 1.0"),
        Some((64 << 20, 100))
    );
    assert_eq!(
        socket("like = 'testbed'\nsocket = '1MiB'"),
        Some((1 << 20, 180))
    );
    assert_eq!(socket("socket = '1MiB'"), Some((1 << 20, 100)));
}

#[test]
fn options_are_of_some_protocol_of_the_flow() {
    refused(
        &flow("protocol = 'reno'\nrate = '5mbit'"),
        &["'rate' in [flow.a] means nothing to reno", "howdah-fixed"],
    );
    refused(
        &flow("protocol = 'howdah'\nwrite = '5mbit'"),
        &["'write' in [flow.a] means nothing to howdah"],
    );
    refused(
        &flow("protocol = ['reno', 'udt']\nshare = '1/4'"),
        &["'share' in [flow.a] means nothing to reno, udt"],
    );
    refused(
        &and("[group.g]\nprotocol = 'reno'\ncount = 1\nmean = '10kB'\nwindow = '1s'\nflight = 100"),
        &["'flight' in [group.g] means nothing to reno"],
    );
    // A list shares its options, and "none" is as if nothing were said.
    read(&flow("protocol = ['reno', 'howdah-fixed']\nrate = '5mbit'")).unwrap();
    read(&flow("protocol = 'howdah'\nwrite = 'none'")).unwrap();
    // So do the experiments of a file.
    let two = "[flow.a]\nera = 'linux24'\n[path.main]\nrate = '10mbit'\nrtt = '20ms'\n[measure]\nduration = '5s'\n\
               [experiment.X]\nflow.a.protocol = 'reno'\n[experiment.Y]\nflow.a.protocol = 'udt'\n";
    read(two).unwrap();
    refused(
        &two.replace("'reno'", "'howdah'"),
        &["'era' in [flow.a] means nothing to howdah, udt"],
    );
}

#[test]
fn packets_fit_the_way() {
    for protocol in ["udt", "udt2", "sabul"] {
        refused(
            &flow(&format!("protocol = '{protocol}'\npacket = 9000")),
            &["'packet'", "9000 bytes", "no more than 1500 ('mtu')"],
        );
        refused(
            &flow(&format!("protocol = '{protocol}'\nmss = 1490")),
            &["'mss'", "no more than 1500 ('mtu')"],
        );
        read(&flow(&format!("protocol = '{protocol}'\npacket = 1500"))).unwrap();
    }
    let narrow = |protocol: &str| path("mtu = 576").replace("'reno'", protocol);
    refused(
        &narrow("'howdah'"),
        &["'protocol'", "no more than 576 ('mtu')"],
    );
    read(&narrow("'reno'")).unwrap();
}

#[test]
fn axes_and_choices_of_cells_mean_something() {
    for name in ["subject", "testbed", "experiment", "campaign"] {
        let text = format!(
            "{}[axes]\n{name} = ['10mbit', '20mbit']\n",
            BASE.replace("'10mbit'", &format!("'${name}'"))
        );
        refused(
            &text,
            &[&format!("an axis '{name}' themselves"), "another name"],
        );
    }
    let two = flow("protocol = ['reno', 'cubic']");
    refused(
        &two.replace(
            "id = 'T'",
            "id = 'T'\nexclude = [{ protocol = ['reno', 'cubic'] }]",
        ),
        &["'exclude' leaves no cell"],
    );
    refused(
        &format!("{BASE}[quick]\nskip = 'true'\n"),
        &["'skip' is true or false"],
    );
    let plan = read(&two).unwrap();
    let only = |words: &[&str]| {
        let all: Vec<Only> = words.iter().map(|word| word.parse().unwrap()).collect();
        Only::check_all(&all, &plan)
    };
    assert_eq!(only(&[]), Ok(()));
    assert_eq!(only(&["protocol=reno,cubic"]), Ok(()));
    let message = only(&["protocol=reno", "protocol=cubic"]).unwrap_err();
    assert!(
        message.contains("no cell has protocol=reno and protocol=cubic"),
        "{message}"
    );
}

#[test]
fn names_tell_what_a_figure_is_of() {
    refused(
        &and("[stream.a]\nrate = '1mbit'"),
        &["[stream.a]: there is a [flow.a] already"],
    );
    refused(&BASE.replace("flow.a", "flow.'a/b'"), &["without '/'"]);
    refused(&BASE.replace("flow.a", "flow.''"), &["a name"]);
    refused(
        &BASE.replace("path.main", "path.'x/forward'"),
        &["without '/'"],
    );
}
