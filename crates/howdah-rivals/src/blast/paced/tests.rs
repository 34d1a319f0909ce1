//! The rules by themselves.

use super::rule::GtpController;
use super::*;
use crate::blast::budget::SharedBudget;

const MBIT: fn(u64) -> Rate = Rate::from_mbit_per_sec;

#[test]
fn pa_udp_fills_its_memory_exactly() {
    let (receive, disk) = (MBIT(1000), MBIT(400));
    // Twice as much as memory holds: half of it must go to the disk meanwhile.
    assert_eq!(pa_udp_rate(receive, Some(disk), 2000, 1000), MBIT(800));
    // What fits comes as fast as it can; so does everything where the disk is fast enough.
    assert_eq!(pa_udp_rate(receive, Some(disk), 1000, 1000), receive);
    assert_eq!(
        pa_udp_rate(receive, Some(MBIT(1200)), 1 << 40, 1000),
        receive
    );
    assert_eq!(pa_udp_rate(receive, None, u64::MAX, 0), receive);
    // The limits: an object without end has the disk's rate, and so has one without memory.
    assert_eq!(pa_udp_rate(receive, Some(disk), 1 << 60, 1000), disk);
    assert_eq!(pa_udp_rate(receive, Some(disk), 5000, 0), disk);
    // In general r (1 - disk / r) x time = free.
    for free in [100_u64, 900, 4000] {
        let left = 10_000_u64;
        let rate = pa_udp_rate(MBIT(100_000), Some(disk), left, free);
        let kept = left as f64 * (1.0 - disk.as_f64() / rate.as_f64());
        assert!((kept - free as f64).abs() < 1e-3, "{free}: {kept}");
    }
}

#[test]
fn gtp_follows_losses_and_its_share() {
    let most = MBIT(800);
    let mut gtp = GtpController::new(most);
    assert_eq!(gtp.update(0, 1000, most, None), most);
    let lowered = gtp.update(100, 1000, most, None);
    assert_eq!(lowered, most.mul_f64(0.95), "half of a tenth");
    assert_eq!(
        gtp.update(1, 1000, most, None),
        lowered.mul_f64(1.02),
        "noise"
    );
    for _ in 0..1000 {
        gtp.update(900, 1000, most, None);
    }
    assert_eq!(gtp.update(900, 1000, most, None), MBIT(8), "never nothing");
    // Two flows: the one that loses leaves its part to the other.
    let budget = SharedBudget::new(most);
    let (a, b) = (budget.join(most), budget.join(most));
    let mut lossy = GtpController::new(most);
    for _ in 0..40 {
        lossy.update(300, 1000, most, Some(&a));
    }
    assert_eq!(a.share(), MBIT(8));
    assert_eq!(
        GtpController::new(most).update(0, 1, most, Some(&b)),
        MBIT(792)
    );
    assert_eq!(budget.capacity(), most);
}
