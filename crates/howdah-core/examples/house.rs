//! How large each crate and what is in it is, as a table: `make house` writes it into docs/architecture.md.
//!
//! `cargo run -p howdah-core --example house` prints it, `-- --write` puts it into the page, `-- --circles` prints every circle of imports
//! with the names that tie it.

#[path = "../tests/it/house/mod.rs"]
mod house;

use house::{Graph, House, circles, within};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- house: begin, `make house` -->\n";
const END: &str = "<!-- house: end -->";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let houses = houses(&root)?;
    let asked = std::env::args().nth(1);
    if asked.as_deref() == Some("--circles") {
        for house in &houses {
            show(&house.name, "files", &house.files());
            show(&house.name, "modules", &house.rooms());
        }
        return Ok(());
    }
    let table = table(&houses);
    if asked.as_deref() != Some("--write") {
        print!("{table}");
        return Ok(());
    }
    let page = root.join("docs/architecture.md");
    let text = std::fs::read_to_string(&page)?;
    let place = text.find(BEGIN).zip(text.find(END));
    let (begin, end) = place.ok_or("docs/architecture.md has no place for the table")?;
    let text = [&text[..begin + BEGIN.len()], &table, &text[end..]].concat();
    std::fs::write(page, text)?;
    Ok(())
}

fn houses(root: &Path) -> std::io::Result<Vec<House>> {
    let entries = std::fs::read_dir(root.join("crates"))?;
    let paths: Result<Vec<PathBuf>, _> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths: Vec<_> = paths.map_err(|e: std::io::Error| e)?;
    paths.retain(|path| path.join("Cargo.toml").is_file());
    paths.sort();
    Ok(paths.iter().map(|path| House::read(path)).collect())
}

fn show(name: &str, what: &str, graph: &Graph) {
    for circle in circles(graph) {
        println!("{name}: {} {what} import each other", circle.len());
        for arrow in within(graph, &circle) {
            println!("    {arrow}");
        }
    }
}

fn table(houses: &[House]) -> String {
    let head = "| Crate | Lines | Longest file | Most fields | Longest function | Public items | Files of the largest circle |\n|---|---|---|---|---|---|---|\n";
    let row = |house: &House| {
        let sizes = house.sizes();
        let files = circles(&house.files());
        format!(
            "| `{}` | {} | {} | {} | {} | {} | {} |\n",
            house.name,
            sizes.lines,
            sizes.file,
            sizes.structure,
            sizes.function,
            sizes.public,
            files.first().map_or(0, BTreeSet::len),
        )
    };
    std::iter::once(head.to_owned())
        .chain(houses.iter().map(row))
        .collect()
}
