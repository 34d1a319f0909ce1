//! Groups of lying bars with intervals, or of boxes: names are read from left to right, however many there are.

use super::{Chart, Looks, Mark, Panels, cell, number, table};
use crate::report::html::escape;
use serde_json::{Value, json};

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Look of its series.
    pub(crate) look: usize,
    /// Length, in the unit of the axis; nothing where there is no result.
    pub(crate) value: Option<f64>,
    /// Ends of the interval, where there is one.
    pub(crate) interval: Option<(f64, f64)>,
    /// Ends of a box that is drawn instead of the bar; the value is a line in it.
    pub(crate) half: Option<(f64, f64)>,
    /// What a paper states of it.
    pub(crate) stated: Option<Mark>,
    /// What stands at its end.
    pub(crate) text: String,
    /// What is told when the pointer rests on it.
    pub(crate) tip: String,
}

impl Bar {
    /// The highest of all that is drawn of it.
    fn end(&self, low: f64) -> f64 {
        let stated = self
            .stated
            .iter()
            .flat_map(|mark| mark.low.into_iter().chain(mark.high));
        let ends = self.value.into_iter().chain(self.interval.map(|i| i.1));
        ends.chain(stated).fold(low, f64::max)
    }
}

/// Bars that belong together, under one name.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The name.
    pub(crate) name: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// Panels of groups that share their axis.
#[derive(Clone, Debug)]
pub(crate) struct Bars<'a> {
    /// Label of the axis, with its unit.
    pub(crate) label: &'a str,
    /// The series, in the order of the legend.
    pub(crate) looks: &'a Looks,
    /// What is shown, and groups from top to bottom.
    pub(crate) panels: &'a [(String, Vec<Group>)],
    /// Lowest and highest value that the axis must reach, zero apart.
    pub(crate) range: (f64, f64),
    /// Logarithmic axis, from the lowest value; for boxes, as a bar has no length on it.
    pub(crate) log: bool,
}

impl Bars<'_> {
    /// The chart.
    pub(crate) fn chart(&self) -> Chart {
        let bars = || {
            self.panels
                .iter()
                .flat_map(|panel| &panel.1)
                .flat_map(|group| &group.bars)
        };
        let any = |of: &dyn Fn(&Bar) -> bool| bars().any(of);
        let (whiskers, stated) = (any(&|b| b.interval.is_some()), any(&|b| b.stated.is_some()));
        let several = self.looks.len() > 1;
        let (low, high) = self.range;
        let origin = if self.log { low } else { low.min(0.0) };
        let mut heads = vec![("group", false)];
        heads.extend(several.then_some(("series", false)));
        heads.push((self.label, true));
        heads.extend(whiskers.then_some(("from", true)));
        heads.extend(whiskers.then_some(("to", true)));
        heads.extend(stated.then_some(("stated in the paper", true)));
        let mut behind = table(self.panels.len(), &heads);
        let mut rows = Vec::new();
        let mut names: Vec<&str> = Vec::new();
        for (title, groups) in self.panels {
            for group in groups {
                if !names.contains(&&*group.name) {
                    names.push(&group.name);
                }
                for bar in &group.bars {
                    rows.push(self.row(title, &group.name, bar, origin));
                    let mut cells = vec![escape(&group.name)];
                    cells.extend(several.then(|| escape(self.looks.name(bar.look))));
                    cells.push(escape(&bar.text));
                    if whiskers {
                        cells.extend(
                            [bar.interval.map(|i| i.0), bar.interval.map(|i| i.1)].map(cell),
                        );
                    }
                    cells.extend(
                        stated.then(|| bar.stated.as_ref().map_or_else(String::new, Mark::words)),
                    );
                    if self.panels.len() > 1 {
                        cells.insert(0, escape(title));
                    }
                    behind.row(cells);
                }
            }
        }
        let groups = |panel: &(String, Vec<Group>)| -> Vec<String> {
            panel.1.iter().map(|group| group.name.clone()).collect()
        };
        let alike = self
            .panels
            .windows(2)
            .all(|two| groups(&two[0]) == groups(&two[1]));
        let height = if several {
            json!({ "step": 16, "for": "offset" })
        } else {
            json!({ "step": 24 })
        };
        let mut layer = self.layer(&names, (origin, high), whiskers, stated);
        layer.retain(|layer| {
            let field = layer["encoding"]["x"]["field"].as_str().unwrap_or("");
            rows.iter().any(|row| row.get(field).is_some())
        });
        Panels {
            titles: self.panels.iter().map(|panel| panel.0.as_str()).collect(),
            width: json!(270),
            height,
            rows,
            layer,
            own: if alike { &[] } else { &["y"] },
            columns: &[
                ("g", "group"),
                ("s", "series"),
                ("v", self.label),
                ("lo", "from"),
                ("hi", "to"),
                ("q1", "box from"),
                ("q3", "box to"),
                ("sl", "stated in the paper, from"),
                ("sh", "stated in the paper, to"),
                ("t", "text"),
            ],
            table: behind,
        }
        .chart()
    }

    fn row(&self, title: &str, group: &str, bar: &Bar, origin: f64) -> Value {
        let mut row = json!({
            "p": title, "g": group, "s": self.looks.name(bar.look), "t": bar.text, "tip": bar.tip, "end": number(bar.end(origin)),
        });
        // The name of the series stands beside the value, so that nobody needs the colour.
        if self.looks.len() > 1 {
            row["words"] = json!(format!("{}  {}", bar.text, self.looks.name(bar.look)));
        }
        let mut put = |field: &str, value: Option<f64>| {
            if let Some(value) = value {
                row[field] = number(value);
            }
        };
        put("v", bar.value);
        put("lo", bar.interval.map(|i| i.0));
        put("hi", bar.interval.map(|i| i.1));
        put("q1", bar.half.map(|h| h.0));
        put("q3", bar.half.map(|h| h.1));
        if let Some(stated) = &bar.stated {
            put("sl", stated.low);
            put("sh", stated.high);
            match (stated.low, stated.high) {
                (Some(low), Some(high)) => {
                    put("r0", Some(low));
                    put("r1", Some(high));
                }
                (low, high) => {
                    put("ge", low);
                    put("le", high);
                }
            }
            row["stated"] = json!(stated.tip);
        }
        row
    }

    fn layer(
        &self,
        names: &[&str],
        (low, high): (f64, f64),
        whiskers: bool,
        stated: bool,
    ) -> Vec<Value> {
        let high = if high > low { high } else { low + 1.0 };
        let kind = if self.log { "log" } else { "linear" };
        let scale = json!({ "type": kind, "domain": [low, high], "nice": true });
        let x = |field: &str| {
            json!({ "field": field, "type": "quantitative", "title": self.label, "scale": scale,
                    "axis": { "tickCount": 5, "domain": false, "ticks": false } })
        };
        let several = self.looks.len() > 1;
        let at = |more: Value| {
            let mut all = json!({
                "y": { "field": "g", "type": "nominal", "sort": names, "title": null,
                       "axis": { "labelColor": "var(--ink)", "labelFontSize": 11.5, "labelLimit": 130, "ticks": false } },
            });
            if several {
                all["yOffset"] = json!({ "field": "s", "type": "nominal", "sort": self.looks.names(), "scale": { "domain": self.looks.names() } });
            }
            if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
                all.extend(more);
            }
            all
        };
        // No layer has a transform of its own: rows without its field are not drawn, and the panels' scales stay one family.
        let tip = json!({ "field": "tip" });
        let boxes = self
            .panels
            .iter()
            .flat_map(|p| &p.1)
            .flat_map(|g| &g.bars)
            .any(|b| b.half.is_some());
        let (from, to) = if boxes { ("q1", "q3") } else { ("v", "") };
        let mut bar = json!({
            "mark": { "type": "bar", "height": { "band": 0.86 } },
            "encoding": at(json!({ "x": x(from), "color": self.looks.colour(), "tooltip": tip })),
        });
        if boxes {
            bar["encoding"]["x2"] = json!({ "field": to });
        }
        let tick = |field: &str, mark: Value, tip: &str| {
            json!({
                "mark": mark,
                "encoding": at(json!({ "x": x(field), "tooltip": { "field": tip } })),
            })
        };
        let range = |fields: [&str; 2], mark: Value, tip: &str| {
            let mut out = tick(fields[0], mark, tip);
            out["encoding"]["x2"] = json!({ "field": fields[1] });
            out
        };
        let mut layer = Vec::new();
        let mut behind = Vec::new();
        if whiskers {
            // A rim in the paper's colour keeps it visible on every fill.
            for (colour, width) in [("var(--paper)", 3.6), ("var(--ink)", 1.3)] {
                let end = json!({ "type": "tick", "size": 6, "thickness": width, "color": colour });
                behind.push(range(
                    ["lo", "hi"],
                    json!({ "type": "rule", "strokeWidth": width, "color": colour }),
                    "tip",
                ));
                behind.extend(["lo", "hi"].map(|field| tick(field, end.clone(), "tip")));
            }
        }
        if boxes {
            layer.append(&mut behind);
            layer.push(bar);
            for (colour, width) in [("var(--paper)", 4.0), ("var(--ink)", 2.0)] {
                layer.push(tick(
                    "v",
                    json!({ "type": "tick", "size": 13, "thickness": width, "color": colour }),
                    "tip",
                ));
            }
        } else {
            layer.push(bar);
            layer.append(&mut behind);
        }
        if stated {
            for (colour, width) in [("var(--paper)", 3.6), ("var(--stated)", 1.8)] {
                let end =
                    json!({ "type": "tick", "size": 16, "thickness": width, "color": colour });
                layer.push(range(
                    ["r0", "r1"],
                    json!({ "type": "rule", "strokeWidth": width, "color": colour }),
                    "stated",
                ));
                layer.extend(["sl", "sh"].map(|field| tick(field, end.clone(), "stated")));
            }
            // At least: to the right of its end; at most: to the left.
            for (field, shape, dx) in [("ge", "triangle-right", 6), ("le", "triangle-left", -6)] {
                let arrow = json!({ "type": "point", "shape": shape, "filled": true, "opacity": 1, "size": 40, "color": "var(--stated)", "xOffset": dx });
                layer.push(tick(field, arrow, "stated"));
            }
        }
        let words = if several { "words" } else { "t" };
        layer.push(json!({
            "mark": { "type": "text", "align": "left", "baseline": "middle", "dx": if stated { 14 } else { 5 }, "fontSize": 11, "limit": 170 },
            "encoding": at(json!({ "x": x("end"), "text": { "field": words }, "tooltip": tip })),
        }));
        layer
    }
}
