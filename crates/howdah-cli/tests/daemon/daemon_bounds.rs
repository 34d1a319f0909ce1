//! What jobs may touch: with `--allow`, whatever links they bring along and however long they wait; and never what is the
//! daemon's own.
#![cfg(target_os = "linux")]

use crate::support::process::{Input, Server, ok};
use crate::support::service::Service;
use crate::support::sshd::Sshd;
use crate::support::{HOWDAH, Host, Site};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

const SECRET: &str = "nobody else's";

/// A server of whoever attacks, and directories here: one that is allowed, and one that is not.
struct Attack {
    site: Site,
    server: Server,
}

impl Attack {
    fn new() -> Self {
        let site = Site::new(200);
        let server = site.serve();
        for dir in ["allowed", "outside", "outside/etc"] {
            fs::create_dir(site.file(dir)).unwrap();
        }
        fs::write(site.file("outside/etc/passwd"), SECRET).unwrap();
        Self { site, server }
    }

    /// With that bound, or `None` with a printed reason.
    fn allowed(&self) -> Option<Service<'_>> {
        if !howdah::sandbox::Bounds::are_known() {
            println!("skipped: this kernel has no Landlock");
            return None;
        }
        let dir = self.site.file("allowed");
        Some(Service::allowing(&self.site, dir))
    }

    fn outside(&self) -> Vec<String> {
        let names = fs::read_dir(self.site.file("outside/etc")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

/// A job that ends somehow.
#[track_caller]
fn ended(service: &Service<'_>, command: &[&str]) -> Value {
    let job = service.submit(&["--retries", "0"], command);
    service.await_job(&job, |job| job["ended_ms"].is_number())
}

fn everything_below(dir: impl AsRef<Path>) -> String {
    let mut found = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_dir = path.symlink_metadata().unwrap().is_dir();
        found += &if is_dir {
            everything_below(&path)
        } else {
            String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned()
        };
    }
    found
}

#[test]
fn links_that_jobs_bring_lead_none_out_of_what_is_allowed() {
    let attack = Attack::new();
    let Some(service) = attack.allowed() else {
        return;
    };
    let (site, server) = (&attack.site, &attack.server);
    let outside = site.file("outside/etc");
    for dir in ["evil1/in", "evil2/in/x"] {
        fs::create_dir_all(site.root(dir)).unwrap();
    }
    symlink(&outside, site.root("evil1/in/x")).unwrap();
    fs::write(site.root("evil2/in/x/cron"), "evil").unwrap();
    let to = site.file("allowed");
    // (They are in order: the way, a link, works.)
    let first = ended(
        &service,
        &["cp", "--accept-new", "-a", &server.url("evil1/in"), &to],
    );
    assert_eq!(first["state"], "done", "{first}");
    assert!(Path::new(&site.file("allowed/in/x")).is_symlink());
    let second = ended(
        &service,
        &["cp", "-r", "--keep-dirlinks", &server.url("evil2/in"), &to],
    );
    assert_eq!(second["state"], "failed", "{second}");
    assert_eq!(attack.outside(), ["passwd"]);

    let leak = ended(
        &service,
        &[
            "cp",
            "-r",
            "--copy-links",
            &site.file("allowed/in"),
            &server.url("leak"),
        ],
    );
    assert_eq!(leak["state"], "failed", "{leak}");
    assert!(!everything_below(site.root("")).contains(SECRET));

    // Whoever is not bounded does all that.
    let done = site.copy_with(
        Host::Here,
        &[
            "-r",
            "--copy-links",
            &site.file("allowed/in"),
            &server.url("leak"),
        ],
        Input::None,
    );
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(everything_below(site.root("")).contains(SECRET));
}

#[test]
fn a_job_that_waited_goes_nowhere_else_than_it_might_when_it_was_submitted() {
    let attack = Attack::new();
    let Some(service) = attack.allowed() else {
        return;
    };
    let (site, server) = (&attack.site, &attack.server);
    fs::write(site.root("cron"), "evil").unwrap();
    let to = site.file("allowed/new/y/cron");
    let copy = ["cp", "--accept-new", &server.url("cron"), &to];
    let job = service.submit(&["--hold", "--retries", "0"], &copy);
    fs::create_dir(site.file("allowed/new")).unwrap();
    symlink(site.file("outside/etc"), site.file("allowed/new/y")).unwrap();
    ok(&service.job(&["release", &job]));
    let job = service.await_job(&job, |job| job["ended_ms"].is_number());
    assert_eq!(job["state"], "failed", "{job}");
    assert!(job["reason"].as_str().unwrap().contains("--allow"), "{job}");
    assert_eq!(attack.outside(), ["passwd"]);
}

const SCENARIO: &str = "
id = \"t\"
[path.main]
rate = \"20mbit\"
rtt = \"10ms\"
buffer = \"1bdp\"
[flow.main]
protocol = \"reno\"
[measure]
duration = \"1s\"
";

#[test]
fn the_laboratory_reads_and_writes_what_is_allowed() {
    let attack = Attack::new();
    let Some(service) = attack.allowed() else {
        return;
    };
    let site = &attack.site;
    let [plain, reads, out] =
        ["s.toml", "reads.toml", "out"].map(|name| site.file(&format!("allowed/{name}")));
    fs::write(&plain, SCENARIO).unwrap();
    // It would write into the directory that it runs in.
    let there = service.submit(&["--hold"], &["lab", "run", "--quick", &plain]);
    ok(&service.job(&["cancel", &there]));
    let done = ended(&service, &["lab", "run", "--out", &out, &plain]);
    assert_eq!(done["state"], "done", "{done}");
    assert!(fs::exists(format!("{out}/summary.json")).unwrap());

    let passwd = site.file("outside/etc/passwd");
    fs::write(&reads, format!("include = \"{passwd}\"\n{SCENARIO}")).unwrap();
    let done = ended(&service, &["lab", "run", "--out", &out, &reads]);
    assert_eq!(done["state"], "failed", "{done}");
    let log = fs::read_to_string(service.dir().join("attempts/3-1/log")).unwrap();
    assert!(
        log.contains("Permission denied") && !log.contains("nobody"),
        "{log}"
    );
}

#[test]
fn a_job_runs_within_what_is_allowed() {
    let attack = Attack::new();
    let Some(service) = attack.allowed() else {
        return;
    };
    let copy = [&attack.site.file("allowed/a"), &attack.server.url("a")];
    let submit = |place: &[&str]| {
        let command = ["--", "cp", copy[0], copy[1]];
        service.job(&[&["submit", "--hold"], place, &command].concat())
    };
    let outside = attack.site.file("outside");
    for place in [&[][..], &["--directory", &outside], &["--directory", "/"]] {
        submit(place).assert_failed(2, &["--allow", "--directory"]);
    }
    ok(&submit(&["--directory", &attack.site.file("allowed")]));
}

#[test]
fn jobs_that_are_allowed_everything_do_what_they_did() {
    let attack = Attack::new();
    let Some(service) = attack.allowed() else {
        return;
    };
    let (site, server) = (&attack.site, &attack.server);
    let dir = site.file("allowed/tree");
    fs::create_dir_all(format!("{dir}/sub")).unwrap();
    fs::write(format!("{dir}/sub/file"), "content").unwrap();
    let there = server.url("there");
    let list = site.file("allowed/list");
    let copy = [
        "cp",
        "--accept-new",
        "-a",
        "--manifest",
        &list,
        &dir,
        &there,
    ];
    let done = ended(&service, &copy);
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(fs::read(site.root("there/sub/file")).unwrap(), b"content");
    for command in [
        &["verify", &*dir, &there][..],
        &["cp", "-a", &server.url("there"), &site.file("allowed/back")],
        &[
            "sync",
            "--delete",
            "--backup-dir",
            ".old",
            &there,
            &site.file("allowed/back"),
        ],
        &[
            "cp",
            &server.url("there/sub/file"),
            &site.file("allowed/one"),
        ],
    ] {
        let done = ended(&service, command);
        assert_eq!(done["state"], "done", "{done}");
    }
    assert_eq!(fs::read(site.file("allowed/one")).unwrap(), b"content");
    let known = fs::read_to_string(site.config("client").join("known_hosts"));
    assert!(known.unwrap().contains("127.0.0.1"), "who was met");
}

#[test]
fn what_is_the_daemons_own_is_within_no_jobs_reach() {
    let attack = Attack::new();
    let (site, server) = (&attack.site, &attack.server);
    let service = Service::new(site, &[]);
    let config = site.config("client");
    let config = config.to_str().unwrap();
    let above = site.path().to_str().unwrap();
    fs::write(site.root("evil"), "ssh = \"sh -c id\"").unwrap();
    let (to, evil) = (server.url("stolen"), server.url("evil"));
    let own = |name: &str| format!("{config}/{name}");
    for command in [
        &["cp", &*own("daemon/state.sqlite"), &to][..],
        &["cp", &own("id_ed25519.pem"), &to],
        &["cp", "-r", config, &to],
        &["cp", &evil, &own("config.toml")],
        &[
            "cp",
            "--log-file",
            &own("daemon/tokens"),
            &evil,
            &site.file("x"),
        ],
        &["sync", &to, &own("daemon")],
    ] {
        let done = service.job(&[&["submit", "--"], command].concat());
        done.assert_failed(2, &["the daemon's own"]);
    }

    // As part of something larger, and by links.
    symlink(config, site.file("way")).unwrap();
    let leak = server.url("leak");
    for command in [
        &[
            "cp",
            "--accept-new",
            "-r",
            "--exclude",
            "/root",
            above,
            &leak,
        ][..],
        &["cp", "-r", "--copy-links", &site.file(""), &leak],
    ] {
        let job = ended(&service, command);
        assert_eq!(job["exit_code"], 6, "{job}");
    }
    let key = fs::read_to_string(own("id_ed25519.pem")).unwrap();
    let came = everything_below(site.root("leak"));
    assert!(came.contains(SECRET), "the rest came");
    assert!(!came.contains(key.lines().nth(1).unwrap()));

    let name = Path::new(config).file_name().unwrap().to_str().unwrap();
    let tree = site.root(&format!("tree/{name}/daemon"));
    fs::create_dir_all(&tree).unwrap();
    fs::write(format!("{tree}/tokens"), "admin mine").unwrap();
    fs::write(site.root(&format!("tree/{name}/config.toml")), "evil").unwrap();
    let job = ended(&service, &["cp", "-r", &server.url("tree/."), above]);
    assert_eq!(job["state"], "failed", "{job}");
    assert!(!fs::exists(own("config.toml")).unwrap() && !fs::exists(own("daemon/tokens")).unwrap());
}

/// How a command is begun whose user has another home, as the system knows it.
fn at_home(site: &Site, home: &str) -> Command {
    let all = fs::read_to_string("/etc/passwd").unwrap();
    let own = |line: &&str| line.split(':').nth(2) == Some("0");
    let others: Vec<_> = all.lines().filter(|line| !own(line)).collect();
    let text = format!("root:x:0:0:root:{home}:/bin/sh\n{}\n", others.join("\n"));
    let passwd = site.file("passwd");
    fs::write(&passwd, text).unwrap();
    fs::set_permissions(&passwd, fs::Permissions::from_mode(0o644)).unwrap();
    let mount = "mount --bind \"$0\" /etc/passwd && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--", "sh", "-c", mount, &passwd, HOWDAH]);
    command
}

#[test]
fn ssh_has_the_files_of_its_user_and_no_others() {
    let attack = Attack::new();
    let site = &attack.site;
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can give a user another home");
        return;
    }
    if !howdah::sandbox::Bounds::are_known() {
        println!("skipped: this kernel has no Landlock");
        return;
    }
    let Some(sshd) = Sshd::start(site, Host::Here, "127.0.0.1") else {
        return;
    };
    // As people have it: settings, a key, and who is known.
    let home = site.file("home");
    let own = Path::new(&home).join(".ssh");
    fs::create_dir_all(&own).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    for name in ["client_key", "known_hosts"] {
        fs::copy(sshd.file(name), own.join(name)).unwrap();
    }
    let there = sshd.file("");
    let settings = fs::read_to_string(sshd.file("ssh_config")).unwrap();
    let inside = settings.replace(there.to_str().unwrap(), &format!("{}/", own.display()));
    // Another name of it takes its key from where no job may read.
    let key = |dir: &Path| format!("IdentityFile {}", dir.join("client_key").display());
    let outside = inside
        .replace("Host far far2", "Host elsewhere")
        .replace(&key(&own), &key(&there));
    fs::write(own.join("config"), inside + &outside).unwrap();
    fs::set_permissions(own.join("config"), fs::Permissions::from_mode(0o600)).unwrap();

    let service = Service::allowing_by(site, at_home(site, &home), site.file("allowed"));
    let dir = site.file("allowed/tree");
    fs::create_dir_all(format!("{dir}/sub")).unwrap();
    fs::write(format!("{dir}/sub/file"), "content").unwrap();
    let back = site.file("allowed/back");
    for command in [
        &["cp", "-a", &*dir, "far:there"][..],
        &["verify", &dir, "far:there"],
        &["sync", "far:there", &back],
    ] {
        let done = ended(&service, command);
        assert_eq!(done["state"], "done", "{done}");
    }
    assert_eq!(fs::read(format!("{back}/sub/file")).unwrap(), b"content");
    let refused = ended(&service, &["cp", "-a", &dir, "elsewhere:there2"]);
    assert_eq!(refused["exit_code"], 7, "{refused}");
    let log = fs::read_to_string(service.dir().join("attempts/4-1/log")).unwrap();
    assert!(
        log.contains("client_key") && log.contains("Permission denied"),
        "{log}"
    );
}
