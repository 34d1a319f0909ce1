//! A page of its own for one figure: what `howdah demo` writes.

use super::STYLE;
use super::chart::lines::{Level, Line, Lines, Panel};
use super::chart::{self, Looks};
use super::html::{Table, escape};
use super::page::{SCRIPT, render, vega};
use serde::Serialize;

const TEMPLATE: &str = include_str!("single.html");

/// What stands on it. All is text.
#[derive(Clone, Debug, Default)]
pub struct Single<'a> {
    /// Of the window.
    pub title: &'a str,
    /// Above everything.
    pub heading: &'a str,
    /// What was done.
    pub lead: &'a str,
    /// Name of the figure.
    pub figure: &'a str,
    /// Label of the horizontal axis, with its unit.
    pub x_label: &'a str,
    /// Label of the vertical axis, with its unit.
    pub y_label: &'a str,
    /// Each line by its name, with its points from left to right.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
    /// A value that is worth a horizontal line, and what it is.
    pub level: Option<(f64, String)>,
    /// Heads of the table's columns; the first column names the rows.
    pub head: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
    /// What a reader must know.
    pub notes: &'a [String],
    /// Where and how it was measured, before the command.
    pub foot: &'a str,
    /// What measures it again.
    pub command: &'a str,
}

#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    style: &'static str,
    script: &'static str,
    heading: &'a str,
    lead: &'a str,
    figure: &'a str,
    chart: String,
    table: String,
    notes: &'a [String],
    foot: &'a str,
    command: &'a str,
    config: String,
    vega: String,
}

impl Single<'_> {
    /// The page: one HTML file that needs nothing else. Its chart can be zoomed, and its data taken, as those of a report.
    pub fn page(&self) -> String {
        render(
            "single.html",
            TEMPLATE,
            Page {
                title: self.title,
                style: STYLE,
                script: SCRIPT,
                heading: self.heading,
                lead: self.lead,
                figure: self.figure,
                chart: self.chart(),
                table: self.table(),
                notes: self.notes,
                foot: self.foot,
                command: self.command,
                config: chart::config().to_string(),
                vega: vega(),
            },
        )
    }

    fn chart(&self) -> String {
        let names = self.lines.iter().map(|(name, _)| name.clone());
        let looks = Looks::of(names.enumerate());
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let last = points().map(|point| point.0).fold(1.0, f64::max);
        let level = self.level.as_ref().map(|(value, _)| *value);
        let highest = points().map(|point| point.1).chain(level);
        let lines = self.lines.iter().enumerate();
        let panel = Panel {
            lines: lines
                .map(|(look, (name, points))| Line {
                    look,
                    name: name.clone(),
                    points: points.clone(),
                    steps: false,
                })
                .collect(),
            levels: self
                .level
                .iter()
                .map(|(value, word)| Level {
                    values: vec![(*value, last)],
                    word: word.clone(),
                })
                .collect(),
            ..Panel::default()
        };
        let lines = Lines {
            wide: true,
            x_label: self.x_label,
            y_label: self.y_label,
            x: (0.0, last),
            x_log: false,
            y: (0.0, highest.fold(0.0, f64::max)),
            looks: &looks,
            moments: &[],
            panels: &[panel],
        };
        lines.chart().html()
    }

    fn table(&self) -> String {
        let heads = self.head.iter().map(|head| escape(head));
        let mut table = heads.fold(Table::new(""), Table::text);
        for row in &self.rows {
            table.row(row.iter().map(|cell| escape(cell)).collect());
        }
        table.html()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_lines_as_a_specification_and_needs_nothing_else() {
        let single = Single {
            heading: "Beside <others>",
            y_label: "Gbit/s",
            lines: vec![
                ("ours".to_owned(), vec![(0.0, 0.0), (1.5, 9.5)]),
                ("<none>".to_owned(), Vec::new()),
            ],
            level: Some((10.0, "link 10 Gbit/s".to_owned())),
            head: vec![String::new(), "goodput".to_owned()],
            rows: vec![vec!["a & b".to_owned(), "9.5".to_owned()]],
            ..Single::default()
        };
        let page = single.page();
        let spec = page.split("<script type=\"application/json\">").nth(1);
        let spec = spec.and_then(|rest| rest.split("</script>").next());
        let spec: serde_json::Value =
            serde_json::from_str(spec.expect("a specification")).expect("JSON");
        let rows = spec["data"]["values"].as_array().expect("its data");
        let drawn = |kind: &str| rows.iter().filter(|row| row["k"] == kind).count();
        assert_eq!((drawn("level"), drawn("line")), (1, 1), "{rows:?}");
        assert_eq!(
            rows.iter().find(|row| row["k"] == "line").expect("ours")["y"],
            serde_json::json!([0, 9.5])
        );
        assert!(page.contains("Beside &lt;others&gt;") && page.contains("a &amp; b"));
        for foreign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
