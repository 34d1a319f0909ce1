//! The page in a real browser, where there is one.

use super::synthetic;
use crate::report::Options;
use crate::report::page::page;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Names under which the browser is installed.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|dir| NAMES.map(|name| dir.join(name)))
        .find(|file| file.is_file())
}

/// The document after its scripts ran; nothing if the browser does not start here.
fn dom(browser: &PathBuf, page: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("report.html");
    std::fs::write(&file, page).unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--dump-dom",
            // Until all is drawn: the clock goes as fast as the page has nothing to do.
            "--virtual-time-budget=120000",
            "--window-size=1400,2000",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.path().join("profile").display()
        ))
        .arg(format!("file://{}#theme=dark", file.display()))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && text.contains("</html>")).then_some(text)
}

#[test]
fn a_browser_shows_all_figures_without_errors() {
    let Some(browser) = browser() else {
        println!("skipped: none of {NAMES:?} is installed");
        return;
    };
    let page = page(&synthetic::small(), &Options::default());
    // What is folded is drawn when it is opened.
    let open = page.replace("<details class=\"more\">", "<details class=\"more\" open>");
    let Some(shown) = dom(&browser, &open) else {
        println!("skipped: {} does not start here", browser.display());
        return;
    };
    let root = shown
        .split_once("<html")
        .unwrap()
        .1
        .split_once('>')
        .unwrap()
        .0;
    // Errors and warnings of what draws are there, too.
    assert!(!root.contains("data-error"), "{root}");
    assert!(
        root.contains("data-ready=\"yes\"") && root.contains("data-theme=\"dark\""),
        "{root}"
    );
    let figures = page.matches("<figure").count();
    assert!(
        root.contains(&format!("data-drawn=\"{figures}\"")),
        "{root}"
    );
    assert_eq!(shown.matches("class=\"marks\"").count(), figures);
    // Each with marks, and with its table folded away.
    for figure in shown.split("<figure").skip(1) {
        let (figure, _) = figure.split_once("</figure>").unwrap();
        assert!(
            figure.contains("<path aria-label") || figure.contains("role=\"graphics-symbol\""),
            "{figure}"
        );
        assert!(figure.contains("<details class=\"data\">"), "{figure}");
    }
    // The parser of a browser closes what is left open: the counts agree only if nothing was.
    for tag in ["<figure", "<section", "<details", "</figure>"] {
        let (ours, theirs) = (page.matches(tag).count(), shown.matches(tag).count());
        assert!(
            ours > 0 && ours == theirs,
            "{tag}: {ours} written, {theirs} shown"
        );
    }
    // Long tables got their filter.
    assert_eq!(
        page.matches("scroll long").count(),
        shown.matches("class=\"filter\"").count()
    );
}
