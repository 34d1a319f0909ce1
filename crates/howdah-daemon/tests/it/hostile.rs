//! Requests that nobody sends who means well: each is answered with what is wrong with it, nothing comes of it, and whoever
//! means well is served beside it.
#![cfg(target_os = "linux")]

use crate::support::{
    Daemon, HOST, bench, code, config, get, job, post, put, request, said, schedule, ticket, watch,
};
use howdah_daemon::client::{Client, Which};
use howdah_daemon::tls::Tls;
use howdah_daemon::{Config, serve};
use std::io::{Read, Write};
use std::path::Path;

#[test]
fn hostile_requests_get_nothing() {
    let [daemon, secure] = [None, Some(Tls::Own)].map(Daemon::with);
    let typed = |kind: &str| {
        request(
            "POST /v1/jobs",
            &format!("{HOST}{kind}"),
            br#"{"kind":"cp","arguments":[],"directory":"/"}"#,
        )
    };
    let many: Vec<_> = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    let many = many.concat();
    let long = format!("X: {}\r\n", "y".repeat(1 << 20));
    let list = |n: usize| format!(r#","labels":[{}]"#, vec![r#""x""#; n].join(","));
    let arguments = |arguments: String| {
        post(
            format!(r#"{{"kind":"cp","arguments":[{arguments}],"directory":"/","hold":true}}"#)
                .as_bytes(),
        )
    };
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let table: Vec<(&str, Vec<u8>, &[u16])> = vec![
        // Pages in a browser, and names that were made to mean this machine.
        ("no host", request("GET /v1/jobs", "", b""), &[403]),
        ("another host", request("GET /v1/jobs", "Host: evil.example\r\n", b""), &[403]),
        ("a port", request("GET /v1/jobs", "Host: localhost:80\r\n", b""), &[403]),
        ("two hosts", request("GET /v1/jobs", "Host: localhost\r\nHost: evil.example\r\n", b""), &[400, 403]),
        ("an origin", request("GET /v1/jobs", "Host: localhost\r\nOrigin: http://evil.example\r\n", b""), &[403]),
        ("its own origin", request("GET /v1/jobs", "Host: localhost\r\nOrigin: http://localhost\r\n", b""), &[403]),
        ("a proxy's form", request("GET http://evil.example/v1/jobs", HOST, b""), &[400, 403]),
        ("preflight", request("OPTIONS /v1/jobs", HOST, b""), &[405]),
        ("no type", typed(""), &[415]),
        ("a form", typed("Content-Type: application/x-www-form-urlencoded\r\n"), &[415]),
        ("plain text", typed("Content-Type: text/plain\r\n"), &[415]),
        ("parts", typed("Content-Type: multipart/form-data; boundary=x\r\n"), &[415]),
        // Paths.
        ("above", get("/v1/jobs/../../etc/passwd"), &[400, 404]),
        ("above, encoded", get("/v1/jobs/%2e%2e%2f%2e%2e%2fetc%2fpasswd"), &[400, 404]),
        ("a file", get("/v1/jobs/1/events/../../../state.sqlite"), &[400, 404]),
        ("a zero byte", get("/v1/jobs/%00"), &[400, 404]),
        ("no text", get("/v1/jobs/%ff"), &[400, 404]),
        ("a negative job", get("/v1/jobs/-1"), &[404]),
        ("a huge job", get("/v1/jobs/99999999999999999999"), &[400]),
        ("a broken number", get("/v1/jobs/1e3"), &[400]),
        ("nothing", get("/v1"), &[404]),
        ("the page by POST", request("POST /", HOST, b""), &[405]),
        ("above the page", get("/../state/tokens"), &[400, 404]),
        ("beside the page", get("/console.js/../tokens"), &[400, 404]),
        ("the page's sources", get("/src/main.ts"), &[404]),
        ("two slashes", get("//"), &[400, 404]),
        ("no job's events", get("/v1/jobs/7/events"), &[404]),
        ("a long path", get(&format!("/{}", "x".repeat(100_000))), &[400, 414, 431]),
        // Methods.
        ("delete", request("DELETE /v1/jobs/1", HOST, b""), &[405]),
        ("put", request("PUT /v1/jobs", HOST, b""), &[405]),
        ("trace", request("TRACE /v1/jobs", HOST, b""), &[405]),
        ("connect", request("CONNECT evil.example:80", HOST, b""), &[400, 403, 404, 405]),
        ("another method in a header", request("POST /v1/jobs/1", "Host: localhost\r\nX-HTTP-Method-Override: GET\r\n", b""), &[405]),
        ("cancel what is not", request("POST /v1/jobs/1/cancel", HOST, b""), &[404]),
        // Questions.
        ("no state", get("/v1/jobs?state=nonsense"), &[400]),
        ("an unknown question", get("/v1/jobs?program=sh"), &[400]),
        ("too large a page", get("/v1/jobs?limit=99999999999"), &[400]),
        ("a negative page", get("/v1/jobs?limit=-1"), &[400]),
        ("SQL", get("/v1/jobs?state=done'%20OR%201=1--"), &[400]),
        ("no state among several", get("/v1/jobs?state=done,nonsense"), &[400]),
        ("long words", get(&format!("/v1/jobs?text={}", "x".repeat(300))), &[400]),
        ("many words", get(&format!("/v1/jobs?text={}", "x%20".repeat(20))), &[400]),
        ("a long label to look for", get(&format!("/v1/jobs?label={}", "x".repeat(300))), &[400]),
        ("words that are no text", get("/v1/jobs?text=%ff"), &[200, 400]),
        ("what no job said", get("/v1/jobs/7/output"), &[404]),
        ("a kind of event that is a path", get("/v1/jobs/7/output?event=../log"), &[400]),
        ("a negative offset", get("/v1/jobs/7/output?offset=-1"), &[400]),
        ("figures by POST", request("POST /metrics", HOST, b""), &[405]),
        ("events by POST", request("POST /v1/events", HOST, b""), &[405]),
        // Directories.
        ("a relative directory to look at", get("/v1/files?path=etc"), &[400]),
        ("a file to look at as a directory", get("/v1/files?path=/etc/passwd"), &[400]),
        ("a directory to look at that is not there", get("/v1/files?path=/nonexistent"), &[404]),
        ("a zero byte in a directory", get("/v1/files?path=/%00"), &[400]),
        ("a directory that is no text", get("/v1/files?path=/%ff"), &[400, 404]),
        ("more than a directory", get("/v1/files?path=/&follow=1"), &[400]),
        ("a directory by POST", request("POST /v1/files", HOST, b""), &[405]),
        ("a loop of links", get("/v1/files?path=/proc/self/root/proc/self/root/nonexistent"), &[400, 403, 404]),
        // What is asked of the program.
        ("a directory elsewhere that is here", get("/v1/remote?place=/etc"), &[400]),
        ("an option as a directory elsewhere", get("/v1/remote?place=--ssh=sh"), &[400]),
        ("no directory elsewhere", get("/v1/remote"), &[400]),
        ("a zero byte in a directory elsewhere", get("/v1/remote?place=h:%00"), &[400]),
        ("an option as a peer", get("/v1/doctor?peer=-x"), &[400]),
        ("a directory for the doctor", get("/v1/doctor?dir=/etc"), &[400]),
        ("a measurement by GET", get("/v1/bench?host=h"), &[405]),
        ("a measurement of an option", bench(br#"{"host":"--ssh=sh"}"#), &[400]),
        ("a measurement for ever", bench(br#"{"host":"h","seconds":100000}"#), &[400]),
        ("a measurement with a program", bench(br#"{"host":"h","ssh":"sh"}"#), &[400]),
        ("a measurement as a form", request("POST /v1/bench", HOST, b"host=h"), &[415]),
        // Tickets.
        ("a wrong ticket", ticket(br#"{"ticket":"0123456789abcdef"}"#), &[401]),
        ("an empty ticket", ticket(br#"{"ticket":""}"#), &[401]),
        ("no ticket", ticket(b"{}"), &[400]),
        ("a ticket and more", ticket(br#"{"ticket":"x","role":"admin"}"#), &[400]),
        ("a ticket as a form", request("POST /v1/tickets/use", HOST, b"ticket=x"), &[415]),
        ("a ticket by GET", get("/v1/tickets/use?ticket=x"), &[405]),
        ("a wait of no time", get("/v1/jobs/1?wait_seconds=x"), &[400]),
        // Bodies.
        ("empty", post(b""), &[400]),
        ("no JSON", post(b"kind=cp"), &[400]),
        ("no text", post(b"\xff\xfe"), &[400]),
        ("deep", post(&deep), &[400]),
        ("large", post(&vec![b' '; 2 << 20]), &[413]),
        ("a list", post(b"[]"), &[400]),
        ("another kind", post(br#"{"kind":"serve","arguments":[],"directory":"/"}"#), &[400]),
        ("a program", job(r#","program":"/bin/sh""#), &[400]),
        ("an environment", job(r#","environment":{"LD_PRELOAD":"x"}"#), &[400]),
        ("given twice", job(r#","directory":"/tmp""#), &[400]),
        ("many labels", job(&list(17)), &[400]),
        ("a long label", job(&format!(r#","labels":["{}"]"#, "x".repeat(65))), &[400]),
        ("negative retries", job(r#","retries":-1"#), &[400]),
        ("endless retries", job(r#","retries":4294967295"#), &[400]),
        ("a huge priority", job(r#","priority":99999999999"#), &[400]),
        ("after what is not", job(r#","after":[12]"#), &[409]),
        ("after itself", job(r#","after":[1]"#), &[409]),
        ("after too many", job(&format!(r#","after":[{}]"#, vec!["1"; 65].join(","))), &[400]),
        ("a long name", job(&format!(r#","submission":"{}""#, "x".repeat(129))), &[400]),
        ("a zero byte in an argument", arguments(r#""a\u0000b""#.to_owned()), &[400]),
        ("many arguments", arguments(vec![r#""a""#; 4_097].join(",")), &[400]),
        ("long arguments", arguments(format!(r#""{}""#, "x".repeat(300_000))), &[400]),
        ("a relative directory", post(br#"{"kind":"cp","arguments":[],"directory":"tmp"}"#), &[400]),
        // Schedules.
        ("no time", schedule("nonsense", "UTC", ""), &[400]),
        ("every second", schedule("* * * * * *", "UTC", ""), &[400]),
        ("a zone that is a path", schedule("0 0 * * *", "../../../etc/passwd", ""), &[400]),
        ("a long time", schedule(&"1,".repeat(10_000), "UTC", ""), &[400]),
        ("a named job", schedule("0 0 * * *", "UTC", r#","submission":"x""#), &[400]),
        ("a program at a time", schedule("0 0 * * *", "UTC", r#","program":"sh""#), &[400]),
        ("a schedule as a form", request("POST /v1/schedules", HOST, b"cron=x"), &[415]),
        ("no schedule", request("DELETE /v1/schedules/7", HOST, b""), &[404]),
        // Limits and machines.
        ("no limit", put("/v1/limits", br#"{"limit":"fast"}"#), &[400]),
        ("an empty limit", put("/v1/limits", b"{}"), &[400]),
        ("a limit with more", put("/v1/limits", br#"{"limit":"1","program":"sh"}"#), &[400]),
        ("a number as a limit", put("/v1/limits", br#"{"limit":1}"#), &[400]),
        ("a long limit", put("/v1/limits", format!(r#"{{"limit":"{}"}}"#, "1".repeat(5_000)).as_bytes()), &[400]),
        ("a limit as a form", request("PUT /v1/limits", HOST, b"limit=1"), &[415]),
        ("a limit by POST", request("POST /v1/limits", HOST, b""), &[405]),
        ("a limit of no job", request("POST /v1/jobs/7/limit", &format!("{HOST}Content-Type: application/json\r\n"), br#"{"limit":"1"}"#), &[404]),
        ("a machine that is a path", put("/v1/hosts/%2e%2e%2fx", b"{}"), &[400, 404]),
        ("a machine with a control character", put("/v1/hosts/a%1b", b"{}"), &[400]),
        ("a machine of no text", put("/v1/hosts/%ff", b"{}"), &[400]),
        ("a long machine", put(&format!("/v1/hosts/{}", "x".repeat(300)), b"{}"), &[400]),
        ("a machine where nothing runs", put("/v1/hosts/a", br#"{"max_running":0}"#), &[400]),
        ("a negative machine", put("/v1/hosts/a", br#"{"max_running":-1}"#), &[400]),
        ("no schedule to pause", request("POST /v1/schedules/7/pause", HOST, b""), &[404]),
        ("no number to resume", request("POST /v1/schedules/x/resume", HOST, b""), &[400]),
        // Watched directories.
        ("a watched file", watch("/etc/passwd", r#""h:b""#, ""), &[400]),
        ("a relative directory to watch", watch("tmp", r#""h:b""#, ""), &[400]),
        ("a directory that is not there", watch("/nonexistent", r#""h:b""#, ""), &[400]),
        ("no place to copy to", watch("/tmp", "", ""), &[400]),
        ("an option as the place", watch("/tmp", r#""h:b","--ssh=sh""#, ""), &[400]),
        ("no quiet", watch("/tmp", r#""h:b""#, r#","quiet_seconds":0"#), &[400]),
        ("negative quiet", watch("/tmp", r#""h:b""#, r#","quiet_seconds":-1"#), &[400]),
        ("a program for files", watch("/tmp", r#""h:b""#, r#","program":"sh""#), &[400]),
        ("a watch as a form", request("POST /v1/watches", HOST, b"path=/"), &[415]),
        ("no watch", request("DELETE /v1/watches/7", HOST, b""), &[404]),
        ("no watch to pause", request("POST /v1/watches/7/pause", HOST, b""), &[404]),
        // What is no request.
        ("many headers", request("GET /v1/jobs", &format!("{HOST}{many}"), b""), &[400, 431]),
        ("a long header", request("GET /v1/jobs", &format!("{HOST}{long}"), b""), &[0, 400, 431]),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[0, 400]),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[0, 400]),
        ("garbage", (0..=255).collect(), &[0, 400]),
        (
            "two lengths",
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\n{}".to_vec(),
            &[400],
        ),
        (
            "a length and chunks",
            b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(),
            &[400, 415],
        ),
    ];
    for (name, bytes, wanted) in &table {
        let status = daemon.status(bytes);
        assert!(wanted.contains(&status), "{name}: {status}");
        // With every right, over TCP and TLS, it gets no more.
        for daemon in [&daemon, &secure] {
            let bytes = daemon.over_tcp(bytes, &daemon.token("admin"));
            let status = daemon.status_over_tcp(&bytes);
            let refused = [0, 400, 401, 403, 429];
            assert!(
                wanted.contains(&status) || refused.contains(&status),
                "{name} over TCP: {status}"
            );
        }
    }
    println!("{} requests", table.len());
    for daemon in [&daemon, &secure] {
        let client = Client::new(&daemon.dir.path().join("state"));
        assert!(client.list(&Which::default(), 10).unwrap().jobs.is_empty());
        assert!(client.watches().unwrap().is_empty());
        assert!(client.schedules().unwrap().is_empty());
        for line in daemon.audit().lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert!(
                line["status"] != 201 && !line["request"].is_null(),
                "{line}"
            );
        }
    }
    let client = Client::new(&daemon.dir.path().join("state"));
    assert_eq!(daemon.status(&job("")), 201);
    assert_eq!(client.list(&Which::default(), 10).unwrap().jobs.len(), 1);
}

#[test]
fn over_tcp_nobody_gets_in_without_a_token_nor_further_than_it_says() {
    let daemon = Daemon::new();
    let [read, submit, admin] = ["read", "submit", "admin"].map(|role| daemon.token(role));
    let host = format!("Host: {}\r\n", daemon.address);
    let port = daemon.address.port();
    let list = |headers: &str| request("GET /v1/jobs", &format!("{host}{headers}"), b"");
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let named = |name: &str| {
        let headers = format!("Host: {name}\r\n{}", bearer(&admin));
        request("GET /v1/jobs", &headers, b"")
    };
    let table: Vec<(&str, Vec<u8>, u16)> = vec![
        ("no token", list(""), 401),
        ("a wrong one", list(&bearer(&"0".repeat(64))), 401),
        ("an empty one", list(&bearer("")), 401),
        ("a part of one", list(&bearer(&read[..63])), 401),
        ("one and more", list(&bearer(&format!("{read}0"))), 401),
        (
            "another kind",
            list(&format!("Authorization: Basic {read}\r\n")),
            401,
        ),
        (
            "two",
            list(&format!("{}{}", bearer(&read), bearer(&admin))),
            401,
        ),
        (
            "in the question",
            request(&format!("GET /v1/jobs?token={read}"), &host, b""),
            401,
        ),
        (
            "in a cookie",
            list(&format!("Cookie: token={read}\r\n")),
            401,
        ),
        // Rebinding, other names, other ports, pages of others.
        (
            "a name that was made to mean us",
            named(&format!("evil.example:{port}")),
            403,
        ),
        (
            "a name that ends as ours",
            named(&format!("evil.localhost:{port}")),
            403,
        ),
        (
            "a name that begins as ours",
            named(&format!("localhost.evil.example:{port}")),
            403,
        ),
        ("another port", named("127.0.0.1:1"), 403),
        ("no port", named("127.0.0.1"), 403),
        (
            "another address of ours",
            named(&format!("127.0.0.2:{port}")),
            403,
        ),
        (
            "a user in the name",
            named(&format!("x@127.0.0.1:{port}")),
            403,
        ),
        ("ours", named(&format!("localhost:{port}")), 200),
        (
            "a page of others",
            list(&format!(
                "Origin: http://evil.example\r\n{}",
                bearer(&admin)
            )),
            403,
        ),
        (
            "a page without origin",
            list(&format!("Origin: null\r\n{}", bearer(&admin))),
            403,
        ),
        (
            "a page of another port",
            list(&format!("Origin: http://127.0.0.1:1\r\n{}", bearer(&admin))),
            403,
        ),
        (
            "our own page",
            list(&format!(
                "Origin: http://{}\r\n{}",
                daemon.address,
                bearer(&admin)
            )),
            200,
        ),
        // Roles.
        (
            "a reader asks for figures",
            daemon.over_tcp(&get("/metrics"), &read),
            200,
        ),
        (
            "a reader looks at files",
            daemon.over_tcp(&get("/v1/files?path=/"), &read),
            403,
        ),
        (
            "a reader looks at files in another way",
            daemon.over_tcp(&get("/v1/%66iles?path=/"), &read),
            404,
        ),
        (
            "a reader looks elsewhere",
            daemon.over_tcp(&get("/v1/remote?place=h:x"), &read),
            403,
        ),
        (
            "a reader has a machine looked at",
            daemon.over_tcp(&get("/v1/doctor"), &read),
            403,
        ),
        (
            "a reader measures",
            daemon.over_tcp(&bench(br#"{"host":"h"}"#), &read),
            403,
        ),
        (
            "a submitter looks at files",
            daemon.over_tcp(&get("/v1/files?path=/"), &submit),
            200,
        ),
        (
            "a reader looks",
            daemon.over_tcp(&get("/v1/jobs"), &read),
            200,
        ),
        ("a reader submits", daemon.over_tcp(&job(""), &read), 403),
        (
            "a reader cancels",
            daemon.over_tcp(&request("POST /v1/jobs/1/cancel", HOST, b""), &read),
            403,
        ),
        (
            "a reader limits",
            daemon.over_tcp(&put("/v1/limits", br#"{"limit":"100000"}"#), &read),
            403,
        ),
        (
            "a submitter submits",
            daemon.over_tcp(&job(""), &submit),
            201,
        ),
        (
            "a submitter cancels",
            daemon.over_tcp(&request("POST /v1/jobs/1/cancel", HOST, b""), &submit),
            200,
        ),
        (
            "a submitter limits all",
            daemon.over_tcp(&put("/v1/limits", br#"{"limit":"100000"}"#), &submit),
            403,
        ),
        (
            "a submitter limits a machine",
            daemon.over_tcp(&put("/v1/hosts/x", b"{}"), &submit),
            403,
        ),
        (
            "a submitter adds a schedule",
            daemon.over_tcp(&schedule("0 0 1 1 *", "UTC", ""), &submit),
            403,
        ),
        (
            "a submitter watches",
            daemon.over_tcp(&watch("/", r#""h:b""#, ""), &submit),
            403,
        ),
        (
            "an admin limits",
            daemon.over_tcp(&put("/v1/limits", br#"{"limit":"100000"}"#), &admin),
            200,
        ),
        (
            "an admin adds a schedule",
            daemon.over_tcp(&schedule("0 0 1 1 *", "UTC", ""), &admin),
            201,
        ),
        (
            "an admin removes it",
            daemon.over_tcp(&request("DELETE /v1/schedules/1", HOST, b""), &admin),
            204,
        ),
    ];
    for (name, bytes, wanted) in &table {
        assert_eq!(daemon.status_over_tcp(bytes), *wanted, "{name}");
    }
    println!("{} requests over TCP", table.len());
    // Who guesses is slowed down; who knows is not.
    let guess = list(&bearer(&"1".repeat(64)));
    let codes: Vec<_> = (0..20).map(|_| daemon.status_over_tcp(&guess)).collect();
    assert_eq!(codes.last(), Some(&429));
    assert_eq!(
        daemon.status_over_tcp(&daemon.over_tcp(&get("/v1/jobs"), &read)),
        200
    );
}

#[test]
fn the_page_is_for_everybody_on_this_machine_and_opens_nothing() {
    let daemon = Daemon::new();
    let [read, admin] = ["read", "admin"].map(|role| daemon.token(role));
    let host = format!("Host: {}\r\n", daemon.address);
    let port = daemon.address.port();
    // As over_tcp, but without a token.
    let without = |bytes: &[u8]| {
        let with = daemon.over_tcp(bytes, "");
        String::from_utf8(with)
            .unwrap()
            .replace("Authorization: Bearer \r\n", "")
            .into_bytes()
    };
    let table: Vec<(&str, Vec<u8>, u16)> = vec![
        // What needs no token, and what that does not open.
        ("the page", request("GET /", &host, b""), 200),
        (
            "the page for another name",
            request("GET /", &format!("Host: evil.example:{port}\r\n"), b""),
            403,
        ),
        (
            "the page for a page of others",
            request(
                "GET /console.js",
                &format!("{host}Origin: http://evil.example\r\n"),
                b"",
            ),
            403,
        ),
        (
            "about, without a token",
            request("GET /v1/about", &host, b""),
            401,
        ),
        (
            "figures without a token",
            request("GET /metrics", &host, b""),
            401,
        ),
        (
            "events without a token",
            request("GET /v1/events", &host, b""),
            401,
        ),
        (
            "files without a token",
            request("GET /v1/files", &host, b""),
            401,
        ),
        (
            "a wrong ticket without a token",
            without(&ticket(br#"{"ticket":"x"}"#)),
            401,
        ),
        (
            "a ticket for a page of others",
            request(
                "POST /v1/tickets/use",
                &format!("{host}Origin: http://evil.example\r\nContent-Type: application/json\r\n"),
                br#"{"ticket":"x"}"#,
            ),
            403,
        ),
        (
            "an admin makes a ticket over TCP",
            daemon.over_tcp(&request("POST /v1/tickets", HOST, b""), &admin),
            403,
        ),
        (
            "a reader makes a ticket",
            daemon.over_tcp(&request("POST /v1/tickets", HOST, b""), &read),
            403,
        ),
    ];
    for (name, bytes, wanted) in &table {
        assert_eq!(daemon.status_over_tcp(bytes), *wanted, "{name}");
    }
    println!("{} requests without a token", table.len());
}

#[test]
fn an_address_that_others_reach_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "[2001:db8::1]:80"] {
        let config = Config {
            listen: Some(address.parse().unwrap()),
            ..config(dir.path())
        };
        let error = serve(config, |_, _| panic!("{address}")).unwrap_err();
        assert!(
            matches!(error, howdah_daemon::Error::NotLoopback(_)),
            "{error}"
        );
    }
}

/// Names that an object must have, and those that it may.
fn names(document: &serde_json::Value, schema: &str) -> [std::collections::BTreeSet<String>; 2] {
    let schema = &document["components"]["schemas"][schema];
    let required = schema["required"].as_array().into_iter().flatten();
    let properties = schema["properties"].as_object().unwrap();
    [
        required
            .map(|name| name.as_str().unwrap().to_owned())
            .collect(),
        properties.keys().cloned().collect(),
    ]
}

#[test]
fn answers_are_what_the_document_says() {
    let daemon = Daemon::new();
    let answer = |bytes: &[u8]| {
        let answer = daemon.say(bytes);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<serde_json::Value>(body).unwrap()
    };
    let document = answer(&get("/v1/openapi.json"));
    let check = |value: &serde_json::Value, schema: &str| {
        let [required, properties] = names(&document, schema);
        let found = value.as_object().unwrap().keys().cloned().collect();
        assert!(required.is_subset(&found), "{schema}: {value}");
        assert!(found.is_subset(&properties), "{schema}: {value}");
    };
    check(&answer(&job("")), "Submitted");
    let shown = answer(&get("/v1/jobs/1"));
    check(&shown, "JobView");
    check(&shown["spec"], "Spec");
    check(&shown["history"][0], "Happened");
    let list = answer(&get("/v1/jobs"));
    check(&list, "Jobs");
    check(&list["jobs"][0], "JobView");
    check(&answer(&schedule("0 0 1 1 *", "UTC", "")), "ScheduleId");
    let schedules = answer(&get("/v1/schedules"));
    check(&schedules, "Schedules");
    check(&schedules["schedules"][0], "ScheduleView");
    check(&schedules["schedules"][0]["spec"], "ScheduleSpec");
    for path in ["/v1/schedules/1/pause", "/v1/schedules/1/resume"] {
        check(
            &answer(&request(&format!("POST {path}"), HOST, b"")),
            "ScheduleView",
        );
    }
    assert_eq!(
        daemon.status(&request("DELETE /v1/schedules/1", HOST, b"")),
        204
    );
    let watched = daemon.dir.path().join("watched");
    std::fs::create_dir(&watched).unwrap();
    check(
        &answer(&watch(watched.to_str().unwrap(), r#""h:b""#, "")),
        "Made",
    );
    let watches = answer(&get("/v1/watches"));
    check(&watches, "Watches");
    check(&watches["watches"][0], "WatchView");
    check(&watches["watches"][0]["spec"], "WatchSpec");
    check(
        &answer(&request("POST /v1/watches/1/pause", HOST, b"")),
        "WatchView",
    );
    check(
        &answer(&request("POST /v1/watches/1/resume", HOST, b"")),
        "WatchView",
    );
    check(&answer(&get("/v1/watches/1")), "WatchView");
    assert_eq!(
        daemon.status(&request("DELETE /v1/watches/1", HOST, b"")),
        204
    );
    check(&answer(&get("/v1/limits")), "LimitsView");
    let limits = answer(&put("/v1/limits", br#"{"limit":"1000000"}"#));
    check(&limits, "LimitsView");
    assert_eq!(limits["allowed_bps"], 1_000_000, "{limits}");
    let hosts = answer(&put(
        "/v1/hosts/Site",
        br#"{"limit":"100000","max_running":3}"#,
    ));
    check(&hosts, "Hosts");
    check(&hosts["hosts"][0], "HostView");
    assert_eq!(hosts["hosts"][0]["name"], "site", "{hosts}");
    check(&hosts["hosts"][0]["set"], "HostSpec");
    check(&hosts["hosts"][0]["facts"], "HostFacts");
    let limit = request(
        "POST /v1/jobs/1/limit",
        &format!("{HOST}Content-Type: application/json\r\n"),
        br#"{"limit":"70000"}"#,
    );
    let limited = answer(&limit);
    check(&limited, "JobView");
    assert_eq!(limited["limit"], "70000", "{limited}");
    let missing = answer(&get("/v1/jobs/2"));
    check(&missing, "Problem");
    check(&missing["error"], "Words");
    let release = request("POST /v1/jobs/1/release", HOST, b"");
    check(&answer(&release), "JobView");
    // It fails, as there is no program.
    let over = answer(&get("/v1/jobs/1?wait_seconds=60"));
    check(&over["attempts"][0], "AttemptView");
    assert_eq!(over["state"], "failed", "{over}");
    let events = daemon.say(&get("/v1/jobs/1/events"));
    assert!(
        events.contains("text/event-stream") && events.contains("event: state"),
        "{events}"
    );
    let about = answer(&get("/v1/about"));
    check(&about, "About");
    assert_eq!(about["role"], "admin", "{about}");
    let files = answer(&get("/v1/files?path=/"));
    check(&files, "Directory");
    check(&files["names"][0], "Entry");
    check(&answer(&get("/v1/jobs/1/output")), "Output");
    let made = answer(&request("POST /v1/tickets", HOST, b""));
    check(&made, "Ticket");
    let used = format!(r#"{{"ticket":{}}}"#, made["ticket"]);
    let token = answer(&ticket(used.as_bytes()));
    check(&token, "Token");
    assert_eq!(token["token"], daemon.token("admin").as_str());
    // It is good once.
    assert_eq!(daemon.status(&ticket(used.as_bytes())), 401);
    // Each path is there. A stream of all jobs would have no end.
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            if path == "/v1/events" {
                continue;
            }
            let line = format!(
                "{} {}",
                method.to_uppercase(),
                path.replace("{id}", "99").replace("{name}", "x")
            );
            let status = daemon.status(&request(&line, HOST, b""));
            // There is no program here that could look, and nothing is said of where.
            let also = match path.as_str() {
                "/v1/doctor" => 503,
                "/v1/remote" => 400,
                _ => 200,
            };
            let fits = [200, 201, 404, 415, also].contains(&status);
            assert!(fits, "{line}: {status}");
        }
    }
}

/// Reads on until all of it was said; what was said.
fn read_until(stream: &mut impl Read, parts: &[&str]) -> String {
    let mut text = String::new();
    let mut part = [0; 4096];
    while !parts.iter().all(|part| text.contains(part)) {
        let n = match stream.read(&mut part) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read.unwrap(),
        };
        assert!(n > 0, "{parts:?} never came: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..n]));
    }
    text
}

#[test]
fn all_jobs_are_followed_at_once_by_so_many_and_no_more() {
    const STREAMS: usize = 200;
    let daemon = Daemon::new();
    let follow = format!("GET /v1/events HTTP/1.1\r\n{HOST}\r\n");
    let mut streams: Vec<_> = (0..STREAMS).map(|_| daemon.connect()).collect();
    for stream in &mut streams {
        stream.write_all(follow.as_bytes()).unwrap();
        read_until(stream, &["event: hello", "\"version\""]);
    }
    // Others have connections, but no stream of either kind.
    assert_eq!(daemon.status(&get("/v1/events")), 503);
    assert_eq!(daemon.status(&job("")), 201);
    assert_eq!(daemon.status(&get("/v1/jobs/1/events")), 503);
    let figures = daemon.say(&get("/metrics"));
    assert!(
        figures.contains("howdah_daemon_event_streams 200"),
        "{figures}"
    );
    assert!(
        figures.contains("howdah_daemon_jobs{state=\"held\"} 1"),
        "{figures}"
    );
    for stream in &mut streams {
        read_until(stream, &["event: job", "\"state\":\"held\""]);
    }
    assert_eq!(
        daemon.status(&put("/v1/limits", br#"{"limit":"100000"}"#)),
        200
    );
    // It fails, as there is no program.
    assert_eq!(
        daemon.status(&request("POST /v1/jobs/1/release", HOST, b"")),
        200
    );
    for stream in &mut streams {
        let parts = [
            "event: limits",
            "event: ended",
            "\"state\":\"failed\"",
            "cannot_start",
        ];
        read_until(stream, &parts);
    }
    drop(streams);
    // Until the daemon has seen that they are gone.
    loop {
        let mut again = daemon.connect();
        again.write_all(follow.as_bytes()).unwrap();
        if read_until(&mut again, &["\r\n\r\n"]).contains(" 200 ") {
            break;
        }
    }
    let figures = daemon.say(&get("/metrics"));
    assert!(
        figures.contains("howdah_daemon_job_attempts_total{result=\"cannot_start\"} 1"),
        "{figures}"
    );
}

#[test]
fn the_page_comes_with_a_policy_and_nothing_of_others() {
    let daemon = Daemon::new();
    for path in ["/", "/console.js", "/style.css"] {
        let answer = daemon.say(&get(path)).to_ascii_lowercase();
        for line in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.contains(line), "{path}: {line}: {}", &answer[..600]);
        }
        assert!(!answer.contains("set-cookie") && !answer.contains("unsafe-inline"));
    }
}

#[test]
fn who_says_nothing_holds_nobody_up_and_is_let_go() {
    let daemon = Daemon::new();
    let mut silent: Vec<_> = (0..100).map(|_| daemon.connect()).collect();
    for stream in silent.iter_mut().skip(50) {
        stream
            .write_all(b"GET /v1/jobs HTTP/1.1\r\nHost: loc")
            .unwrap();
    }
    // The head is whole, and the description never comes to its end.
    let whole = job("");
    let slow: Vec<_> = (0..20)
        .map(|_| {
            let mut stream = daemon.connect();
            stream.write_all(&whole[..whole.len() - 1]).unwrap();
            stream
        })
        .collect();
    assert_eq!(daemon.status(&get("/v1/jobs")), 200);
    for stream in slow {
        let answer = said(stream, b"");
        assert!(answer.is_empty() || code(&answer) == 408, "{answer}");
    }
    let jobs = daemon.say(&get("/v1/jobs"));
    assert!(jobs.contains(r#""jobs":[]"#), "{jobs}");
    for mut stream in silent {
        // Until it is closed, with or without a word.
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(!String::from_utf8_lossy(&answer).contains(" 200 "));
    }
    assert_eq!(daemon.status(&get("/v1/jobs")), 200);
}

#[test]
fn a_directory_has_one_daemon_and_nobody_else_in_it() {
    let daemon = Daemon::new();
    let config = |directory: &Path| Config {
        directory: directory.to_owned(),
        ..config(directory)
    };
    let error = serve(config(&daemon.dir.path().join("state")), |_, _| {}).unwrap_err();
    assert!(matches!(error, howdah_daemon::Error::Taken(_)), "{error}");
    // The one that is there goes on.
    assert_eq!(daemon.status(&get("/v1/jobs")), 200);
    let file = daemon.dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = serve(config(&file), |_, _| {}).unwrap_err();
    assert!(
        matches!(error, howdah_daemon::Error::Directory { .. }),
        "{error}"
    );
}
