//! A plain table that becomes Markdown on standard output and HTML in the report.

use std::fmt::Write as _;

/// A table: the first column is text, the others are numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sheet {
    /// What is in it, in a sentence.
    pub(crate) caption: String,
    pub(crate) heads: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Sheet {
    pub(crate) fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        Self {
            caption: caption.into(),
            heads: heads.iter().map(|&head| head.to_owned()).collect(),
            rows: Vec::new(),
        }
    }

    /// Caption and table.
    pub(crate) fn markdown(&self) -> String {
        let mut out = format!("{}\n\n| {} |\n|", self.caption, self.heads.join(" | "));
        for at in 0..self.heads.len() {
            out.push_str(if at == 0 { " --- |" } else { " ---: |" });
        }
        out.push('\n');
        for row in &self.rows {
            let _ = writeln!(out, "| {} |", row.join(" | "));
        }
        out
    }
}

/// All tables below each other.
pub(crate) fn markdown(sheets: &[Sheet]) -> String {
    let all: Vec<String> = sheets.iter().map(Sheet::markdown).collect();
    all.join("\n")
}

/// Two places, or a dash where there is no figure.
pub(crate) fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "\u{2013}".to_owned(), |value| format!("{value:.2}"))
}

/// One place, and a per cent sign.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(
        || "\u{2013}".to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sheet_is_markdown() {
        let mut sheet = Sheet::new("What.", &["a", "b"]);
        sheet.rows.push(vec!["x".to_owned(), figure(Some(1.0))]);
        sheet.rows.push(vec!["y".to_owned(), percent(None)]);
        assert_eq!(
            sheet.markdown(),
            "What.\n\n| a | b |\n| --- | ---: |\n| x | 1.00 |\n| y | \u{2013} |\n"
        );
    }
}
