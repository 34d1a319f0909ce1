//! Throughput over time as SVG.
//!
//! Lines differ in colour, dashes and marks, so that no meaning hangs on colour alone; the colours
//! come from the page's style, which knows light and dark.

use super::Demo;
use super::result::{Arrived, Run};
use super::table::arrived;
use howdah_core::{Rate, units};
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 440.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 190.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = HEIGHT - 52.0;
/// Distance of two labels below each other.
const LABEL_GAP: f64 = 36.0;
/// Dashes of each line, in the order of the runs.
const DASHES: [&str; 4] = ["none", "8 4", "2 4", "10 3 2 3"];

/// Where data falls on the drawing.
struct Scale {
    seconds: f64,
    gbit: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * seconds / self.seconds
    }

    fn y(&self, gbit: f64) -> f64 {
        BOTTOM - (BOTTOM - TOP) * (gbit / self.gbit).min(1.0)
    }
}

/// The drawing, complete with title, axes, lines, labels and legend.
pub(super) fn chart(demo: &Demo) -> String {
    let last = |run: &Run| {
        run.samples
            .last()
            .map_or(run.seconds, |&(seconds, _)| seconds)
    };
    let seconds = demo.runs.iter().map(last).fold(1.0, f64::max);
    let highest = demo
        .runs
        .iter()
        .flat_map(Run::throughput)
        .map(|(_, bps)| bps)
        .fold(demo.link.as_f64(), f64::max);
    let step = nice_step(highest / 1e9);
    let scale = Scale {
        seconds,
        gbit: (highest / 1e9 / step).ceil() * step,
    };

    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"t d\">\n\
         <title id=\"t\">Throughput over time</title>\n<desc id=\"d\">{}</desc>\n",
        describe(demo)
    );
    axes(&mut svg, &scale, step);
    let y = scale.y(demo.link.as_f64() / 1e9);
    let _ = writeln!(
        svg,
        "<path class=\"link\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\n\
         <text class=\"small\" x=\"{RIGHT}\" y=\"{:.1}\" text-anchor=\"end\">link {}</text>",
        y - 6.0,
        demo.link
    );
    for (index, run) in demo.runs.iter().enumerate() {
        line(&mut svg, &scale, index, run);
    }
    labels(&mut svg, &scale, demo);
    legend(&mut svg, demo);
    svg.push_str("</svg>\n");
    svg
}

fn axes(svg: &mut String, scale: &Scale, step: f64) {
    let decimals = usize::from(step < 1.0) + usize::from(step < 0.1);
    let mut gbit = 0.0;
    while gbit <= scale.gbit + step / 2.0 {
        let y = scale.y(gbit);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
             <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{gbit:.decimals$}</text>",
            LEFT - 8.0,
            y + 4.0
        );
        gbit += step;
    }
    let step = nice_step(scale.seconds);
    let decimals = usize::from(step < 1.0);
    let mut seconds = 0.0;
    while seconds <= scale.seconds + step / 100.0 {
        let x = scale.x(seconds);
        let _ = writeln!(
            svg,
            "<path class=\"grid\" d=\"M{x:.1} {BOTTOM}v5\"/>\
             <text class=\"small\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.decimals$}</text>",
            BOTTOM + 20.0
        );
        seconds += step;
    }
    let _ = writeln!(
        svg,
        "<text class=\"small\" x=\"{LEFT}\" y=\"14\" text-anchor=\"middle\">Gbit/s</text>\
         <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">seconds</text>",
        RIGHT + 12.0,
        BOTTOM + 20.0
    );
}

fn line(svg: &mut String, scale: &Scale, index: usize, run: &Run) {
    let points: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
        .chain(run.throughput())
        .map(|(seconds, bps)| (scale.x(seconds), scale.y(bps / 1e9)))
        .collect();
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    let _ = writeln!(
        svg,
        "<path class=\"line c{index}\" stroke-dasharray=\"{}\" d=\"M{}\"/>",
        DASHES[index % DASHES.len()],
        path.join("L")
    );
    // About eight marks, the last one at the end.
    let every = points.len().div_ceil(8);
    for &(x, y) in points.iter().rev().step_by(every) {
        mark(svg, index, x, y);
    }
}

fn mark(svg: &mut String, index: usize, x: f64, y: f64) {
    let shape = match index % DASHES.len() {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        1 => "m-3.5 -3.5h7v7h-7z",
        2 => "m0 -4.5l4.5 8h-9z",
        _ => "m0 -5l5 5l-5 5l-5 -5z",
    };
    let _ = writeln!(
        svg,
        "<path class=\"mark c{index}\" d=\"M{x:.1} {y:.1}{shape}\"/>"
    );
}

/// Name and result beside the end of each line, pushed apart where they would overlap.
fn labels(svg: &mut String, scale: &Scale, demo: &Demo) {
    let mut places: Vec<(usize, f64, f64)> = Vec::new();
    for (index, run) in demo.runs.iter().enumerate() {
        let points = run.throughput();
        let (seconds, last) = points.last().copied().unwrap_or_default();
        let x = scale.x(seconds) + 10.0;
        // A line that ends early has its label inside the drawing, level with its highest point:
        // beside its end it would cover lines that go on.
        let highest = points.iter().map(|&(_, bps)| bps).fold(0.0, f64::max);
        let bps = if is_inside(x) { highest } else { last };
        places.push((index, x, scale.y(bps / 1e9).min(BOTTOM - 14.0)));
    }
    places.sort_by(|a, b| b.2.total_cmp(&a.2));
    let mut below = f64::INFINITY;
    for (_, _, y) in places.iter_mut().filter(|&&mut (_, x, _)| !is_inside(x)) {
        *y = y.min(below - LABEL_GAP);
        below = *y;
    }
    for (index, x, y) in places {
        let run = &demo.runs[index];
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{x:.1}\" y=\"{y:.1}\">\
             <tspan class=\"name c{index}\">{}</tspan>\
             <tspan x=\"{x:.1}\" dy=\"15\">{}</tspan></text>",
            escape(&run.name),
            outcome(run, demo.file_bytes)
        );
    }
}

/// Whether a label that begins there stays inside the drawing, away from those at its edge.
fn is_inside(x: f64) -> bool {
    x <= RIGHT - 150.0
}

fn legend(svg: &mut String, demo: &Demo) {
    let mut x = LEFT;
    let y = HEIGHT - 10.0;
    for (index, run) in demo.runs.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<path class=\"line c{index}\" stroke-dasharray=\"{}\" d=\"M{x:.1} {:.1}h36\"/>",
            DASHES[index % DASHES.len()],
            y - 4.0
        );
        mark(svg, index, x + 18.0, y - 4.0);
        let _ = writeln!(
            svg,
            "<text class=\"small\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>",
            x + 44.0,
            escape(&run.name)
        );
        x += 70.0 + 8.0 * run.name.chars().count() as f64;
    }
}

fn outcome(run: &Run, file_bytes: u64) -> String {
    match run.time_for(file_bytes) {
        Arrived::Measured(_) if run.bytes == file_bytes => {
            format!("{}, done in {:.2} s", mean(run), run.seconds)
        }
        _ => mean(run),
    }
}

fn mean(run: &Run) -> String {
    format!("mean {}", Rate::from_bits_per_sec(run.goodput_bps() as u64))
}

/// The drawing in words.
fn describe(demo: &Demo) -> String {
    let runs: Vec<String> = demo
        .runs
        .iter()
        .map(|run| {
            format!(
                "{}: {}, {} in {}",
                escape(&run.name),
                mean(run),
                units::format_bytes(demo.file_bytes),
                arrived(run.time_for(demo.file_bytes))
            )
        })
        .collect();
    format!("{}. {}.", escape(&demo.path), runs.join("; "))
}

/// 1, 2 or 5 times a power of ten; between four and ten of them make `range`.
fn nice_step(range: f64) -> f64 {
    let rough = (range / 6.0).max(1e-3);
    let power = 10f64.powf(rough.log10().floor());
    let factor = match rough / power {
        r if r <= 1.0 => 1.0,
        r if r <= 2.0 => 2.0,
        r if r <= 5.0 => 5.0,
        _ => 10.0,
    };
    factor * power
}

/// Text as it may stand in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::example;
    use super::*;

    #[test]
    fn steps_are_round() {
        for (range, want) in [
            (10.0, 2.0),
            (1.4, 0.5),
            (6.0, 1.0),
            (100.0, 20.0),
            (0.0, 0.001),
        ] {
            assert!(
                (nice_step(range) - want).abs() < 1e-9,
                "{range}: {}",
                nice_step(range)
            );
        }
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let mut demo = example();
        // Three lines that end at the same point.
        demo.runs = vec![
            demo.runs[2].clone(),
            demo.runs[2].clone(),
            demo.runs[2].clone(),
        ];
        let svg = chart(&demo);
        let ys: Vec<f64> = svg
            .lines()
            .filter_map(|line| line.strip_prefix("<text class=\"label\""))
            .filter_map(|line| line.split_once(" y=\"")?.1.split_once('"')?.0.parse().ok())
            .collect();
        assert_eq!(ys.len(), 3);
        for pair in ys.windows(2) {
            assert!((pair[0] - pair[1]).abs() >= LABEL_GAP - 0.1, "{ys:?}");
        }
    }

    #[test]
    fn nothing_at_all_can_be_drawn() {
        let mut demo = example();
        demo.runs[1] = Run {
            name: "<none>".to_owned(),
            ..Run::default()
        };
        let svg = chart(&demo);
        assert!(svg.contains("&lt;none&gt;") && !svg.contains("NaN") && !svg.contains("inf"));
    }
}
