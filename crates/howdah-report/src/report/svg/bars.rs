//! Groups of lying bars with intervals, or of boxes: names are read from left to right, however many there are.

use super::scale::Scale;
use super::{Anchor, COLOURS, Canvas, Mark, fit, px, text_width};
use std::fmt::Write as _;

/// Width of a drawing.
pub(crate) const WIDTH: f64 = 460.0;
const SIZE: f64 = 11.5;
const BAR: f64 = 13.0;
const GAP: f64 = 2.0;
const GROUP_GAP: f64 = 9.0;

/// One bar.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Look: colour and hatch.
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

/// Bars that belong together, under one name.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The name.
    pub(crate) name: String,
    /// The bars.
    pub(crate) bars: Vec<Bar>,
}

/// A drawing of groups.
#[derive(Clone, Debug)]
pub(crate) struct Bars<'a> {
    /// What is shown; empty for none.
    pub(crate) title: &'a str,
    /// Label of the axis, with its unit.
    pub(crate) label: &'a str,
    /// Groups, from top to bottom.
    pub(crate) groups: &'a [Group],
    /// Lowest and highest value that the axis must reach, zero apart; several drawings can share it.
    pub(crate) range: (f64, f64),
    /// Logarithmic axis, from the lowest value; for boxes, as a bar has no length on it.
    pub(crate) log: bool,
}

/// Attributes of a filled shape in the look of a series.
pub(crate) fn fill(look: usize) -> String {
    let look = look % COLOURS;
    format!("class=\"bar c{look}\" fill=\"url(#h{look})\"")
}

impl Bars<'_> {
    /// The drawing.
    pub(crate) fn svg(&self) -> String {
        let names = self.groups.iter().map(|g| text_width(&g.name, SIZE));
        let left = names.fold(40.0, f64::max).min(130.0) + 10.0;
        let texts = self.groups.iter().flat_map(|g| &g.bars);
        let room = texts
            .map(|b| text_width(&b.text, SIZE))
            .fold(30.0, f64::max)
            + 12.0;
        let right = WIDTH - room;
        let top = if self.title.is_empty() { 6.0 } else { 24.0 };
        let rows: f64 = self.groups.iter().map(|g| height(g) + GROUP_GAP).sum();
        let bottom = top + rows;
        let x = if self.log {
            Scale::log(self.range.0, self.range.1, left, right)
        } else {
            Scale::around_zero(self.range.0, self.range.1, 5, left, right)
        };

        let mut canvas = Canvas::new(WIDTH, bottom + 40.0);
        if !self.title.is_empty() {
            let title = fit(self.title, 12.5, WIDTH - 6.0);
            canvas.text("b", 4.0, 13.0, Anchor::Start, &title);
        }
        for tick in x.ticks(5) {
            let place = x.at(tick.value);
            canvas.path("g", &format!("M{} {}V{}", px(place), px(top), px(bottom)));
            canvas.text("s", place, bottom + 14.0, Anchor::Middle, &tick.label);
        }
        canvas.text(
            "s",
            f64::midpoint(left, right),
            bottom + 32.0,
            Anchor::Middle,
            self.label,
        );
        let mut y = top + GROUP_GAP / 2.0;
        for group in self.groups {
            let middle = y + height(group) / 2.0;
            let name = fit(&group.name, SIZE, left - 10.0);
            canvas.text("t", left - 7.0, middle + 4.0, Anchor::End, &name);
            for bar in &group.bars {
                draw(&mut canvas, bar, &x, y);
                y += BAR + GAP;
            }
            y += GROUP_GAP;
        }
        let zero = px(x.at(0.0));
        canvas.path("a", &format!("M{zero} {}V{}", px(top), px(bottom)));
        canvas.finish(&format!("{} {}", self.title, self.label))
    }
}

fn height(group: &Group) -> f64 {
    group.bars.len().max(1) as f64 * (BAR + GAP)
}

fn draw(canvas: &mut Canvas, bar: &Bar, x: &Scale, y: f64) {
    let middle = y + BAR / 2.0;
    let zero = x.at(0.0);
    let mut end = zero;
    if let Some(value) = bar.value {
        let tip = x.at(value);
        let (from, to) = bar.half.map_or((zero, tip), |(a, b)| (x.at(a), x.at(b)));
        let place = [from.min(to), y, (to - from).abs().max(0.8), BAR];
        end = end.max(tip);
        if bar.half.is_none() {
            canvas.rect(&fill(bar.look), place, &bar.tip);
        }
        if let Some((low, high)) = bar.interval {
            let (low, high) = (x.at(low), x.at(high));
            let whisker = format!(
                "M{low} {a}v6M{low} {m}H{high}M{high} {a}v6",
                low = px(low),
                high = px(high),
                a = px(middle - 3.0),
                m = px(middle)
            );
            // A rim in the paper's colour keeps it visible on every fill.
            canvas.path("rim", &whisker);
            canvas.path("ci", &whisker);
            end = end.max(high);
        }
        if bar.half.is_some() {
            canvas.rect(&fill(bar.look), place, &bar.tip);
            let line = format!("M{} {}v{}", px(tip), px(y), px(BAR));
            canvas.path("rim", &line);
            canvas.path("median", &line);
        }
    }
    if let Some(stated) = &bar.stated {
        let (d, far) = stated_path(stated, x, y);
        canvas.path("rim", &d);
        canvas.told_path("stated", &d, &stated.tip);
        end = end.max(far);
    }
    let class = if bar.value.is_some() { "t" } else { "s" };
    canvas.text(class, end + 5.0, middle + 4.0, Anchor::Start, &bar.text);
}

/// A line across the bar at each end of what is stated, and an arrow to where the value may be; with
/// the place of the rightmost point.
fn stated_path(stated: &Mark, x: &Scale, y: f64) -> (String, f64) {
    let (from, to, middle) = (px(y - 1.5), px(y + BAR + 1.5), px(y + BAR / 2.0));
    let mut d = String::new();
    for value in stated.ends() {
        let _ = write!(d, "M{} {from}V{to}", px(x.at(value)));
    }
    let far = stated.ends().map(|value| x.at(value)).fold(0.0, f64::max);
    match (stated.low, stated.high) {
        (Some(low), None) => {
            let _ = write!(d, "M{} {middle}h8m-3-3l3 3l-3 3", px(x.at(low)));
            return (d, far + 8.0);
        }
        (None, Some(high)) => {
            let _ = write!(d, "M{} {middle}h-8m3-3l-3 3l3 3", px(x.at(high)));
        }
        (Some(low), Some(high)) if low < high => {
            let _ = write!(d, "M{} {middle}H{}", px(x.at(low)), px(x.at(high)));
        }
        _ => {}
    }
    (d, far)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_inside() {
        let bar = |value: Option<f64>, text: &str| Bar {
            look: 1,
            value,
            interval: value.map(|v| (v * 0.9, v * 1.1)),
            half: None,
            stated: value.map(|v| Mark {
                low: Some(v),
                high: None,
                tip: String::new(),
            }),
            text: text.to_owned(),
            tip: String::new(),
        };
        let groups = [
            Group {
                name: "a name that is much longer than there is room".to_owned(),
                bars: vec![bar(Some(900.0), "900 [810, 990]"), bar(None, "no result")],
            },
            Group {
                name: "b".to_owned(),
                bars: vec![bar(Some(0.0), "0")],
            },
        ];
        let svg = Bars {
            title: "t",
            label: "goodput, Mbit/s",
            groups: &groups,
            range: (0.0, 990.0),
            log: false,
        }
        .svg();
        for text in svg
            .lines()
            .filter(|l| l.starts_with("<text") && !l.contains("text-anchor"))
        {
            let x: f64 = text
                .split(" x=\"")
                .nth(1)
                .unwrap()
                .split('"')
                .next()
                .unwrap()
                .parse()
                .unwrap();
            let words = text.split('>').nth(1).unwrap().split('<').next().unwrap();
            assert!(x + text_width(words, SIZE) <= WIDTH + 0.5, "{text}");
        }
        assert!(svg.contains("no result"));
    }
}
