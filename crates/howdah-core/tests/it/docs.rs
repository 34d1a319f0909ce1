//! docs/faults.md and docs/security.md name tests: they are there, and those of attacks and holes are run by `make hostile`.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// A test, and where it is.
struct Test {
    name: String,
    path: PathBuf,
}

fn tests_in(dir: &Path, found: &mut Vec<Test>) {
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            tests_in(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).expect("a source");
            let lines = text.lines().map(str::trim_start);
            let names = lines.filter_map(|line| line.strip_prefix("fn ")?.split('(').next());
            found.extend(names.map(|name| Test {
                name: name.to_owned(),
                path: path.clone(),
            }));
        }
    }
}

fn all_tests() -> Vec<Test> {
    let mut found = Vec::new();
    tests_in(&root().join("crates"), &mut found);
    found
}

/// The names of tests in a text: between backticks, with some `_` in them; `...` at the end leaves the rest out.
fn named(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let quoted = text.split('`').skip(1).step_by(2);
    let names = quoted.map(|word| match word.strip_suffix("...") {
        Some(beginning) => (beginning, true),
        None => (word, false),
    });
    names.filter(|(name, open)| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        // Names of files and the like are shorter.
        let least = if *open { 1 } else { 2 };
        name.matches('_').count() >= least && name.chars().all(plain)
    })
}

fn is_meant(test: &Test, (name, open): (&str, bool)) -> bool {
    if open {
        test.name.starts_with(name)
    } else {
        test.name == name
    }
}

#[test]
fn every_test_that_is_named_is_there() {
    let tests = all_tests();
    for page in ["docs/faults.md", "docs/security.md"] {
        for name in named(&text(page)) {
            let found = tests.iter().any(|test| is_meant(test, name));
            assert!(found, "{page} names {}, which is no test", name.0);
        }
    }
}

/// What `make hostile` runs, as its recipe says.
struct Recipe {
    also: Vec<String>,
    recipe: String,
}

impl Recipe {
    fn read() -> Self {
        let makefile = text("Makefile");
        let also = makefile
            .lines()
            .find_map(|line| line.strip_prefix("also = "));
        let also = also.expect("the other names").split(' ');
        let recipe = makefile.split("\nhostile: ").nth(1).expect("the target");
        let recipe = recipe.split("\n\n").next().expect("its recipe");
        Self {
            also: also.map(str::to_owned).collect(),
            recipe: recipe.to_owned(),
        }
    }

    fn runs(&self, test: &Test) -> bool {
        let below = test.path.strip_prefix(root().join("crates"));
        let below = below.expect("a crate").with_extension("");
        let parts: Vec<_> = below.iter().map(|part| part.to_string_lossy()).collect();
        let package = parts.first().expect("its name");
        if !self.recipe.contains(&format!("-p {package} ")) {
            return false;
        }
        let digits = test.name.strip_prefix(['a', 'h']);
        let digits = digits.and_then(|rest| rest.split('_').next());
        let is_row = digits.is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()));
        let is_row = is_row && !["howdah-proto", "howdah-core"].contains(&&**package);
        let is_also = self.also.iter().any(|also| test.name.starts_with(also));
        let has = |word: String| self.recipe.split([' ', ';', '\n']).any(|w| w == word);
        let by_module = parts.iter().any(|part| {
            let part = part.strip_suffix("_tests").unwrap_or(part);
            has(format!("{part}::"))
        });
        let by_program = parts.iter().any(|part| {
            let program = format!("--test {part}");
            self.recipe.contains(&format!("{program} "))
                || self.recipe.contains(&format!("{program}\n"))
        });
        is_row || is_also || by_module || by_program
    }
}

#[test]
fn attacks_and_holes_are_run_together() {
    let (tests, recipe) = (all_tests(), Recipe::read());
    let faults = text("docs/faults.md");
    let attacks = faults.split("\n## Attacks\n").nth(1).expect("attacks");
    let attacks = attacks.split("\n## ").next().expect("attacks");
    let security = text("docs/security.md");
    let holes = security.split("\n## Holes that").nth(1).expect("holes");
    let holes = holes.split("\n## ").next().expect("holes");
    let mut seen = 0;
    for name in named(attacks).chain(named(holes)) {
        let mut meant = tests.iter().filter(|test| is_meant(test, name));
        assert!(
            meant.any(|test| recipe.runs(test)),
            "make hostile leaves {} out",
            name.0
        );
        seen += 1;
    }
    assert!(seen > 80, "only {seen} tests are named");
    // Each row has a test, or says in words why there is none.
    let rows = attacks.lines().filter(|line| line.starts_with("| A"));
    for row in rows {
        let says = named(row).next().is_some() || row.contains("none:") || row.contains("fuzz");
        assert!(says, "no test: {row}");
    }
}
