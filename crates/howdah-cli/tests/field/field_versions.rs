//! docs/versions.md: the far side may be one minor version older or newer; what is farther away is refused with both named.

use crate::support::process::{Done, Input};
use crate::support::sshd::Sshd;
use crate::support::{Host, Site};
use std::fs;

const PROTOCOL: i32 = 7;

/// A far end whose first line is changed by `sed` on its way here.
fn copy(site: &Site, sshd: &Sshd, change: &str, ends: [&str; 2]) -> Done {
    let script = site.file("far-end");
    let howdah = env!("CARGO_BIN_EXE_howdah");
    fs::write(&script, format!("{howdah} \"$@\" | sed -u '{change}'\n")).unwrap();
    let (ssh, remote) = (sshd.ssh(), format!("sh {script}"));
    let args = ["cp", "--json", "--ssh", &ssh, "--remote-howdah", &remote];
    let args = [&args[..], &ends].concat();
    site.start(Host::Here, "nobody", &args, Input::None)
        .finish()
}

/// This version with another minor number.
fn minor(by: i32) -> String {
    let mut numbers = env!("CARGO_PKG_VERSION")
        .split('.')
        .map(|n| n.parse::<i32>().unwrap());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    format!("{major}.{}.0", minor + by)
}

#[test]
fn o9_a_far_end_that_is_one_minor_version_away_works() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.file("f"), "content").unwrap();
    for change in [
        "",
        &format!(
            "s/\"program\":\"[0-9.]*\"/\"program\":\"{}\"/; s/\"dialogue\":2/\"dialogue\":3/",
            minor(1)
        ),
        &format!("s/\"program\":\"[0-9.]*\"/\"program\":\"{}\"/", minor(-1)),
    ] {
        let (file, back) = (site.file("f"), site.file("back"));
        for ends in [[&*file, "far:x"], ["far:x", &*back], ["far:x", "far2:y"]] {
            let done = copy(&site, &sshd, change, ends);
            assert_eq!(done.code, Some(0), "{change}: {}", done.err);
        }
    }
}

#[test]
fn o9_a_far_end_that_is_farther_away_is_refused_and_both_are_named() {
    let site = Site::new(100);
    let Some(sshd) = Sshd::start(&site, Host::Here, "127.0.0.1") else {
        return;
    };
    fs::write(site.file("f"), "content").unwrap();
    for change in [
        format!("s/\"program\":\"[0-9.]*\"/\"program\":\"{}\"/", minor(2)),
        "s/\"dialogue\":2/\"dialogue\":4/; s/\"dialogue_oldest\":2/\"dialogue_oldest\":3/"
            .to_owned(),
        "s/\"dialogue\":2/\"dialogue\":1/; s/\"dialogue_oldest\":2/\"dialogue_oldest\":1/"
            .to_owned(),
        "s/\"wire\":[0-9]*/\"wire\":7/".to_owned(),
    ] {
        let (file, back) = (site.file("f"), site.file("back"));
        for ends in [[&*file, "far:x"], ["far:x", &*back], ["far:x", "far2:y"]] {
            let done = copy(&site, &sshd, &change, ends);
            let parts = [
                "far has howdah ",
                "this is howdah ",
                "at most one minor version apart",
            ];
            done.assert_failed(PROTOCOL, &parts);
            assert_eq!(done.json_error(), "protocol");
        }
        assert!(!fs::exists(site.root("x")).unwrap());
    }
}
