//! The end of a plan of one file.

use super::beneath::Dir;
use super::room::{MARK, Room};
use super::{failed, of_store};
use crate::{Error, ErrorKind};
use howdah_lease::{Finished, NotFinished, Plan};
use std::os::unix::fs::MetadataExt as _;

/// How far a plan is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// The file has its name, and that BLAKE3 in hexadecimal.
    Finished(String),
    /// So many leases are missing, and the first of them.
    Missing(u64, u64),
}

/// Checks that the records cover the file and agree, joins their hashes, and gives the file its name, durably, with these permission bits
/// of its source. `adds_only`: nothing that is there is replaced. What an earlier run has finished stays so.
///
/// # Errors
///
/// What is wrong; that `is_stopped`, before there is a name; the file system's.
pub fn finish(
    plan: &Plan,
    room: &Room,
    (mode, adds_only): (Option<u32>, bool),
    is_stopped: &dyn Fn() -> bool,
) -> Result<Ended, Error> {
    if let Some(blake3) = finished_before(plan, room)? {
        return Ok(Ended::Finished(blake3));
    }
    let records = room.all_records(plan)?;
    let Finished { blake3, bytes } = match howdah_lease::finish(plan, records) {
        Ok(finished) => finished,
        Err(NotFinished::Missing { count, first }) => return Ok(Ended::Missing(count, first)),
        Err(why) => return Err(not_finished(&why)),
    };
    let blake3 = blake3::Hash::from(blake3).to_hex().to_string();
    let part = room.open_part(room.work_in())?;
    let path = room.work();
    let meta = part.metadata().map_err(|e| failed("look at", &path, &e))?;
    if meta.len() != bytes {
        let (path, is) = (path.display(), meta.len());
        let text = format!(
            "{path} has {is} bytes, and the plan {bytes}: somebody else wrote to it; plan anew"
        );
        return Err(Error::new(ErrorKind::Integrity, text));
    }
    if is_stopped() {
        let text = "interrupted; nothing has its name yet: finish again";
        return Err(Error::new(ErrorKind::Cancelled, text));
    }
    room.write(MARK, format!("{blake3} {}\n", meta.ino()).as_bytes())?;
    let destination = room.destination();
    let again = |dir: &Dir| {
        let fd = dir.again();
        fd.map_err(|e| failed("share", dir.path(), &e))
    };
    let from = (again(room.at())?, room.work_in().as_os_str().to_owned());
    let to = (
        again(room.above())?,
        room.target().as_os_str(),
        &*destination,
    );
    let done = if adds_only {
        howdah_store::publish_new(part, from, to, bytes, mode)
    } else {
        howdah_store::publish(part, from, to, bytes, mode)
    };
    done.map_err(|e| of_store(&e))?;
    Ok(Ended::Finished(blake3))
}

/// The hash, if an earlier run has given the file its name and ended then.
fn finished_before(plan: &Plan, room: &Room) -> Result<Option<String>, Error> {
    let Some(mark) = room.read(MARK)? else {
        return Ok(None);
    };
    if room.is_there() {
        return Ok(None);
    }
    let mut words = mark.split_whitespace();
    let (blake3, number) = (words.next(), words.next().and_then(|n| n.parse().ok()));
    let seen = room.above().look(room.target());
    let is_it =
        seen.is_ok_and(|seen| seen.size == plan.version().size && Some(seen.inode) == number);
    match blake3 {
        Some(blake3) if is_it => Ok(Some(blake3.to_owned())),
        _ => {
            let path = room.destination();
            let path = path.display();
            let text = format!("the plan was finished, and {path} is another file by now");
            Err(Error::new(ErrorKind::Io, text))
        }
    }
}

/// Why a plan is not finished.
pub fn not_finished(why: &NotFinished) -> Error {
    let kind = match why {
        NotFinished::Missing { .. } => ErrorKind::Partial,
        NotFinished::OtherPlan { .. } | NotFinished::Misfit { .. } => ErrorKind::Usage,
        NotFinished::Contradiction { .. } => ErrorKind::Integrity,
    };
    Error::new(kind, why.to_string())
}
