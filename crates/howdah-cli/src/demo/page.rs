//! The page: one HTML file that needs nothing else.

use super::Demo;
use super::chart::{chart, escape};
use super::table::{Cells, cells};

const STYLE: &str = include_str!("page.css");

/// The page with chart, table and notes.
pub(crate) fn page(demo: &Demo) -> String {
    let Cells { head, rows } = cells(demo);
    let head = all(&head, |cell| {
        format!("<th scope=\"col\">{}</th>", escape(cell))
    });
    let rows = all(&rows, |[name, cells @ ..]| {
        let cells = all(cells, |cell| format!("<td>{}</td>", escape(cell)));
        format!("<tr><th scope=\"row\">{}</th>{cells}</tr>\n", escape(name))
    });
    let notes = all(&demo.notes, |note| format!("<li>{}</li>\n", escape(note)));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>howdah demo: {path}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>Howdah beside kernel TCP</h1>\n<p>{path}</p>\n<figure>\n{chart}</figure>\n\
         <div class=\"scroll\"><table>\n<thead><tr>{head}</tr></thead>\n\
         <tbody>\n{rows}</tbody>\n</table></div>\n<ul>\n{notes}</ul>\n\
         <p>Measured on {machine} by <code>{command}</code></p>\n</body>\n</html>\n",
        path = escape(&demo.path),
        chart = chart(demo),
        machine = escape(&demo.machine),
        command = escape(&demo.command),
    )
}

fn all<T>(items: &[T], html: impl Fn(&T) -> String) -> String {
    items.iter().map(html).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::example;
    use super::*;

    /// `HOWDAH_BLESS=1 cargo test -p howdah-cli` writes the golden file anew.
    #[test]
    fn the_page_is_as_it_was() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/demo/golden/page.html");
        let page = page(&example());
        if std::env::var_os("HOWDAH_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let golden = std::fs::read_to_string(path).unwrap();
        assert!(
            page == golden,
            "the page differs from {path}; look at it, then HOWDAH_BLESS=1"
        );
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = page(&example());
        for foreign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
