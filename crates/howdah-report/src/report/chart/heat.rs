//! Heat maps: values over two axes, each written in its cell.

use super::{Chart, Panels, number, table};
use crate::report::html::escape;
use serde_json::json;

const SIZE: f64 = 11.5;

/// Maps of values that share rows, columns and colours.
#[derive(Clone, Debug)]
pub(crate) struct Heat<'a> {
    /// Label of the columns, with a unit where the values have none.
    pub(crate) x_label: &'a str,
    /// Label of the rows.
    pub(crate) y_label: &'a str,
    /// Label of the values, with their unit.
    pub(crate) label: &'a str,
    /// Names of the columns.
    pub(crate) columns: &'a [String],
    /// Names of the rows, from top to bottom.
    pub(crate) rows: &'a [String],
    /// What is shown, and the cells, row by row, of each map.
    pub(crate) maps: &'a [(String, Vec<Option<Cell>>)],
    /// Range of the colours.
    pub(crate) range: (f64, f64),
    /// Colours follow the logarithm.
    pub(crate) log: bool,
}

/// A value, as it is written, and what the pointer is told.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    /// The value, in the unit of the label; nothing where there is only a stated one.
    pub(crate) value: Option<f64>,
    /// As written.
    pub(crate) text: String,
    /// What a paper states, as written below it.
    pub(crate) stated: Option<String>,
    /// Tip.
    pub(crate) tip: String,
}

/// Width of text of that size, about: a step must be known before a browser has measured anything.
fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 0.62 * SIZE
}

/// A long name in two lines, broken before its bracket or else at its last space.
fn two_lines(name: &str) -> Option<(&str, &str)> {
    if name.chars().count() <= 9 {
        return None;
    }
    let at = name.find(" (").or_else(|| name.rfind(' '))?;
    Some((&name[..at], &name[at + 1..]))
}

impl Heat<'_> {
    /// The chart.
    pub(crate) fn chart(&self) -> Chart {
        let cells = || self.maps.iter().flat_map(|map| &map.1).flatten();
        let any_stated = cells().any(|cell| cell.stated.is_some());
        let mut heads = vec![
            (self.y_label, false),
            (self.x_label, false),
            (self.label, true),
        ];
        heads.extend(any_stated.then_some(("stated in the paper", true)));
        let mut behind = table(self.maps.len(), &heads);
        let mut rows = Vec::new();
        for (title, cells) in self.maps {
            for (at, cell) in cells.iter().enumerate() {
                let row = &self.rows[at / self.columns.len().max(1)];
                let column = &self.columns[at % self.columns.len().max(1)];
                let mut datum = json!({ "p": title, "r": row, "c": column, "t": "\u{2013}", "tip": "no result" });
                let mut written = vec![escape(row), escape(column), "\u{2013}".to_owned()];
                if let Some(cell) = cell {
                    datum["t"] = json!(cell.text);
                    datum["tip"] = json!(cell.tip);
                    written[2] = escape(&cell.text);
                    if let Some(value) = cell.value {
                        datum["v"] = number(value);
                        datum["dark"] = json!(self.is_dark(value));
                    }
                    if let Some(stated) = &cell.stated {
                        datum["stated"] = json!(stated);
                    }
                }
                if any_stated {
                    let stated = cell.as_ref().and_then(|cell| cell.stated.as_deref());
                    written.push(escape(stated.unwrap_or("")));
                }
                if self.maps.len() > 1 {
                    written.insert(0, escape(title));
                }
                behind.row(written);
                rows.push(datum);
            }
        }
        let widest =
            |texts: &mut dyn Iterator<Item = &str>| texts.map(text_width).fold(0.0, f64::max);
        let texts = widest(&mut cells().map(|cell| cell.text.as_str()));
        let heads = self.columns.iter().flat_map(|name| match two_lines(name) {
            Some((first, second)) => [first, second],
            None => [name.as_str(), ""],
        });
        let texts = texts.max(widest(&mut { heads }));
        let texts = texts.max(widest(
            &mut cells().filter_map(|cell| cell.stated.as_deref()),
        ));
        let step = (texts + 10.0).clamp(48.0, 120.0).round();
        let high = if any_stated { 38.0 } else { 28.0 };
        Panels {
            titles: self.maps.iter().map(|map| map.0.as_str()).collect(),
            width: json!({ "step": step }),
            height: json!({ "step": high }),
            rows,
            layer: self.layer(step, high, any_stated),
            own: &[],
            columns: &[
                ("r", self.y_label),
                ("c", self.x_label),
                ("v", self.label),
                ("stated", "stated in the paper"),
            ],
            table: behind,
        }
        .chart()
    }

    fn layer(&self, step: f64, high: f64, any_stated: bool) -> Vec<serde_json::Value> {
        // A long name has two lines; what has one stands in the lower.
        let broken = self.columns.iter().any(|name| two_lines(name).is_some());
        let lines = |name: &String| match two_lines(name) {
            Some((first, second)) => json!([first, second]),
            None if broken => json!(["", name]),
            None => json!(name),
        };
        let names: serde_json::Map<_, _> = self
            .columns
            .iter()
            .map(|name| (name.clone(), lines(name)))
            .collect();
        let names = format!("({})[datum.label]", serde_json::Value::Object(names));
        let padding = if broken { 16 } else { 3 };
        let place = json!({
            "x": {
                "field": "c", "type": "ordinal", "sort": null, "title": self.x_label, "scale": { "domain": self.columns, "paddingInner": 0.02 },
                "axis": { "orient": "top", "labelAngle": 0, "labelExpr": names, "labelPadding": padding, "ticks": false, "domain": false, "labelOverlap": false, "titleAnchor": "start" },
            },
            "y": {
                "field": "r", "type": "ordinal", "sort": null, "title": self.y_label, "scale": { "domain": self.rows, "paddingInner": 0.03 },
                "axis": { "ticks": false, "domain": false, "labelOverlap": false },
            },
            "tooltip": { "field": "tip" },
        });
        let with = |more: serde_json::Value| {
            let mut all = place.clone();
            if let (Some(all), serde_json::Value::Object(more)) = (all.as_object_mut(), more) {
                all.extend(more);
            }
            all
        };
        let kind = if self.log { "log" } else { "linear" };
        let has_value = "isValid(datum.v)";
        let ink =
            json!({ "condition": { "test": "datum.dark", "value": "#fff" }, "value": "#000" });
        let raised = if any_stated { -7.0 } else { 0.0 };
        let text = |has: &str, field: &str, dy: f64, style: &str| {
            json!({
                "transform": [{ "filter": has }],
                "mark": { "type": "text", "dy": dy, "fontStyle": style, "baseline": "middle" },
                "encoding": with(json!({ "text": { "field": field } })),
            })
        };
        let mut inked = text(has_value, "t", raised, "normal");
        inked["encoding"]["color"] = ink.clone();
        let mut layer = vec![
            json!({
                "transform": [{ "filter": "!isValid(datum.v)" }],
                "mark": { "type": "rect", "fill": "var(--raised)", "stroke": "var(--rule)" },
                "encoding": place,
            }),
            json!({
                "transform": [{ "filter": has_value }],
                "mark": "rect",
                "encoding": with(json!({ "color": {
                    "field": "v", "type": "quantitative", "title": self.label,
                    "scale": { "scheme": "cividis", "domain": [self.range.0, self.range.1], "type": kind, "clamp": true },
                    "legend": { "orient": "bottom", "type": "symbol", "symbolType": "square", "symbolSize": 160, "symbolStrokeWidth": 0, "values": self.steps(), "format": ".3~r", "titleLimit": 400 },
                } })),
            }),
            inked,
            text("!isValid(datum.v)", "t", raised, "normal"),
        ];
        if any_stated {
            let mut second = text(
                "isValid(datum.stated) && isValid(datum.v)",
                "stated",
                9.0,
                "italic",
            );
            second["encoding"]["color"] = ink;
            layer.push(second);
            layer.push(text(
                "isValid(datum.stated) && !isValid(datum.v)",
                "stated",
                9.0,
                "italic",
            ));
            layer.push(json!({
                "transform": [{ "filter": "isValid(datum.stated)" }],
                "mark": {
                    "type": "point", "shape": "M-1-1H1V1Z", "filled": true, "size": 14, "opacity": 1, "color": "var(--stated)",
                    "xOffset": step / 2.0 - 5.0, "yOffset": 5.0 - high / 2.0,
                },
                "encoding": place,
            }));
        }
        layer
    }

    /// Five values for the legend, as far apart as their colours.
    fn steps(&self) -> Vec<serde_json::Value> {
        let (low, high) = self.range;
        let at = |n: i32| {
            let share = f64::from(n) / 4.0;
            if self.log {
                low * (high / low).powf(share)
            } else {
                low + (high - low) * share
            }
        };
        (0..5).map(|n| number(at(n))).collect()
    }

    /// Whether white is the ink with the higher contrast on this value's colour: the lower half of cividis.
    fn is_dark(&self, value: f64) -> bool {
        let (low, high) = self.range;
        let share = if self.log {
            (value / low).ln() / (high / low).ln()
        } else {
            (value - low) / (high - low)
        };
        share < 0.475
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_is_written() {
        let cell = Cell {
            value: Some(1.0),
            text: "one".to_owned(),
            stated: Some("\u{2264}2".to_owned()),
            tip: String::new(),
        };
        let chart = Heat {
            x_label: "loss",
            y_label: "RTT",
            label: "share",
            columns: &["0 %".to_owned(), "1 %".to_owned()],
            rows: &["10 ms".to_owned()],
            maps: &[("map".to_owned(), vec![Some(cell), None])],
            range: (0.0, 1.0),
            log: false,
        }
        .chart();
        let rows = chart.spec()["data"]["values"].as_array().unwrap().clone();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0]["t"], "one");
        assert_eq!(rows[0]["dark"], false);
        assert_eq!(rows[0]["stated"], "\u{2264}2");
        assert_eq!(rows[1]["tip"], "no result");
        assert!(chart.html().contains(">\u{2264}2</td>"));
    }
}
