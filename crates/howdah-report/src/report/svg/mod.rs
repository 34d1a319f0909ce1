//! Drawings: a few primitives, and the plots made of them.
//!
//! Text sizes are those of the screen: a drawing is shown at its own width where there is room, and
//! panels are narrow enough for a telephone, so that no text shrinks.

pub(crate) mod bars;
pub(crate) mod heat;
pub(crate) mod lines;
pub(crate) mod scale;
pub(crate) mod scatter;

use crate::report::html::escape;
use std::fmt::Write as _;

/// Ways in which a line, a bar or a mark can look before colours repeat.
pub(crate) const COLOURS: usize = 7;
/// Dashes, in the order of looks. More than colours, so that pairs repeat late.
const DASHES: [&str; 8] = [
    "",
    "7 3",
    "2 2.5",
    "9 3 2 3",
    "4 2",
    "1 3",
    "12 3",
    "7 2 2 2 2 2",
];

/// Where text is held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Anchor {
    /// At its beginning.
    Start,
    /// In its middle.
    Middle,
    /// At its end.
    End,
}

/// A drawing under construction.
#[derive(Debug)]
pub(crate) struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

impl Canvas {
    /// An empty drawing.
    pub(crate) fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    /// A path with a class.
    pub(crate) fn path(&mut self, class: &str, d: &str) {
        let _ = writeln!(self.body, "<path class=\"{class}\" d=\"{d}\"/>");
    }

    /// A path whose meaning is told when the pointer rests on it.
    pub(crate) fn told_path(&mut self, class: &str, d: &str, tip: &str) {
        let _ = writeln!(
            self.body,
            "<path class=\"{class}\" d=\"{d}\"><title>{}</title></path>",
            escape(tip)
        );
    }

    /// A path in the look of a series: colour and dashes.
    pub(crate) fn series(&mut self, look: usize, d: &str, tip: &str) {
        let dash = match DASHES[look % DASHES.len()] {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        let _ = writeln!(
            self.body,
            "<path class=\"l c{}\"{dash} d=\"{d}\"><title>{}</title></path>",
            look % COLOURS,
            escape(tip)
        );
    }

    /// The mark of a series at a place.
    pub(crate) fn mark(&mut self, look: usize, x: f64, y: f64) {
        let shape = match look % 7 {
            0 => "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",
            1 => "m-3-3h6v6h-6z",
            2 => "m0-4l4 7h-8z",
            3 => "m0-4.5l4.5 4.5l-4.5 4.5l-4.5-4.5z",
            4 => "m0 4l4-7h-8z",
            5 => "m-3.5-1.2h2.3v-2.3h2.4v2.3h2.3v2.4h-2.3v2.3h-2.4v-2.3h-2.3z",
            _ => "m-2-4h4l2 4l-2 4h-4l-2-4z",
        };
        let _ = writeln!(
            self.body,
            "<path class=\"m c{}\" d=\"M{} {}{shape}\"/>",
            look % COLOURS,
            px(x),
            px(y)
        );
    }

    /// A rectangle with a class and a tip.
    pub(crate) fn rect(&mut self, attributes: &str, place: [f64; 4], tip: &str) {
        let [x, y, w, h] = place.map(px);
        let _ = writeln!(
            self.body,
            "<rect {attributes} x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"><title>{}</title></rect>",
            escape(tip)
        );
    }

    /// Text; it is escaped here.
    pub(crate) fn text(&mut self, class: &str, x: f64, y: f64, anchor: Anchor, text: &str) {
        self.styled_text(&format!("class=\"{class}\""), x, y, anchor, text);
    }

    /// Text with attributes of its own; the text is escaped here.
    pub(crate) fn styled_text(
        &mut self,
        attributes: &str,
        x: f64,
        y: f64,
        anchor: Anchor,
        text: &str,
    ) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let _ = writeln!(
            self.body,
            "<text {attributes} x=\"{}\" y=\"{}\"{anchor}>{}</text>",
            px(x),
            px(y),
            escape(text)
        );
    }

    /// The drawing as HTML, described in words for those who cannot see it.
    pub(crate) fn finish(self, description: &str) -> String {
        let (w, h) = (px(self.width), px(self.height));
        format!(
            "<svg width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
            escape(description),
            self.body
        )
    }
}

/// A coordinate with one decimal, and none where it is zero.
pub(crate) fn px(value: f64) -> String {
    let tenths = (value * 10.0).round();
    if !tenths.is_finite() {
        return "0".to_owned();
    }
    let tenths = tenths as i64;
    let sign = if tenths < 0 { "-" } else { "" };
    let (whole, rest) = (tenths.unsigned_abs() / 10, tenths.unsigned_abs() % 10);
    match (whole, rest) {
        (_, 0) => format!("{sign}{whole}"),
        (0, _) => format!("{sign}.{rest}"),
        _ => format!("{sign}{whole}.{rest}"),
    }
}

/// Width of text of the given size, in the drawing's units: generous, because fonts differ.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'l' | '.' | ',' | ' ' | ':' | '|' | '\u{202f}' => 0.36,
            'm' | 'w' | 'M' | 'W' | '%' => 0.95,
            c if c.is_uppercase() => 0.72,
            _ => 0.62,
        })
        .sum::<f64>()
        * size
}

/// Text cut to a width, with an ellipsis where something is missing.
pub(crate) fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        out.push(c);
        if text_width(&out, size) > width - size {
            out.pop();
            break;
        }
    }
    format!("{}\u{2026}", out.trim_end())
}

/// A line sample with its name, for a legend outside the drawing. The name is escaped here.
pub(crate) fn line_key(look: usize, name: &str) -> String {
    let mut canvas = Canvas::new(34.0, 12.0);
    canvas.series(look, "M1 6h32", name);
    canvas.mark(look, 17.0, 6.0);
    key(&canvas.finish(""), name)
}

/// A bar sample with its name.
pub(crate) fn bar_key(look: usize, name: &str) -> String {
    let mut canvas = Canvas::new(22.0, 12.0);
    canvas.rect(&bars::fill(look), [1.0, 1.0, 20.0, 10.0], name);
    key(&canvas.finish(""), name)
}

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
    /// The ends that there are.
    pub(crate) fn ends(&self) -> impl Iterator<Item = f64> {
        self.low.into_iter().chain(self.high)
    }
}

/// Sample of a stated value in bars and lines.
pub(crate) fn stated_key() -> String {
    let mut canvas = Canvas::new(34.0, 12.0);
    canvas.path("stated", "M2 6h30M17 1v10");
    key(
        &canvas.finish(""),
        "stated in the paper (arrow: at least or at most)",
    )
}

/// Sample of a stated value beside lines of several colours.
pub(crate) fn stated_point_key() -> String {
    let mut canvas = Canvas::new(14.0, 14.0);
    canvas.path("stated c6", "M7 2l5 5l-5 5l-5-5z");
    key(
        &canvas.finish(""),
        "hollow, in the colour of the line: stated in the paper (arrow: at least or at most)",
    )
}

/// Sample of a stated value in a heat map.
pub(crate) fn stated_cell_key() -> String {
    let mut canvas = Canvas::new(26.0, 14.0);
    canvas.path("none", "M1 1h24v12h-24z");
    canvas.path("corner", "M18 1h7v7z");
    key(
        &canvas.finish(""),
        "with a corner: the second number is stated in the paper",
    )
}

fn key(sample: &str, name: &str) -> String {
    let sample = sample.replace("role=\"img\" aria-label=\"\"", "aria-hidden=\"true\"");
    format!(
        "<span class=\"key\">{}{}</span>",
        sample.replace('\n', ""),
        escape(name)
    )
}

/// Hatches that tell bars apart without colour, and the colours of heat maps; used by every drawing of the page.
pub(crate) fn definitions() -> String {
    let shapes = [
        "",
        "M-1 1l2-2M0 6l6-6M5 7l2-2",
        "M1.5 1.5h1v1h-1zM4.5 4.5h1v1h-1z",
        "M0 3h6",
        "M-1 5l2 2M0 0l6 6M5-1l2 2",
        "M3 0v6",
        "M0 3h6M3 0v6",
    ];
    let mut out =
        String::from("<svg width=\"0\" height=\"0\" class=\"defs\" aria-hidden=\"true\"><defs>\n");
    for (look, shape) in shapes.iter().enumerate() {
        let _ = writeln!(
            out,
            "<pattern id=\"h{look}\" class=\"c{look}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
             <rect width=\"6\" height=\"6\" class=\"hb{}\"/><path class=\"hl\" d=\"{shape}\"/></pattern>",
            usize::from(look > 0)
        );
    }
    out.push_str(&heat::gradient());
    out.push_str("</defs></svg>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        for (value, want) in [
            (1.0, "1"),
            (0.52, ".5"),
            (-0.04, "0"),
            (-12.34, "-12.3"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(px(value), want);
        }
    }

    #[test]
    fn long_text_is_cut() {
        let cut = fit("a rather long title that does not fit", 12.0, 100.0);
        assert!(
            cut.ends_with('\u{2026}') && text_width(&cut, 12.0) <= 100.0,
            "{cut}"
        );
        assert_eq!(fit("short", 12.0, 100.0), "short");
    }
}
