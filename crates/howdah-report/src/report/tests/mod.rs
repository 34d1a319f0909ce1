//! The whole report: as it was, deterministic, within bounds, harmless, and right in a browser.

mod browser;
mod specs;
mod synthetic;

use super::load::load;
use super::page::page;
use super::{Options, write};
use crate::result::CellResult;

/// The page without its style, its script and what draws, which have files of their own.
fn bare(page: &str) -> String {
    let mut page = page.to_owned();
    for (from, to) in [
        ("<style>", "</style>"),
        ("<script>", "</script>"),
        ("id=\"vega\">", "</script>"),
    ] {
        let (before, rest) = page.split_once(from).unwrap();
        let (_, after) = rest.split_once(to).unwrap();
        page = format!("{before}{from}{to}{after}");
    }
    page
}

/// `HOWDAH_BLESS=1 cargo test -p howdah-lab` writes the golden file anew.
#[test]
fn the_report_is_as_it_was() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/report/golden/report.html");
    let page = bare(&page(&synthetic::tiny(), &Options::default()));
    if std::env::var_os("HOWDAH_BLESS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let golden = std::fs::read_to_string(path).unwrap();
    let differs = page.lines().zip(golden.lines()).find(|(a, b)| a != b);
    assert!(
        page == golden,
        "the report differs from {path} ({differs:?}); look at it, then HOWDAH_BLESS=1"
    );
}

#[test]
fn the_same_results_give_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    synthetic::store(&synthetic::small(), dir.path());
    let first = std::fs::read(write(dir.path(), &Options::default()).unwrap()).unwrap();
    let second = std::fs::read(write(dir.path(), &Options::default()).unwrap()).unwrap();
    assert!(first == second);
    let mut turned = synthetic::small();
    // Within a cell of the matrix the order of the files decides nothing.
    turned.cells.swap(0, 1);
    assert_eq!(
        page(&turned, &Options::default()),
        page(&synthetic::small(), &Options::default())
    );
}

#[test]
fn the_page_needs_nothing_else() {
    let page = page(&synthetic::small(), &Options::default());
    for foreign in [
        "http://", "https://", "src=", "@import", "url(h", "url('", "url(\"",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.len() < 2_500_000, "{} bytes", page.len());
    for broken in ["NaN", "inf\"", "-inf"] {
        assert!(!bare(&page).contains(broken), "{broken}");
    }
}

#[test]
fn text_from_results_does_no_harm() {
    let evil = "</script><script>document.documentElement.dataset.error='evil'</script>\"'&<b>";
    let mut loaded = synthetic::small();
    loaded.campaign.command = evil.to_owned();
    loaded.campaign.commit = evil.to_owned();
    loaded
        .campaign
        .machine
        .insert(evil.to_owned(), evil.to_owned());
    for scenario in &mut loaded.campaign.scenarios {
        scenario.path = evil.to_owned();
        scenario.text.push_str(evil);
    }
    for cell in &mut loaded.cells {
        cell.at
            .insert(evil.to_owned(), format!("{evil}{}", cell.seed));
        cell.experiment.push_str(evil);
        cell.metrics.insert(evil.to_owned(), 3.0);
        for flow in &mut cell.flows {
            flow.protocol.push_str(evil);
            flow.name.push_str(evil);
            flow.algorithm.push_str(evil);
        }
        if let Some(error) = &mut cell.error {
            error.push_str(evil);
        }
        for group in &mut cell.groups {
            group.name.push_str(evil);
        }
    }
    for entry in &mut loaded.ledger[0].1 {
        entry.note.push_str(evil);
        entry.experiment.push_str(evil);
    }
    let page = page(&loaded, &Options::default());
    assert_eq!(page.matches("<script>").count(), 1);
    // Of the page, its libraries, how charts look, and each figure's specification: none from the results.
    let scripts = 3 + page.matches("<figure").count();
    assert_eq!(page.matches("</script>").count(), scripts);
    assert!(!page.contains("<b>\"") && page.contains("&lt;/script&gt;"));
}

#[test]
fn long_campaigns_stay_small() {
    let loaded = synthetic::long(500);
    let page = page(&loaded, &Options::default());
    assert!(page.len() < 12 << 20, "{} bytes", page.len());
    assert!(page.contains("class=\"scroll long\""));
    if let Some(path) = std::env::var_os("HOWDAH_REPORT_LONG") {
        std::fs::write(path, page).unwrap();
    }
}

#[test]
fn strange_campaigns_make_a_report() {
    let mut loaded = synthetic::small();
    loaded.cells.clear();
    let empty = page(&loaded, &Options::default());
    assert!(empty.contains("Every cell gave a result"));
    loaded.cells.push(CellResult::default());
    let mut odd = synthetic::small().cells[0].clone();
    odd.flows[0].steady_goodput_bps = f64::NAN;
    odd.flows[0].intervals[0].goodput_bps = f64::INFINITY;
    odd.links.clear();
    loaded.cells.push(odd);
    let page = page(&loaded, &Options::default());
    let page = bare(&page);
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

/// Cells of the campaign come in its order, those of others do not come, those that are missing count.
#[test]
fn a_campaign_knows_its_cells() {
    let dir = tempfile::tempdir().unwrap();
    let mut loaded = synthetic::small();
    let ids: Vec<String> = loaded.cells.iter().map(|cell| cell.id.clone()).collect();
    loaded.campaign.cells = vec![ids[3].clone(), "missing".to_owned(), ids[1].clone()];
    synthetic::store(&loaded, dir.path());
    let read = load(dir.path()).unwrap();
    let order: Vec<&str> = read.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(order, [&ids[3], &ids[1]]);
    assert_eq!((read.not_run, read.foreign), (1, ids.len() - 2));
    let page = page(&read, &Options::default());
    assert!(page.contains("1 not run yet") && page.contains("results of other campaigns"));
}

#[test]
fn broken_files_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = write(dir.path(), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("campaign.json"), "{error}");
    synthetic::store(&synthetic::small(), dir.path());
    std::fs::write(dir.path().join("cells/zz.json"), "{").unwrap();
    let loaded = load(dir.path()).unwrap();
    assert_eq!(loaded.unreadable[0].0, "zz.json");
    // No series were stored: each is missed, for each cell that should have one.
    let missed = loaded
        .cells
        .iter()
        .filter(|cell| cell.error.is_none())
        .count();
    assert_eq!(loaded.unreadable.len(), 1 + missed);
    let path = write(dir.path(), &Options::default()).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    assert!(page.contains("zz.json") && page.contains("without a result"));
    std::fs::write(dir.path().join("campaign.json"), "[]").unwrap();
    let error = write(dir.path(), &Options::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("not a file of a campaign"), "{error}");
}

/// A paper's numbers head our figures, what its text states is drawn into them, and what we do not have
/// is listed with the reason.
#[test]
fn papers_figures_stand_beside_ours() {
    let page = page(&synthetic::papers(), &Options::default());
    for wanted in [
        "<span class=\"of\">K14proto Fig. 3, 6:</span> Goodput over RTT and loss",
        "UDT 4.11 \u{2013} paper&#39;s Fig. 3",
        // UDT at 0.1 % loss, in Gbit/s, and in the tip with the ledger's id.
        ">\u{2264}0.200</td>",
        "stated in the paper: \u{2264}0.200 Gbit/s (P.u1)",
        "A second number, with a corner, is stated in the paper.",
        "<span class=\"of\">K13app Fig. 13 (printed: 9):</span> Displayed rate at loss 0",
        "<span class=\"of\">K13app Fig. 15 (printed: 11):</span>",
        "A hollow diamond in the colour of its line is stated in the paper",
        "Velocity-like model, RTT 200\u{a0}ms: stated in the paper: 8.00 Gbit/s (A.v1)",
        "none: a drawing, no measurement",
        "none: not in this campaign (experiment P4-udt)",
        "The figure&#39;s values are not stated in text",
        "<span class=\"of\">WTRL10 Table 3:</span> Goodput of each flow",
        "stated in the paper: 478 Mbit/s",
        "used to fit the model",
    ] {
        let wanted = wanted.replace("&#39;", "'");
        let found = page.contains(&wanted) || page.contains(&wanted.replace('\'', "&#39;"));
        assert!(found, "{wanted}");
    }
}

/// The RFC's headings are all there; cells speak where there are some, for any protocol as the subject.
#[test]
fn a_protocol_is_shown_under_the_headings_of_the_rfc() {
    let shown = page(&synthetic::small(), &Options::default());
    for wanted in [
        "5.1.2 Protection against bufferbloat",
        "waiting time in the bottleneck, p95, alone on 1 Gbit/s",
        "7 Data centers",
        "<em>not measured. </em>",
        "<option value=\"howdah\" selected>Howdah</option>",
        "<div data-subject=\"howdah\">",
        "<div data-subject=\"fast\" hidden>",
    ] {
        assert!(shown.contains(wanted), "{wanted}");
    }
    let options = Options {
        subject: Some("fast".to_owned()),
        ..Options::default()
    };
    let other = page(&synthetic::small(), &options);
    assert!(other.contains("<div data-subject=\"howdah\" hidden>"));
    assert!(other.contains("<div data-subject=\"fast\">"));
}

/// Two directories, one of each testbed: cells beside each other, with what qualifies them.
#[test]
fn simulation_stands_beside_the_testbed() {
    let (sim, real) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    synthetic::store(&synthetic::testbed("sim"), sim.path());
    synthetic::store(&synthetic::testbed("netns"), real.path());
    let options = Options {
        beside: vec![real.path().to_owned()],
        ..Options::default()
    };
    let path = write(sim.path(), &options).unwrap();
    let page = std::fs::read_to_string(path).unwrap();
    for wanted in [
        "<strong>1 of 2 cells within 10 %</strong>",
        "<strong>Simulation beside testbed: 1 of 2 cells within 10 %; 2 not counted:",
        // 900 simulated, 1000 found: ten per cent below; and 500 found: 80 above.
        ">\u{2212}10.0</td>",
        ">+80.0</td>",
        // Shown in brackets, not counted.
        ">(+12.5)</td>",
        "host-limited: the processors were the bottleneck",
        "certificate: 31 packets were dropped that were not planned",
        "testbed: skipped: this kernel has no FAST",
        ">skipped</td>",
        "1 host-limited\u{2020}",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    // No paper states anything about this experiment.
    assert!(!page.contains("Ledger of the papers"));
    // One testbed alone has nothing to stand beside.
    let alone = std::fs::read_to_string(write(real.path(), &Options::default()).unwrap()).unwrap();
    assert!(!alone.contains("Simulation beside testbed"));
    assert!(alone.contains("network namespaces, real time"));
}
