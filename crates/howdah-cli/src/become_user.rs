//! A process of root that becomes somebody else once it has what takes root.

use howdah::{Error, ErrorKind};
use nix::unistd::{Gid, Uid, User};
use std::ffi::CString;
use std::path::PathBuf;

/// Whom it becomes.
#[derive(Debug)]
pub(crate) struct NewUser {
    name: CString,
    uid: Uid,
    gid: Gid,
    pub(crate) home: PathBuf,
}

impl NewUser {
    /// Whom a server becomes that was started with `--user`; `None`: it stays who it is. Root is served only where
    /// somebody says so: whoever breaks into a server, or has a key that may write, would have the machine (H6).
    pub(crate) fn choose(named: Option<&str>) -> Result<Option<Self>, Error> {
        let usage = |text: String| Err(Error::new(ErrorKind::Usage, text));
        let us = Uid::effective();
        let Some(name) = named else {
            if us.is_root() {
                let text = "serve does not run as root: say --user NAME, and it becomes that user once its port is open (--user root if \
                            root it must be)";
                return usage(text.to_owned());
            }
            return Ok(None);
        };
        let found = User::from_name(name).map_err(|e| {
            let text = format!("--user {name}: who that is cannot be looked up: {e}");
            Error::new(ErrorKind::Io, text)
        })?;
        let Some(user) = found else {
            return usage(format!("--user {name}: there is no such user here"));
        };
        if user.uid == us {
            return Ok(None);
        }
        if !us.is_root() {
            return usage(format!(
                "--user {name}: only root can become another user; leave --user out, or start it as root"
            ));
        }
        let Ok(name) = CString::new(user.name) else {
            return usage(format!("--user {name}: that is no name"));
        };
        Ok(Some(Self {
            name,
            uid: user.uid,
            gid: user.gid,
            home: user.dir,
        }))
    }

    /// Becomes that user, with his groups, in all threads; there is no way back.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        let failed = |what: &str, e: nix::Error| {
            let name = self.name.to_string_lossy();
            Error::new(ErrorKind::Io, format!("--user {name}: cannot {what}: {e}"))
        };
        #[cfg(not(target_vendor = "apple"))]
        nix::unistd::initgroups(&self.name, self.gid).map_err(|e| failed("take the groups", e))?;
        nix::unistd::setgid(self.gid).map_err(|e| failed("take the group", e))?;
        nix::unistd::setuid(self.uid).map_err(|e| failed("become that user", e))?;
        if nix::unistd::setuid(Uid::from_raw(0)).is_ok() || Uid::effective() != self.uid {
            let text = "the kernel would let this process become root again";
            return Err(Error::new(ErrorKind::Io, text));
        }
        Ok(())
    }
}
