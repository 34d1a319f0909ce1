//! Receipts of whoever may sign them.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use crate::keys::Identity;
use crate::statement::{Direction, End, Entry, Receipt, Statement, sums_of};
use serde::Deserialize;
use std::path::Component;
use std::sync::OnceLock;

#[derive(Deserialize)]
struct Unsigned {
    files: Vec<Entry>,
    statement: Statement,
}

/// Client and server, the same for a process.
fn signers() -> &'static [Identity; 2] {
    static SIGNERS: OnceLock<[Identity; 2]> = OnceLock::new();
    SIGNERS.get_or_init(|| [(); 2].map(|()| Identity::generate().expect("a key")))
}

fn signed(files: Vec<Entry>, mut statement: Statement) -> Receipt {
    let [client, server] = signers();
    let key = |of: &Identity| of.public_key().to_string();
    (statement.client.key, statement.server.key) = (key(client), key(server));
    let bytes = statement.to_be_signed();
    let sign = |of: &Identity| of.sign(&bytes).expect("signed");
    Receipt::new(files, statement, (&sign(client), &sign(server)))
}

/// A receipt as it comes, and one that says the same and was signed. What holds is written the same, has paths below its destination, each
/// once, and sums that are those of its files; one number changed afterwards, it holds no more.
pub fn receipt(bytes: &[u8]) {
    if let Ok(receipt) = Receipt::from_json(bytes) {
        assert_eq!(receipt.to_json(), bytes);
    }
    let Ok(Unsigned {
        files,
        mut statement,
    }) = serde_json::from_slice(bytes)
    else {
        return;
    };
    let as_told = signed(files.clone(), statement.clone());
    let (root, count, sum) = sums_of(&files);
    let is_right = (&root, count, sum) == (&statement.root, statement.files, statement.bytes);
    let held = Receipt::from_json(&as_told.to_json());
    assert!(held.is_err() || is_right, "it holds with another sum");
    (statement.root, statement.files, statement.bytes) = (root, count, sum);
    let right = signed(files, statement);
    let Ok(read) = Receipt::from_json(&right.to_json()) else {
        return;
    };
    assert_eq!(read, right);
    let mut last = Vec::new();
    for entry in &read.files {
        let path = entry.path().expect("each has one");
        let mut parts = path.as_path().components();
        assert!(parts.all(|part| matches!(part, Component::Normal(_))));
        assert!(last.is_empty() || last.as_slice() < path.as_bytes());
        last = path.as_bytes().to_vec();
    }
    let mut other = read;
    other.statement.files ^= 1;
    assert!(Receipt::from_json(&other.to_json()).is_err());
}

/// What a search begins with.
pub fn receipt_samples() -> Vec<Vec<u8>> {
    let files = [&b"a"[..], b"b\xff", b"dir/\"7\""].map(|path| {
        let at = (path == b"a").then(|| "elsewhere/x".into());
        Entry::new(&path.into(), at.as_ref(), path.len() as u64, [7; 32])
    });
    let statement = Statement {
        began_utc: "2026-11-26T20:00:00.000Z".to_owned(),
        bytes: 0,
        client: End::new("192.0.2.7:50112".to_owned(), String::new(), None),
        direction: Direction::ToServer,
        ended_utc: "2026-11-26T20:00:09.000Z".to_owned(),
        files: 0,
        root: String::new(),
        schema: 1,
        server: End::new("site:4433".to_owned(), String::new(), Some(&"store".into())),
        signed_utc: "2026-11-26T20:00:10.000Z".to_owned(),
        whole: false,
    };
    let all = [files.to_vec(), files[..1].to_vec(), Vec::new()];
    all.map(|files| signed(files, statement.clone()).to_json())
        .to_vec()
}
