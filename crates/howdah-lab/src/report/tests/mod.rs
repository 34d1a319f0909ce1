//! The whole report: as it was, deterministic, within bounds, harmless, and right in a browser.

mod browser;
mod synthetic;

use super::load::load;
use super::page::page;
use super::{Options, write};
use crate::result::CellResult;

/// The page without its style and script, which have files of their own.
fn bare(page: &str) -> String {
    let without = |page: &str, tag: &str| -> String {
        let (before, rest) = page.split_once(&format!("<{tag}>")).unwrap();
        let (_, after) = rest.split_once(&format!("</{tag}>")).unwrap();
        format!("{before}<{tag}></{tag}>{after}")
    };
    without(&without(page, "style"), "script")
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
    for broken in ["NaN", "inf\"", "-inf"] {
        assert!(!page.contains(broken), "{broken}");
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
