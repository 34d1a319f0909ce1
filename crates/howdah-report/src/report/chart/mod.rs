//! Charts: Vega-Lite specifications with their data, and the table that stands behind each.
//!
//! A specification names the page's colours (`var(--ink)`), so that a chart follows the page from light to dark and onto
//! paper; [`Chart::file`] puts the values of light paper in their place. Nothing is told by colour alone: lines have dashes and
//! shapes, bars their names, cells their numbers.
//!
//! Rows of the data have short names for long reports: `p` the panel, `s` the series, `k` what a row is drawn as, `t` a text,
//! `tip` what the pointer is told. Where a row has lists (`x`, `y`), the specification flattens them: one row is one line.

pub(crate) mod bars;
pub(crate) mod heat;
pub(crate) mod lines;
pub(crate) mod round;
pub(crate) mod scatter;

use super::html::{Table, escape};
use serde_json::{Map, Value, json};

/// Colours before they repeat; those of `page.css`.
const COLOURS: usize = 7;
/// Dashes, in the order of looks. More than colours, so that pairs repeat late.
const DASHES: [&[u8]; 8] = [
    &[],
    &[7, 3],
    &[2, 3],
    &[9, 3, 2, 3],
    &[4, 2],
    &[1, 3],
    &[12, 3],
    &[7, 2, 2, 2, 2, 2],
];
/// Shapes, in the order of looks.
const SHAPES: [&str; COLOURS] = [
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "triangle-down",
    "cross",
    "M-1-0.6L0-1.1L1-0.6V0.6L0 1.1L-1 0.6Z",
];
/// Where the language of a file's specification is described.
const SCHEMA: &str = "https://vega.github.io/schema/vega-lite/v6.json";

/// What a paper states of a value, in the unit of the axis.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// Lower end; nothing where there is none.
    pub(crate) low: Option<f64>,
    /// Upper end; the same as the lower one for a number.
    pub(crate) high: Option<f64>,
    /// What is told when the pointer rests on it.
    pub(crate) tip: String,
}

impl Mark {
    /// In a table: "at most 3".
    fn words(&self) -> String {
        let write = |v| super::format::significant(v, 4);
        match (self.low, self.high) {
            (Some(low), Some(high)) if low < high => format!("{} to {}", write(low), write(high)),
            (Some(low), None) => format!("\u{2265} {}", write(low)),
            (None, Some(high)) => format!("\u{2264} {}", write(high)),
            (Some(one), _) => write(one),
            (None, None) => String::new(),
        }
    }
}

/// The series of a chart, in the order of its legend: each has a look, and the look decides colour, dash and shape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looks(Vec<(usize, String)>);

impl Looks {
    /// One more, unless it is there.
    pub(crate) fn add(&mut self, look: usize, name: &str) {
        if !self.0.iter().any(|known| known.1 == name) {
            let at = self.0.partition_point(|known| known.0 <= look);
            self.0.insert(at, (look, name.to_owned()));
        }
    }

    /// From looks and names.
    pub(crate) fn of(all: impl IntoIterator<Item = (usize, String)>) -> Self {
        let mut looks = Self::default();
        for (look, name) in all {
            looks.add(look, &name);
        }
        looks
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn name(&self, look: usize) -> &str {
        let found = self.0.iter().find(|known| known.0 == look);
        found.map_or("", |known| &known.1)
    }

    fn names(&self) -> Value {
        self.0.iter().map(|known| known.1.as_str()).collect()
    }

    fn encode(&self, of: impl Fn(usize) -> Value) -> Value {
        // Where nothing is told apart, all look like the first.
        if self.0.is_empty() {
            return json!({ "value": of(0) });
        }
        let range: Value = self.0.iter().map(|known| of(known.0)).collect();
        let mut out = json!({
            "field": "s", "type": "nominal", "title": null,
            "scale": { "domain": self.names(), "range": range },
        });
        if self.len() < 2 {
            out["legend"] = Value::Null;
        }
        out
    }

    /// The colour of each.
    fn colour(&self) -> Value {
        self.encode(|look| json!(format!("var(--c{})", look % COLOURS)))
    }

    /// The dash of each.
    fn dash(&self) -> Value {
        self.encode(|look| json!(DASHES[look % DASHES.len()]))
    }

    /// The shape of each.
    fn shape(&self) -> Value {
        self.encode(|look| json!(SHAPES[look % SHAPES.len()]))
    }
}

/// A figure's chart: how it is drawn, with its data, and the same as a table.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    spec: Map<String, Value>,
    table: String,
}

/// Panels beside each other, or one alone, before they are a chart.
struct Panels<'a> {
    titles: Vec<&'a str>,
    width: Value,
    height: Value,
    rows: Vec<Value>,
    layer: Vec<Value>,
    /// Axes whose scale is each panel's own.
    own: &'a [&'a str],
    /// Fields and what they are called in a file of the data.
    columns: &'a [(&'a str, &'a str)],
    table: Table,
}

impl Panels<'_> {
    fn chart(self) -> Chart {
        let mut unit = json!({ "width": self.width, "height": self.height, "layer": self.layer });
        let mut spec = Map::new();
        if let [title] = self.titles[..] {
            if !title.is_empty() {
                unit["title"] = json!(title);
            }
            if let Value::Object(unit) = unit {
                spec = unit;
            }
        } else {
            spec.insert(
                "facet".to_owned(),
                json!({ "field": "p", "type": "nominal", "title": null, "sort": self.titles }),
            );
            spec.insert("columns".to_owned(), json!(2));
            spec.insert("spec".to_owned(), unit);
            let mut resolve = json!({ "axis": { "x": "independent", "y": "independent" } });
            for axis in self.own {
                resolve["scale"][axis] = json!("independent");
            }
            spec.insert("resolve".to_owned(), resolve);
        }
        let mut columns = self.columns.to_vec();
        if self.titles.len() > 1 {
            columns.insert(0, ("p", "panel"));
        }
        spec.insert("usermeta".to_owned(), json!({ "columns": columns }));
        spec.insert("data".to_owned(), json!({ "values": self.rows }));
        Chart {
            spec,
            table: self.table.html(),
        }
    }
}

impl Chart {
    /// As the page has it: the place of the drawing, the table that stands there alone until scripts ran, the specification.
    pub(crate) fn html(&self) -> String {
        // No end of the script can stand in it.
        let spec = Value::Object(self.spec.clone())
            .to_string()
            .replace('<', "\\u003c");
        format!(
            "<div class=\"chart\"></div>\n<details class=\"data\" open><summary>Table</summary>\n{}</details>\n\
             <script type=\"application/json\">{spec}</script>\n",
            self.table
        )
    }

    /// As a file that every program of Vega-Lite reads, on light paper.
    pub(crate) fn file(&self, title: &str, caption: &str) -> Value {
        let mut spec = self.spec.clone();
        spec.insert("$schema".to_owned(), json!(SCHEMA));
        spec.insert("description".to_owned(), json!(caption));
        spec.insert("background".to_owned(), json!("#fff"));
        spec.insert("padding".to_owned(), json!(8));
        spec.insert("config".to_owned(), config());
        if let Some(own) = spec.insert("title".to_owned(), json!(title)) {
            spec.insert(
                "title".to_owned(),
                json!({ "text": title, "subtitle": own, "anchor": "start" }),
            );
        }
        let mut spec = Value::Object(spec);
        resolve(&mut spec);
        spec
    }

    #[cfg(test)]
    pub(crate) fn spec(&self) -> &Map<String, Value> {
        &self.spec
    }
}

/// How all charts look.
pub(crate) fn config() -> Value {
    json!({
        "font": "system-ui, DejaVu Sans, sans-serif",
        "view": { "stroke": null },
        "axis": {
            "gridColor": "var(--rule)", "domainColor": "var(--axis)", "tickColor": "var(--axis)",
            "labelColor": "var(--faint)", "titleColor": "var(--faint)",
            "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal", "labelOverlap": "greedy",
        },
        "legend": {
            "orient": "top", "direction": "horizontal", "columns": 4, "labelColor": "var(--ink)", "titleColor": "var(--faint)",
            "labelFontSize": 12, "titleFontSize": 11, "titleFontWeight": "normal", "labelLimit": 260, "symbolStrokeWidth": 2,
        },
        "title": { "anchor": "start", "color": "var(--ink)", "fontSize": 12.5, "subtitleColor": "var(--ink)" },
        "header": { "labelAnchor": "start", "labelColor": "var(--ink)", "labelFontSize": 12.5, "labelFontWeight": 600, "labelLimit": 330 },
        "text": { "color": "var(--ink)", "fontSize": 11.5 },
        "line": { "strokeWidth": 1.6 },
    })
}

/// Puts the colours of light paper for their names.
fn resolve(value: &mut Value) {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("var(").and_then(|t| t.strip_suffix(')'));
            if let Some(colour) = name.and_then(light) {
                *text = colour.to_owned();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(resolve),
        Value::Object(all) => all.values_mut().for_each(resolve),
        _ => {}
    }
}

/// The light colour of that name, as the style has it: `--name: light-dark(light, dark);`.
fn light(name: &str) -> Option<&'static str> {
    let (_, rest) = super::STYLE.split_once(&format!("{name}: light-dark("))?;
    rest.split(',').next()
}

/// A number as it is drawn and told: five digits, nothing where it is none.
fn number(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    let rounded: f64 = format!("{value:.4e}").parse().unwrap_or(value);
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 {
        json!(rounded as i64)
    } else {
        json!(rounded)
    }
}

fn numbers(values: impl Iterator<Item = f64>) -> Value {
    values.map(number).collect()
}

/// A number in a table.
fn cell(value: Option<f64>) -> String {
    let known = value.filter(|v| v.is_finite());
    known.map_or_else(
        || "\u{2013}".to_owned(),
        |v| super::format::significant(v, 4),
    )
}

/// A table whose first column tells the panels apart, where there are several.
fn table(panels: usize, columns: &[(&str, bool)]) -> Table {
    let mut table = Table::new("");
    if panels > 1 {
        table = table.text("panel");
    }
    for (head, is_number) in columns {
        table = if *is_number {
            table.number(escape(head))
        } else {
            table.text(escape(head))
        };
    }
    table
}

/// Only the rows that are drawn so, one for each of the lists' values.
fn only(kind: &str, lists: &[&str]) -> Value {
    let mut steps = vec![json!({ "filter": format!("datum.k === '{kind}'") })];
    if !lists.is_empty() {
        steps.push(json!({ "flatten": lists }));
    }
    json!(steps)
}

/// Drag to move, shift and the wheel to zoom: the wheel alone scrolls the page.
fn zoom(axes: &[&str]) -> Value {
    json!([{
        "name": "zoom",
        "select": { "type": "interval", "encodings": axes, "zoom": "wheel![event.shiftKey]" },
        "bind": "scales",
    }])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_finite() {
        let written = |v| number(v).to_string();
        assert_eq!(written(941.234_567), "941.23");
        assert_eq!(written(12.0), "12");
        assert_eq!(written(f64::NAN), "null");
        assert_eq!(written(-0.000_123_456), "-0.00012346");
    }

    #[test]
    fn a_file_has_no_names_of_the_page() {
        let mut value = config();
        resolve(&mut value);
        assert!(!value.to_string().contains("var("), "{value}");
        assert_eq!(light("--c0"), Some("#0072b2"));
        for look in 0..COLOURS {
            assert!(light(&format!("--c{look}")).is_some());
        }
    }

    #[test]
    fn looks_keep_their_order() {
        let looks = Looks::of([
            (2, "c".to_owned()),
            (0, "a".to_owned()),
            (2, "c".to_owned()),
        ]);
        assert_eq!(looks.names(), json!(["a", "c"]));
        assert_eq!(
            looks.colour()["scale"]["range"],
            json!(["var(--c0)", "var(--c2)"])
        );
        assert_eq!(looks.name(2), "c");
    }
}
