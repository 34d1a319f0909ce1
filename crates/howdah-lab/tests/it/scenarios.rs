//! The scenarios that come with the program can be read, whole and reduced.

use howdah_lab::scenario::load;
use std::path::{Path, PathBuf};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

#[test]
fn the_example_spans_what_its_comments_say() {
    let file = [scenarios().join("example.toml")];
    let plan = load(&file, false).unwrap();
    assert_eq!(plan.cells().count(), 16);
    assert_eq!(load(&file, true).unwrap().cells().count(), 4);
    let cell = plan.cells().next().unwrap();
    let at: Vec<String> = cell
        .at
        .iter()
        .map(|(axis, value)| format!("{axis}={value}"))
        .collect();
    assert_eq!(at, ["buffer=127packets", "protocol=howdah", "route=twice"]);
}

#[test]
fn every_scenario_can_be_read() {
    let mut read = 0;
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        let is_scenario = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        if path.is_dir() || is_scenario {
            for quick in [false, true] {
                let plan = load(std::slice::from_ref(&path), quick);
                assert!(plan.is_ok(), "{}", plan.unwrap_err());
            }
            read += 1;
        }
    }
    assert!(read > 0);
}
