//! The house is built as docs/architecture.md draws it: its table of arrows and the `Cargo.toml` of each crate say the same, and no
//! file of tests is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use toml::de::{DeTable, DeValue};

/// Lines of a source file.
const MOST_LINES: usize = 800;

/// What each crate uses.
type Arrows = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What is in a directory, in the order of names.
fn inside(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory);
    let entries = entries.unwrap_or_else(|e| panic!("{}: {e}", directory.display()));
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths
}

pub(crate) fn crates() -> Vec<PathBuf> {
    let mut all = inside(&root().join("crates"));
    all.retain(|path| path.join("Cargo.toml").is_file());
    assert!(all.len() > 1, "no crates in {}", root().display());
    all
}

fn is_ours(name: &str) -> bool {
    name == "howdah" || name.starts_with("howdah-")
}

/// The words of `line` that stand between backticks.
fn quoted(line: &str) -> impl Iterator<Item = String> {
    line.split('`').skip(1).step_by(2).map(str::to_owned)
}

/// The table below the heading "The arrows".
fn drawn(page: &str) -> Arrows {
    let below = page.split_once("\n## The arrows\n").expect("the heading").1;
    let mut arrows = Arrows::new();
    for line in below.lines().take_while(|line| !line.starts_with("## ")) {
        let Some(row) = line.strip_prefix("| `") else {
            continue;
        };
        let (name, uses) = row.split_once("` |").expect("a row of two columns");
        let old = arrows.insert(name.to_owned(), quoted(uses).collect());
        assert!(old.is_none(), "docs/architecture.md: two rows of {name}");
    }
    arrows
}

fn entry<'t, 'a>(table: &'t DeTable<'a>, name: &str) -> Option<&'t DeValue<'a>> {
    let mut entries = table.iter();
    entries.find_map(|(key, value)| (key.get_ref() == name).then(|| value.get_ref()))
}

/// The crates of ours that a `Cargo.toml`, or what it says of one target, uses outside of tests.
fn used(manifest: &DeTable<'_>) -> BTreeSet<String> {
    let mut uses = BTreeSet::new();
    for section in ["dependencies", "build-dependencies"] {
        let Some(DeValue::Table(section)) = entry(manifest, section) else {
            continue;
        };
        for (key, value) in section {
            // A crate may be given another name here.
            let renamed = match value.get_ref() {
                DeValue::Table(more) => entry(more, "package").and_then(DeValue::as_str),
                _ => None,
            };
            uses.insert(renamed.unwrap_or(key.get_ref()).to_owned());
        }
    }
    if let Some(DeValue::Table(targets)) = entry(manifest, "target") {
        for target in targets.values() {
            if let DeValue::Table(target) = target.get_ref() {
                uses.extend(used(target));
            }
        }
    }
    uses.retain(|name| is_ours(name));
    uses
}

fn built() -> Arrows {
    let each = crates().into_iter().map(|path| {
        let manifest = text(&path.join("Cargo.toml"));
        let manifest = DeTable::parse(&manifest).expect("TOML");
        let name = path.file_name().expect("a name").to_string_lossy();
        (name.into_owned(), used(manifest.get_ref()))
    });
    each.collect()
}

/// What one has and the other has not, for people.
fn differences(drawn: &Arrows, built: &Arrows) -> Vec<String> {
    let nothing = BTreeSet::new();
    let names: BTreeSet<_> = drawn.keys().chain(built.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        if !drawn.contains_key(name) {
            found.push(format!("{name} has no row in docs/architecture.md"));
        } else if !built.contains_key(name) {
            found.push(format!(
                "docs/architecture.md has a row of {name}, which is no crate"
            ));
        }
        let (may, does) = (
            drawn.get(name).unwrap_or(&nothing),
            built.get(name).unwrap_or(&nothing),
        );
        for other in does.difference(may) {
            found.push(format!(
                "crates/{name}/Cargo.toml: {name} uses {other}, which docs/architecture.md does not allow"
            ));
        }
        for other in may.difference(does) {
            found.push(format!(
                "docs/architecture.md lets {name} use {other}, which it does not: take it out of the table"
            ));
        }
    }
    found
}

/// The crates that use each other in a circle, and those between two circles.
fn circle(arrows: &Arrows) -> BTreeSet<String> {
    let mut left = arrows.clone();
    loop {
        let names: BTreeSet<_> = left.keys().cloned().collect();
        let used: BTreeSet<_> = left.values().flatten().cloned().collect();
        left.retain(|name, uses| used.contains(name) && !uses.is_disjoint(&names));
        if left.len() == names.len() {
            return names;
        }
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in inside(directory) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn crates_use_what_the_table_allows_and_nothing_else() {
    let page = text(&root().join("docs/architecture.md"));
    let found = differences(&drawn(&page), &built());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn crates_use_each_other_in_no_circle() {
    assert_eq!(circle(&built()), BTreeSet::new(), "they use each other");
}

#[test]
fn no_source_file_is_too_long() {
    let mut all = Vec::new();
    for path in crates() {
        sources(&path.join("src"), &mut all);
    }
    let long = all.iter().filter_map(|path| {
        let lines = text(path).lines().count();
        let name = path.strip_prefix(root()).unwrap_or(path).display();
        (lines > MOST_LINES).then(|| format!("{name}: {lines} lines"))
    });
    let long: Vec<_> = long.collect();
    assert!(
        long.is_empty(),
        "\n{}\nmore than {MOST_LINES}: move an idea of it into a file of its own\n",
        long.join("\n")
    );
}

/// Tests below `tests` that no program has, and programs that are apart from `it` without a word.
fn lost_tests(tests: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let is_program = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "rs") || path.join("main.rs").is_file()
    };
    let is_module = |path: &Path| {
        path.extension().is_some_and(|end| end == "rs") || path.join("mod.rs").is_file()
    };
    let programs: Vec<_> = inside(tests).into_iter().filter(is_program).collect();
    for path in programs.iter().filter(|_| programs.len() > 1) {
        let is_it = path.file_name().is_some_and(|name| name == "it");
        let main = path.join("main.rs");
        let source = if main.is_file() { &main } else { path };
        if !is_it && !text(source).contains("program apart") {
            found.push(format!(
                "{} is a program apart and does not say why",
                path.display()
            ));
        }
    }
    for program in programs.iter().filter(|path| path.is_dir()) {
        let main = text(&program.join("main.rs"));
        for path in inside(program).iter().filter(|path| is_module(path)) {
            let name = path.file_stem().expect("a name").to_string_lossy();
            if name != "main" && !main.lines().any(|line| line == format!("mod {name};")) {
                found.push(format!("{} is no module of main.rs", path.display()));
            }
        }
    }
    found
}

#[test]
fn every_file_of_tests_is_in_a_program() {
    let tests = crates().into_iter().map(|path| path.join("tests"));
    let tests = tests.filter(|path| path.is_dir() && !path.ends_with("howdah-python/tests"));
    let found: Vec<_> = tests.flat_map(|path| lost_tests(&path)).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Clippy reads one file, the nearest: what the root's says must stand in that of a crate as well.
#[test]
fn each_clippy_toml_repeats_that_of_the_root() {
    let common = text(&root().join("clippy.toml"));
    for path in crates() {
        let own = path.join("clippy.toml");
        if own.is_file() {
            let own_text = text(&own);
            for line in common.lines() {
                let has = own_text.lines().any(|own| own == line);
                assert!(has, "{} lacks the root's line: {line}", own.display());
            }
        }
    }
}

#[test]
fn made_up_arrows_are_found() {
    let page = "# A\n\n## The arrows\n\n| Crate | May use |\n|---|---|\n| `howdah-a` | |\n| `howdah-b` | `howdah-a`, `howdah-c` |\n| `howdah-c` | |\n\n## B\n\n| `howdah-a` | `howdah-c` |\n";
    let manifest = |text| used(DeTable::parse(text).unwrap().get_ref());
    let a = manifest("[dependencies]\nserde = \"1\"\n[dev-dependencies]\nhowdah-c = \"1\"");
    let b = manifest("[target.'cfg(unix)'.build-dependencies]\nhowdah-a.workspace = true");
    let c = manifest("[dependencies]\nother = { package = \"howdah-b\", path = \".\" }");
    let mut built = Arrows::from(["a", "b", "c"].map(|name| (format!("howdah-{name}"), a.clone())));
    assert_eq!(built["howdah-a"], BTreeSet::new());
    built.insert("howdah-b".to_owned(), b);
    assert_eq!(
        differences(&drawn(page), &built),
        [
            "docs/architecture.md lets howdah-b use howdah-c, which it does not: take it out of the table"
        ]
    );
    built.insert("howdah-c".to_owned(), c);
    built.insert("howdah-d".to_owned(), BTreeSet::new());
    let found = differences(&drawn(page), &built);
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(
        found[1],
        "crates/howdah-c/Cargo.toml: howdah-c uses howdah-b, which docs/architecture.md does not allow"
    );
    assert_eq!(circle(&built), BTreeSet::new());
    let back = BTreeSet::from(["howdah-c".to_owned()]);
    built.insert("howdah-b".to_owned(), back.clone());
    built.insert("howdah-e".to_owned(), back);
    let names = ["howdah-b", "howdah-c"].map(str::to_owned);
    assert_eq!(circle(&built), BTreeSet::from(names));
}
