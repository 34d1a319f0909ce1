//! Copies that were interrupted are gone on with, or begun anew with a reason.

use crate::common::copying::{Copy, MIB, group_value, holds, until};
use crate::common::{batch, hash, names_in, random_bytes};
use howdah_core::RangeSet;
use howdah_store::{GROUP, Sink, SinkOptions, SinkSpec, StoreError};
use std::fs;
use std::path::{Path, PathBuf};

fn flip(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[!byte[0]], at).unwrap();
}

fn path_of(copy: &Copy, suffix: &str) -> PathBuf {
    let names = names_in(&copy.there());
    let name = names.iter().find(|name| name.ends_with(suffix)).unwrap();
    copy.there().join(name)
}

const PART: &str = ".howdah-part";
const JOURNAL: &str = ".howdah-journal";

#[test]
fn a_copy_goes_on_with_what_was_claimed() {
    let copy = Copy::new(9 * MIB + 5);
    copy.interrupted([0, 1, 2, 5, 7]);
    assert_eq!(names_in(&copy.there()).len(), 2, "part and journal");
    // Once more, with others.
    copy.interrupted([4, 8]);
    let sink = copy.sink();
    let held: Vec<_> = sink
        .held()
        .iter()
        .map(|range| (range.start / GROUP, range.end / GROUP))
        .collect();
    assert_eq!(held, [(0, 3), (4, 6), (7, 9)]);
    copy.finish(sink).unwrap();
}

#[test]
fn a_copy_whose_last_groups_are_all_that_is_missing_goes_on_too() {
    for (size, last) in [(5 * MIB, 4), (5 * MIB + 1, 5)] {
        let copy = Copy::new(size);
        copy.interrupted(0..4);
        let sink = copy.sink();
        assert!(!holds(&sink.held(), last));
        copy.finish(sink).unwrap();
    }
}

/// It got its mode, and then something failed or the process died before it got its name.
#[test]
fn a_copy_that_ended_between_mode_and_name_goes_on_or_is_cleaned_up() {
    use std::os::unix::fs::PermissionsExt as _;
    for goes_on in [true, false] {
        let copy = Copy::new(6 * MIB);
        copy.interrupted(0..6);
        let mode = fs::Permissions::from_mode(0o644);
        fs::set_permissions(path_of(&copy, PART), mode).unwrap();
        if goes_on {
            let sink = copy.sink();
            assert_eq!(sink.held().byte_count(), 6 * GROUP);
            copy.finish(sink).unwrap();
        } else {
            let path = copy.path();
            let spec = SinkSpec::LocalFile(&path);
            let mut sink = Sink::create(spec, true, None, copy.engine.wake()).unwrap();
            sink.finish(0, None);
            copy.engine.outcome(&mut sink).unwrap();
            assert_eq!(names_in(&copy.there()), ["file"]);
        }
    }
}

/// All is there, and the process died before the file got its name.
#[test]
fn a_complete_copy_without_its_name_only_gets_it() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..6);
    let sink = copy.sink();
    assert_eq!(sink.held().byte_count(), 6 * GROUP);
    copy.finish(sink).unwrap();
}

#[test]
fn f30_a_source_that_changed_begins_anew() {
    let mut copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let before = copy.target().held().cloned().unwrap();
    assert_eq!(before.source, copy.identity());
    // Rewritten in place, its size and its modification time as they were.
    let modified = fs::metadata(copy.source_path())
        .unwrap()
        .modified()
        .unwrap();
    flip(&copy.source_path(), 0);
    copy.data[0] = !copy.data[0];
    let file = fs::File::options()
        .write(true)
        .open(copy.source_path())
        .unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    let says = before.source.difference(&copy.identity()).unwrap();
    assert!(says.contains("written to"), "{says}");
    let sink = copy.sink();
    assert!(sink.held().is_empty());
    assert_eq!(names_in(&copy.there()).len(), 1, "the old one is gone");
    copy.finish(sink).unwrap();
}

#[test]
fn f12_what_does_not_fit_together_is_not_used() {
    type Damage = fn(&Copy);
    let damages: [(&str, Damage); 7] = [
        ("no journal", |copy| {
            fs::remove_file(path_of(copy, JOURNAL)).unwrap();
        }),
        ("empty journal", |copy| {
            fs::write(path_of(copy, JOURNAL), "").unwrap();
        }),
        ("a part shorter than it is claimed to be", |copy| {
            let part = fs::File::options().write(true).open(path_of(copy, PART));
            part.unwrap().set_len(3 * GROUP).unwrap();
        }),
        ("another part under the same name", |copy| {
            let (part, other) = (path_of(copy, PART), copy.there().join("other"));
            fs::copy(&part, &other).unwrap();
            fs::rename(&other, &part).unwrap();
        }),
        ("a journal that others can write to", |copy| {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::Permissions::from_mode(0o666);
            fs::set_permissions(path_of(copy, JOURNAL), mode).unwrap();
        }),
        ("a journal that is a link", |copy| {
            let (journal, real) = (path_of(copy, JOURNAL), copy.there().join("real"));
            fs::rename(&journal, &real).unwrap();
            std::os::unix::fs::symlink("real", &journal).unwrap();
        }),
        ("a header of another version", |copy| {
            flip(&path_of(copy, JOURNAL), 4);
        }),
    ];
    for (what, damage) in damages {
        let copy = Copy::new(6 * MIB);
        copy.interrupted(0..4);
        damage(&copy);
        let sink = copy.sink();
        assert!(sink.held().is_empty(), "{what}");
        let _ = fs::remove_file(copy.there().join("real"));
        copy.finish(sink).unwrap();
    }
}

#[test]
fn f38_a_wrong_value_of_the_sender_is_found_and_nothing_is_published() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..3);
    let mut sink = copy.sink();
    sink.tell_values(3, &[[7; 32]]).unwrap();
    // Last comes what ends it: a sink that has failed takes nothing more.
    copy.write(&mut sink, 4..6);
    for at in (0..MIB).step_by(65_536) {
        copy.engine
            .submit(&mut sink, batch(&copy.data, &[(3 * MIB + at, 65_536)]));
    }
    sink.finish(6 * GROUP, None);
    let result = copy.engine.outcome(&mut sink);
    assert!(
        matches!(result, Err(StoreError::HashMismatch { .. })),
        "{result:?}"
    );
    assert!(!copy.path().exists());
    copy.drop(sink);
    // What was verified stays good.
    let sink = copy.sink();
    assert!(holds(&sink.held(), 0) && !holds(&sink.held(), 3));
    copy.finish(sink).unwrap();
}

#[test]
fn groups_that_nobody_told_are_not_believed() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..3);
    let mut sink = copy.sink();
    copy.write(&mut sink, 3..5);
    for at in (0..MIB).step_by(65_536) {
        copy.engine
            .submit(&mut sink, batch(&copy.data, &[(5 * MIB + at, 65_536)]));
    }
    sink.finish(6 * GROUP, None);
    let result = copy.engine.outcome(&mut sink);
    assert!(
        matches!(result, Err(StoreError::HashMismatch { .. })),
        "{result:?}"
    );
}

#[test]
fn two_copies_to_the_same_place_at_once_do_not_share_a_file() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let first = copy.sink();
    assert_eq!(first.held().byte_count(), 4 * GROUP);
    let target = copy.target();
    assert!(target.is_being_written_from(&copy.identity()));
    assert!(target.held().is_none());
    let second = Sink::resume(target, &copy.options(), copy.engine.wake()).unwrap();
    assert!(second.held().is_empty() && !second.wants_values());
    drop(second);
    copy.finish(first).unwrap();
}

/// A copy of a newer version may begin while the older one's is still ending: what that one keeps is of no
/// use to anybody once the newer one is in place.
#[test]
fn what_a_copy_that_was_ending_left_goes_when_the_next_is_in_place() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let ending = copy.sink();
    let its = names_in(&copy.there());
    let second = Sink::resume(copy.target(), &copy.options(), copy.engine.wake()).unwrap();
    assert!(second.held().is_empty());
    drop(ending);
    // Its threads hold the locks for a moment longer.
    let is_free = |name: &String| {
        fs::File::open(copy.there().join(name))?
            .try_lock()
            .map_err(std::io::Error::from)
    };
    until("the first is let go of", || {
        its.iter().all(|name| is_free(name).is_ok())
    });
    // Looks whether anything else is left.
    copy.finish(second).unwrap();
}

/// The same where the older one notices later that its peer is gone.
#[test]
fn n6_what_a_copy_keeps_is_gone_when_it_ends_after_the_next_is_in_place() {
    let mut copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let older = copy.sink();
    assert_eq!(older.held().byte_count(), 4 * GROUP);
    copy.data = random_bytes(6 * MIB);
    fs::write(copy.source_path(), &copy.data).unwrap();
    let mut newer = copy.sink();
    assert!(newer.held().is_empty());
    copy.write(&mut newer, 0..6);
    newer.finish(6 * GROUP, Some(hash(&copy.data)));
    copy.engine.outcome(&mut newer).unwrap();
    assert_eq!(
        names_in(&copy.there()).len(),
        2,
        "the older one has its part"
    );
    drop(older);
    until("nothing is left", || names_in(&copy.there()) == ["file"]);
    assert!(fs::read(copy.path()).unwrap() == copy.data);
}

#[test]
fn a_copy_of_something_else_to_the_same_place_cleans_up() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let path = copy.path();
    let spec = SinkSpec::LocalFile(&path);
    let mut sink = Sink::create(spec, true, None, copy.engine.wake()).unwrap();
    copy.engine.submit(&mut sink, batch(&copy.data, &[(0, 10)]));
    sink.finish(10, None);
    copy.engine.outcome(&mut sink).unwrap();
    assert_eq!(names_in(&copy.there()), ["file"]);
}

#[test]
fn to_begin_anew_can_be_asked_for() {
    let copy = Copy::new(6 * MIB);
    copy.interrupted(0..4);
    let target = copy.target().anew();
    assert!(target.held().is_none());
    let sink = Sink::resume(target, &copy.options(), copy.engine.wake()).unwrap();
    assert!(sink.held().is_empty());
    copy.finish(sink).unwrap();
}

#[test]
fn a_source_reads_and_hashes_only_what_is_missing() {
    let copy = Copy::new(9 * MIB + 5);
    // A source reads from the moment it is opened: on a busy machine it may be past that already.
    let mut source = loop {
        let source = copy.source();
        source.hold_at(2 * GROUP);
        until("it has read its head", || source.ready_end() >= 2 * GROUP);
        if source.ready_end() == 2 * GROUP {
            break source;
        }
    };
    let mut held = RangeSet::new();
    held.insert(howdah_core::ByteRange::new(0, 5 * GROUP));
    held.insert(howdah_core::ByteRange::new(6 * GROUP, 8 * GROUP));
    source.go_on_without(held);
    let finished = copy.engine.finished(&mut source).unwrap();
    assert_eq!(finished.hash, None, "it has not seen the whole");
    assert_eq!(source.ready_end(), copy.data.len() as u64);
    let values = source.take_values(100);
    let told: Vec<_> = values.iter().map(|(index, _)| *index).collect();
    assert_eq!(told, [0, 1, 5, 8, 9]);
    for (index, value) in values {
        let start = index as usize * MIB;
        let bytes = &copy.data[start..copy.data.len().min(start + MIB)];
        assert_eq!(value, group_value(bytes, index as usize));
    }
}

#[test]
fn a_source_tells_root_and_values_of_any_size() {
    for size in [0, 1, MIB - 1, MIB, MIB + 1, 2 * MIB, 3 * MIB + 7] {
        let copy = Copy::new(size);
        let mut source = copy.source();
        let finished = copy.engine.finished(&mut source).unwrap();
        assert_eq!(finished.hash, Some(hash(&copy.data)), "{size}");
        assert_eq!(source.take_values(100).len(), size.div_ceil(MIB), "{size}");
    }
}

#[test]
fn f23_reread_finds_what_memory_hid_and_names_it() {
    let copy = Copy::new(6 * MIB);
    let options = SinkOptions {
        reread: true,
        ..copy.options()
    };
    let mut sink = Sink::resume(copy.target(), &options, copy.engine.wake()).unwrap();
    copy.write(&mut sink, 0..6);
    // Hashed and right, and changed behind its back before the end.
    until("all is claimed", || sink.kept_bytes() == 6 * GROUP);
    flip(&path_of(&copy, PART), 5 * GROUP);
    sink.finish(6 * GROUP, Some(hash(&copy.data)));
    let result = copy.engine.outcome(&mut sink);
    assert!(
        matches!(result, Err(StoreError::HashMismatch { .. })),
        "{result:?}"
    );
    copy.drop(sink);
    assert!(
        names_in(&copy.there()).is_empty(),
        "nothing of it is believed"
    );
    // And without damage it says that it has looked.
    let mut sink = Sink::resume(copy.target(), &options, copy.engine.wake()).unwrap();
    copy.write(&mut sink, 0..6);
    sink.finish(6 * GROUP, Some(hash(&copy.data)));
    let outcome = copy.engine.outcome(&mut sink).unwrap();
    assert!(outcome.reread);
}
