//! Which of several copies of one source to one place may go on with what is there, whatever order they begin, die and end in:
//! the one that holds the lock of the unfinished file (the lease), one at a time; whoever comes next goes on where it was.

use crate::common;
use crate::common::copying::{Copy, MIB, holds, until};
use crate::common::names_in;
use howdah_store::{GROUP, Sink};
use proptest::prelude::*;
use std::fs;

const GROUPS: usize = 4;
const COPIES: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Begin(usize),
    /// Brings one group more.
    Write(usize),
    /// The connection of that one is gone.
    Die(usize),
    End(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let which = 0..COPIES;
    prop_oneof![
        3 => which.clone().prop_map(Op::Begin),
        4 => which.clone().prop_map(Op::Write),
        2 => which.clone().prop_map(Op::Die),
        1 => which.prop_map(Op::End),
    ]
}

struct Running {
    sink: Sink,
    has_lease: bool,
    /// Another one has ended meanwhile: what this one has is of no use, and may go with it.
    is_late: bool,
    /// Groups that it has brought or found.
    groups: Vec<bool>,
}

struct World {
    copy: Copy,
    running: [Option<Running>; COPIES],
    /// What the last one that had the lease has left; none: nobody need keep it.
    left: Option<Vec<bool>>,
    published: bool,
}

impl World {
    fn leased(&self) -> bool {
        self.running.iter().flatten().any(|one| one.has_lease)
    }

    fn begin(&mut self, which: usize) {
        if self.running[which].is_some() {
            return;
        }
        // (The writer of a second copy that tidies up holds it for a moment, too.)
        self.settle();
        let target = self.copy.target();
        let options = self.copy.options();
        let sink = Sink::resume(target, &options, self.copy.engine.wake()).unwrap();
        let has_lease = !self.leased();
        let held = sink.held();
        let groups: Vec<bool> = (0..GROUPS).map(|group| holds(&held, group)).collect();
        if has_lease {
            if let Some(left) = &self.left {
                assert_eq!(&groups, left, "it goes on where the other one was");
            }
            self.left = Some(vec![false; GROUPS]);
        } else {
            assert!(held.is_empty(), "two with one file");
        }
        self.running[which] = Some(Running {
            sink,
            has_lease,
            is_late: false,
            groups,
        });
    }

    fn write(&mut self, which: usize) {
        let Some(one) = &mut self.running[which] else {
            return;
        };
        let Some(next) = one.groups.iter().position(|is_there| !is_there) else {
            return;
        };
        self.copy.write(&mut one.sink, [next]);
        one.groups[next] = true;
        if one.has_lease {
            let kept = one.groups.iter().filter(|is_there| **is_there).count() as u64 * GROUP;
            until("it is claimed", || one.sink.kept_bytes() == kept);
        } else {
            assert_eq!(one.sink.kept_bytes(), 0, "nobody would find it");
        }
    }

    fn die(&mut self, which: usize) {
        let Some(one) = self.running[which].take() else {
            return;
        };
        if one.has_lease {
            self.left = (!one.is_late).then_some(one.groups);
        }
        drop(one.sink);
        self.settle();
    }

    /// Threads of a sink let go of its files a moment later.
    fn settle(&self) {
        let leased = self.leased();
        until("the file is let go of", || {
            self.copy.target().is_being_written() == leased
        });
    }

    fn end(&mut self, which: usize) {
        let Some(mut one) = self.running[which].take() else {
            return;
        };
        let missing = (0..GROUPS).filter(|group| !one.groups[*group]);
        self.copy.write(&mut one.sink, missing);
        let size = self.copy.data.len() as u64;
        let whole = one.sink.held().is_empty();
        let hash = whole.then(|| common::hash(&self.copy.data));
        one.sink.finish(size, hash);
        self.copy.engine.outcome(&mut one.sink).unwrap();
        drop(one);
        self.published = true;
        for other in self.running.iter_mut().flatten() {
            other.is_late = true;
        }
        self.left = None;
        self.settle();
    }

    /// A name has all of the content or is not there.
    fn check(&self) {
        match fs::read(self.copy.path()) {
            Ok(there) => assert!(self.published && there == self.copy.data),
            Err(_) => assert!(!self.published),
        }
    }
}

/// The writer of a second copy tidies up when it begins, and that may be after the first one died.
#[test]
fn a_second_copy_leaves_what_the_first_one_left() {
    let copy = Copy::new(GROUPS * MIB);
    let mut first = copy.sink();
    copy.write(&mut first, [0]);
    until("it is claimed", || first.kept_bytes() == GROUP);
    let second = copy.target();
    assert!(second.is_being_written());
    copy.drop(first);
    let mut second = Sink::resume(second, &copy.options(), copy.engine.wake()).unwrap();
    copy.write(&mut second, [1]);
    until("it writes", || second.backlog().written_bytes == GROUP);
    drop(second);
    let third = copy.sink();
    assert!(
        holds(&third.held(), 0),
        "it goes on where the first one was"
    );
    copy.finish(third).unwrap();
}

/// And when it is published nothing of the first one stays.
#[test]
fn a_second_copy_that_ends_takes_what_the_first_one_left() {
    let copy = Copy::new(GROUPS * MIB);
    let mut first = copy.sink();
    copy.write(&mut first, [0]);
    until("it is claimed", || first.kept_bytes() == GROUP);
    let second = copy.target();
    copy.drop(first);
    let second = Sink::resume(second, &copy.options(), copy.engine.wake()).unwrap();
    copy.finish(second).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn one_at_a_time_goes_on(ops in prop::collection::vec(op(), 1..16)) {
        let mut world = World {
            copy: Copy::new(GROUPS * MIB),
            running: Default::default(),
            left: Some(vec![false; GROUPS]),
            published: false,
        };
        for op in ops {
            match op {
                Op::Begin(which) => world.begin(which),
                Op::Write(which) => world.write(which),
                Op::Die(which) => world.die(which),
                Op::End(which) => world.end(which),
            }
            world.check();
        }
        for which in 0..COPIES {
            world.die(which);
        }
        world.begin(0);
        world.end(0);
        world.check();
        prop_assert_eq!(names_in(&world.copy.there()), ["file"]);
    }
}
