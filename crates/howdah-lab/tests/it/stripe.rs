//! A stripe of eight sessions takes what one flow of ours takes, beside others and alone (scenarios/stripe.toml).

use howdah_lab::scenario::{Cell, parse};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Where, beside whom, in which order.
type Spot = [String; 3];

/// Goodput in Mbit/s of all of ours together, and of the other.
#[derive(Clone, Copy, Default)]
struct Sides {
    ours: f64,
    other: f64,
}

fn run(cell: &Cell) -> Sides {
    let result = howdah_lab::sim::run(cell, &AtomicBool::new(false)).unwrap();
    let mut sides = Sides::default();
    for flow in &result.flows {
        let side = if flow.name == "other" {
            &mut sides.other
        } else {
            &mut sides.ours
        };
        *side += flow.steady_goodput_bps / 1e6;
    }
    sides
}

/// The one in the middle.
fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// With one flow, and with a stripe; the middle of the seeds, which lie further apart than what is asked.
fn goodputs(quick: bool) -> BTreeMap<Spot, [Sides; 2]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/stripe.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let plan = parse(&path, &text, quick).unwrap();
    // Who is alone comes neither first nor second.
    let counts = |cell: &&Cell| cell.at["other"] != "nobody" || cell.at["order"] == "ours first";
    let cells: Vec<&Cell> = plan.cells().filter(counts).collect();
    let results: Vec<(&Cell, Sides)> = std::thread::scope(|scope| {
        let hands = [0, 1].map(|hand| {
            let mine: Vec<&Cell> = cells.iter().skip(hand).step_by(2).copied().collect();
            scope.spawn(move || mine.into_iter().map(|cell| (cell, run(cell))).collect())
        });
        let done = hands.map(|hand| -> Vec<_> { hand.join().unwrap() });
        done.into_iter().flatten().collect()
    });
    let mut found = BTreeMap::<Spot, [Vec<Sides>; 2]>::new();
    for (cell, sides) in results {
        let spot = ["place", "other", "order"].map(|axis| cell.at[axis].clone());
        found.entry(spot).or_default()[usize::from(cell.at["ours"] != "one flow")].push(sides);
    }
    let middles = |runs: Vec<Sides>| Sides {
        ours: middle(runs.iter().map(|sides| sides.ours).collect()),
        other: middle(runs.iter().map(|sides| sides.other).collect()),
    };
    let found = found.into_iter();
    found
        .map(|(spot, kinds)| (spot, kinds.map(middles)))
        .collect()
}

#[test]
fn a_stripe_takes_what_one_flow_takes() {
    // All of it, for the table of docs/rate-control.md.
    let full = std::env::var_os("HOWDAH_STRIPE_FULL").is_some();
    let mut beside = Vec::new();
    for ([place, other, order], [one, stripe]) in goodputs(!full) {
        let ratio = stripe.ours / one.ours;
        let line = format!(
            "| {place}, {other}, {order} | {:.1} : {:.1} | {:.1} : {:.1} | {ratio:.2} |",
            one.ours, one.other, stripe.ours, stripe.other
        );
        println!("{line}");
        if other == "nobody" {
            assert!(ratio > 0.97, "{line}");
        } else {
            // Eight flows that know nothing of each other have 1.5 to 2.4.
            assert!((0.5..1.5).contains(&ratio), "{line}");
            beside.push(ratio);
        }
    }
    let mean = beside.iter().sum::<f64>() / beside.len() as f64;
    assert!((0.8..=1.2).contains(&mean), "{mean:.2}: {beside:.2?}");
}
