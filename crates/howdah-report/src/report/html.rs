//! Small pieces of HTML.

use std::fmt::Write as _;

/// Text as it may stand in HTML and SVG, attributes included.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in HTML at all.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Text as an identifier in a fragment: letters, digits and dashes.
pub(crate) fn slug(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
}

/// A table, row by row. Cells are HTML: escape what goes in.
#[derive(Debug, Default)]
pub(crate) struct Table {
    heads: Vec<(String, bool)>,
    rows: Vec<(String, Vec<String>)>,
    caption: String,
}

impl Table {
    /// A table without rows. The caption is HTML and stands above, where it is not scrolled away.
    pub(crate) fn new(caption: impl Into<String>) -> Self {
        Self {
            caption: caption.into(),
            ..Self::default()
        }
    }

    /// One more column of text, with its head as HTML.
    pub(crate) fn text(mut self, head: impl Into<String>) -> Self {
        self.heads.push((head.into(), false));
        self
    }

    /// One more column of numbers, with its head as HTML.
    pub(crate) fn number(mut self, head: impl Into<String>) -> Self {
        self.heads.push((head.into(), true));
        self
    }

    /// One more row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.classed_row("", cells);
    }

    /// One more row with a class.
    pub(crate) fn classed_row(&mut self, class: &str, cells: Vec<String>) {
        self.rows.push((class.to_owned(), cells));
    }

    /// Rows so far.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The table as HTML. Long ones can be filtered (see `page.js`), all can be scrolled sideways.
    pub(crate) fn html(&self) -> String {
        let mut out = String::new();
        let long = if self.rows.len() > 15 { " long" } else { "" };
        if !self.caption.is_empty() {
            let _ = writeln!(out, "<p class=\"note\">{}</p>", self.caption);
        }
        let _ = writeln!(out, "<div class=\"scroll{long}\" tabindex=\"0\"><table>");
        out.push_str("<thead><tr>");
        for (head, number) in &self.heads {
            let class = if *number { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{head}</th>");
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for (class, cells) in &self.rows {
            if class.is_empty() {
                out.push_str("<tr>");
            } else {
                let _ = write!(out, "<tr class=\"{class}\">");
            }
            for (at, cell) in cells.iter().enumerate() {
                let number = self.heads.get(at).is_some_and(|head| head.1);
                let (tag, class) = match (at, number) {
                    (0, _) => ("th scope=\"row\"", ""),
                    (_, true) => ("td", " class=\"n\""),
                    _ => ("td", ""),
                };
                let _ = write!(out, "<{tag}{class}>{cell}</{}>", &tag[..2]);
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div>\n");
        out
    }
}

/// Something that starts folded.
pub(crate) fn folded(summary: &str, body: &str) -> String {
    format!("<details><summary>{summary}</summary>\n{body}</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_the_text() {
        assert_eq!(
            escape("<a href='x' b=\"y\">&\u{7}\n"),
            "&lt;a href=&#39;x&#39; b=&quot;y&quot;&gt;&amp;\u{fffd}\n"
        );
        assert_eq!(slug("J-A1: \"ramp\""), "j-a1---ramp-");
    }

    #[test]
    fn tables_name_their_columns() {
        let mut table = Table::new("c").text("name").number("rate");
        table.row(vec!["x".to_owned(), "1".to_owned()]);
        let html = table.html();
        assert!(html.contains("<th scope=\"col\" class=\"n\">rate</th>"));
        assert!(html.contains("<tr><th scope=\"row\">x</th><td class=\"n\">1</td></tr>"));
    }
}
