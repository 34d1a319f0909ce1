//! Pushed trees whose clients and servers end at any step, and clients that ask for what no client of ours does.

use super::super::answer;
use super::*;
use crate::lease::land_run;
use howdah_lease::{Cutter, LEASE_MIN, Sheet, TreeOrder};
use howdah_store::{Quota, Root};
use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

const MTIME: (i64, u32) = (7, 8);
/// Small ones, which make lease 0, in their order.
const FILES: [&str; 4] = ["a", "d/b", "d/c", "e"];
/// Of each of them.
const SIZE: usize = 1000;
/// First lease of a large file.
const LARGE: u64 = 1;

fn content(name: &str) -> Vec<u8> {
    let letter = name.bytes().next_back().unwrap_or_default();
    vec![letter; SIZE]
}

/// A server's directory with the room of a plan of some small files and a large one.
struct World {
    dir: tempfile::TempDir,
    rights: Rights,
    plan: TreePlan,
    text: String,
    sheets: Vec<Sheet>,
}

impl World {
    /// The room is there, and nothing in it.
    fn drafted() -> Self {
        let dir = tempfile::tempdir().expect("a place");
        let root = dir.path().to_owned();
        let rights = Rights::below(move || Ok(Arc::new(Root::open(root).expect("a root"))));
        let order = TreeOrder {
            id: "a".into(),
            source: "/s".into(),
            destination: "howdah://h/x".into(),
            lease_bytes: LEASE_MIN,
            archive: false,
            permissions: false,
        };
        let mut cutter = Cutter::new(order).expect("an order");
        for name in FILES {
            let full = cutter.small(Member {
                name: Name::new(name).expect("a name"),
                size: SIZE as u64,
                mtime: MTIME,
            });
            assert!(full.expect("it fits").is_none());
        }
        let mut sheets: Vec<Sheet> = cutter.close().expect("it fits").into_iter().collect();
        let version = Version {
            size: 3 * LEASE_MIN,
            mtime: MTIME,
            ctime: MTIME,
            inode: 5,
        };
        let large = Name::new("large").expect("a name");
        sheets.extend(cutter.large(&large, version, None).expect("it fits"));
        let plan = cutter.end();
        let text = Planned::Tree(plan.clone()).encode();
        let world = Self {
            dir,
            rights,
            plan,
            text,
            sheets,
        };
        let (path, plan) = world.of();
        world.does(&PlanRequest::MakeTree { path, plan });
        world
    }

    /// Directories and sheets are there as well.
    fn put() -> Self {
        let world = Self::drafted();
        fs::create_dir_all(world.at("tree/d")).expect("made");
        for sheet in &world.sheets {
            let put = world.put_sheet(sheet.lease, 0, &sheet.encode());
            put.expect("put");
        }
        world
    }

    /// It has begun.
    fn new() -> Self {
        let world = Self::put();
        let (path, plan) = world.of();
        world.does(&PlanRequest::Lay { path, plan });
        let (path, plan) = world.of();
        world.does(&PlanRequest::Begin { path, plan });
        world
    }

    fn of(&self) -> (PathBytes, String) {
        ("x".into(), self.text.clone())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(".x.a.howdah-plan").join(name)
    }

    fn ask(
        &self,
        request: &PlanRequest,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<PlanAnswer>, Error> {
        answer((&self.rights, "anna"), request, is_stopped, &mut |_| Ok(()))
    }

    fn does(&self, request: &PlanRequest) -> Option<PlanAnswer> {
        self.ask(request, &|| false).expect("it is done")
    }

    #[track_caller]
    fn fails(&self, request: &PlanRequest, kind: ErrorKind, part: &str) {
        let error = self.ask(request, &|| false).expect_err("it fails");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }

    fn put_sheet(&self, lease: u64, at: u64, text: &str) -> Result<Option<PlanAnswer>, Error> {
        let ((path, plan), text) = (self.of(), text.to_owned());
        let request = PlanRequest::PutSheet {
            path,
            plan,
            lease,
            at,
            text,
        };
        self.ask(&request, &|| false)
    }

    fn room(&self) -> Room {
        let spot = self.rights.spot(Path::new("x")).expect("a spot");
        let planned = Planned::Tree(self.plan.clone());
        Room::open_at(spot, &planned, Some("anna")).expect("a room")
    }

    /// These files have come in that run.
    fn fetch(&self, run: LeaseRun, names: &[&str]) -> RunDir {
        let dir = RunDir::begin(&self.room(), run).expect("it begins");
        for name in names {
            let path = dir.at().path().join(name);
            let path = self.dir.path().join(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(&path, content(name)).expect("written");
            let time = Duration::new(MTIME.0 as u64, MTIME.1);
            let file = File::options().write(true).open(&path).expect("opened");
            let set = file.set_modified(SystemTime::UNIX_EPOCH + time);
            set.expect("a time");
        }
        dir
    }

    fn land(&self, run: LeaseRun, is_stopped: &dyn Fn() -> bool) -> Result<PlanAnswer, Error> {
        let ((path, plan), millis) = (self.of(), 5);
        let request = PlanRequest::Land {
            path,
            plan,
            run,
            millis,
        };
        Ok(self.ask(&request, is_stopped)?.expect("an answer"))
    }

    /// The same without a lock, as two hosts of a file system do it that has none.
    fn land_unlocked(
        &self,
        run: LeaseRun,
        dir: &RunDir,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<TreeRecord, Error> {
        let how = (self.sheets[0].clone(), run, dir.at());
        let took = (&Hashes::new(), Duration::ZERO);
        land_run((&self.room(), &self.plan), how, took, is_stopped)
    }

    /// All small files are there, and the tree gets its name with them.
    fn finishes(&self) {
        let record = self.room().whole_record(0).expect("read");
        let record = record.expect("all of the lease is there");
        assert_eq!(record.bytes, (FILES.len() * SIZE) as u64);
        for lease in LARGE..self.plan.leases() {
            let run = run(lease, 1, 1);
            self.does(&self.lacks(run));
        }
        let (path, plan) = self.of();
        let finish = PlanRequest::FinishTree {
            path,
            plan,
            partial: true,
            sums: false,
        };
        let finished = self.does(&finish);
        let Some(PlanAnswer::FinishedTree { files, lacking, .. }) = finished else {
            panic!("{finished:?}");
        };
        assert_eq!((files, lacking), (FILES.len() as u64, 1));
        for name in FILES {
            let has = fs::read(self.dir.path().join("x").join(name)).expect("a file");
            assert_eq!(has, content(name));
        }
    }

    fn lacks(&self, run: LeaseRun) -> PlanRequest {
        let (path, plan) = self.of();
        let why = "gone".into();
        PlanRequest::Lacks {
            path,
            plan,
            run,
            why,
        }
    }
}

fn run(lease: u64, epoch: u64, run: u64) -> LeaseRun {
    LeaseRun { lease, epoch, run }
}

fn all_landed() -> PlanAnswer {
    PlanAnswer::Landed {
        bytes: (FILES.len() * SIZE) as u64,
        lacking: 0,
        notes: Vec::new(),
    }
}

/// Stops whoever asks for the time after that.
fn after(steps: usize) -> impl Fn() -> bool {
    let left = Cell::new(steps);
    move || {
        let now = left.get();
        left.set(now.saturating_sub(1));
        now == 0
    }
}

/// Calls something else when it is asked for that time.
fn at_step<'f>(step: usize, other: impl FnOnce() + 'f) -> impl Fn() -> bool + 'f {
    let (asked, other) = (Cell::new(0), RefCell::new(Some(other)));
    move || {
        let now = asked.replace(asked.get() + 1);
        let other = (now == step).then(|| other.borrow_mut().take()).flatten();
        if let Some(other) = other {
            other();
        }
        false
    }
}

#[test]
fn h17_what_is_put_into_place_and_ends_at_any_step_is_gone_on_with() {
    let (of, mut steps) = (run(0, 1, 1), 0);
    loop {
        let world = World::new();
        drop(world.fetch(of, &FILES));
        let first = world.land(of, &after(steps));
        // As often as the client loses the answer.
        for _ in 0..2 {
            let again = world.land(of, &|| false).expect("landed");
            assert_eq!(again, all_landed(), "{steps}");
        }
        world.finishes();
        match first {
            Ok(first) => {
                assert_eq!(first, all_landed());
                break;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"),
        }
        steps += 1;
    }
    // It was stopped between any two files.
    assert!(steps > 2 * FILES.len(), "{steps}");
}

#[test]
fn h17_what_ends_twice_at_any_two_steps_is_gone_on_with() {
    let of = run(0, 1, 1);
    for first in 6..14 {
        for second in [1, 4, 5, 6, 7, 8, 9, 10, 11, 12] {
            let world = World::new();
            drop(world.fetch(of, &FILES));
            let _ = world.land(of, &after(first));
            let _ = world.land(of, &after(second));
            let third = world.land(of, &|| false).expect("landed");
            assert_eq!(third, all_landed(), "{first} {second}");
        }
    }
}

#[test]
fn h17_what_could_not_be_had_is_said_again_and_never_in_the_place_of_what_is_there() {
    let world = World::new();
    let of = run(0, 1, 1);
    drop(world.fetch(of, &["a", "d/c", "e"]));
    let first = world.land(of, &|| false).expect("landed");
    let PlanAnswer::Landed {
        bytes,
        lacking: 1,
        notes,
    } = &first
    else {
        panic!("{first:?}");
    };
    assert_eq!(*bytes, 3 * SIZE as u64);
    assert!(notes[0].starts_with("d/b: "), "{notes:?}");
    assert!(!RunDir::is_there(&world.room(), of));
    assert_eq!(world.land(of, &|| false).expect("told again"), first);
    // Another run of that epoch has that one, and nothing else.
    let other = run(0, 1, 2);
    drop(world.fetch(other, &["d/b"]));
    let second = world.land(other, &|| false).expect("landed");
    assert_eq!(second, all_landed());
    // One that has nothing takes nothing back.
    let third = run(0, 1, 3);
    let dir = world.fetch(third, &[]);
    let record = world.land_unlocked(third, &dir, &|| false);
    assert!(record.expect("landed").is_complete());
    world.finishes();
    // A run that was never begun has none.
    let world = World::new();
    let none = world.land(run(0, 9, 9), &|| false).expect_err("no run");
    assert_eq!(none.kind(), ErrorKind::Usage, "{none}");
    assert!(none.to_string().contains("run it again"), "{none}");
}

/// The client has lost its connection and asks again, or a scheduler runs the lease twice in one epoch.
#[test]
fn h17_who_asks_while_another_puts_into_place_waits() {
    for of_other in [run(0, 1, 1), run(0, 1, 2)] {
        for step in 0..=2 * FILES.len() {
            let world = World::new();
            let first = run(0, 1, 1);
            drop(world.fetch(first, &FILES));
            if of_other != first {
                drop(world.fetch(of_other, &FILES));
            }
            let told = RefCell::new(None);
            let both = at_step(step, || {
                *told.borrow_mut() = Some(world.land(of_other, &|| false));
            });
            let landed = world.land(first, &both);
            assert_eq!(landed.expect("landed"), all_landed());
            let told = told.take().expect("it was asked");
            let error = told.expect_err("one at a time");
            assert_eq!(error.kind(), ErrorKind::Network, "{error}");
            // The client hears that as such.
            let said = crate::session::dialogue::fail(&error);
            let howdah_session::message::Message::Fail { kind, message } = said else {
                panic!("no failure");
            };
            let heard = crate::session::dialogue::failure(kind, &message, "the server");
            assert_eq!(heard.kind(), ErrorKind::Network, "{heard}");
            assert_eq!(
                world.land(of_other, &|| false).expect("landed"),
                all_landed()
            );
            world.finishes();
        }
    }
}

/// Where a file system has no locks: each step of one run, and in it any number of steps of another one.
#[test]
fn h17_without_locks_two_that_put_into_place_leave_what_one_would() {
    let all: &[&str] = &FILES;
    let part: &[&str] = &["a", "e"];
    // Of the same run, of another one in that epoch, and of one that lacks some.
    for (of_other, names) in [
        (run(0, 1, 1), all),
        (run(0, 1, 2), all),
        (run(0, 1, 2), part),
        (run(0, 2, 2), all),
    ] {
        let mut step = 0;
        loop {
            let mut was_asked = false;
            for within in [7, 10, 12, usize::MAX] {
                let world = World::new();
                let first = run(0, 1, 1);
                let dir = world.fetch(first, all);
                let asked = Cell::new(false);
                let both = at_step(step, || {
                    asked.set(true);
                    let other = if of_other == first {
                        RunDir::open(&world.room(), first).expect("there")
                    } else {
                        world.fetch(of_other, names)
                    };
                    let _ = world.land_unlocked(of_other, &other, &after(within));
                });
                let record = world.land_unlocked(first, &dir, &both);
                was_asked |= asked.get();
                let at = format!("{of_other:?} {names:?} {step} {within}");
                match record {
                    Ok(record) => assert!(record.is_complete(), "{at}"),
                    Err(error) => {
                        // The other one has begun in a higher epoch.
                        assert_eq!((error.kind(), of_other.epoch), (ErrorKind::Refused, 2));
                    }
                }
                drop(dir);
                if of_other.epoch == 2 && asked.get() {
                    let landed = world.land(of_other, &|| false).expect("landed");
                    assert_eq!(landed, all_landed(), "{at}");
                }
                // That takes the longest, and is the same for all of them.
                if within == usize::MAX {
                    world.finishes();
                }
            }
            if !was_asked {
                break;
            }
            step += 1;
        }
        assert!(step > 2 * FILES.len(), "{step}");
    }
}

#[test]
fn h17_what_dead_runs_of_lower_epochs_have_left_goes_and_nothing_else() {
    let world = World::new();
    let (dead, alive, other) = (run(0, 1, 1), run(0, 1, 2), run(0, 2, 3));
    drop(world.fetch(dead, &FILES));
    let held = world.fetch(alive, &FILES);
    drop(world.fetch(other, &FILES));
    let room = world.room();
    assert!(!RunDir::is_there(&room, dead));
    assert!(RunDir::is_there(&room, alive) && RunDir::is_there(&room, other));
    drop(held);
    // Of its own epoch nothing goes: it may be waiting for its places.
    drop(world.fetch(run(0, 2, 4), &FILES));
    assert!(!RunDir::is_there(&room, alive) && RunDir::is_there(&room, other));
    assert_eq!(world.land(other, &|| false).expect("landed"), all_landed());
    let late = world.land(alive, &|| false).expect_err("it is over");
    assert_eq!(late.kind(), ErrorKind::Refused, "{late}");
    world.finishes();
}

#[test]
fn h17_records_are_fenced_counted_and_charged() {
    let mut world = World::new();
    for epoch in 1..=64 {
        world.does(&world.lacks(run(LARGE, epoch, 1)));
    }
    world.fails(
        &world.lacks(run(LARGE, 65, 1)),
        ErrorKind::Refused,
        "--epoch 64",
    );
    let low = world.lacks(run(LARGE, 63, 1));
    world.fails(&low, ErrorKind::Refused, "run in epoch");
    let names = fs::read_dir(world.at("1")).expect("listed").count();
    // The sheet, records and claims.
    assert!(names <= 1 + 64 + 64, "{names}");
    // Claims without end are none, either: the highest one counts.
    for epoch in 1..=200 {
        drop(world.fetch(run(0, epoch, 1), &[]));
    }
    let names = fs::read_dir(world.at("0")).expect("listed").count();
    assert!(names <= 2 + 64, "{names}");
    assert_eq!(world.room().highest(0).expect("there"), 200);
    // What could not be had does not take the place of what is there.
    let room = world.room();
    let epoch = 64;
    let here = TreeRecord {
        plan: world.plan.id().to_owned(),
        lease: LARGE + 1,
        epoch,
        bytes: LEASE_MIN,
        seconds: 0.0,
        moved: vec![Moved::Here {
            blake3: [1; 32],
            mark: howdah_lease::Mark::default(),
        }],
    };
    room.claim(LARGE + 1, epoch).expect("claimed");
    room.publish_of_tree(here.clone(), &|_| 0)
        .expect("published");
    let lacking = TreeRecord {
        moved: vec![Moved::Lacking { why: "x".into() }],
        bytes: 0,
        ..here.clone()
    };
    let stays = room.publish_of_tree(lacking, &|_| 0).expect("left");
    assert_eq!(stays, here);
    world.does(&world.lacks(run(LARGE + 1, epoch, 1)));
    assert_eq!(
        room.tree_record(LARGE + 1, epoch).expect("read"),
        Some(here)
    );
    // A session that may bring little does not fill the disk with them.
    world.rights.quota = Quota::new(Some(2), Some(3 * BLOCK));
    for _ in 0..3 {
        world.does(&world.lacks(run(LARGE + 2, 1, 1)));
    }
    let more = world.lacks(run(LARGE + 2, 1, 1));
    world.fails(&more, ErrorKind::Refused, "bytes");
    let land = world.land(run(0, 200, 1), &|| false).expect_err("too much");
    assert!(land.to_string().contains("bytes"), "{land}");
    let into = |number| PlanPlace {
        path: "x".into(),
        plan: world.text.clone(),
        run: Some(run(0, 200, number)),
    };
    let options = TreeOptions {
        contents: true,
        ..TreeOptions::default()
    };
    let begin = |number| world.rights.place_in_plan("anna", &into(number), &options);
    // Each run keeps a directory; a connection that is made again, none.
    for number in [1, 2, 2, 3] {
        begin(number).expect("it begins");
    }
    let Err(error) = begin(4) else {
        panic!("too many are let in");
    };
    assert!(error.to_string().contains("directories"), "{error}");
}

#[test]
fn h17_what_is_laid_is_laid_once_and_no_sheet_comes_later() {
    let world = World::put();
    let (path, plan) = world.of();
    let early = PlanRequest::Look {
        path,
        plan,
        lease: None,
    };
    world.fails(&early, ErrorKind::NotFound, "not planned to its end");
    let lay = || {
        let (path, plan) = world.of();
        PlanRequest::Lay { path, plan }
    };
    world.does(&lay());
    world.fails(&lay(), ErrorKind::Usage, "plan anew");
    let late = world.put_sheet(0, 0, &world.sheets[0].encode());
    let late = late.expect_err("too late");
    assert_eq!(late.kind(), ErrorKind::Usage, "{late}");
    let (path, plan) = world.of();
    let begin = PlanRequest::Begin { path, plan };
    world.does(&begin);
    // The server has ended before it removed the draft.
    fs::write(world.at("draft"), &world.text).expect("written");
    world.fails(&begin, ErrorKind::Usage, "not being planned any more");
    world.fails(&lay(), ErrorKind::Usage, "not being planned any more");
    let into = PlanPlace {
        path: "x".into(),
        plan: world.text.clone(),
        run: None,
    };
    let options = TreeOptions {
        contents: true,
        ..TreeOptions::default()
    };
    let into = world.rights.place_in_plan("anna", &into, &options);
    assert!(into.is_err());
}

#[test]
fn h17_a_sheet_has_no_more_than_it_may_and_comes_without_holes() {
    let world = World::drafted();
    let fails = |at, part: &str| {
        let error = world.put_sheet(0, at, "x").expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    fails(u64::MAX, "plan with shorter leases");
    fails(howdah_lease::SHEET_MAX, "plan with shorter leases");
    fails(1 << 21, "plan anew");
    // In another order than they were sent in.
    let part = "x".repeat(SHEET_PART);
    for at in (0..64).rev() {
        let put = world.put_sheet(0, at * SHEET_PART as u64, &part);
        put.expect("put");
    }
    let sheet = fs::metadata(world.at("0/sheet")).expect("there");
    assert_eq!(sheet.len(), 64 * SHEET_PART as u64);
    // Too many small files are no lease.
    let member = |number| Member {
        name: Name::new(format!("{number}")).expect("a name"),
        size: 0,
        mtime: MTIME,
    };
    let sheet = Sheet {
        plan: "a".into(),
        lease: 0,
        share: Share::Run((0..8193).map(member).collect()),
    };
    fs::write(world.at("0/sheet"), sheet.encode()).expect("written");
    let room_of = world.rights.spot(Path::new("x")).expect("a spot");
    let planned = Planned::Tree(world.plan.clone());
    let room = Room::open_draft_at(room_of, &planned, Some("anna")).expect("a room");
    let error = room.sheet(&world.plan, 0).expect_err("too many");
    assert!(error.to_string().contains("plan anew"), "{error}");
}

/// Who asks whether it is to stop is known to be at work, and whoever has gone is not worked for.
#[test]
fn h17_what_takes_long_asks_all_the_time_whether_it_is_wanted() {
    let world = World::put();
    for number in 0..50 {
        fs::create_dir(world.at(&format!("tree/d/{number}"))).expect("made");
    }
    let asked = Cell::new(0);
    let count = || {
        asked.set(asked.get() + 1);
        false
    };
    let (path, plan) = world.of();
    let lay = PlanRequest::Lay { path, plan };
    world.ask(&lay, &count).expect("laid");
    // For each directory, and for each lease of the large file.
    let leases = usize::try_from(world.plan.leases()).expect("few");
    assert!(asked.get() >= 52 + leases, "{}", asked.get());
    let (path, plan) = world.of();
    world.does(&PlanRequest::Begin { path, plan });
    asked.set(0);
    let of = run(0, 1, 1);
    drop(world.fetch(of, &FILES));
    world.land(of, &count).expect("landed");
    assert!(asked.get() > 3 * FILES.len(), "{}", asked.get());
}
