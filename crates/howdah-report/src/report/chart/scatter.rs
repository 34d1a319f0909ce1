//! Points with whiskers over two measured axes: throughput against delay.

use super::{Chart, Looks, Panels, cell, number, table, zoom};
use crate::report::html::escape;
use crate::report::stats::Spread;
use serde_json::json;

/// What was measured of one thing, in the units of the axes.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// Look of its series.
    pub(crate) look: usize,
    /// Name, and its values in words.
    pub(crate) tip: String,
    /// Along the horizontal axis: lowest, median, highest.
    pub(crate) x: [f64; 3],
    /// The same along the vertical one.
    pub(crate) y: [f64; 3],
}

/// Ends and middle of a spread.
pub(crate) fn ends(spread: &Spread, of: impl Fn(f64) -> f64) -> [f64; 3] {
    [spread.low, spread.median, spread.high].map(of)
}

/// Panels of dots. Less delay is to the right, as in Pantheon's plots: up and right is better.
pub(crate) fn chart(labels: (&str, &str), looks: &Looks, panels: &[(String, Vec<Dot>)]) -> Chart {
    let mut rows = Vec::new();
    let heads = [
        ("series", false),
        (labels.0, true),
        ("from", true),
        ("to", true),
        (labels.1, true),
        ("from", true),
        ("to", true),
    ];
    let mut behind = table(panels.len(), &heads);
    for (title, dots) in panels {
        for dot in dots {
            let name = looks.name(dot.look);
            let [x0, x, x1] = dot.x.map(number);
            let [y0, y, y1] = dot.y.map(number);
            rows.push(json!({
                "p": title, "s": name, "tip": dot.tip, "x0": x0, "x": x, "x1": x1, "y0": y0, "y": y, "y1": y1,
            }));
            let mut cells = vec![escape(name)];
            for [low, median, high] in [dot.x, dot.y] {
                cells.extend([median, low, high].map(|v| cell(Some(v))));
            }
            if panels.len() > 1 {
                cells.insert(0, escape(title));
            }
            behind.row(cells);
        }
    }
    let x = |field: &str| json!({ "field": field, "type": "quantitative", "title": labels.0, "scale": { "reverse": true } });
    let y = |field: &str| {
        json!({ "field": field, "type": "quantitative", "title": labels.1, "axis": { "tickCount": 5, "domain": false, "ticks": false,
                "titleAngle": 0, "titleAlign": "left", "titleX": -30, "titleY": -8, "titleBaseline": "bottom" } })
    };
    let tip = json!({ "field": "tip" });
    let layer = vec![
        json!({
            "mark": { "type": "rule", "strokeWidth": 1.6 },
            "encoding": { "x": x("x0"), "x2": { "field": "x1" }, "y": y("y"), "color": looks.colour(), "tooltip": tip },
        }),
        json!({
            "mark": { "type": "rule", "strokeWidth": 1.6 },
            "encoding": { "x": x("x"), "y": y("y0"), "y2": { "field": "y1" }, "color": looks.colour(), "tooltip": tip },
        }),
        json!({
            "params": zoom(&["x", "y"]),
            "mark": { "type": "point", "filled": true, "opacity": 1, "size": 70 },
            "encoding": { "x": x("x"), "y": y("y"), "color": looks.colour(), "shape": looks.shape(), "tooltip": tip },
        }),
    ];
    Panels {
        titles: panels.iter().map(|panel| panel.0.as_str()).collect(),
        width: json!(280),
        height: json!(150),
        rows,
        layer,
        own: &[],
        columns: &[
            ("s", "series"),
            ("x", labels.0),
            ("x0", "from"),
            ("x1", "to"),
            ("y", labels.1),
            ("y0", "from"),
            ("y1", "to"),
        ],
        table: behind,
    }
    .chart()
}
