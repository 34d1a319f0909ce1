//! What the sources say of themselves, read by a parser: which file of a crate takes names from which other, and how large what is in
//! them is. Tests (`cfg(test)`) are left out.

mod imports;
mod sizes;

use imports::Module;
pub(crate) use sizes::Sizes;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Who takes names from whom, and which.
pub(crate) type Graph = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A crate: its modules, the first of which is its root, and the files that they are in.
pub(crate) struct House {
    pub(crate) name: String,
    modules: Vec<Module>,
    files: Vec<(PathBuf, syn::File)>,
    source: PathBuf,
}

impl House {
    /// The crate in `directory`: its library, or its program where it has none.
    pub(crate) fn read(directory: &Path) -> Self {
        let source = directory.join("src");
        let library = source.join("lib.rs");
        let root = if library.is_file() {
            library
        } else {
            source.join("main.rs")
        };
        let name = directory.file_name().expect("a name").to_string_lossy();
        let mut house = Self {
            name: name.into_owned(),
            modules: Vec::new(),
            files: Vec::new(),
            source,
        };
        house.file(&root, None, String::new(), &house.source.clone());
        house
    }

    /// Reads a file as the module `name` of `parent`, whose own modules lie below `below`.
    fn file(&mut self, path: &Path, parent: Option<usize>, name: String, below: &Path) -> usize {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let items = parsed.items.clone();
        self.files.push((path.to_owned(), parsed));
        self.module(&items, self.files.len() - 1, parent, name, below)
    }

    fn module(
        &mut self,
        items: &[syn::Item],
        file: usize,
        parent: Option<usize>,
        name: String,
        below: &Path,
    ) -> usize {
        let id = self.modules.len();
        self.modules.push(Module::new(name, parent, file));
        for item in items.iter().filter(|item| !is_test(attributes(item))) {
            if let syn::Item::Mod(inner) = item {
                let name = inner.ident.to_string();
                // The same file under two conditions is one.
                if self.modules[id].has(&name) && inner.content.is_none() {
                    continue;
                }
                let child = if let Some((_, items)) = &inner.content {
                    self.module(items, file, Some(id), name.clone(), &below.join(&name))
                } else {
                    let nested = below.join(&name).join("mod.rs");
                    let flat = below.join(format!("{name}.rs"));
                    let path = if flat.is_file() { flat } else { nested };
                    self.file(&path, Some(id), name.clone(), &below.join(&name))
                };
                self.modules[id].has_module(name, child);
            } else {
                self.modules[id].learn(item);
            }
        }
        id
    }

    fn file_name(&self, file: usize) -> String {
        let path = &self.files[file].0;
        path.strip_prefix(&self.source)
            .unwrap_or(path)
            .display()
            .to_string()
    }

    /// Which file takes names from which.
    pub(crate) fn files(&self) -> Graph {
        self.graph(|file| Some(self.file_name(file)))
    }

    /// The same between the modules of the crate's root, each with all that is below it. The root itself, which gives the crate its face, is none.
    pub(crate) fn rooms(&self) -> Graph {
        self.graph(|file| {
            let mut module = self.modules.iter().position(|module| module.file == file)?;
            while let Some(parent) = self.modules[module].parent.filter(|&parent| parent != 0) {
                module = parent;
            }
            (module != 0).then(|| self.modules[module].name.clone())
        })
    }

    fn graph(&self, place: impl Fn(usize) -> Option<String>) -> Graph {
        let mut graph = Graph::new();
        for ((from, to), names) in imports::all(&self.modules, &self.files) {
            if let (Some(from), Some(to)) = (place(from), place(to))
                && from != to
            {
                graph
                    .entry(from)
                    .or_default()
                    .entry(to)
                    .or_default()
                    .extend(names);
            }
        }
        graph
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::of(self)
    }
}

/// Whatever can be reached from each and reaches it: circles, the largest first.
pub(crate) fn circles(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reached = |from: &String| {
        let (mut found, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            let to = graph.get(at).into_iter().flat_map(BTreeMap::keys);
            next.extend(to.filter(|to| found.insert((*to).clone())));
        }
        found
    };
    let reach: BTreeMap<_, _> = graph.keys().map(|from| (from, reached(from))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (from, to) in reach.iter().filter(|(from, to)| to.contains(**from)) {
        if !found.iter().any(|circle| circle.contains(*from)) {
            let back = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*from));
            found.push(to.iter().filter(back).cloned().collect());
        }
    }
    found.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
    found
}

/// The arrows among those of a circle, for people.
pub(crate) fn within(graph: &Graph, circle: &BTreeSet<String>) -> Vec<String> {
    let arrows = circle.iter().flat_map(|from| {
        let to = graph.get(from).into_iter().flatten();
        let to = to.filter(|(to, _)| circle.contains(*to));
        to.map(move |(to, names)| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            format!("{from} -> {to}: {}", names.join(", "))
        })
    });
    arrows.collect()
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    use syn::Item;
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Whether that is there for tests alone.
fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else {
            return false;
        };
        let text = list.tokens.to_string();
        list.path.is_ident("cfg")
            && text
                .split(|c: char| !c.is_alphanumeric())
                .any(|word| word == "test")
            && !text.contains("not")
    })
}
