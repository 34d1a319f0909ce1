//! RBUDP's timing.

use super::*;

#[test]
fn the_gap_is_cut_to_whole_microseconds() {
    let gap = |mbit, payload_bytes| {
        let settings = RbudpSettings {
            payload_bytes,
            ..RbudpSettings::stream(Rate::from_mbit_per_sec(mbit), None)
        };
        settings.gap().as_micros()
    };
    // 8800 bytes: 10 and 9 Gbit/s both make 7 us, 10.06 Gbit/s.
    assert_eq!(gap(10_000, 8800), 7);
    assert_eq!(gap(9_000, 8800), 7);
    assert_eq!(gap(650, 1460), 17);
    assert_eq!(gap(0, 1460), 11_680_000, "a kbit/s at least");
}

#[test]
fn an_object_is_cut_into_packets() {
    assert_eq!(packets(1, 1460), (1, 1));
    assert_eq!(packets(1460, 1460), (1, 1460));
    assert_eq!(packets(1461, 1460), (2, 1));
    assert_eq!(packets(64 << 20, 8800), (7627, 64), "64 MiB");
}
