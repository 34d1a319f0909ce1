//! Heat maps: values over two axes, each written in its cell.

use super::scale::Scale;
use super::{Anchor, Canvas, px, text_width};

const CELL_HEIGHT: f64 = 28.0;
/// Where a second number stands in some cell.
const TALL_CELL: f64 = 38.0;
const SIZE: f64 = 11.5;

/// A map of values.
#[derive(Clone, Debug)]
pub(crate) struct Heat<'a> {
    /// What is shown.
    pub(crate) title: &'a str,
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
    /// The cells, row by row.
    pub(crate) cells: &'a [Option<Cell>],
    /// Range of the colours, shared by maps that are to be compared.
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

impl Heat<'_> {
    /// The drawing.
    pub(crate) fn svg(&self) -> String {
        let widest = |texts: &mut dyn Iterator<Item = &str>| {
            texts.map(|t| text_width(t, SIZE)).fold(0.0, f64::max)
        };
        let cells = || self.cells.iter().flatten();
        let texts = widest(&mut cells().map(|c| c.text.as_str()));
        let texts = texts.max(widest(&mut cells().filter_map(|c| c.stated.as_deref())) * 0.95);
        let tall = cells().any(|c| c.stated.is_some());
        let cell_height = if tall { TALL_CELL } else { CELL_HEIGHT };
        let columns: Vec<(&str, &str)> = self.columns.iter().map(|c| two_lines(c)).collect();
        let heads = widest(&mut columns.iter().flat_map(|(a, b)| [*a, *b]));
        let side = texts.max(heads).max(34.0) + 10.0;
        let left = widest(&mut self.rows.iter().map(String::as_str)).max(20.0) + 30.0;
        let above = if self.title.is_empty() { 0.0 } else { 20.0 };
        let second = columns.iter().any(|(_, second)| !second.is_empty());
        let top = above + if second { 47.0 } else { 34.0 };
        let right = left + side * columns.len() as f64;
        let bottom = top + cell_height * self.rows.len() as f64;
        let title = text_width(self.title, 12.5) + 10.0;
        let x_label = left + text_width(self.x_label, 11.0);
        let label = text_width(self.label, 11.0) + 16.0;
        let width = [right + 6.0, title, x_label, label, 240.0]
            .into_iter()
            .fold(0.0, f64::max);
        let height = (bottom + 54.0).max(top + text_width(self.y_label, 11.0) + 10.0);

        let mut canvas = Canvas::new(width, height);
        if !self.title.is_empty() {
            canvas.text("b", 4.0, 13.0, Anchor::Start, self.title);
        }
        canvas.text("s", left, above + 12.0, Anchor::Start, self.x_label);
        for (n, (first, second)) in columns.iter().enumerate() {
            let x = left + side * (n as f64 + 0.5);
            let raised = if second.is_empty() { 0.0 } else { 13.0 };
            canvas.text("t", x, top - 5.0 - raised, Anchor::Middle, first);
            if raised > 0.0 {
                canvas.text("t", x, top - 5.0, Anchor::Middle, second);
            }
        }
        let middle = f64::midpoint(top, bottom);
        let turned = format!("class=\"s\" transform=\"rotate(-90 11 {})\"", px(middle));
        canvas.styled_text(&turned, 11.0, middle, Anchor::Middle, self.y_label);
        let colours = self.scale(0.0, 1.0);
        for (r, name) in self.rows.iter().enumerate() {
            let y = top + cell_height * r as f64;
            canvas.text(
                "t",
                left - 6.0,
                y + cell_height / 2.0 + 4.0,
                Anchor::End,
                name,
            );
            for c in 0..self.columns.len() {
                let x = left + side * c as f64;
                let place = [x + 0.5, y + 0.5, side - 1.0, cell_height - 1.0];
                let centre = x + side / 2.0;
                let cell = self.cells.get(r * self.columns.len() + c);
                if let Some(found) = cell.and_then(Option::as_ref) {
                    let ink = if let Some(value) = found.value {
                        let (fill, ink) = colour(colours.share(value));
                        canvas.rect(&format!("fill=\"{fill}\""), place, &found.tip);
                        format!("fill=\"{ink}\"")
                    } else {
                        canvas.rect("class=\"none\"", place, &found.tip);
                        String::new()
                    };
                    let attributes = format!("class=\"in\" {ink}");
                    let line = if found.stated.is_some() {
                        y + 15.0
                    } else {
                        y + cell_height / 2.0 + 4.0
                    };
                    canvas.styled_text(&attributes, centre, line, Anchor::Middle, &found.text);
                    if let Some(stated) = &found.stated {
                        let attributes = format!("class=\"st\" {ink}");
                        canvas.styled_text(&attributes, centre, y + 30.0, Anchor::Middle, stated);
                        let corner = format!("M{} {}h7v7z", px(x + side - 7.5), px(y + 0.5));
                        canvas.path("corner", &corner);
                    }
                } else {
                    canvas.rect("class=\"none\"", place, "no result");
                    canvas.text(
                        "s",
                        centre,
                        y + cell_height / 2.0 + 4.0,
                        Anchor::Middle,
                        "\u{2013}",
                    );
                }
            }
        }
        self.colour_bar(&mut canvas, left, bottom + 12.0);
        canvas.finish(&format!(
            "{}: {} over {} and {}",
            self.title, self.label, self.x_label, self.y_label
        ))
    }

    fn scale(&self, from: f64, to: f64) -> Scale {
        if self.log {
            Scale::log(self.range.0, self.range.1, from, to)
        } else {
            Scale::linear(self.range.0, self.range.1, from, to)
        }
    }

    fn colour_bar(&self, canvas: &mut Canvas, left: f64, y: f64) {
        let width = 160.0;
        let scale = self.scale(left, left + width);
        canvas.rect("fill=\"url(#heat)\"", [left, y, width, 8.0], self.label);
        let mut free = f64::NEG_INFINITY;
        for tick in scale.ticks(4) {
            let place = scale.at(tick.value);
            let half = text_width(&tick.label, 11.0) / 2.0;
            if place - half > free {
                canvas.path("a", &format!("M{} {}v3", px(place), px(y + 8.0)));
                canvas.text("s", place, y + 21.0, Anchor::Middle, &tick.label);
                free = place + half + 5.0;
            }
        }
        canvas.text("s", 4.0, y + 36.0, Anchor::Start, self.label);
    }
}

/// A long name in two lines, broken before its last word in brackets or else at its last space.
fn two_lines(name: &str) -> (&str, &str) {
    if text_width(name, SIZE) <= 62.0 {
        return (name, "");
    }
    let at = name.find(" (").or_else(|| name.rfind(' '));
    at.map_or((name, ""), |at| (&name[..at], &name[at + 1..]))
}

/// Red, green and blue at equal distances, from the lowest value to the highest.
const STOPS: [[f64; 3]; 7] = [
    [0.0, 34.0, 78.0],
    [40.0, 62.0, 108.0],
    [85.0, 91.0, 109.0],
    [124.0, 123.0, 120.0],
    [166.0, 156.0, 117.0],
    [210.0, 193.0, 98.0],
    [254.0, 232.0, 56.0],
];

/// The same colours as a gradient that every drawing of the page can use, named "heat".
pub(crate) fn gradient() -> String {
    let stops: Vec<String> = (0..STOPS.len())
        .map(|n| {
            let share = n as f64 / (STOPS.len() - 1) as f64;
            let offset = (share * 1000.0).round() / 1000.0;
            format!(
                "<stop offset=\"{offset}\" stop-color=\"{}\"/>",
                colour(share).0
            )
        })
        .collect();
    format!(
        "<linearGradient id=\"heat\">{}</linearGradient>\n",
        stops.concat()
    )
}

/// Colour of a share from 0 to 1, and of text upon it: dark blue over grey to yellow, even steps of
/// lightness, readable with every kind of colour blindness and in grey (after "cividis", Nunez,
/// Anderton and Renslow 2018).
pub(crate) fn colour(share: f64) -> (String, &'static str) {
    let place = share.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let at = (place as usize).min(STOPS.len() - 2);
    let part = place - at as f64;
    let mix: Vec<u8> = (0..3)
        .map(|n| (STOPS[at][n] + (STOPS[at + 1][n] - STOPS[at][n]) * part).round() as u8)
        .collect();
    // Relative luminance, WCAG 2: the ink with the higher contrast.
    let linear = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.04045 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    let luminance = 0.2126 * linear(mix[0]) + 0.7152 * linear(mix[1]) + 0.0722 * linear(mix[2]);
    let ink = if luminance > 0.18 { "#000" } else { "#fff" };
    (format!("#{:02x}{:02x}{:02x}", mix[0], mix[1], mix[2]), ink)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_grow_lighter() {
        let light = |share| {
            let hex = colour(share).0;
            let part = |at: usize| u32::from_str_radix(&hex[at..at + 2], 16).unwrap();
            part(1) * 2 + part(3) * 7 + part(5)
        };
        for n in 0..20u32 {
            let (a, b) = (f64::from(n) / 20.0, f64::from(n + 1) / 20.0);
            assert!(light(a) < light(b), "{a}");
        }
        assert_eq!(colour(0.0).1, "#fff");
        assert_eq!(colour(1.0).1, "#000");
        assert_eq!(colour(f64::NAN.clamp(0.0, 1.0)).0.len(), 7);
    }

    #[test]
    fn every_cell_is_written() {
        let cells = [
            Some(Cell {
                value: Some(1.0),
                text: "one".to_owned(),
                stated: Some("\u{2264}2".to_owned()),
                tip: String::new(),
            }),
            None,
        ];
        let svg = Heat {
            title: "map",
            x_label: "loss",
            y_label: "RTT",
            label: "share",
            columns: &["0 %".to_owned(), "1 %".to_owned()],
            rows: &["10 ms".to_owned()],
            cells: &cells,
            range: (0.0, 1.0),
            log: false,
        }
        .svg();
        assert!(svg.contains(">one</text>") && svg.contains("no result"));
        assert!(svg.contains(">\u{2264}2</text>") && svg.contains("class=\"corner\""));
    }
}
