//! What the daemon asks of the program on the spot: directories of other machines, doctor, bench.
#![cfg(target_os = "linux")]

use crate::support::service::Service;
use crate::support::{Host, Site};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

fn ask(service: &Service<'_>, method: &str, path: &str, body: &str) -> (u16, Value) {
    let mut stream = UnixStream::connect(service.dir().join("socket")).unwrap();
    let kind = "Content-Type: application/json";
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{kind}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[test]
fn a_machine_is_looked_at_before_a_job_is_submitted() {
    let site = Site::new(120);
    fs::create_dir(site.root("sub")).unwrap();
    fs::write(site.root("a file"), "abc").unwrap();
    let server = site.serve();
    let service = Service::new(&site, &[]);
    let list = |path: &str| {
        let place = server.url(path).replace('%', "%25").replace(' ', "%20");
        ask(&service, "GET", &format!("/v1/remote?place={place}"), "")
    };
    // Nobody is there who could be asked about its key.
    let (status, words) = list("");
    assert_eq!(
        (status, words["error"]["kind"].as_str()),
        (502, Some("auth")),
        "{words}"
    );
    let known = site.copy(Host::Here, &server.url("a file"), &site.file("a"));
    assert_eq!(known.code, Some(0), "{}", known.err);
    let (status, found) = list("");
    assert_eq!(status, 200, "{found}");
    let names: Vec<_> = found["names"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| {
            (
                entry["name"].as_str().unwrap(),
                entry["kind"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(names, [("sub", "directory"), ("a file", "file")]);
    assert_eq!(found["names"][1]["bytes"], 3);
    let (status, words) = list("missing");
    assert_eq!(
        (status, words["error"]["kind"].as_str()),
        (404, Some("not_found")),
        "{words}"
    );
    let (status, words) = ask(&service, "GET", "/v1/remote?place=/etc", "");
    assert_eq!(status, 400, "{words}");

    let (status, found) = ask(&service, "GET", "/v1/doctor", "");
    assert_eq!(status, 200, "{found}");
    assert!(
        found["checks"]
            .as_array()
            .is_some_and(|checks| checks.len() > 5),
        "{found}"
    );

    let wanted = json!({"host": server.url("").trim_end_matches('/'), "seconds": 1});
    let (status, found) = ask(&service, "POST", "/v1/bench", &wanted.to_string());
    assert_eq!(status, 200, "{found}");
    assert!(found.is_object() && found.get("error").is_none(), "{found}");
    server.stop();
}
