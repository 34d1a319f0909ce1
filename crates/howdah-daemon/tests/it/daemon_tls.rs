//! A daemon that others reach: TLS, who is whom, and those who only keep it busy.
#![cfg(target_os = "linux")]

use crate::support::{Daemon, PATIENCE, code, get, job, request, said};
use howdah_daemon::client::{Client, ClientError, Trust, Which};
use howdah_daemon::tls::{Fingerprint, Tls};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// From another address of this machine, as if it were another machine.
fn from(address: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let ours = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&ours, &SocketAddr::from((address, 0))).unwrap();
    connect(&ours, &to).unwrap();
    let stream = TcpStream::from(ours);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn asked(daemon: &Daemon, url: &str, trust: &Trust) -> Result<usize, ClientError> {
    let client = Client::remote(url, &daemon.token("submit"), trust)?;
    Ok(client.list(&Which::default(), 10)?.jobs.len())
}

#[test]
fn a_client_knows_the_daemon_or_says_nothing_to_it() {
    let [daemon, other] = [(); 2].map(|()| Daemon::with(Some(Tls::Own)));
    let port = daemon.address.port();
    let url = format!("https://localhost:{port}");
    assert_eq!(daemon.status(&job("")), 201);
    let pinned = Trust::Fingerprint(daemon.fingerprint.unwrap());
    for trust in [&pinned, &Trust::Authorities(daemon.certificate())] {
        for url in [url.as_str(), &format!("https://127.0.0.1:{port}/")] {
            assert_eq!(asked(&daemon, url, trust).unwrap(), 1, "{url} {trust:?}");
        }
    }
    // It is shown nothing that it does not know, and says what it was.
    let seen = daemon.fingerprint.unwrap().to_string();
    let wrong: Fingerprint = "0".repeat(64).parse().unwrap();
    for trust in [Trust::Fingerprint(wrong), Trust::Nothing] {
        match asked(&daemon, &url, &trust) {
            Err(ClientError::Untrusted(text)) => assert!(text.contains(&seen), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let theirs = asked(&daemon, &url, &Trust::Authorities(other.certificate()));
    assert!(
        matches!(theirs, Err(ClientError::Untrusted(_))),
        "{theirs:?}"
    );
    // Who can vouch for a name vouches for no other one: 127.0.0.3 is not in the certificate.
    let url = format!("https://127.0.0.3:{port}");
    let elsewhere = asked(&daemon, &url, &Trust::Authorities(daemon.certificate()));
    assert!(
        matches!(elsewhere, Err(ClientError::Untrusted(_))),
        "{elsewhere:?}"
    );
    // And a token of another daemon is none.
    let client = Client::remote(
        &format!("https://localhost:{port}"),
        &other.token("admin"),
        &pinned,
    );
    match client.unwrap().list(&Which::default(), 1) {
        Err(ClientError::Refused { kind, .. }) => assert_eq!(kind, "auth"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_tls_nothing_is_taken_where_tls_is_spoken() {
    let daemon = Daemon::with(Some(Tls::Own));
    let bytes = daemon.over_tcp(&job(""), &daemon.token("admin"));
    let answer = said(from(Ipv4Addr::LOCALHOST, daemon.address), &bytes);
    assert_eq!(code(&answer), 400);
    assert!(answer.contains("https://"), "{answer}");
    let url = format!("http://127.0.0.1:{}", daemon.address.port());
    match asked(&daemon, &url, &Trust::Nothing) {
        Err(ClientError::Refused { message, .. }) => assert!(message.contains("TLS"), "{message}"),
        other => panic!("{other:?}"),
    }
    let fingerprint = Trust::Fingerprint(daemon.fingerprint.unwrap());
    let url = url.replace("http:", "https:");
    assert_eq!(
        asked(&daemon, &url, &fingerprint).unwrap(),
        0,
        "nothing came of it"
    );
    // And where none is spoken, a client that wants it does not go on without.
    let plain = Daemon::new();
    let url = format!("https://127.0.0.1:{}", plain.address.port());
    let error = asked(&plain, &url, &fingerprint).unwrap_err();
    assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
}

#[test]
fn names_and_pages_of_others_are_refused_over_tls_too() {
    let daemon = Daemon::with(Some(Tls::Own));
    let port = daemon.address.port();
    let token = format!("Authorization: Bearer {}\r\n", daemon.token("read"));
    let table = [
        (format!("localhost:{port}"), "", 200),
        (format!("127.0.0.1:{port}"), "", 200),
        (format!("[::1]:{port}"), "", 200),
        (format!("evil.example:{port}"), "", 403),
        (format!("localhost.evil.example:{port}"), "", 403),
        (format!("127.0.0.9:{port}"), "", 403),
        (format!("192.0.2.1:{port}"), "", 403),
        ("localhost".to_owned(), "", 403),
        ("localhost:1".to_owned(), "", 403),
        (format!("localhost:{port}"), "https://evil.example", 403),
        (format!("localhost:{port}"), "http://localhost:PORT", 403),
        (format!("localhost:{port}"), "https://localhost:PORT", 200),
        (format!("localhost:{port}"), "null", 403),
    ];
    for (host, origin, wanted) in table {
        let origin = match origin.replace("PORT", &port.to_string()) {
            origin if origin.is_empty() => origin,
            origin => format!("Origin: {origin}\r\n"),
        };
        let headers = format!("Host: {host}\r\n{origin}{token}");
        let status = daemon.status_over_tcp(&request("GET /v1/jobs", &headers, b""));
        assert_eq!(status, wanted, "{host} {origin}");
    }
    let bare = request("GET /v1/jobs", &format!("Host: localhost:{port}\r\n"), b"");
    assert_eq!(daemon.status_over_tcp(&bare), 401);
}

#[test]
fn slow_handshakes_hold_up_nobody_else_and_are_let_go() {
    const OF_ONE: usize = 8;
    let daemon = Daemon::with(Some(Tls::Own));
    let ask = |address| {
        let bytes = daemon.over_tcp(&get("/v1/jobs"), &daemon.token("read"));
        code(&said(daemon.secure(from(address, daemon.address)), &bytes))
    };
    let slow = Ipv4Addr::new(127, 0, 0, 9);
    // One says nothing, the next one the beginning of something.
    let mut silent: Vec<_> = (0..OF_ONE)
        .map(|n| {
            let mut stream = from(slow, daemon.address);
            if n % 2 == 1 {
                std::io::Write::write_all(&mut stream, b"\x16\x03\x01").unwrap();
            }
            stream
        })
        .collect();
    // One more of the same network is closed at once; others are served.
    let mut more = from(slow, daemon.address);
    let read = more.read(&mut [0]);
    assert!(matches!(&read, Ok(0)) || read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    assert_eq!(ask(Ipv4Addr::LOCALHOST), 200);
    // The daemon's own timer ends them, and their network is served again.
    for stream in &mut silent {
        let read = stream.read(&mut [0]);
        assert!(
            matches!(read, Ok(0)) || read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
        );
    }
    drop(silent);
    assert_eq!(ask(slow), 200);
}
