//! Transfers that must fail: with the documented exit code, words that name the thing, and
//! nothing left behind.
#![cfg(target_os = "linux")]

use crate::support;
use crate::support::place::{SmallDisk, content};
use crate::support::process::{Input, Server, url};
use crate::support::{Host, Site, quiet_port};
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::symlink;
use std::time::Duration;

// As `howdah --help` lists them.
const NOT_FOUND: i32 = 3;
const REFUSED: i32 = 4;
const NETWORK: i32 = 5;
const AUTH: i32 = 7;
const NO_SPACE: i32 = 11;

/// A file to send and a file to fetch.
fn site_with_files() -> Site {
    let site = Site::new(60);
    fs::write(site.file("here"), "from the client").unwrap();
    fs::write(site.root("there"), "from the server").unwrap();
    site
}

/// Tries both directions and asserts that neither leaves anything.
#[track_caller]
fn assert_both_fail(site: &Site, server: &str, options: &[&str], code: i32, parts: &[&str]) {
    let (here, target) = (site.file("here"), site.file("target"));
    let (there, new) = (format!("{server}there"), format!("{server}new"));
    for pair in [[&*here, &*new], [&*there, &*target]] {
        let args = [&["cp"], options, &pair].concat();
        let done = site
            .start(Host::Here, "client", &args, Input::None)
            .finish();
        done.assert_failed(code, parts);
        assert!(done.out.is_empty());
    }
    assert!(!fs::exists(&target).unwrap() && !fs::exists(site.root("new")).unwrap());
    site.assert_nothing_half_done();
}

#[test]
fn nobody_listens() {
    let site = site_with_files();
    let free = SocketAddr::from(([127, 0, 0, 1], quiet_port()));
    let named = format!("nobody listens on {free}");
    let parts = [&*named, "howdah serve"];
    assert_both_fail(&site, &url(free, ""), &["--accept-new"], NETWORK, &parts);
    let done = site.copy(Host::Here, &site.file("here"), &url(free, "new"));
    assert!(done.took < Duration::from_secs(5), "{:?}", done.took);
}

#[test]
fn nobody_answers() {
    let site = site_with_files();
    let deaf = UdpSocket::bind("127.0.0.1:0").unwrap();
    let url = url(deaf.local_addr().unwrap(), "new");
    let done = site.copy(Host::Here, &site.file("here"), &url);
    done.assert_failed(NETWORK, &["no answer from 127.0.0.1:", "firewall"]);
    assert_eq!(done.json_error(), "network");
}

#[test]
fn a_host_that_nobody_knows() {
    let site = site_with_files();
    let done = site.copy(Host::Here, &site.file("here"), "howdah://no.such.invalid/x");
    done.assert_failed(NETWORK, &["no.such.invalid"]);
}

#[test]
fn the_server_shows_another_key() {
    let site = site_with_files();
    let server = site.serve();
    let other = site.make_key("another server");
    let known = site.config("client").join("known_hosts");
    fs::write(&known, format!("# met before\n{} {other}", server.address)).unwrap();
    let place = format!("{}:2", known.display());
    let address = server.address.to_string();
    for options in [&[][..], &["--accept-new"]] {
        let parts = [&*place, &*address];
        assert_both_fail(&site, &server.url(""), options, AUTH, &parts);
    }
    server.stop();
}

#[test]
fn the_server_was_never_met() {
    let site = site_with_files();
    let server = site.serve();
    let address = server.address.to_string();
    let parts = [&*address, "--accept-new", "SHA256:"];
    assert_both_fail(&site, &server.url(""), &[], AUTH, &parts);
    assert!(!site.config("client").join("known_hosts").exists());
    // Once accepted, it is known.
    let get = site.copy(Host::Here, &server.url("there"), &site.file("target"));
    get.assert_copied(15, "blake3");
    let args = ["cp", "--quiet", &server.url("there"), &site.file("again")];
    let again = site
        .start(Host::Here, "client", &args, Input::None)
        .finish();
    assert_eq!((again.code, &*again.err), (Some(0), ""));
    server.stop();
}

#[test]
fn the_key_is_not_authorised() {
    let site = site_with_files();
    site.make_key("stranger");
    let server = site.serve();
    let address = server.address.to_string();
    let stranger = site.config("stranger").join("id_ed25519.pem");
    let options = ["--accept-new", "--identity", stranger.to_str().unwrap()];
    let parts = [&*address, "does not accept this key", "howdah key show"];
    assert_both_fail(&site, &server.url(""), &options, AUTH, &parts);

    // Without a list nobody gets in.
    fs::remove_file(site.config("server").join("authorized_keys")).unwrap();
    let server = site.serve();
    let parts = ["does not accept this key"];
    assert_both_fail(&site, &server.url(""), &["--accept-new"], AUTH, &parts);
    server.stop();
}

/// A copy that the path rules must stop, in both directions.
#[track_caller]
fn assert_refused(site: &Site, server: &Server, path: &str, part: &str) {
    let target = site.file("target");
    for pair in [
        [&*site.file("here"), &*server.url(path)],
        [&*server.url(path), &*target],
    ] {
        let done = site.copy(Host::Here, pair[0], pair[1]);
        done.assert_failed(REFUSED, &[part]);
        assert_eq!(done.json_error(), "refused");
    }
    assert!(!fs::exists(&target).unwrap());
    site.assert_nothing_half_done();
}

#[test]
fn no_path_leaves_the_root() {
    let site = site_with_files();
    let outside = site.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret"), "secret").unwrap();
    symlink(&outside, site.root("way-out")).unwrap();
    symlink(outside.join("secret"), site.root("link")).unwrap();
    symlink("../outside/secret", site.root("relative")).unwrap();
    symlink(outside.join("dangling"), site.root("nowhere")).unwrap();
    let server = site.serve();
    let absolute = outside.join("secret");
    let absolute = absolute.to_str().unwrap();
    for (path, part) in [
        ("../outside/secret", "contains '..'"),
        ("sub/../../outside/secret", "contains '..'"),
        ("..", "contains '..'"),
        (absolute, "is absolute"),
        ("way-out/secret", "\"way-out"),
        ("link", "\"link\""),
        ("relative", "\"relative\""),
        ("nowhere", "\"nowhere\""),
        // A name may begin with "./", as one of a file that is called like made-up bytes does.
        ("./../outside/secret", "contains '..'"),
    ] {
        assert_refused(&site, &server, path, part);
    }
    let names: Vec<_> = fs::read_dir(&outside).unwrap().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"secret");
    // The server has taken no harm.
    let get = site.copy(Host::Here, &server.url("there"), "-");
    get.assert_copied(15, "blake3");
    let get = site.copy(Host::Here, &server.url("./there"), "-");
    get.assert_copied(15, "blake3");
    server.stop();
}

#[test]
fn what_is_not_there_is_named() {
    let site = site_with_files();
    let server = site.serve();
    let target = site.file("target");
    let get = site.copy(Host::Here, &server.url("no/such"), &target);
    get.assert_failed(NOT_FOUND, &["\"no/such\" does not exist"]);
    assert_eq!(get.json_error(), "not_found");
    let put = site.copy(Host::Here, &site.file("none"), &server.url("new"));
    put.assert_failed(NOT_FOUND, &["files/none\" does not exist"]);
    assert!(!fs::exists(site.root("new")).unwrap());

    // Directories are not made on the way; a script can tell that from a source that is not there.
    let put = site.copy(Host::Here, &site.file("here"), &server.url("no/dir/new"));
    let remedy = "of the destination does not exist; make it there first";
    put.assert_failed(REFUSED, &["the directory \"no/dir\"", remedy]);
    assert_eq!(put.json_error(), "refused");
    let deep = site.file("no/dir/new");
    let get = site.copy(Host::Here, &server.url("there"), &deep);
    get.assert_failed(REFUSED, &["files/no/dir\"", remedy]);

    // A directory cannot be read as a file.
    fs::create_dir(site.root("dir")).unwrap();
    let get = site.copy(Host::Here, &server.url("dir"), &target);
    get.assert_failed(REFUSED, &["\"dir\"", "a directory"]);
    assert!(!fs::exists(&target).unwrap());
    site.assert_nothing_half_done();
    server.stop();
}

#[test]
fn a_full_disk_at_the_server() {
    let site = Site::new(60);
    let Some(_disk) = SmallDisk::mount(&site.root(""), 8) else {
        return;
    };
    let server = site.serve();
    fs::write(site.file("big"), content("big", 32 << 20)).unwrap();
    // The size is known, so it shows at once; a pipe's is not, so it shows on the way.
    let put = site.copy(Host::Here, &site.file("big"), &server.url("big"));
    put.assert_failed(NO_SPACE, &["no space", "\"big\""]);
    let input = Input::Bytes(content("pipe", 32 << 20));
    let put = site.copy_with(
        Host::Here,
        &["--wait-for-space", "0", "-", &server.url("pipe")],
        input,
    );
    put.assert_failed(NO_SPACE, &["no space", "\"pipe\""]);
    assert_eq!(put.json_error(), "no_space");
    support::await_no_parts(&site.root(""), Duration::from_mins(1));
    assert_eq!(fs::read_dir(site.root("")).unwrap().count(), 0);
    // What fits still fits.
    let put = site.copy(Host::Here, "zero:6MiB", &server.url("small"));
    put.assert_copied(6 << 20, "blake3");
    server.stop();
}

#[test]
fn a_full_disk_at_the_client() {
    let site = Site::new(60);
    let Some(_disk) = SmallDisk::mount(&site.file(""), 8) else {
        return;
    };
    let mut server = site.serve();
    fs::write(site.root("big"), content("big", 32 << 20)).unwrap();
    for source in ["big", "zero:32MiB"] {
        let get = site.copy(Host::Here, &server.url(source), &site.file("big"));
        get.assert_failed(NO_SPACE, &["no space", "files/big\""]);
        assert_eq!(fs::read_dir(site.file("")).unwrap().count(), 0);
        server.await_line(" failed: ", Duration::from_secs(10));
    }
    let get = site.copy(Host::Here, &server.url("zero:6MiB"), &site.file("small"));
    assert_eq!(get.code, Some(0), "{}", get.err);
    server.stop();
}
