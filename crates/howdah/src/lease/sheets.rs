//! What the leases of a tree have, and their space, in the room of a plan.

use super::room::Room;
use crate::{Error, ErrorKind};
use howdah_lease::{SHEET_MAX, Sheet, TreePlan};
use howdah_session::plans::{SHEET_PART, SHEETS_ASKED};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// Bytes of a sheet that may be under way.
const AHEAD: u64 = (SHEETS_ASKED * SHEET_PART) as u64;

impl Room {
    /// What a lease of a tree has.
    pub fn sheet(&self, plan: &TreePlan, lease: u64) -> Result<Sheet, Error> {
        let name = PathBuf::from(format!("{lease}/sheet"));
        let text = self.at().content(&name, SHEET_MAX);
        let text = text.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => self.is_gone(),
            _ => self.trouble("read", &name, &e),
        })?;
        match Sheet::decode(&text) {
            Ok(sheet) if sheet.plan == plan.id() && sheet.lease == lease => Ok(sheet),
            _ => {
                let path = self.path(&name);
                let path = path.display();
                let text = format!("{path} is not what 'howdah plan' wrote there; plan anew");
                Err(Error::new(ErrorKind::Usage, text))
            }
        }
    }

    /// Writes it down, and reserves space for that much: it is given back by whoever moves the lease.
    pub fn put_sheet(&self, sheet: &Sheet, bytes: u64) -> Result<(), Error> {
        let dir = PathBuf::from(sheet.lease.to_string());
        let made = self.at().make_dir(&dir);
        made.map_err(|e| self.trouble("make the directory", &dir, &e))?;
        self.write(&format!("{}/sheet", sheet.lease), sheet.encode().as_bytes())?;
        self.reserve_for(sheet.lease, bytes)
    }

    /// Writes a part of one down, as somebody else tells it: it is judged when all of it is there. Parts may come in another order than they
    /// were sent in, but none far ahead of the others.
    pub fn put_sheet_part(&self, lease: u64, at: u64, text: &[u8]) -> Result<(), Error> {
        if self.is_laid() {
            return Err(self.was_laid());
        }
        let end = at.checked_add(text.len() as u64);
        if end.is_none_or(|end| end > SHEET_MAX) {
            let text = format!(
                "what lease {lease} has takes more than {SHEET_MAX} bytes, so long are its names: plan with shorter leases (--lease), or the \
                 directories below by themselves"
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let dir = PathBuf::from(lease.to_string());
        let name = dir.join("sheet");
        let write = || -> io::Result<bool> {
            match self.at().make_dir(&dir) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                _ => {}
            }
            let file = self.at().touch(&name)?;
            if at > file.metadata()?.len() + AHEAD {
                return Ok(false);
            }
            file.write_all_at(text, at).map(|()| true)
        };
        if write().map_err(|e| self.trouble("write", &name, &e))? {
            return Ok(());
        }
        let text = format!("the client tells of lease {lease} with something left out: plan anew");
        Err(Error::new(ErrorKind::Usage, text))
    }

    /// Reserves space for that much of a lease.
    pub fn reserve_for(&self, lease: u64, bytes: u64) -> Result<(), Error> {
        let dir = PathBuf::from(lease.to_string());
        if bytes > 0 {
            let name = dir.join("reserve");
            let made = self.at().create(&name, 0o600);
            made.and_then(|file| reserve(&file, bytes))
                .map_err(|e| self.trouble("reserve space for", &name, &e))?;
        }
        Ok(())
    }

    /// The text of what a lease has.
    pub fn sheet_text(&self, plan: &TreePlan, lease: u64) -> Result<String, Error> {
        Ok(self.sheet(plan, lease)?.encode())
    }

    /// Another mover may have been first.
    pub fn give_back_reserve(&self, lease: u64) {
        let _ = self.at().remove_file(format!("{lease}/reserve").as_ref());
    }
}

/// A full disk shows before anything is moved.
pub fn reserve(file: &File, size: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    if size > 0 {
        use rustix::fs::FallocateFlags;
        use rustix::io::Errno;
        return match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, size) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            result => Ok(result?),
        };
    }
    let _ = (file, size);
    Ok(())
}
