//! The body of an opened packet: what decodes is written the same.
#![no_main]

use howdah_proto::codec::{Frame, FrameWriter, frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let mut iter = frames(body);
    let mut seen = Vec::new();
    while let Some(frame) = iter.next() {
        let Ok(frame) = frame else {
            assert!(iter.next().is_none(), "frames behind an error");
            return;
        };
        seen.push(frame);
    }
    let mut out = Vec::new();
    for frame in &seen {
        FrameWriter::new(&mut out).frame(frame);
        if let Frame::Data { object, .. } = *frame {
            assert!(FrameWriter::data_header_len(object) <= FrameWriter::MAX_DATA_HEADER);
        }
    }
    let read: Vec<_> = frames(&out)
        .map(|frame| frame.expect("we wrote it"))
        .collect();
    assert_eq!(read, seen);
    assert!(
        out.len() <= body.len(),
        "there is a shorter way to write it"
    );
});
