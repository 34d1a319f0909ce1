//! The parts of `howdah demo`: what runs, and how it is shown.

mod children;
mod file;
mod page;
mod result;
mod table;

pub(crate) use children::{DIE_WITH_PARENT, Running};
pub(crate) use file::{hash, make_random};
pub(crate) use page::page;
pub(crate) use result::{Demo, Run};
pub(crate) use table::table;
