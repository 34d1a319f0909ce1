//! Directories of this machine, for who is about to submit a job: names, kinds and sizes, and no more than jobs may touch.

#![expect(
    unused_qualifications,
    reason = "what describes the parameters is made by a macro"
)]

use super::jobs::Asked;
use super::shapes::{Directory, Entry, Problem};
use super::{Failure, Shared};
use crate::bounds::Bounds;
use axum::Json;
use axum::extract::{Query, State as Given};
use axum::response::{IntoResponse as _, Response};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};
use serde::Deserialize;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use utoipa::IntoParams;

/// So many names are told; of a directory with more, some.
const MOST: usize = 5_000;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Where {
    /// An absolute path; the first of the directories that jobs may touch, or the home of the daemon's user, if none is given.
    path: Option<String>,
}

/// What is in a directory of the daemon's machine.
#[utoipa::path(
    get,
    path = "/v1/files",
    params(Where),
    responses(
        (status = 200, description = "Its names", body = Directory),
        (status = 400, description = "It is no absolute path, or no directory", body = Problem),
        (status = 403, description = "Jobs may not touch it, or the daemon's user may not read it", body = Problem),
        (status = 404, description = "There is none", body = Problem),
    )
)]
pub(super) async fn list(
    Given(shared): Given<Arc<Shared>>,
    asked: Asked<Where>,
) -> Result<Response, Failure> {
    let Query(asked) = asked.map_err(|e| Failure::usage(e.body_text()))?;
    let path = match asked.path {
        Some(path) => PathBuf::from(path),
        None => shared.bounds.allow.first().unwrap_or(&shared.home).clone(),
    };
    if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
        return Err(Failure::usage("a directory is named by its absolute path"));
    }
    let bounds = Arc::clone(&shared.bounds);
    let found = tokio::task::spawn_blocking(move || look(&bounds, &path)).await;
    let found = found.map_err(|_| Failure::internal("looking failed"))??;
    Ok(Json(found).into_response())
}

fn look(bounds: &Bounds, path: &Path) -> Result<Directory, Failure> {
    // Whatever is wrong with it: what lies outside is not told.
    let shown = path.display();
    let outside = || {
        Failure::refused(format!(
            "{shown} is in none of the directories that jobs of this daemon may touch (--allow)"
        ))
    };
    if let Err(why) = bounds.check_place(path) {
        return Err(if bounds.allow.is_empty() {
            Failure::refused(why)
        } else {
            outside()
        });
    }
    let allowed = &bounds.allow;
    let failed = |error: io::Error| {
        let text = format!("{shown}: {error}");
        match error.kind() {
            io::ErrorKind::NotFound => Failure::not_found(text),
            io::ErrorKind::NotADirectory => Failure::usage(text),
            _ => Failure::refused(text),
        }
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    // What was opened, not what has that name now.
    let real = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).map_err(failed)?;
    if bounds.check_place(&real).is_err() {
        return Err(outside());
    }
    let mut names = Vec::new();
    let mut more = false;
    for entry in Dir::read_from(&opened).map_err(|e| failed(e.into()))? {
        let entry = entry.map_err(|e| failed(e.into()))?;
        let name = entry.file_name();
        if [&b"."[..], b".."].contains(&name.to_bytes()) {
            continue;
        }
        if names.len() == MOST {
            more = true;
            break;
        }
        // It may be gone by now.
        let Ok(stat) = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        let text = OsStr::from_bytes(name.to_bytes());
        names.push(Entry {
            name: text.to_string_lossy().into_owned(),
            is_text: text.to_str().is_some(),
            kind: kind(FileType::from_raw_mode(stat.st_mode)).to_owned(),
            bytes: u64::try_from(stat.st_size).unwrap_or(0),
            modified_ms: in_ms(stat.st_mtime),
        });
    }
    names.sort_by(|a, b| (a.kind != "directory", &a.name).cmp(&(b.kind != "directory", &b.name)));
    let above = |parent: &Path| {
        let dirs = allowed.iter().filter_map(|dir| fs::canonicalize(dir).ok());
        allowed.is_empty() || dirs.into_iter().any(|dir| parent.starts_with(dir))
    };
    Ok(Directory {
        parent: real
            .parent()
            .filter(|parent| above(parent))
            .map(|parent| parent.display().to_string()),
        path: real.display().to_string(),
        names,
        more,
    })
}

/// Whoever may write there sets times as he likes, as far as the file system goes.
fn in_ms(seconds: i64) -> u64 {
    u64::try_from(seconds).unwrap_or(0).saturating_mul(1_000)
}

fn kind(of: FileType) -> &'static str {
    match of {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character_device",
        FileType::BlockDevice => "block_device",
        FileType::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_time_beyond_all_times_is_no_fault() {
        let told = [-1, 0, 7, i64::MAX].map(in_ms);
        assert_eq!(told, [0, 0, 7_000, u64::MAX]);
    }

    #[test]
    fn a_directory_is_told_as_far_as_jobs_may_touch_it() {
        let place = tempfile::tempdir().unwrap();
        let inside = fs::canonicalize(place.path()).unwrap().join("in");
        fs::create_dir_all(inside.join("sub")).unwrap();
        fs::write(inside.join("a"), "abc").unwrap();
        fs::write(inside.join(OsStr::from_bytes(b"\xff")), "").unwrap();
        symlink("/etc", inside.join("out")).unwrap();
        let allowed = Bounds {
            allow: vec![inside.clone()],
            ..Bounds::default()
        };
        let found = look(&allowed, &inside).unwrap();
        let names = found.names.iter();
        let names: Vec<_> = names
            .map(|n| (n.name.as_str(), n.kind.as_str(), n.is_text))
            .collect();
        assert_eq!(
            names,
            [
                ("sub", "directory", true),
                ("a", "file", true),
                ("out", "symlink", true),
                ("\u{fffd}", "file", false)
            ]
        );
        assert_eq!(found.names[1].bytes, 3);
        // Nothing leads out.
        assert_eq!(found.parent, None);
        let sub = look(&allowed, &inside.join("sub")).unwrap();
        assert_eq!(sub.parent.as_deref(), inside.to_str());
        for path in ["/", "/etc", "/nonexistent", "/etc/passwd"] {
            let failure = look(&allowed, Path::new(path)).unwrap_err();
            assert!(failure.message.contains("--allow"), "{failure:?}");
        }
        for name in ["out", "..", "sub/../..", "out/../tmp"] {
            let failure = look(&allowed, &inside.join(name)).unwrap_err();
            assert!(failure.message.contains("--allow"), "{failure:?}");
        }
        // Without --allow, all that the daemon's user may read.
        assert!(
            look(&Bounds::default(), Path::new("/etc"))
                .unwrap()
                .parent
                .is_some()
        );
        let wrong = [("nothing", "not_found"), ("a", "usage")];
        for (name, kind) in wrong {
            let failure = look(&allowed, &inside.join(name)).unwrap_err();
            assert_eq!(failure.kind, kind, "{failure:?}");
        }
    }
}
