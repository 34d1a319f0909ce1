//! What programs that plan, move and finish leases have in common.

use super::process::{Done, Input, Process};
use super::{Host, Site};
use std::fs;
use std::path::{Path, PathBuf};

/// A plan that `howdah plan` wrote.
pub(crate) struct Planned<'a> {
    pub(crate) site: &'a Site,
    /// The PLAN.
    pub(crate) file: String,
}

impl<'a> Planned<'a> {
    /// Plans `source` to `to`; the PLAN has the name of what it becomes.
    pub(crate) fn with(
        site: &'a Site,
        options: &[&str],
        (source, to): (&str, &str),
        becomes: &str,
    ) -> (Self, Done) {
        let name = Path::new(becomes).file_name().unwrap().display();
        let file = site.file(&format!("{name}.plan"));
        let args = ["plan", "--accept-new", "-o", &file, source, to];
        let args = [&args[..], options].concat();
        let done = site.run(Host::Here, "client", &args, Input::None);
        (Self { site, file }, done)
    }

    pub(crate) fn start(&self, lease: u64, options: &[&str]) -> Process {
        let lease = lease.to_string();
        let args = [&["--plan", &self.file, "--lease", &lease], options].concat();
        self.site.start_copy(Host::Here, &args, Input::None)
    }

    pub(crate) fn run(&self, lease: u64, options: &[&str]) -> Done {
        self.start(lease, options).finish()
    }

    pub(crate) fn moves(&self, lease: u64) {
        let done = self.run(lease, &[]);
        assert_eq!(done.code, Some(0), "{}", done.err);
    }

    pub(crate) fn finish(&self, options: &[&str]) -> Done {
        self.finish_as("client", options)
    }

    pub(crate) fn finish_as(&self, who: &str, options: &[&str]) -> Done {
        let args = [&["finish", "--accept-new", &self.file], options].concat();
        self.site.run(Host::Here, who, &args, Input::None)
    }

    /// As `howdah finish --check` prints it.
    pub(crate) fn missing(&self) -> String {
        let done = self.finish(&["--check"]);
        assert_eq!(done.code, Some(0), "{}", done.err);
        String::from_utf8(done.out).unwrap().trim().to_owned()
    }
}

/// The rooms of plans in a directory.
pub(crate) fn rooms_in(dir: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap();
    let all = entries.map(|entry| entry.unwrap().path());
    all.filter(|path| path.extension().is_some_and(|end| end == "howdah-plan"))
        .collect()
}
