//! A stream that may be datagrams.

#![expect(clippy::missing_panics_doc, reason = "to panic is what they are for")]

use super::frames::{LENGTH_BYTES, next, push};
use howdah_proto::MAX_DATAGRAM;

/// What is read of any stream is what the same datagrams are written as.
pub fn tunnel(bytes: &[u8]) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    let (mut stream, mut out) = (bytes, Vec::new());
    while let Ok(Some(datagram)) = next(&mut stream, &mut buffer) {
        assert!((1..=MAX_DATAGRAM).contains(&datagram.len()));
        push(&mut out, datagram);
    }
    assert!(bytes.starts_with(&out));
    assert!(out.is_empty() || out.len() > LENGTH_BYTES);
}
