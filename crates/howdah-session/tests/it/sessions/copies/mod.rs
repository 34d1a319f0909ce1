//! Copies of a tree, up or down, in virtual time: small files in packs and large ones as objects of their own, with modes, times,
//! attributes, links and further names, with deletion and as a move. Connections are lost, hosts die and forget what was not synced, calls
//! fail, disks are full, the source changes, parts of it cannot be read, and one end may be hostile and say anything.
//!
//! After each attempt every name at the destination is what it was before or what the source has had, in whole; nothing else has a name;
//! what is gone had to go; no source is gone of which the destination has nothing on the device; and once nothing happens any more the same
//! command makes both sides equal, also after a power cut.

mod fs;
mod make;
mod receiver;
mod sender;
mod world;
mod wrong;

use super::seeds;
use world::World;
use wrong::Wrong;

fn all(wrong: Wrong, from: u64, count: u64) -> Result<world::Tally, String> {
    let mut all = world::Tally::default();
    for seed in from..from + count {
        let run = std::panic::catch_unwind(|| World::new(seed, wrong).run());
        match run {
            Ok(Ok(tally)) => all.add(&tally),
            Ok(Err(what)) => return Err(format!("HOWDAH_SEED={seed}: {what}")),
            Err(panic) => {
                println!("HOWDAH_SEED={seed}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    Ok(all)
}

#[test]
fn a_tree_is_equal_in_the_end_and_on_the_way_nothing_is_half_there() {
    let (from, count) = seeds();
    match all(Wrong::Nothing, from, count) {
        Ok(tally) => println!("{count} copies of trees: {tally:?}"),
        Err(what) => panic!("{what}"),
    }
}

/// The model is one in which these would matter.
#[test]
fn what_is_done_wrong_with_a_tree_is_found() {
    for wrong in Wrong::ALL {
        let found = all(wrong, 0, 5_000);
        assert!(found.is_err(), "{wrong:?} goes unseen");
    }
}
