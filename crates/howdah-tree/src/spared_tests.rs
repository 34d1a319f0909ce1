//! What `--delete` spares although the source does not have it.

use super::sync_tests::{Pair, deleting};

/// All that movers had brought of a plan went with it.
#[test]
fn where_the_hosts_of_a_plan_meet_nothing_goes() {
    const ROOM: &str = ".big.0123456789abcdef.howdah-plan";
    let (part, below) = (format!("{ROOM}/part"), format!("gone/{ROOM}/plan"));
    let pair = Pair::new(&["a"], &["old", "gone/y", &part, &below]);
    let moved = pair.sync(&deleting()).unwrap();
    assert_eq!(moved.receiver.deleted, 2, "{:?}", moved.receiver);
    let left = [ROOM, &part, "a", "gone", &format!("gone/{ROOM}"), &below];
    assert_eq!(pair.names(), left);
    let told = moved.receiver.notices.join("; ");
    assert!(told.contains("hosts of a plan"), "{told}");
}
