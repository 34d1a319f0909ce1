//! The page: one HTML file that needs nothing else.

use super::Demo;
use super::result::{Arrived, Run};
use super::table::{Cells, cells};
use howdah_core::Rate;
use howdah_report::report::Single;

/// The page with chart, table and notes.
pub(crate) fn page(demo: &Demo) -> String {
    let Cells { head, rows } = cells(demo);
    let line = |run: &Run| {
        let points = run.throughput().into_iter();
        let points = points.map(|(seconds, bps)| (seconds, bps / 1e9));
        let points = std::iter::once((0.0, 0.0)).chain(points).collect();
        (
            format!("{}: {}", run.name, outcome(run, demo.file_bytes)),
            points,
        )
    };
    let link = format!("link {}", demo.link);
    let single = Single {
        title: &format!("howdah demo: {}", demo.path),
        heading: "Howdah beside kernel TCP",
        lead: &demo.path,
        figure: "Throughput over time",
        x_label: "seconds",
        y_label: "Gbit/s",
        lines: demo.runs.iter().map(line).collect(),
        level: Some((demo.link.as_f64() / 1e9, link)),
        head: head.to_vec(),
        rows: rows.iter().map(|row| row.to_vec()).collect(),
        notes: &demo.notes,
        foot: &format!("Measured on {} by", demo.machine),
        command: &demo.command,
    };
    single.page()
}

fn outcome(run: &Run, file_bytes: u64) -> String {
    let mean = format!("mean {}", Rate::from_bits_per_sec(run.goodput_bps() as u64));
    match run.time_for(file_bytes) {
        Arrived::Measured(_) if run.bytes == file_bytes => {
            format!("{mean}, done in {:.2} s", run.seconds)
        }
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::example;
    use super::*;

    #[test]
    fn the_page_has_a_line_for_each_run_and_needs_nothing_else() {
        let mut demo = example();
        demo.runs[1] = Run {
            name: "<none>".to_owned(),
            ..Run::default()
        };
        let page = page(&demo);
        for run in &demo.runs {
            assert!(
                page.contains(&outcome(run, demo.file_bytes)),
                "{}",
                run.name
            );
        }
        // What is in scripts is text to a browser, and the libraries among them are packed.
        let shown: String = page
            .split("<script")
            .enumerate()
            .map(|(at, part)| match part.split_once("</script>") {
                Some((_, after)) if at > 0 => after,
                _ => part,
            })
            .collect();
        assert!(shown.contains("&lt;none&gt;") && !shown.contains("<none>"));
        assert!(!shown.contains("NaN"));
        for foreign in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
