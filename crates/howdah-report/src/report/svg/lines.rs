//! Lines over a common axis: time series, distributions.

use super::scale::Scale;
use super::{Anchor, Canvas, Mark, fit, px, text_width};
use std::fmt::Write as _;

/// Width and height of a panel: two or three fit beside each other on a laptop, one on a telephone.
pub(crate) const SMALL_PANEL: (f64, f64) = (340.0, 216.0);
/// Width and height of a panel with many lines.
pub(crate) const WIDE_PANEL: (f64, f64) = (680.0, 320.0);
const LEFT: f64 = 50.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 42.0;
/// What a row of words for the moments takes.
const MOMENTS: f64 = 15.0;
const BOTTOM: f64 = 40.0;
const SMALL: f64 = 11.0;

/// What a paper states: the place on the horizontal axis, nothing where it holds all along it, and the
/// look of the line that it is about.
pub(crate) type StatedAt = (Option<f64>, usize, Mark);

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Look, see [`super::Canvas::series`].
    pub(crate) look: usize,
    /// Name, told when the pointer rests on it.
    pub(crate) name: String,
    /// Points from left to right, in the units of the axes.
    pub(crate) points: Vec<(f64, f64)>,
    /// Horizontal until the next point (a distribution) instead of straight to it.
    pub(crate) steps: bool,
}

/// A horizontal line across a panel, with steps where its value changes.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    /// Each value, and where on the horizontal axis it ends.
    pub(crate) values: Vec<(f64, f64)>,
    /// Told when the pointer rests on it.
    pub(crate) word: String,
}

impl Level {
    fn path(&self, x: &Scale, y: &Scale) -> String {
        let mut d = String::new();
        for &(value, until) in &self.values {
            let (to, place) = (px(x.at(until)), px(y.at(value)));
            if d.is_empty() {
                let _ = write!(d, "M{} {place}H{to}", px(LEFT));
            } else {
                let _ = write!(d, "V{place}H{to}");
            }
        }
        d
    }
}

/// A panel: axes, lines, and what is marked on them.
#[derive(Clone, Debug)]
pub(crate) struct Panel<'a> {
    /// Width and height.
    pub(crate) size: (f64, f64),
    /// What this panel shows.
    pub(crate) title: &'a str,
    /// Label of the horizontal axis, with its unit.
    pub(crate) x_label: &'a str,
    /// Label of the vertical axis, with its unit.
    pub(crate) y_label: &'a str,
    /// Range of the horizontal axis.
    pub(crate) x: (f64, f64),
    /// The horizontal axis is logarithmic.
    pub(crate) x_log: bool,
    /// Lowest and highest value of the vertical axis; it begins at zero unless the values are far
    /// from it and close together.
    pub(crate) y: (f64, f64),
    /// Lines.
    pub(crate) lines: &'a [Line],
    /// Moments worth a vertical line, with a word.
    pub(crate) moments: &'a [(f64, String)],
    /// Values worth a horizontal line.
    pub(crate) levels: &'a [Level],
    /// What a paper states.
    pub(crate) stated: &'a [StatedAt],
}

impl Panel<'_> {
    /// The panel as a drawing.
    pub(crate) fn svg(&self) -> String {
        let (right, bottom) = (self.size.0 - RIGHT, self.height() - BOTTOM);
        let y = Scale::near(self.y.0, self.y.1, 5, bottom, self.top());
        let x = if self.x_log {
            Scale::log(self.x.0, self.x.1, LEFT, right)
        } else {
            Scale::linear(self.x.0, self.x.1, LEFT, right)
        };
        let mut canvas = Canvas::new(self.size.0, self.height());
        let title = fit(self.title, 12.5, self.size.0 - 6.0);
        canvas.text("b", 4.0, 13.0, Anchor::Start, &title);
        canvas.text("s", 4.0, 31.0, Anchor::Start, self.y_label);
        self.axes(&mut canvas, &x, &y);
        for level in self.levels {
            canvas.told_path("level", &level.path(&x, &y), &level.word);
        }
        self.moments(&mut canvas, &x);
        for line in self.lines {
            draw(&mut canvas, line, &x, &y, self.lines.len() > 1);
        }
        for (at, look, mark) in self.stated {
            stated(&mut canvas, at.map(|at| x.at(at)), *look, mark, &y, right);
        }
        if self.lines.iter().all(|line| line.points.is_empty()) {
            let middle = f64::midpoint(LEFT, right);
            canvas.text(
                "s",
                middle,
                f64::midpoint(self.top(), bottom),
                Anchor::Middle,
                "no data",
            );
        }
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        canvas.finish(&format!(
            "{}: {} over {}; {}",
            self.title,
            self.y_label,
            self.x_label,
            names.join(", ")
        ))
    }

    fn axes(&self, canvas: &mut Canvas, x: &Scale, y: &Scale) {
        let (right, bottom) = (self.size.0 - RIGHT, self.height() - BOTTOM);
        for tick in y.ticks(5) {
            let place = y.at(tick.value);
            canvas.path("g", &format!("M{} {}H{}", px(LEFT), px(place), px(right)));
            canvas.text("s", LEFT - 5.0, place + 3.8, Anchor::End, &tick.label);
        }
        let mut free = f64::NEG_INFINITY;
        for tick in x.ticks(6) {
            let place = x.at(tick.value);
            canvas.path("a", &format!("M{} {}v4", px(place), px(bottom)));
            let half = text_width(&tick.label, SMALL) / 2.0;
            if place - half > free {
                canvas.text("s", place, bottom + 15.0, Anchor::Middle, &tick.label);
                free = place + half + 4.0;
            }
        }
        canvas.path("a", &format!("M{} {}H{}", px(LEFT), px(bottom), px(right)));
        let middle = f64::midpoint(LEFT, right);
        canvas.text(
            "s",
            middle,
            self.height() - 7.0,
            Anchor::Middle,
            self.x_label,
        );
    }

    fn top(&self) -> f64 {
        TOP + if self.moments.is_empty() {
            0.0
        } else {
            MOMENTS
        }
    }

    fn height(&self) -> f64 {
        self.size.1 + self.top() - TOP
    }

    /// Moments and their words, in a row of their own above the plot. A word for which there is no
    /// room is only told when the pointer rests on its line.
    fn moments(&self, canvas: &mut Canvas, x: &Scale) {
        let right = self.size.0 - RIGHT;
        let mut free = 0.0;
        for (at, word) in self.moments {
            let place = x.at(*at);
            canvas.told_path(
                "moment",
                &format!(
                    "M{} {}V{}",
                    px(place),
                    px(self.top() - 5.0),
                    px(self.height() - BOTTOM)
                ),
                word,
            );
            let half = text_width(word, SMALL) / 2.0;
            let centre = place.min(right - half);
            if centre - half > free {
                canvas.text("s", centre, self.top() - 8.0, Anchor::Middle, word);
                free = centre + half + 4.0;
            }
        }
    }
}

/// What a paper states: a line across the panel, or a hollow diamond at its place with an arrow where
/// only a bound is given.
fn stated(canvas: &mut Canvas, at: Option<f64>, look: usize, mark: &Mark, y: &Scale, right: f64) {
    let Some(x) = at else {
        for value in mark.ends() {
            let d = format!("M{} {}H{}", px(LEFT), px(y.at(value)), px(right));
            canvas.told_path("stated", &d, &mark.tip);
        }
        return;
    };
    let mut d = String::new();
    for value in mark.ends() {
        let _ = write!(d, "M{} {}l5 5l-5 5l-5-5z", px(x), px(y.at(value) - 5.0));
    }
    let arrow = match (mark.low, mark.high) {
        (Some(low), None) => format!("M{} {}v-9m-3 3l3-3l3 3", px(x), px(y.at(low) - 5.0)),
        (None, Some(high)) => format!("M{} {}v9m-3-3l3 3l3-3", px(x), px(y.at(high) + 5.0)),
        _ => String::new(),
    };
    d.push_str(&arrow);
    let class = format!("stated c{}", look % super::COLOURS);
    canvas.told_path(&class, &d, &mark.tip);
}

fn draw(canvas: &mut Canvas, line: &Line, x: &Scale, y: &Scale, marked: bool) {
    let mut d = String::new();
    // Relative steps in tenths are the shortest way to write a path; the running place is rounded as
    // the browser will see it, so that errors do not add up.
    let mut last: Option<(i64, i64)> = None;
    let mut places = Vec::new();
    for &(vx, vy) in &line.points {
        let place = (x.at(vx), y.at(vy));
        let tenth = (
            (place.0 * 10.0).round() as i64,
            (place.1 * 10.0).round() as i64,
        );
        match last {
            None => {
                let _ = write!(d, "M{} {}", px(place.0), px(place.1));
            }
            Some((lx, ly)) => {
                let (dx, dy) = ((tenth.0 - lx) as f64 / 10.0, (tenth.1 - ly) as f64 / 10.0);
                if line.steps {
                    let _ = write!(d, "h{}v{}", px(dx), px(dy));
                } else {
                    let dy = px(dy);
                    let gap = if dy.starts_with('-') { "" } else { " " };
                    let _ = write!(d, "l{}{gap}{dy}", px(dx));
                }
            }
        }
        last = Some(tenth);
        places.push(place);
    }
    if d.is_empty() {
        return;
    }
    canvas.series(line.look, &d, &line.name);
    if line.points.len() == 1 || marked {
        // A few marks, away from those of the other lines.
        let every = (places.len() / 5).max(1);
        let first = (line.look * every / 5).min(places.len() - 1);
        for &(px, py) in places.iter().skip(first).step_by(every) {
            canvas.mark(line.look, px, py);
        }
    }
}

/// At most `most` points: the axis is cut into equal stretches and each is replaced by its lowest and
/// highest value, in the order in which they came, so that no spike is lost.
pub(crate) fn thin_extremes(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let buckets = (most / 2).max(1);
    let mut out = Vec::with_capacity(buckets * 2);
    for bucket in buckets_of(points, buckets) {
        let low = bucket
            .iter()
            .enumerate()
            .min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = bucket
            .iter()
            .enumerate()
            .max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let (Some((i, low)), Some((j, high))) = (low, high) {
            match i.cmp(&j) {
                std::cmp::Ordering::Less => out.extend([*low, *high]),
                std::cmp::Ordering::Equal => out.push(*low),
                std::cmp::Ordering::Greater => out.extend([*high, *low]),
            }
        }
    }
    out
}

/// At most `most` points: each stretch is replaced by its mean, so that the area stays.
pub(crate) fn thin_means(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    buckets_of(points, most.max(1))
        .map(|bucket| {
            let n = bucket.len() as f64;
            let (x, y) = bucket
                .iter()
                .fold((0.0, 0.0), |(x, y), p| (x + p.0, y + p.1));
            (x / n, y / n)
        })
        .collect()
}

fn buckets_of(points: &[(f64, f64)], count: usize) -> impl Iterator<Item = &[(f64, f64)]> {
    let len = points.len();
    (0..count)
        .map(move |n| &points[n * len / count..(n + 1) * len / count])
        .filter(|bucket| !bucket.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saw(n: usize) -> Vec<(f64, f64)> {
        (0..n)
            .map(|i| (i as f64, if i == 617 { 50.0 } else { (i % 7) as f64 }))
            .collect()
    }

    #[test]
    fn thinning_keeps_spikes() {
        let thin = thin_extremes(&saw(1000), 100);
        assert!(thin.len() <= 100);
        assert!(thin.iter().any(|p| (p.1 - 50.0).abs() < 1e-9));
        assert!(thin.windows(2).all(|w| w[0].0 < w[1].0), "{thin:?}");
        assert_eq!(thin_extremes(&saw(30), 100).len(), 30);
    }

    #[test]
    fn thinning_keeps_the_mean() {
        let points = saw(1000);
        let mean = |p: &[(f64, f64)]| p.iter().map(|p| p.1).sum::<f64>() / p.len() as f64;
        let thin = thin_means(&points, 100);
        assert_eq!(thin.len(), 100);
        assert!((mean(&thin) - mean(&points)).abs() < 1e-9);
    }

    #[test]
    fn paths_end_where_the_data_end() {
        let mut canvas = Canvas::new(400.0, 100.0);
        let line = Line {
            look: 0,
            name: "x".to_owned(),
            points: (0..=300)
                .map(|i| (f64::from(i), f64::from(i % 3)))
                .collect(),
            steps: false,
        };
        let x = Scale::linear(0.0, 300.0, 0.0, 333.0);
        let y = Scale::linear(0.0, 2.0, 90.0, 0.0);
        draw(&mut canvas, &line, &x, &y, false);
        let d = canvas
            .body
            .split(" d=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let (mut at_x, mut at_y) = (0.0, 0.0);
        for step in d.split(['M', 'l']).filter(|s| !s.is_empty()) {
            let step = step.replace('-', " -");
            let mut numbers = step.split_whitespace().map(|n| n.parse::<f64>().unwrap());
            at_x += numbers.next().unwrap();
            at_y += numbers.next().unwrap();
        }
        assert!(
            (at_x - 333.0).abs() < 0.06 && (at_y - 90.0).abs() < 0.06,
            "{at_x} {at_y}"
        );
    }
}
