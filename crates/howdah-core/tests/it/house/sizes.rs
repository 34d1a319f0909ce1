//! How large what is in a crate is.

use super::House;
use std::fmt;
use std::fs;
use syn::visit::{self, Visit};

/// A thing and how much of it there is.
#[derive(Default, Clone)]
pub(crate) struct Largest {
    pub(crate) name: String,
    pub(crate) size: usize,
}

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            0 => f.write_str("-"),
            size => write!(f, "`{}` {size}", self.name),
        }
    }
}

impl Largest {
    fn see(&mut self, name: impl FnOnce() -> String, size: usize) {
        if size > self.size {
            *self = Self { name: name(), size };
        }
    }
}

#[derive(Default)]
pub(crate) struct Sizes {
    pub(crate) lines: usize,
    /// By lines, with its tests.
    pub(crate) file: Largest,
    /// By fields.
    pub(crate) structure: Largest,
    /// By lines.
    pub(crate) function: Largest,
    /// Functions, types, traits, constants and methods that bear the word `pub` alone.
    pub(crate) public: usize,
}

impl Sizes {
    pub(super) fn of(house: &House) -> Self {
        let mut sizes = Self::default();
        for (number, (path, parsed)) in house.files.iter().enumerate() {
            let lines = fs::read_to_string(path)
                .expect("it was read before")
                .lines()
                .count();
            sizes.lines += lines;
            sizes.file.see(|| house.file_name(number), lines);
            sizes.visit_file(parsed);
        }
        sizes
    }

    fn counts(&mut self, visibility: &syn::Visibility) {
        self.public += usize::from(matches!(visibility, syn::Visibility::Public(_)));
    }

    fn function(&mut self, name: &syn::Ident, block: &syn::Block) {
        let braces = block.brace_token.span;
        let lines = braces.close().end().line - braces.open().start().line + 1;
        self.function.see(|| name.to_string(), lines);
    }
}

impl<'ast> Visit<'ast> for Sizes {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        use syn::Item;
        if super::is_test(super::attributes(item)) {
            return;
        }
        match item {
            Item::Const(item) => self.counts(&item.vis),
            Item::Enum(item) => self.counts(&item.vis),
            Item::Static(item) => self.counts(&item.vis),
            Item::Trait(item) => self.counts(&item.vis),
            Item::Type(item) => self.counts(&item.vis),
            Item::Struct(item) => {
                self.counts(&item.vis);
                self.structure
                    .see(|| item.ident.to_string(), item.fields.len());
            }
            Item::Fn(item) => {
                self.counts(&item.vis);
                self.function(&item.sig.ident, &item.block);
            }
            _ => {}
        }
        visit::visit_item(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.counts(&item.vis);
        self.function(&item.sig.ident, &item.block);
        visit::visit_impl_item_fn(self, item);
    }
}
