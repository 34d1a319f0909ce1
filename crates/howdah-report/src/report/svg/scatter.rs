//! Points with whiskers over two measured axes: throughput against delay.

use super::scale::Scale;
use super::{Anchor, Canvas, fit, px, text_width};
use crate::report::stats::Spread;

const LEFT: f64 = 50.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 42.0;
const BOTTOM: f64 = 40.0;

/// What was measured of one thing, in the units of the axes.
#[derive(Clone, Debug)]
pub(crate) struct Dot {
    /// Look, see [`Canvas::series`].
    pub(crate) look: usize,
    /// Name, and its values in words.
    pub(crate) tip: String,
    /// Along the horizontal axis: lowest, median, highest.
    pub(crate) x: [f64; 3],
    /// The same along the vertical one.
    pub(crate) y: [f64; 3],
}

/// Ends and middle of a spread.
pub(crate) fn ends(spread: &Spread, of: impl Fn(f64) -> f64) -> [f64; 3] {
    [spread.low, spread.median, spread.high].map(of)
}

/// A drawing, `size` wide and high. Less delay is to the right, as in Pantheon's plots: up and right is better.
pub(crate) fn svg(size: (f64, f64), title: &str, labels: (&str, &str), dots: &[Dot]) -> String {
    let (right, bottom) = (size.0 - RIGHT, size.1 - BOTTOM);
    let most = |ends: fn(&Dot) -> f64| dots.iter().map(ends).fold(0.0, f64::max);
    let x = Scale::from_zero(most(|dot| dot.x[2]), 6, right, LEFT);
    let y = Scale::from_zero(most(|dot| dot.y[2]), 5, bottom, TOP);
    let mut canvas = Canvas::new(size.0, size.1);
    canvas.text(
        "b",
        4.0,
        13.0,
        Anchor::Start,
        &fit(title, 12.5, size.0 - 6.0),
    );
    canvas.text("s", 4.0, 31.0, Anchor::Start, labels.1);
    for tick in y.ticks(5) {
        let place = y.at(tick.value);
        canvas.path("g", &format!("M{} {}H{}", px(LEFT), px(place), px(right)));
        canvas.text("s", LEFT - 5.0, place + 3.8, Anchor::End, &tick.label);
    }
    // From right to left.
    let mut free = f64::INFINITY;
    for tick in x.ticks(6) {
        let place = x.at(tick.value);
        canvas.path("a", &format!("M{} {}v4", px(place), px(bottom)));
        let half = text_width(&tick.label, 11.0) / 2.0;
        if place + half < free {
            canvas.text("s", place, bottom + 15.0, Anchor::Middle, &tick.label);
            free = place - half - 4.0;
        }
    }
    canvas.path("a", &format!("M{} {}H{}", px(LEFT), px(bottom), px(right)));
    let middle = f64::midpoint(LEFT, right);
    canvas.text("s", middle, size.1 - 7.0, Anchor::Middle, labels.0);
    for dot in dots {
        let [[x0, x1, x2], [y0, y1, y2]] = [dot.x.map(|v| x.at(v)), dot.y.map(|v| y.at(v))];
        let (h, v) = (px(y1), px(x1));
        let cross = format!("M{} {h}H{}M{v} {}V{}", px(x0), px(x2), px(y0), px(y2));
        canvas.series(dot.look, &cross, &dot.tip);
        canvas.mark(dot.look, x1, y1);
    }
    let tips: Vec<&str> = dots.iter().map(|dot| dot.tip.as_str()).collect();
    canvas.finish(&format!(
        "{title}: {} over {}; {}",
        labels.1,
        labels.0,
        tips.join("; ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_delay_is_further_right_and_more_goodput_further_up() {
        let dot = |look, delay: f64, rate: f64| Dot {
            look,
            tip: format!("dot {look}"),
            x: [delay - 1.0, delay, delay + 1.0],
            y: [rate - 2.0, rate, rate + 2.0],
        };
        let drawing = svg(
            (340.0, 216.0),
            "t",
            ("delay", "rate"),
            &[dot(0, 5.0, 90.0), dot(1, 50.0, 40.0)],
        );
        let place = |look: usize| -> Vec<f64> {
            let line = drawing
                .lines()
                .find(|line| line.contains(&format!("class=\"m c{look}\"")));
            let line = line.unwrap().split_once("d=\"M").unwrap().1;
            let places = line.split(['m', ' ']).take(2);
            places.map(|text| text.parse().unwrap()).collect()
        };
        let (near, far) = (place(0), place(1));
        assert!(near[0] > far[0] && near[1] < far[1], "{near:?} {far:?}");
        assert!(drawing.contains("<title>dot 1</title>"));
    }
}
