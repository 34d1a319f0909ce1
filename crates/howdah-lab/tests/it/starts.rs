//! What the laboratory says about a start is what can be worked out by hand.

use howdah_lab::scenario::parse;
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn figures(protocol: &str, more: &str) -> Vec<f64> {
    let text = format!(
        "id = \"T\"
[path.main]
rate = \"100mbit\"
rtt = \"40ms\"
buffer = \"25ms\"
loss = \"1%\"
[flow.main]
protocol = \"{protocol}\"
{more}
[measure]
duration = \"1s\"
interval = \"10ms\"
start = true
"
    );
    let plan = parse(Path::new("t.toml"), &text, false).unwrap();
    let cell = plan.cells().next().unwrap();
    let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
    let of = |name: &str| result.metrics.get(&format!("start_{name}/main")).copied();
    ["t90_rtt", "cost_rtt", "share", "overflow"]
        .map(|name| of(name).unwrap_or(f64::NAN))
        .into()
}

/// A sender that has its rate at once loses the round trip of its handshake and what its rate lacks of the bound, and
/// needs 0.9 of a window more to be seen.
#[test]
fn a_flow_that_is_told_its_rate_loses_its_handshake() {
    let told = figures("howdah-fixed", "rate = \"94mbit\"");
    println!("{told:?}");
    assert!((1.2..1.4).contains(&told[0]), "{told:?}");
    assert!((0.95..2.5).contains(&told[1]), "{told:?}");
    assert!((0.94..1.01).contains(&told[2]), "{told:?}");
    assert!(told[3] < 1e-9, "{told:?}");
}

/// Reno at 1 % of loss has a few Mbit/s: it never gets there, and nearly all of the second is lost.
#[test]
fn a_flow_that_never_gets_there_has_no_time_and_a_large_cost() {
    let reno = figures("reno", "");
    println!("{reno:?}");
    assert!(
        reno[0].is_nan() && reno[1] > 15.0 && reno[2] < 0.5,
        "{reno:?}"
    );
}

/// A flow that knows the path loses less, and none of its own flight.
#[test]
fn a_warm_flow_begins_with_what_one_before_it_learnt() {
    let [cold, warm] = ["", "warm = true"].map(|more| figures("howdah", more));
    println!("{cold:?} {warm:?}");
    assert!(warm[1] < cold[1] - 0.5, "{cold:?} {warm:?}");
    assert!(warm[3] < 1e-9, "{warm:?}");
    // The same cell is the same.
    assert_eq!(figures("howdah", "warm = true"), warm);
}
