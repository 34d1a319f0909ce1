//! What Prometheus is told, by Prometheus itself: Debian's scrapes a daemon and a server, and gives data for every query of the
//! dashboard.
#![cfg(target_os = "linux")]

use crate::support::place::content;
use crate::support::process::{Input, Server};
use crate::support::service::Service;
use crate::support::{HOWDAH, Host, Site, quiet_port};
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn packaging(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../packaging")
        .join(name)
}

fn free() -> SocketAddr {
    ([127, 0, 0, 1], quiet_port()).into()
}

/// The body of the answer; nothing if nobody is there, or it is no good one.
fn get(address: SocketAddr, path: &str, token: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_mins(1))).ok()?;
    let head =
        format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.contains(" 200 ").then(|| body.to_owned())
}

/// In an address.
fn encoded(text: &str) -> String {
    let bytes: Vec<_> = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
    bytes.concat()
}

#[test]
fn what_alerts_advise_is_a_command() {
    let rules = fs::read_to_string(packaging("prometheus/howdah.rules.yml")).unwrap();
    let commands = rules
        .split('\'')
        .filter(|words| words.starts_with("howdah "));
    let mut count = 0;
    for command in commands {
        // What a command does not know it refuses before it tells of itself.
        let words = command.split(' ').skip(1).chain(["--help"]);
        let done = Command::new(HOWDAH).args(words).output().unwrap();
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{command}: {why}");
        count += 1;
    }
    assert!(count > 5);
}

#[track_caller]
fn promtool(args: &[&str], input: &str) {
    let mut child = Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let done = child.wait_with_output().unwrap();
    let said = [done.stdout, done.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(done.status.success(), "promtool {args:?}: {said}\n{input}");
}

struct Prometheus(Child);

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every query of the dashboard, as its variables would make it.
fn queries() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/howdah.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    targets
        .map(|target| {
            let query = target["expr"].as_str().unwrap();
            query
                .replace("$__rate_interval", "15s")
                .replace("$__range", "5m")
                .replace("$instance", ".*")
        })
        .collect()
}

/// Whether there is a figure in it.
fn has_data(answer: &str) -> bool {
    let answer: Value = serde_json::from_str(answer).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");
    let found = answer["data"]["result"].as_array().unwrap();
    found.iter().any(|series| series["value"][1] != "NaN")
}

#[test]
fn prometheus_reads_it_and_every_panel_has_data() {
    for program in ["promtool", "prometheus"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: there is no {program} ('make setup-test' installs it)");
            return;
        }
    }
    let rules = packaging("prometheus/howdah.rules.yml");
    promtool(&["check", "rules", rules.to_str().unwrap()], "");
    let site = Site::new(300);
    let (api, figures, own) = (free(), free(), free());
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--root",
        &site.root(""),
        "--metrics",
        &figures.to_string(),
    ];
    let server = Server::new(site.start(Host::Here, "server", &serve, Input::None));
    let service = Service::new(&site, &["--listen", &api.to_string()]);
    let tokens = fs::read_to_string(service.dir().join("tokens")).unwrap();
    let token = tokens
        .lines()
        .find_map(|line| line.strip_prefix("read "))
        .unwrap();
    let (from, to) = (site.file("big"), server.url("big"));
    fs::write(&from, content("big", 64 << 20)).unwrap();
    let nothing = site.file("nothing");
    service.submit(&[], &["cp", "--accept-new", "--limit", "4mbit", &from, &to]);
    let failing = service.submit(&[], &["cp", "--accept-new", &nothing, &to]);
    assert_eq!(service.job(&["wait", &failing]).code, Some(3));
    for (address, token) in [(api, token), (figures, "")] {
        let page = get(address, "/metrics", token).unwrap();
        promtool(&["check", "metrics"], &page);
        // Nothing of what is copied, by whom, from where.
        for secret in ["big", "127.0.0.1", "SHA256", token] {
            assert!(
                secret.is_empty() || !page.contains(secret),
                "{secret}: {page}"
            );
        }
    }
    assert_eq!(get(api, "/metrics", "wrong"), None);
    assert_eq!(get(figures, "/", ""), None);

    // As packaging/prometheus/scrape.yml has it, at other places and more often.
    let dir = site.path().join("prometheus");
    fs::create_dir(&dir).unwrap();
    let secret = dir.join("token");
    fs::write(&secret, token).unwrap();
    let scrape = fs::read_to_string(packaging("prometheus/scrape.yml")).unwrap();
    let scrape = scrape
        .replace(
            "/etc/prometheus/howdah-daemon.token",
            secret.to_str().unwrap(),
        )
        .replace("127.0.0.1:8470\"]", &format!("{api}\"]"))
        .replace("127.0.0.1:9433\"]", &format!("{figures}\"]"));
    let config = dir.join("prometheus.yml");
    let global = "global: { scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s }";
    let with_rules = format!("{global}\nrule_files: [{rules:?}]\n{scrape}");
    fs::write(&config, with_rules).unwrap();
    promtool(&["check", "config", config.to_str().unwrap()], "");
    let log = fs::File::create(dir.join("log")).unwrap();
    let _prometheus = Prometheus(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.join("data").display()
            ))
            .arg(format!("--web.listen-address={own}"))
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap(),
    );
    let end = Instant::now() + Duration::from_mins(2);
    let mut missing = queries();
    let count = missing.len();
    while !missing.is_empty() {
        assert!(
            Instant::now() < end,
            "no data: {missing:#?}\n{}",
            fs::read_to_string(dir.join("log")).unwrap()
        );
        missing.retain(|query| {
            let path = format!("/api/v1/query?query={}", encoded(query));
            !get(own, &path, "").is_some_and(|answer| has_data(&answer))
        });
    }
    println!("{count} queries have data");
    // For as long as somebody wants, it stays so.
    let seconds = std::env::var("HOWDAH_TEST_SCRAPE_SECONDS");
    let seconds = seconds.map_or(0, |text| text.parse().unwrap());
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        for query in queries() {
            let path = format!("/api/v1/query?query={}", encoded(&query));
            let answer = get(own, &path, "").unwrap();
            assert!(has_data(&answer), "{query}: {answer}");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    if seconds > 0 {
        let path = encoded("min(count_over_time(up[1h]))");
        let scraped = get(own, &format!("/api/v1/query?query={path}"), "").unwrap();
        println!("scraped for {seconds} s: {scraped}");
    }
    let judged = get(own, "/api/v1/rules", "").unwrap();
    assert!(
        judged.contains("HowdahDaemonDown") && !judged.contains(r#""health":"err""#),
        "{judged}"
    );
    server.stop();
}
