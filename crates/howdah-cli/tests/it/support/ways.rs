//! The same check in every direction.

use super::process::{Done, Input};
use super::sshd::Sshd;
use super::{Host, Site};
use std::fs;

/// A direction: how howdah is run, and where source and destination lie, as howdah and as this test names them.
pub(crate) struct Way<'a> {
    pub(crate) what: &'a str,
    pub(crate) run: &'a dyn Fn(&[&str]) -> Done,
    pub(crate) from: &'a dyn Fn(&str) -> String,
    pub(crate) to: &'a dyn Fn(&str) -> String,
    pub(crate) source: &'a dyn Fn(&str) -> String,
    pub(crate) target: &'a dyn Fn(&str) -> String,
    /// Where all of it happens.
    pub(crate) site: &'a Site,
}

impl Way<'_> {
    /// Runs with SRC and DST behind the flags.
    pub(crate) fn go(&self, args: &[&str], from: &str, to: &str) -> Done {
        let (from, to) = ((self.from)(from), (self.to)(to));
        (self.run)(&[args, &[&from, &to]].concat())
    }

    #[track_caller]
    pub(crate) fn ok(&self, args: &[&str], from: &str, to: &str) -> Done {
        let done = self.go(args, from, to);
        assert_eq!(done.code, Some(0), "{} {args:?}: {}", self.what, done.err);
        done
    }

    #[track_caller]
    pub(crate) fn fails(&self, code: i32, args: &[&str], from: &str, to: &str, parts: &[&str]) {
        let done = self.go(args, from, to);
        assert_eq!(
            done.code,
            Some(code),
            "{} {args:?}: {}",
            self.what,
            done.err
        );
        for part in parts {
            assert!(
                done.err.contains(part),
                "{} {args:?} {part}: {}",
                self.what,
                done.err
            );
        }
    }
}

/// Up and down on a server and through ssh, and between two others.
pub(crate) fn every_way(seconds: u64, check: impl Fn(&Way<'_>)) {
    let site = Site::new(seconds);
    let server = site.serve();
    let run = |args: &[&str]| {
        let (command, rest) = args.split_first().unwrap();
        let args = [&[*command, "--json", "--accept-new"], rest].concat();
        site.run(Host::Here, "client", &args, Input::None)
    };
    for case in ["up", "down", "ssh-up", "ssh-down", "between"] {
        fs::create_dir(site.root(case)).unwrap();
        fs::create_dir(site.file(case)).unwrap();
    }
    let url = |case: &'static str| {
        let server = &server;
        move |path: &str| server.url(&format!("{case}/{path}"))
    };
    let there = |case: &'static str| {
        let site = &site;
        move |path: &str| site.root(&format!("{case}/{path}"))
    };
    let here = |case: &'static str| {
        let site = &site;
        move |path: &str| site.file(&format!("{case}/{path}"))
    };
    check(&Way {
        what: "up",
        run: &run,
        from: &here("up"),
        to: &url("up"),
        source: &here("up"),
        target: &there("up"),
        site: &site,
    });
    check(&Way {
        what: "down",
        run: &run,
        from: &url("down"),
        to: &here("down"),
        source: &there("down"),
        target: &here("down"),
        site: &site,
    });
    if let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") {
        let ssh = sshd.ssh();
        let run = |args: &[&str]| {
            let (command, rest) = args.split_first().unwrap();
            let args = [&[*command, "--json", "--ssh", &ssh], rest].concat();
            site.run(Host::Here, "nobody", &args, Input::None)
        };
        let far = |case: &'static str| move |path: &str| format!("far:{case}/{path}");
        check(&Way {
            what: "ssh-up",
            run: &run,
            from: &here("ssh-up"),
            to: &far("ssh-up"),
            source: &here("ssh-up"),
            target: &there("ssh-up"),
            site: &site,
        });
        check(&Way {
            what: "ssh-down",
            run: &run,
            from: &far("ssh-down"),
            to: &here("ssh-down"),
            source: &there("ssh-down"),
            target: &here("ssh-down"),
            site: &site,
        });
        let far2 = |path: &str| format!("far2:between/to-{path}");
        let target = |path: &str| site.root(&format!("between/to-{path}"));
        check(&Way {
            what: "between",
            run: &run,
            from: &far("between"),
            to: &far2,
            source: &there("between"),
            target: &target,
            site: &site,
        });
    }
    server.stop();
    site.assert_nothing_half_done();
}
