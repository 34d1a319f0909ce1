//! Inside a crate, too, whatever imports stands above what it imports: no more than two files import each other in a circle, and the
//! modules of a crate's root lie in floors. What a file takes from a module that it is a part of (`super`) does not count, as a module's parts
//! share its types. `cargo run -p howdah-core --example house -- --circles` tells which names tie a circle.

use crate::architecture::crates;
use crate::house::{House, circles, within};
use std::fs;
use std::path::Path;

/// The largest circle of each crate has no more than that many, or what ties it is said.
fn check(graph: impl Fn(&House) -> crate::house::Graph, most: usize) {
    let mut wrong = Vec::new();
    for path in crates() {
        let house = House::read(&path);
        let graph = graph(&house);
        for circle in circles(&graph).iter().filter(|circle| circle.len() > most) {
            wrong.push(format!(
                "{}: a circle of {}, and {most} may be:",
                house.name,
                circle.len()
            ));
            wrong.extend(within(&graph, circle));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn few_files_import_each_other() {
    check(House::files, 2);
}

#[test]
fn modules_lie_in_floors() {
    check(House::rooms, 0);
}

#[test]
fn a_made_up_house_is_read() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("made-up");
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(dir.join("src/c")).unwrap();
    let write = |name: &str, text: &str| fs::write(dir.join("src").join(name), text).unwrap();
    write(
        "lib.rs",
        "mod a; mod b; mod c; pub use b::B; #[cfg(test)] mod absent;",
    );
    // Through the crate's face, in a macro's arguments, and from a module that it is a part of.
    write(
        "a.rs",
        "use crate::B; pub struct A { pub one: B, pub two: u8 } pub(crate) fn a() { println!(\"{}\", crate::c::deep::far()); }",
    );
    write(
        "b.rs",
        "pub struct B; impl B { pub fn one(&self) {\n\n super::a::a(); } } #[cfg(test)] mod tests { use crate::c::Shared; }",
    );
    write(
        "c.rs",
        "pub(crate) mod deep; pub(crate) struct Shared; use deep::far;",
    );
    write(
        "c/deep.rs",
        "use super::Shared; pub(crate) fn far() -> Shared { Shared }",
    );
    let house = House::read(&dir);
    let files = house.files();
    let arrows: Vec<_> = files
        .iter()
        .flat_map(|(from, to)| to.keys().map(move |to| format!("{from} -> {to}")))
        .collect();
    assert_eq!(
        arrows,
        [
            "a.rs -> b.rs",
            "a.rs -> c/deep.rs",
            "b.rs -> a.rs",
            "c.rs -> c/deep.rs"
        ]
    );
    let circle = ["a.rs", "b.rs"].map(str::to_owned).into_iter().collect();
    assert_eq!(circles(&files), [circle]);
    assert_eq!(
        within(&files, &circles(&files)[0]),
        ["a.rs -> b.rs: B", "b.rs -> a.rs: a"]
    );
    let rooms = house.rooms();
    assert!(
        rooms["a"].contains_key("c") && rooms["b"].len() == 1,
        "{rooms:?}"
    );
    let sizes = house.sizes();
    assert_eq!(
        (sizes.structure.name.as_str(), sizes.structure.size),
        ("A", 2)
    );
    assert_eq!(
        (sizes.function.name.as_str(), sizes.function.size),
        ("one", 3)
    );
    assert_eq!((sizes.public, sizes.lines), (3, 7));
}
