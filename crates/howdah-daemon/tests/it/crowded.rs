//! Connections are few: who has a token, and takes as many as he can, leaves some for others.
#![cfg(target_os = "linux")]

use crate::support::{Daemon, get, job};
use std::io::Write as _;
use std::net::TcpStream;

#[test]
fn who_waits_for_jobs_by_the_hundred_leaves_places_for_others() {
    let daemon = Daemon::new();
    assert_eq!(daemon.status(&job("")), 201);
    let [read, admin] = ["read", "admin"].map(|role| daemon.token(role));
    let wait = daemon.over_tcp(&get("/v1/jobs/1?wait_seconds=3600"), &read);
    // As many as are served at a time over TCP.
    let waiting: Vec<_> = (0..256)
        .map(|_| {
            let mut stream = TcpStream::connect(daemon.address).unwrap();
            stream.write_all(&wait).unwrap();
            stream
        })
        .collect();
    let asked = daemon.over_tcp(&get("/v1/about"), &admin);
    assert_eq!(daemon.status_over_tcp(&asked), 200);
    drop(waiting);
}
