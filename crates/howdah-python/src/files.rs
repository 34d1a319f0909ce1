//! A session for single files of another machine.

use crate::errors::{Raise as _, raised, usage};
use howdah::{
    DirEntry, Error, FileInfo, FileKind, FileVersion, Files as Session, FilesAnswer, FilesRequest,
    PathBytes,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// Size, seconds and nanoseconds of the two times, number.
type Version = (u64, i64, u32, i64, u32, u64);

/// An open session.
#[pyclass(frozen, module = "howdah._howdah")]
pub(crate) struct Files(Mutex<Option<Arc<Session>>>);

impl Files {
    pub(crate) fn new(session: Session) -> Self {
        Self(Mutex::new(Some(Arc::new(session))))
    }

    fn session(&self) -> Option<Arc<Session>> {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        session.clone()
    }
}

#[pymethods]
impl Files {
    /// Asks all of it at once. `done` is called once, on another thread, with a list: of each question its answer, or an exception.
    /// Of a session that is closed nothing is asked, and the result is false: threads share it, and one of them may close it.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn ask(
        &self,
        py: Python<'_>,
        requests: Vec<Bound<'_, PyTuple>>,
        done: Py<PyAny>,
    ) -> PyResult<bool> {
        let Some(session) = self.session() else {
            return Ok(false);
        };
        let requests = requests.iter().map(request).collect::<PyResult<Vec<_>>>()?;
        let batch = Arc::new(Batch {
            answers: Mutex::new((vec![None; requests.len()], requests.len())),
            done,
        });
        if requests.is_empty() {
            return batch.tell(py).map(|()| true);
        }
        py.detach(move || {
            for (index, request) in requests.into_iter().enumerate() {
                let batch = Arc::clone(&batch);
                session.ask(request, move |answer| batch.note(index, answer));
            }
        });
        Ok(true)
    }

    /// Ends the session.
    fn close(&self, py: Python<'_>) {
        let session = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        py.detach(|| {
            if let Some(session) = session.and_then(Arc::into_inner) {
                session.close();
            }
        });
    }
}

type Answers = (Vec<Option<Result<FilesAnswer, Error>>>, usize);

struct Batch {
    /// And how many are missing.
    answers: Mutex<Answers>,
    done: Py<PyAny>,
}

impl Batch {
    fn note(&self, index: usize, answer: Result<FilesAnswer, Error>) {
        let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        all.0[index] = Some(answer);
        all.1 -= 1;
        if all.1 > 0 {
            return;
        }
        drop(all);
        // At the end of the process nobody waits any more.
        let _ = Python::try_attach(|py| {
            if let Err(error) = self.tell(py) {
                error.write_unraisable(py, None);
            }
        });
    }

    fn tell(&self, py: Python<'_>) -> PyResult<()> {
        let answers = {
            let mut all = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut all.0)
        };
        let list = PyList::empty(py);
        for answer in answers.into_iter().flatten() {
            list.append(match answer {
                Ok(answer) => told(py, answer)?,
                Err(error) => raised(py, &error).into_value(py).into_any().into_bound(py),
            })?;
        }
        self.done.call1(py, (list,)).map(drop)
    }
}

/// What is asked: a verb, a path as bytes, and what belongs to it.
fn request(asked: &Bound<'_, PyTuple>) -> PyResult<FilesRequest> {
    let verb: String = asked.get_item(0)?.extract()?;
    let path_at = |index: usize| -> PyResult<PathBytes> {
        let bytes: Vec<u8> = asked.get_item(index)?.extract()?;
        Ok(PathBytes::from(&bytes[..]))
    };
    let path = path_at(1)?;
    Ok(match &*verb {
        "stat" => FilesRequest::Stat { path },
        "list" => FilesRequest::List { path },
        "hash" => FilesRequest::Hash { path },
        "read" => {
            let version: Option<Version> = asked.get_item(2)?.extract()?;
            FilesRequest::Read {
                path,
                version: version.map(|(size, m, m_ns, c, c_ns, inode)| FileVersion {
                    size,
                    modified: (m, m_ns),
                    changed: (c, c_ns),
                    inode,
                }),
                ranges: asked.get_item(3)?.extract()?,
            }
        }
        "mkdir" => FilesRequest::MakeDir {
            path,
            parents: asked.get_item(2)?.extract()?,
        },
        "remove" => FilesRequest::Remove {
            path,
            is_dir: asked.get_item(2)?.extract()?,
        },
        "rename" => FilesRequest::Rename {
            path,
            to: path_at(2)?,
        },
        _ => {
            return Err(usage(
                asked.py(),
                format!("nothing about files is called {verb:?}"),
            ));
        }
    })
}

fn told(py: Python<'_>, answer: FilesAnswer) -> PyResult<Bound<'_, PyAny>> {
    Ok(match answer {
        FilesAnswer::Info(info) => described(py, &info)?.into_any(),
        FilesAnswer::Entries(entries) => {
            let list = PyList::empty(py);
            for DirEntry { name, info } in entries {
                list.append((PyBytes::new(py, name.as_bytes()), described(py, &info)?))?;
            }
            list.into_any()
        }
        FilesAnswer::Bytes { parts, .. } => {
            let parts = parts.iter().map(|part| PyBytes::new(py, part));
            PyList::new(py, parts.collect::<Vec<_>>())?.into_any()
        }
        FilesAnswer::Hash { blake3, .. } => {
            let mut hex = String::with_capacity(2 * blake3.len());
            for byte in blake3 {
                let _ = write!(hex, "{byte:02x}");
            }
            hex.into_pyobject(py)?.into_any()
        }
        _ => py.None().into_bound(py),
    })
}

fn described<'py>(py: Python<'py>, info: &FileInfo) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let kind = match info.kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "link",
        _ => "other",
    };
    let FileVersion {
        size,
        modified: (m, m_ns),
        changed: (c, c_ns),
        inode,
    } = info.version;
    dict.set_item("type", kind)?;
    dict.set_item("size", size)?;
    dict.set_item("mtime", m as f64 + f64::from(m_ns) / 1e9)?;
    dict.set_item("islink", info.is_link)?;
    dict.set_item("version", (size, m, m_ns, c, c_ns, inode))?;
    if let Some(mode) = info.mode {
        dict.set_item("mode", mode)?;
    }
    if let Some((uid, gid)) = info.owner {
        dict.set_item("uid", uid)?;
        dict.set_item("gid", gid)?;
    }
    Ok(dict)
}

/// A session with the machine of a place.
pub(crate) fn open(py: Python<'_>, client: &howdah::Client, place: &str) -> PyResult<Files> {
    let session = py.detach(|| client.open(place)).raise(py)?;
    Ok(Files::new(session))
}
