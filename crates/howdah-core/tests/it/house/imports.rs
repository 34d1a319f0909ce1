//! Who takes names from whom: paths are followed through `use` and `pub use` to the file that defines what they mean.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use syn::visit::{self, Visit};

/// What a name in a module means.
#[derive(Clone)]
enum Meaning {
    Defined,
    Module(usize),
    Path(Vec<String>),
}

pub(super) struct Module {
    pub(super) name: String,
    pub(super) parent: Option<usize>,
    pub(super) file: usize,
    names: BTreeMap<String, Vec<Meaning>>,
    globs: Vec<Vec<String>>,
}

impl Module {
    pub(super) fn new(name: String, parent: Option<usize>, file: usize) -> Self {
        Self {
            name,
            parent,
            file,
            names: BTreeMap::new(),
            globs: Vec::new(),
        }
    }

    pub(super) fn has_module(&mut self, name: String, module: usize) {
        self.means(name, Meaning::Module(module));
    }

    /// Whether a module of that name is known in it.
    pub(super) fn has(&self, module: &str) -> bool {
        let mut meanings = self.names.get(module).into_iter().flatten();
        meanings.any(|meaning| matches!(meaning, Meaning::Module(_)))
    }

    fn means(&mut self, name: String, meaning: Meaning) {
        self.names.entry(name).or_default().push(meaning);
    }

    pub(super) fn learn(&mut self, item: &syn::Item) {
        use syn::Item;
        let name = match item {
            Item::Const(item) => &item.ident,
            Item::Enum(item) => &item.ident,
            Item::Fn(item) => &item.sig.ident,
            Item::Static(item) => &item.ident,
            Item::Struct(item) => &item.ident,
            Item::Trait(item) => &item.ident,
            Item::Type(item) => &item.ident,
            Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => return,
            },
            Item::Use(item) => {
                for (name, path) in leaves(&item.tree) {
                    match name {
                        Some(name) => self.means(name, Meaning::Path(path)),
                        None => self.globs.push(path),
                    }
                }
                return;
            }
            _ => return,
        };
        self.means(name.to_string(), Meaning::Defined);
    }
}

/// The names that a `use` brings, each with its path; of a glob the path alone.
fn leaves(tree: &syn::UseTree) -> Vec<(Option<String>, Vec<String>)> {
    fn walk(tree: &syn::UseTree, path: &[String], found: &mut Vec<(Option<String>, Vec<String>)>) {
        let with = |name: &syn::Ident| [path, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(inner) => walk(&inner.tree, &with(&inner.ident), found),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| walk(tree, path, found));
            }
            syn::UseTree::Glob(_) => found.push((None, path.to_vec())),
            syn::UseTree::Name(name) if name.ident == "self" => {
                found.push((path.last().cloned(), path.to_vec()));
            }
            syn::UseTree::Name(name) => {
                found.push((Some(name.ident.to_string()), with(&name.ident)));
            }
            syn::UseTree::Rename(name) if name.ident == "self" => {
                found.push((Some(name.rename.to_string()), path.to_vec()));
            }
            syn::UseTree::Rename(name) => {
                found.push((Some(name.rename.to_string()), with(&name.ident)));
            }
        }
    }
    let mut found = Vec::new();
    walk(tree, &[], &mut found);
    found
}

/// Paths that stand in a file, with the module that they stand in.
struct Paths<'a> {
    modules: &'a [Module],
    at: usize,
    found: BTreeSet<(usize, Vec<String>)>,
    globs: BTreeSet<(usize, Vec<String>)>,
    /// What the file hands on, and the words that it says itself: what it hands on and never says is no need of its own.
    handed: Vec<(String, usize, Vec<String>)>,
    said: BTreeSet<String>,
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !super::is_test(super::attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let above = self.at;
        let inner = self
            .modules
            .iter()
            .position(|module| module.parent == Some(above) && item.ident == module.name);
        // A module in a file of its own is read with that file.
        if let (Some(inner), Some(_)) = (inner, &item.content) {
            self.at = inner;
            visit::visit_item_mod(self, item);
            self.at = above;
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let hands_on = !matches!(item.vis, syn::Visibility::Inherited);
        for (name, path) in leaves(&item.tree) {
            match name {
                Some(name) if hands_on => self.handed.push((name, self.at, path)),
                None if hands_on => {}
                Some(_) => drop(self.found.insert((self.at, path))),
                None => drop(self.globs.insert((self.at, path))),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.said.insert(path.segments[0].ident.to_string());
        if path.segments.len() > 1 {
            let path = path
                .segments
                .iter()
                .map(|segment| segment.ident.to_string());
            self.found.insert((self.at, path.collect()));
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_macro(&mut self, macros: &'ast syn::Macro) {
        self.tokens(macros.tokens.clone());
        visit::visit_macro(self, macros);
    }
}

impl Paths<'_> {
    /// Words with `::` between them: what stands in a macro's arguments is not parsed.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree;
        let (mut path, mut colons) = (Vec::new(), 0);
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Punct(punct) if punct.as_char() == ':' => {
                    colons += 1;
                    continue;
                }
                TokenTree::Ident(word) => {
                    if colons != 2 {
                        self.keep(&mut path);
                    }
                    self.said.insert(word.to_string());
                    path.push(word.to_string());
                    colons = 0;
                    continue;
                }
                _ => {}
            }
            self.keep(&mut path);
            colons = 0;
        }
        self.keep(&mut path);
    }

    fn keep(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.found.insert((self.at, path));
        }
    }
}

/// The files that define what `path` means to who stands in the module `at`.
fn meant(
    modules: &[Module],
    at: usize,
    path: &[String],
    depth: usize,
    found: &mut BTreeSet<usize>,
) {
    // A name that a `use` gives and takes from itself.
    let Some((first, rest)) = path.split_first().filter(|_| depth < 16) else {
        return;
    };
    match (first.as_str(), modules[at].parent) {
        ("crate", _) => return meant(modules, 0, rest, depth, found),
        ("self", _) => return meant(modules, at, rest, depth, found),
        ("super", Some(parent)) => return meant(modules, parent, rest, depth, found),
        _ => {}
    }
    for meaning in modules[at].names.get(first).into_iter().flatten() {
        match meaning {
            Meaning::Defined => drop(found.insert(modules[at].file)),
            Meaning::Module(module) => meant(modules, *module, rest, depth, found),
            Meaning::Path(path) => meant(modules, at, &[path, rest].concat(), depth + 1, found),
        }
    }
    if !modules[at].names.contains_key(first) {
        for glob in &modules[at].globs {
            meant(modules, at, &[glob, path].concat(), depth + 1, found);
        }
    }
}

/// Each pair of files of which the first takes names from the second, with the names.
pub(super) fn all(
    modules: &[Module],
    files: &[(PathBuf, syn::File)],
) -> BTreeMap<(usize, usize), BTreeSet<String>> {
    let mut arrows: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (file, (_, parsed)) in files.iter().enumerate() {
        let at = modules
            .iter()
            .position(|module| module.file == file)
            .expect("its module");
        let mut paths = Paths {
            modules,
            at,
            found: BTreeSet::new(),
            globs: BTreeSet::new(),
            handed: Vec::new(),
            said: BTreeSet::new(),
        };
        paths.visit_file(parsed);
        let handed = std::mem::take(&mut paths.handed);
        let needed = handed
            .into_iter()
            .filter(|(name, ..)| paths.said.contains(name));
        let needed: Vec<_> = needed.map(|(_, at, path)| (at, path)).collect();
        paths.found.extend(needed);
        let mut arrow = |to: usize, name: &str| {
            // What a file takes from a module that it is a part of is no arrow: a module's parts share its types.
            if to != file && !is_above(modules, modules_of(modules, to), at) {
                arrows
                    .entry((file, to))
                    .or_default()
                    .insert(name.to_owned());
            }
        };
        for (at, path) in &paths.found {
            let mut used = BTreeSet::new();
            meant(modules, *at, path, 0, &mut used);
            for to in used {
                arrow(to, path.last().map_or("", String::as_str));
            }
        }
        for (at, glob) in &paths.globs {
            // All that is there, of which the file itself is the least.
            if let Some(module) = module_at(modules, *at, glob) {
                arrow(modules[module].file, "*");
            }
        }
    }
    arrows
}

fn module_at(modules: &[Module], at: usize, path: &[String]) -> Option<usize> {
    let Some((first, rest)) = path.split_first() else {
        return Some(at);
    };
    let next = match first.as_str() {
        "crate" => Some(0),
        "self" => Some(at),
        "super" => modules[at].parent,
        name => modules[at]
            .names
            .get(name)?
            .iter()
            .find_map(|meaning| match meaning {
                Meaning::Module(module) => Some(*module),
                _ => None,
            }),
    };
    module_at(modules, next?, rest)
}

/// The module that a file is.
fn modules_of(modules: &[Module], file: usize) -> usize {
    modules
        .iter()
        .position(|module| module.file == file)
        .expect("its module")
}

fn is_above(modules: &[Module], above: usize, below: usize) -> bool {
    let mut at = modules[below].parent;
    while let Some(module) = at.filter(|&module| module != above) {
        at = modules[module].parent;
    }
    at.is_some()
}
