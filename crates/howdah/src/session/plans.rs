//! Plans whose file comes to this machine: what is asked about them in a session of single files, and the leases that are put.
//! docs/protocol.md section 16.8 specifies it.

mod tree;

use super::receiving::Place;
use crate::access::Rights;
use crate::error::from_store;
use crate::lease::room::{Room, Spot};
use crate::lease::{self, Ended, Landing};
use crate::{Error, ErrorKind, PathBytes};
use howdah_core::{ObjectId, RangeSet};
use howdah_lease::{Lease, Plan, Planned, Record};
use howdah_session::Metadata;
use howdah_session::message::Message;
use howdah_session::plans::{LeasePut, PlanAnswer, PlanRecord, PlanRequest};
use howdah_session::resume::WireRanges;
use howdah_store::{RangeFile, RoomWait, Sink, SinkOptions, SourceIdentity, Wake};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The longest text of a plan of one file, in bytes: two paths and some numbers.
const PLAN_MAX: usize = 24 << 10;
/// Records in one part of an answer.
const RECORDS: usize = 256;

/// A record as it is told.
pub fn told(record: &Record) -> PlanRecord {
    PlanRecord {
        lease: record.lease,
        epoch: record.epoch,
        bytes: record.bytes,
        seconds: record.seconds,
    }
}

fn usage(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Usage, text.into())
}

fn no_lease(lease: u64, count: u64) -> Error {
    let last = count.saturating_sub(1);
    usage(format!(
        "the plan has no lease {lease}: they are 0 to {last}"
    ))
}

/// A plan, as a peer tells it.
fn plan_text(text: &str) -> Result<Planned, Error> {
    if text.len() > PLAN_MAX {
        let text = format!(
            "the plan has more than {PLAN_MAX} bytes: it is not as 'howdah plan' wrote it, or its paths are too long; plan anew"
        );
        return Err(usage(text));
    }
    Planned::decode(text).map_err(|e| usage(e.to_string()))
}

/// The plan of one file, as a peer tells it.
fn plan_of(text: &str) -> Result<(Planned, Plan), Error> {
    let planned = plan_text(text)?;
    match &planned {
        Planned::File(plan) => {
            let plan = plan.clone();
            Ok((planned, plan))
        }
        Planned::Tree(_) => Err(usage(
            "the plan is of a tree, and one file is asked about: take the plan that 'howdah plan' wrote for it",
        )),
    }
}

/// That plan, if the client reads the version that it is of.
fn of_version<'p>(plan: &'p Plan, source: &SourceIdentity) -> Result<&'p Plan, Error> {
    match lease::identity(&plan.version()).difference(source) {
        Some(difference) => Err(lease::source_changed(&difference)),
        None => Ok(plan),
    }
}

/// One that a client puts.
#[derive(Debug)]
pub(crate) struct Put {
    planned: Planned,
    /// Which version the client reads.
    source: SourceIdentity,
    lease: u64,
    bytes: u64,
    epoch: u64,
    /// Tells the mover from others.
    run: u64,
    /// Of the client, if it has one that counts.
    key: String,
    come: Mutex<Option<Coming>>,
}

/// What comes.
#[derive(Debug)]
struct Coming {
    room: Room,
    /// None: it is in its place already.
    landing: Option<Landing>,
    since: Instant,
}

impl Put {
    /// What that client asks for, if there is such a lease.
    pub(crate) fn new(asked: &LeasePut, key: &str) -> Result<Self, Error> {
        let (planned, source) = (plan_text(&asked.plan)?, asked.source);
        let bytes = match &planned {
            Planned::File(plan) => of_version(plan, &source)?.lease(asked.lease).map_or_else(
                || Err(no_lease(asked.lease, plan.leases())),
                |lease| Ok(lease.range.len()),
            )?,
            // Which file it is of stands in the room.
            Planned::Tree(plan) => {
                tree::check_lease(plan, asked.lease)?;
                source.size.min(plan.lease_bytes())
            }
        };
        if asked.epoch == 0 {
            return Err(usage("epochs are counted from 1"));
        }
        Ok(Self {
            planned,
            source,
            lease: asked.lease,
            bytes,
            epoch: asked.epoch,
            run: asked.run,
            key: key.to_owned(),
            come: Mutex::default(),
        })
    }

    /// Of which file it is, as a plan of that alone, and where it goes in the room.
    fn find(&self, room: &Room) -> Result<(Plan, Lease, PathBuf), Error> {
        match &self.planned {
            Planned::File(plan) => {
                let lease = plan.lease(self.lease);
                let lease = lease.ok_or_else(|| no_lease(self.lease, plan.leases()))?;
                Ok((plan.clone(), lease, room.work_in().to_owned()))
            }
            Planned::Tree(plan) => {
                let (plan, lease, name) = tree::part_of(room, plan, self.lease)?;
                of_version(&plan, &self.source)?;
                Ok((plan, lease, name))
            }
        }
    }

    /// Bytes that come.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether both are the same run of the same lease.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |put: &Self| (put.lease, put.epoch, put.run);
        self.planned.id() == other.planned.id() && of(self) == of(other)
    }

    /// Whether some run has moved it.
    fn is_moved(&self, room: &Room) -> Result<bool, Error> {
        Ok(match &self.planned {
            Planned::File(_) => !room.records(self.lease)?.is_empty(),
            Planned::Tree(_) => tree::whole(room, self.lease)?.is_some(),
        })
    }

    /// Begins the run, and opens where its bytes come: what has come of it before stays. `None`: somebody else writes there, who is to
    /// be waited for as long as this one `may_wait`.
    pub(crate) fn open(
        &self,
        rights: &Rights,
        (path, object): (&PathBytes, ObjectId),
        (holes, wait): (Option<RangeSet>, &RoomWait),
        (may_wait, wake): (bool, Wake),
    ) -> Result<Option<(Place, Message)>, Error> {
        let spot = rights.spot(path.as_path())?;
        let room = Room::open_at(spot, &self.planned, rights.key_of(&self.key))?;
        // Before anything is written: the one that is behind leaves no claim, either.
        let highest = room.highest(self.lease)?;
        if highest > self.epoch {
            return Err(lease::stopped(&howdah_lease::Stopped::Fenced {
                lease: self.lease,
                epoch: self.epoch,
                by: highest,
            }));
        }
        let (plan, lease, name) = self.find(&room)?;
        let of_tree = matches!(self.planned, Planned::Tree(_));
        let of = lease::identity(&plan.version());
        let mut landing = Landing::new(plan, lease, self.epoch, name, of_tree);
        let (target, landing) = if self.is_moved(&room)? {
            // By somebody who was faster: what comes is compared, and left at that.
            let shown = landing.path(&room);
            let file = RangeFile::new(room.scratch()?, &shown, of, landing.range());
            let file = file.map_err(|e| from_store(&e))?;
            (Arc::new(file.without_content()), None)
        } else {
            let come = landing.come(&room);
            if may_wait && matches!(come, lease::Come::Busy) {
                return Ok(None);
            }
            (landing.begin_with(&room, come)?, Some(landing))
        };
        let options = SinkOptions {
            holes,
            room: wait.clone(),
            ..SinkOptions::default()
        };
        let sink = Sink::range(target, &options, wake).map_err(|e| from_store(&e))?;
        let ready = Message::Ready {
            object,
            held: WireRanges::from(&sink.held()),
            values: true,
            changed: None,
        };
        *self.come.lock().unwrap_or_else(PoisonError::into_inner) = Some(Coming {
            room,
            landing,
            since: Instant::now(),
        });
        Ok(Some((Place::Store(sink), ready)))
    }

    /// All of it has come and was compared: it goes to its place, with a record. This waits for the disk.
    pub(crate) fn land(&self) -> Result<(), Error> {
        let come = self
            .come
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut come) = come else {
            let text = "nothing of the lease has come: run it again";
            return Err(Error::new(ErrorKind::Io, text));
        };
        let seconds = come.since.elapsed().as_secs_f64();
        if let Some(landing) = &mut come.landing {
            let landed = landing.land(&come.room, seconds, &|| false);
            // What others have altered would be so the next time, too.
            if let Err(error) = &landed
                && error.kind() == ErrorKind::Integrity
            {
                landing.give_up(&come.room, error);
            }
            landed?;
        }
        Ok(())
    }
}

impl Rights {
    /// Whose the rooms of a session are: those who come through ssh are users of this machine, and have no keys.
    pub(crate) fn key_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        (!self.is_of_user()).then_some(key)
    }

    /// Where a file that is planned is to lie.
    pub(crate) fn spot(&self, path: &Path) -> Result<Spot, Error> {
        self.check_no_one_copy()?;
        let (root, at) = self.target(path)?;
        if howdah_tree::is_directory(&at) || at.as_os_str().is_empty() {
            let text = format!("{} names no file", path.display());
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let (dir, target) = root.above_of(&at).map_err(|e| match e {
            howdah_store::StoreError::NotFound { path } => lease::no_directory(&path),
            other => from_store(&other),
        })?;
        let parent = at.parent().map(Path::to_path_buf).unwrap_or_default();
        let shown = if self.is_of_user() {
            root.path().join(parent)
        } else {
            parent
        };
        let above = lease::beneath::Dir::of(dir, shown);
        Ok(Spot { above, target })
    }

    /// What that file becomes.
    pub(crate) fn planned_place(
        &self,
        path: &PathBytes,
        name: &PathBytes,
    ) -> Result<PathBytes, Error> {
        self.check_no_one_copy()?;
        let (root, at) = self.target(path.as_path())?;
        let is_named_directory = howdah_tree::is_directory(&at) || at.as_os_str().is_empty();
        // For a user, one that exists was opened itself.
        let bare: PathBuf = at.components().collect();
        // Whoever may not look around says by a slash what it is, and hears when it is made whether that is so.
        let looked = || {
            let found = root.look(&bare);
            found.is_ok_and(|found| found.kind == howdah_store::FoundKind::Directory)
        };
        let is_directory = bare.as_os_str().is_empty()
            || if self.is_blind() {
                is_named_directory
            } else {
                looked()
            };
        if is_named_directory && !is_directory {
            return Err(lease::no_directory(path.as_path()));
        }
        if !is_directory {
            return Ok(path.clone());
        }
        let name = name.as_path();
        let last = name.file_name().filter(|last| *last == name.as_os_str());
        let Some(last) = last else {
            let text = format!("{} is no name that a file can get", name.display());
            return Err(Error::new(ErrorKind::Usage, text));
        };
        Ok(path.as_path().join(last).as_os_str().into())
    }
}

/// Answers what is asked about a plan; `tell` says a part of the answer. `None`: it is done.
pub(crate) fn answer<E: From<Error>>(
    (rights, key): (&Rights, &str),
    request: &PlanRequest,
    is_stopped: &dyn Fn() -> bool,
    tell: &mut dyn FnMut(PlanAnswer) -> Result<(), E>,
) -> Result<Option<PlanAnswer>, E> {
    let key = rights.key_of(key);
    match request {
        PlanRequest::Place { path, name } => {
            let place = rights.planned_place(path, name)?;
            Ok(Some(PlanAnswer::Place(place)))
        }
        PlanRequest::Make { path, plan } => {
            make(rights, key, path, plan)?;
            Ok(None)
        }
        PlanRequest::Look { path, plan, lease } => {
            let planned = plan_text(plan)?;
            let spot = rights.spot(path.as_path())?;
            let room = Room::open_at_to_finish(spot, &planned, key)?;
            let plan = match &planned {
                Planned::File(plan) => plan,
                Planned::Tree(plan) => return tree::look((&room, plan), *lease, is_stopped, tell),
            };
            let mut highest = 0;
            let leases = match lease {
                Some(lease) => {
                    if room.is_there() {
                        highest = room.highest(*lease)?;
                    }
                    *lease..lease.saturating_add(1).min(plan.leases())
                }
                None => 0..plan.leases(),
            };
            let mut records = Vec::new();
            for lease in leases {
                if is_stopped() {
                    // Nobody hears it any more.
                    return Ok(None);
                }
                let of_lease = room.records(lease)?;
                records.extend(of_lease.iter().map(told));
                if records.len() >= RECORDS {
                    tell(PlanAnswer::Records(std::mem::take(&mut records)))?;
                }
            }
            let has_plan = room.has_plan();
            Ok(Some(PlanAnswer::Looked {
                records,
                highest,
                has_plan,
            }))
        }
        PlanRequest::Finish { path, plan } => {
            let (planned, plan) = plan_of(plan)?;
            let spot = rights.spot(path.as_path())?;
            let room = Room::open_at_to_finish(spot, &planned, key)?;
            let mode = plan.mode().filter(|_| rights.sets() >= Metadata::Modes);
            let how = (mode, rights.is_adding_only());
            let finished = match lease::finish(&plan, &room, how, is_stopped)? {
                Ended::Finished(blake3) => PlanAnswer::Finished(blake3),
                Ended::Missing(count, first) => PlanAnswer::Missing(count, first),
            };
            Ok(Some(finished))
        }
        PlanRequest::Forget { path, plan } => {
            let planned = plan_text(plan)?;
            let room = Room::open_at_to_finish(rights.spot(path.as_path())?, &planned, key);
            let room = room.or_else(|error| {
                // One that was never begun.
                let draft = Room::open_draft_at(rights.spot(path.as_path())?, &planned, key);
                draft.map_err(|_| error)
            })?;
            room.remove();
            Ok(None)
        }
        _ => tree::answer((rights, key), request, is_stopped, tell),
    }
}

fn make(rights: &Rights, key: Option<&str>, path: &PathBytes, plan: &str) -> Result<(), Error> {
    let (_, plan) = plan_of(plan)?;
    let spot = rights.spot(path.as_path())?;
    let seen = spot.above.look(Path::new(&spot.target));
    if seen.is_ok_and(|seen| seen.is_dir()) {
        let text = format!(
            "{} is a directory: write a slash behind it, or the name that the file is to get there",
            path.as_path().display()
        );
        return Err(usage(text));
    }
    if rights.is_adding_only() && spot.above.has(&spot.target) {
        let path = path.as_path().to_path_buf();
        return Err(from_store(&howdah_store::StoreError::MayOnlyAdd { path }));
    }
    let stored = |e| from_store(&e);
    let size = plan.version().size;
    rights.quota.take_file(path.as_path()).map_err(stored)?;
    rights
        .quota
        .take_bytes(path.as_path(), size)
        .map_err(stored)?;
    Room::create_at(spot, &plan, key).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_lease::Version;
    use howdah_store::Root;
    use std::fs;

    const MIB: u64 = 1 << 20;

    fn version(size: u64) -> Version {
        Version {
            size,
            mtime: (1, 2),
            ctime: (3, 4),
            inode: 5,
        }
    }

    fn text(id: &str, size: u64) -> String {
        let (source, becomes) = ("/s".to_owned(), "howdah://h/x".to_owned());
        let plan = Plan::new(id.to_owned(), source, becomes, version(size), MIB);
        Planned::File(plan.expect("a plan")).encode()
    }

    fn asked(plan: String, lease: u64, epoch: u64) -> LeasePut {
        LeasePut {
            object: ObjectId::new(0),
            path: "x".into(),
            plan,
            lease,
            epoch,
            source: lease::identity(&version(3 * MIB)),
            run: 1,
        }
    }

    fn rights(dir: &Path) -> Rights {
        let dir = dir.to_owned();
        Rights::below(move || Ok(Arc::new(Root::open(dir).expect("a root"))))
    }

    fn ask(rights: &Rights, key: &str, request: &PlanRequest) -> Result<Option<PlanAnswer>, Error> {
        answer((rights, key), request, &|| false, &mut |_| Ok(()))
    }

    fn put(rights: &Rights, key: &str, asked: &LeasePut) -> Result<Put, Error> {
        let put = Put::new(asked, key)?;
        let wait = RoomWait::default();
        let wake: Wake = Arc::new(|| ());
        let opened = put.open(
            rights,
            (&asked.path, asked.object),
            (None, &wait),
            (false, wake),
        )?;
        drop(opened);
        Ok(put)
    }

    /// What no client of ours says.
    #[test]
    fn h17_senseless_leases_are_refused() {
        let fails = |asked: LeasePut, kind: ErrorKind, part: &str| {
            let error = Put::new(&asked, "anna").expect_err("refused");
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        let plan = || text("a", 3 * MIB);
        assert!(Put::new(&asked(plan(), 2, u64::MAX), "anna").is_ok());
        fails(asked(plan(), 3, 1), ErrorKind::Usage, "0 to 2");
        fails(asked(plan(), u64::MAX, 1), ErrorKind::Usage, "0 to 2");
        fails(asked(plan(), 0, 0), ErrorKind::Usage, "from 1");
        fails(asked("{}".into(), 0, 1), ErrorKind::Usage, "no plan");
        fails(
            asked("x".repeat(PLAN_MAX + 1), 0, 1),
            ErrorKind::Usage,
            "bytes",
        );
        fails(
            asked(text("a", 4 * MIB), 3, 1),
            ErrorKind::SourceChanged,
            "plan anew",
        );
        let odd = plan().replace(&format!("{MIB}"), &format!("{}", MIB - 1));
        fails(asked(odd, 0, 1), ErrorKind::Usage, "power of two");
        let out = plan().replace("\"a\"", "\"../a\"");
        fails(asked(out, 0, 1), ErrorKind::Usage, "letters");
    }

    #[test]
    fn h17_a_lease_goes_into_the_room_of_its_plan_and_key_alone() {
        let dir = tempfile::tempdir().expect("a place");
        let rights = rights(dir.path());
        let make = |id: &str| PlanRequest::Make {
            path: "x".into(),
            plan: text(id, 3 * MIB),
        };
        let nothing = put(&rights, "anna", &asked(text("a", 3 * MIB), 0, 1));
        assert_eq!(nothing.expect_err("no room").kind(), ErrorKind::NotFound);
        ask(&rights, "anna", &make("a")).expect("made");
        // Not twice.
        assert!(ask(&rights, "anna", &make("a")).is_err());
        // Of another key; nothing is claimed then.
        let other = put(&rights, "ben", &asked(text("a", 3 * MIB), 0, 9));
        assert_eq!(other.expect_err("refused").kind(), ErrorKind::Refused);
        // Of another size than the room's plan, in the same room.
        let mut mixed = asked(text("a", 5 * MIB), 4, 1);
        mixed.source = lease::identity(&version(5 * MIB));
        let mixed = put(&rights, "anna", &mixed).expect_err("mixed");
        assert!(mixed.to_string().contains("another plan"), "{mixed}");
        // The last epoch fences all others, and they are told at once.
        let last = put(&rights, "anna", &asked(text("a", 3 * MIB), 0, u64::MAX));
        drop(last.expect("it begins"));
        let late = put(&rights, "anna", &asked(text("a", 3 * MIB), 0, u64::MAX - 1));
        let late = late.expect_err("fenced");
        assert_eq!(late.kind(), ErrorKind::Refused);
        assert!(late.to_string().contains("run in epoch"), "{late}");
        // Nothing that has not come lands.
        let landed = Put::new(&asked(text("a", 3 * MIB), 1, 1), "anna").expect("asked");
        assert!(landed.land().is_err());
        let look = |lease| PlanRequest::Look {
            path: "x".into(),
            plan: text("a", 3 * MIB),
            lease,
        };
        for (lease, expected) in [(Some(0), u64::MAX), (Some(u64::MAX), 0), (None, 0)] {
            let told = ask(&rights, "anna", &look(lease)).expect("told");
            let Some(PlanAnswer::Looked {
                records, highest, ..
            }) = told
            else {
                panic!("another answer");
            };
            assert!(records.is_empty());
            assert_eq!(highest, expected);
        }
        let finish = PlanRequest::Finish {
            path: "x".into(),
            plan: text("a", 3 * MIB),
        };
        let told = ask(&rights, "anna", &finish).expect("told");
        assert_eq!(told, Some(PlanAnswer::Missing(3, 0)));
        for key in ["ben", ""] {
            assert!(ask(&rights, key, &finish).is_err());
            assert!(ask(&rights, key, &look(None)).is_err());
        }
        // Who has a room there by other means than the server's is not served from it.
        let planted = dir.path().join(".y.b.howdah-plan");
        fs::create_dir(&planted).expect("made");
        fs::write(planted.join("plan"), text("b", 3 * MIB)).expect("written");
        fs::write(planted.join("part"), "").expect("written");
        let mut to_planted = asked(text("b", 3 * MIB), 0, 1);
        to_planted.path = "y".into();
        assert!(put(&rights, "anna", &to_planted).is_err());
    }

    /// Who asks where a file would come leaves nothing behind, so he would learn what is there name by name.
    #[test]
    fn h19_who_may_only_write_does_not_hear_where_a_plan_would_come() {
        let dir = tempfile::tempdir().expect("a place");
        fs::create_dir(dir.path().join("d")).expect("made");
        fs::write(dir.path().join("f"), "x").expect("written");
        let place = |rights: &Rights, path: &str| {
            let (path, name) = (path.into(), "n".into());
            ask(rights, "anna", &PlanRequest::Place { path, name }).map_err(|e| e.to_string())
        };
        let at = |path: &str| Ok(Some(PlanAnswer::Place(path.into())));
        let reader = rights(dir.path());
        assert_eq!(place(&reader, "d"), at("d/n"));
        let writer = rights(dir.path()).restricted(false, true, None);
        for path in ["d", "f", "none"] {
            assert_eq!(place(&writer, path), at(path));
            let named = format!("{path}/");
            assert_eq!(place(&writer, &named), at(&format!("{path}/n")));
        }
        assert_eq!(place(&writer, ""), at("n"));
        // Before anything is moved there is said what is wrong, as to whoever writes there.
        let make = |path: &str| {
            let (path, plan) = (path.into(), text("a", 3 * MIB));
            ask(&writer, "anna", &PlanRequest::Make { path, plan })
        };
        let error = make("d").expect_err("a directory").to_string();
        assert!(error.contains("a slash behind it"), "{error}");
        assert!(make("d/n").is_ok());
    }

    #[test]
    fn h17_names_pass_the_gate_of_every_name() {
        let dir = tempfile::tempdir().expect("a place");
        fs::create_dir(dir.path().join("d")).expect("made");
        std::os::unix::fs::symlink("d", dir.path().join("l")).expect("linked");
        let rights = rights(dir.path());
        for path in [
            "",
            ".",
            "..",
            "/",
            "/x",
            "../x",
            "d/../../x",
            "d/./x",
            "l/x",
            "none/x",
            "x/",
            ".x.0123456789abcdef.howdah-part",
            ".x.a.howdah-plan",
            ".x.a.howdah-plan/part",
            "x\0y",
        ] {
            let request = PlanRequest::Make {
                path: path.into(),
                plan: text("a", 3 * MIB),
            };
            assert!(ask(&rights, "anna", &request).is_err(), "{path:?}");
        }
        let left = fs::read_dir(dir.path()).expect("listed").count();
        assert_eq!(left, 2);
        for name in ["", "a/b", "..", "/", "a/"] {
            let request = PlanRequest::Place {
                path: "d".into(),
                name: name.into(),
            };
            assert!(ask(&rights, "anna", &request).is_err(), "{name:?}");
        }
    }
}
