//! Lines over a common axis: time series, distributions.

use super::{Chart, Looks, Mark, Panels, cell, number, numbers, only, table, zoom};
use crate::report::html::{Table, escape};
use serde_json::{Value, json};

/// Width and height of a plot: two or three fit beside each other on a laptop, one on a telephone.
const SMALL: (u32, u32) = (280, 135);
/// Width and height of a plot with many lines.
const WIDE: (u32, u32) = (560, 240);
/// Shapes along a line.
const MARKS: usize = 5;
/// Places of a line that tell their values when the pointer is near.
const PLACES: usize = 40;
/// The same, of all lines of a chart together.
const MOST_PLACES: usize = 4000;
/// With more points the table behind the chart has a row for each line; the file of the data has them all.
const MOST_ROWS: usize = 200;

/// What a paper states: the place on the horizontal axis, nothing where it holds all along it, and the
/// look of the line that it is about.
pub(crate) type StatedAt = (Option<f64>, usize, Mark);

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Look of its series.
    pub(crate) look: usize,
    /// Name, told when the pointer rests on it.
    pub(crate) name: String,
    /// Points from left to right, in the units of the axes.
    pub(crate) points: Vec<(f64, f64)>,
    /// Horizontal until the next point (a distribution) instead of straight to it.
    pub(crate) steps: bool,
}

/// A horizontal line across a panel, with steps where its value changes.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Each value, and where on the horizontal axis it ends.
    pub(crate) values: Vec<(f64, f64)>,
    /// Told when the pointer rests on it.
    pub(crate) word: String,
}

/// A panel: lines, and what is marked on them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panel {
    /// What it shows.
    pub(crate) title: String,
    /// Lines.
    pub(crate) lines: Vec<Line>,
    /// Values worth a horizontal line.
    pub(crate) levels: Vec<Level>,
    /// What a paper states.
    pub(crate) stated: Vec<StatedAt>,
}

/// Panels that share their axes.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    /// Few large panels instead of many small ones.
    pub(crate) wide: bool,
    /// Label of the horizontal axis, with its unit.
    pub(crate) x_label: &'a str,
    /// Label of the vertical axis, with its unit.
    pub(crate) y_label: &'a str,
    /// Range of the horizontal axis.
    pub(crate) x: (f64, f64),
    /// The horizontal axis is logarithmic.
    pub(crate) x_log: bool,
    /// Lowest and highest value of the vertical axis; it begins at zero unless the values are far
    /// from it and close together.
    pub(crate) y: (f64, f64),
    /// The series, in the order of the legend.
    pub(crate) looks: &'a Looks,
    /// Moments worth a vertical line in every panel, with a word.
    pub(crate) moments: &'a [(f64, String)],
    /// The panels.
    pub(crate) panels: &'a [Panel],
}

impl Lines<'_> {
    /// The chart.
    pub(crate) fn chart(&self) -> Chart {
        let (width, height) = if self.wide { WIDE } else { SMALL };
        let mut rows = Vec::new();
        for panel in self.panels {
            self.rows(panel, &mut rows);
        }
        Panels {
            titles: self.panels.iter().map(|panel| &*panel.title).collect(),
            width: json!(width),
            height: json!(height),
            layer: self.layer(&rows),
            rows,
            own: &[],
            columns: &[
                ("k", "drawn as"),
                ("s", "series"),
                ("t", "text"),
                ("x", self.x_label),
                ("y", self.y_label),
            ],
            table: self.table(),
        }
        .chart()
    }

    fn rows(&self, panel: &Panel, rows: &mut Vec<Value>) {
        let title = &panel.title;
        for level in &panel.levels {
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let mut from = self.x.0;
            for &(value, until) in &level.values {
                x.extend([from, until]);
                y.extend([value, value]);
                from = until;
            }
            let (x, y) = (numbers(x.into_iter()), numbers(y.into_iter()));
            rows.push(json!({ "p": title, "k": "level", "t": level.word, "x": x, "y": y }));
        }
        for (at, word) in self.moments {
            rows.push(json!({ "p": title, "k": "moment", "t": word, "x": number(*at) }));
        }
        let count: usize = self.panels.iter().map(|panel| panel.lines.len()).sum();
        let places = (MOST_PLACES / count.max(1)).clamp(MARKS, PLACES);
        for line in panel.lines.iter().filter(|line| !line.points.is_empty()) {
            let finite = line
                .points
                .iter()
                .filter(|p| p.0.is_finite() && p.1.is_finite());
            let points: Vec<(f64, f64)> = finite.copied().collect();
            let mut row = json!({
                "p": title, "k": if line.steps { "steps" } else { "line" }, "s": self.series(line), "t": line.name,
                "x": numbers(points.iter().map(|p| p.0)), "y": numbers(points.iter().map(|p| p.1)),
            });
            // A few shapes, away from those of the other lines.
            if points.len() == 1 || panel.lines.len() > 1 {
                let every = (points.len() / MARKS).max(1);
                let first = (line.look * every / MARKS).min(points.len().saturating_sub(1));
                let some = || points.iter().skip(first).step_by(every);
                row["mx"] = numbers(some().map(|p| p.0));
                row["my"] = numbers(some().map(|p| p.1));
            }
            let some = || points.iter().step_by(points.len().div_ceil(places).max(1));
            row["hx"] = numbers(some().map(|p| p.0));
            row["hy"] = numbers(some().map(|p| p.1));
            rows.push(row);
        }
        if panel.lines.iter().all(|line| line.points.is_empty()) {
            rows.push(json!({ "p": title, "k": "none", "t": "no data" }));
        }
        for (at, look, mark) in &panel.stated {
            for value in mark
                .low
                .into_iter()
                .chain(mark.high.filter(|high| Some(*high) != mark.low))
            {
                let Some(at) = at else {
                    rows.push(
                        json!({ "p": title, "k": "stated", "t": mark.tip, "y": number(value) }),
                    );
                    continue;
                };
                let kind = match (mark.low, mark.high) {
                    (Some(_), None) => "at least",
                    (None, Some(_)) => "at most",
                    _ => "about",
                };
                rows.push(json!({
                    "p": title, "k": "stated at", "bound": kind, "s": self.looks.name(*look), "t": mark.tip,
                    "x": number(*at), "y": number(value),
                }));
            }
        }
    }

    /// What the legend calls a line; its own name says more.
    fn series<'l>(&'l self, line: &'l Line) -> &'l str {
        match self.looks.name(line.look) {
            "" => &line.name,
            name => name,
        }
    }

    fn layer(&self, rows: &[Value]) -> Vec<Value> {
        let (low, high) = self.y;
        let domain = if low > high / 2.0 && high.is_finite() {
            // Some room, so that noise of a per cent does not fill the panel.
            let room = ((high - low) * 0.1).max(high * 0.01);
            [low - room, high + room]
        } else {
            [low.min(0.0), if high > low.min(0.0) { high } else { 1.0 }]
        };
        let x_scale = if self.x_log {
            // A little room, so that the first step is not the axis.
            json!({ "type": "log", "domain": [number(self.x.0 * 0.95), number(self.x.1 * 1.05)] })
        } else {
            json!({ "domain": [self.x.0, if self.x.1 > self.x.0 { self.x.1 } else { self.x.0 + 1.0 }], "nice": false, "zero": false })
        };
        let x = |field: &str| {
            json!({ "field": field, "type": "quantitative", "title": self.x_label, "scale": x_scale,
                    "axis": { "grid": false, "tickCount": 6 } })
        };
        let y = |field: &str| {
            json!({ "field": field, "type": "quantitative", "title": self.y_label,
                    "scale": { "domain": domain, "nice": true, "zero": false }, "axis": { "tickCount": 5, "domain": false, "ticks": false, "titleAngle": 0, "titleAlign": "left", "titleX": -30, "titleY": -8, "titleBaseline": "bottom" } })
        };
        let has = |kind: &str| rows.iter().any(|row| row["k"] == kind);
        let told = json!({ "field": "t" });
        let mut layer = Vec::new();
        if has("level") {
            layer.push(json!({
                "transform": only("level", &["x", "y"]),
                "mark": { "type": "line", "color": "var(--axis)", "strokeDash": [1, 4], "strokeWidth": 1.8, "strokeCap": "round", "clip": true },
                "encoding": { "x": x("x"), "y": y("y"), "detail": { "field": "t" }, "tooltip": told },
            }));
        }
        if has("moment") {
            layer.push(json!({
                "transform": only("moment", &[]),
                "mark": { "type": "rule", "color": "var(--axis)", "strokeDash": [4, 3], "clip": true },
                "encoding": { "x": x("x"), "tooltip": told },
            }));
            layer.push(json!({
                "transform": only("moment", &[]),
                "mark": { "type": "text", "align": "left", "dx": 3, "baseline": "top", "color": "var(--faint)", "clip": true },
                "encoding": { "x": x("x"), "y": { "value": 1 }, "text": told },
            }));
        }
        let mut first = true;
        for (kind, interpolate) in [("line", "linear"), ("steps", "step-after")] {
            if !has(kind) {
                continue;
            }
            let mut line = json!({
                "transform": only(kind, &["x", "y"]),
                "mark": { "type": "line", "clip": true, "interpolate": interpolate },
                "encoding": {
                    "x": x("x"), "y": y("y"), "color": self.looks.colour(), "strokeDash": self.looks.dash(),
                    "detail": { "field": "t" }, "tooltip": told,
                },
            });
            if first {
                line["params"] = zoom(&["x", "y"]);
                first = false;
            }
            layer.push(line);
            let of = |mark: Value, fields: [&str; 2]| {
                json!({
                    "transform": [
                        { "filter": format!("datum.k === '{kind}' && isValid(datum.{})", fields[0]) },
                        { "flatten": fields },
                    ],
                    "mark": mark,
                    "encoding": {
                        "x": x(fields[0]), "y": y(fields[1]), "color": self.looks.colour(), "shape": self.looks.shape(),
                        "tooltip": [
                            { "field": "t", "title": "line" },
                            { "field": fields[0], "type": "quantitative", "title": self.x_label },
                            { "field": fields[1], "type": "quantitative", "title": self.y_label },
                        ],
                    },
                })
            };
            if rows.iter().any(|row| row.get("mx").is_some()) {
                let shape = json!({ "type": "point", "filled": true, "opacity": 1, "size": 45, "clip": true });
                layer.push(of(shape, ["mx", "my"]));
            }
            // Seen by the pointer only.
            let place =
                json!({ "type": "point", "filled": true, "opacity": 0, "size": 120, "clip": true });
            let mut places = of(place, ["hx", "hy"]);
            if let Some(encoding) = places["encoding"].as_object_mut() {
                encoding.remove("shape");
                encoding.remove("color");
            }
            layer.push(places);
        }
        if has("stated") {
            layer.push(json!({
                "transform": only("stated", &[]),
                "mark": { "type": "rule", "color": "var(--stated)", "strokeWidth": 1.8, "clip": true },
                "encoding": { "y": y("y"), "tooltip": told },
            }));
        }
        if has("stated at") {
            let mark = |bound: Option<&str>, shape: &str, dy: i32| {
                let bound = bound.map_or_else(String::new, |bound| {
                    format!(" && datum.bound === '{bound}'")
                });
                json!({
                    "transform": [{ "filter": format!("datum.k === 'stated at'{bound}") }],
                    "mark": {
                        "type": "point", "shape": shape, "filled": false, "fill": "var(--paper)", "strokeWidth": 1.6, "opacity": 1,
                        "size": if dy == 0 { 70 } else { 30 }, "yOffset": dy,
                    },
                    "encoding": { "x": x("x"), "y": y("y"), "stroke": self.looks.colour(), "tooltip": told },
                })
            };
            layer.push(mark(None, "diamond", 0));
            layer.push(mark(Some("at least"), "triangle-up", -10));
            layer.push(mark(Some("at most"), "triangle-down", 10));
        }
        if has("none") {
            layer.push(json!({
                "transform": only("none", &[]),
                "mark": { "type": "text", "color": "var(--faint)" },
                "encoding": { "x": { "value": { "expr": "width / 2" } }, "y": { "value": { "expr": "height / 2" } }, "text": told },
            }));
        }
        layer
    }

    fn table(&self) -> Table {
        let panels = self.panels.len();
        let lines = || self.panels.iter().flat_map(|panel| &panel.lines);
        let points: usize = lines().map(|line| line.points.len()).sum();
        let whole = points <= MOST_ROWS;
        let range = format!("{}: from", self.x_label);
        let lowest = format!("{}: lowest", self.y_label);
        let heads = if whole {
            vec![("line", false), (self.x_label, true), (self.y_label, true)]
        } else {
            vec![
                ("line", false),
                ("points", true),
                (range.as_str(), true),
                ("to", true),
                (lowest.as_str(), true),
                ("mean", true),
                ("highest", true),
                ("last", true),
            ]
        };
        let mut out = table(panels, &heads);
        let width = heads.len();
        for panel in self.panels {
            let mut add = |mut cells: Vec<String>| {
                cells.resize(width, String::new());
                if panels > 1 {
                    cells.insert(0, escape(&panel.title));
                }
                out.row(cells);
            };
            for line in panel.lines.iter().filter(|line| !line.points.is_empty()) {
                let name = escape(&line.name);
                if whole {
                    for (x, y) in &line.points {
                        add(vec![name.clone(), cell(Some(*x)), cell(Some(*y))]);
                    }
                    continue;
                }
                let ys = || line.points.iter().map(|p| p.1);
                let mean = ys().sum::<f64>() / line.points.len() as f64;
                add(vec![
                    name,
                    line.points.len().to_string(),
                    cell(line.points.first().map(|p| p.0)),
                    cell(line.points.last().map(|p| p.0)),
                    cell(ys().reduce(f64::min)),
                    cell(Some(mean)),
                    cell(ys().reduce(f64::max)),
                    cell(line.points.last().map(|p| p.1)),
                ]);
            }
            for level in &panel.levels {
                add(vec![escape(&level.word)]);
            }
            for (_, _, mark) in &panel.stated {
                add(vec![format!("stated in the paper: {}", escape(&mark.tip))]);
            }
        }
        out
    }
}
