//! Figures that need more than one cell.

use crate::scenario::Cell;
use howdah_report::metrics;
use howdah_report::result::CellResult;
use std::collections::BTreeMap;

/// Adds `harm/FLOW` to every cell in which a flow had neighbours, wherever the campaign has a cell
/// in which an equal flow was alone on an equal network, whatever the experiment (R. Ware et al.,
/// ACM `HotNets` 2019; goodput, seeds averaged). Returns which cells have changed.
pub(crate) fn harm(specs: &[&Cell], results: &mut [CellResult]) -> Vec<usize> {
    let is_alone =
        |cell: &Cell| cell.flows.len() == 1 && cell.groups.is_empty() && cell.streams.is_empty();
    let mut alone: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for (cell, result) in specs.iter().zip(results.iter()) {
        if let (true, [flow]) = (is_alone(cell), &result.flows[..]) {
            let sum = alone.entry(signature(cell, 0)).or_default();
            sum.0 += flow.goodput_bps;
            sum.1 += 1.0;
        }
    }
    let mut changed = Vec::new();
    for (at, (cell, result)) in specs.iter().zip(results.iter_mut()).enumerate() {
        if is_alone(cell) {
            continue;
        }
        let before = result.metrics.clone();
        for (index, flow) in result.flows.iter().enumerate() {
            let harm = alone
                .get(&signature(cell, index))
                .and_then(|(sum, n)| metrics::harm_more_is_better(sum / n, flow.goodput_bps));
            if let Some(harm) = harm {
                result.metrics.insert(format!("harm/{}", flow.name), harm);
            }
        }
        if result.metrics != before {
            changed.push(at);
        }
    }
    changed
}

/// Equal for equal flows over equal networks.
fn signature(cell: &Cell, flow: usize) -> String {
    let mut alone = cell.clone();
    alone.experiment.clear();
    alone.at.clear();
    alone.seed = 0;
    alone.groups.clear();
    alone.streams.clear();
    let mut flow = cell.flows[flow].clone();
    flow.name.clear();
    // What the seed has moved its start by is chance, as the seed is.
    flow.start_ns -= std::mem::take(&mut flow.drawn_ns);
    alone.flows = vec![flow];
    alone.id()
}
