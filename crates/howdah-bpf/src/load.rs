//! Loading through libbpf.

use crate::BpfError;
use crate::name::Field;
use libbpf_rs::{ErrorKind, Link, MapCore, MapType, Object, ObjectBuilder, PrintLevel};
use std::io;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Whether anything can be loaded.
pub(crate) const BUILT_IN: bool = true;

/// How much of what libbpf says an error repeats.
const LOG_LINES: usize = 12;

/// One load at a time, so that what libbpf says belongs to it.
static LOADING: Mutex<()> = Mutex::new(());
/// What libbpf said since the last load began.
static SAID: Mutex<String> = Mutex::new(String::new());

/// A registration. The link is a file descriptor of this process, and the registration lasts until it
/// is closed.
#[derive(Debug)]
pub(crate) struct InKernel {
    // The order of the fields is the order of removal.
    link: Link,
    _object: Object,
}

impl InKernel {
    /// Loads `object`, which names itself `from`, and registers it as `to`, which is `name`.
    pub(crate) fn register(
        object: &Path,
        from: &Field,
        to: &Field,
        name: &str,
    ) -> Result<Self, BpfError> {
        let _one = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        SAID.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let before = libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
        let result = Self::load(object, from, to, name);
        libbpf_rs::set_print(before);
        result
    }

    fn load(path: &Path, from: &Field, to: &Field, name: &str) -> Result<Self, BpfError> {
        let refused = |what, error: &libbpf_rs::Error| refusal(what, name, error);
        let mut object = ObjectBuilder::default()
            .open_file(path)
            .map_err(|error| refused("open", &error))?;
        for mut map in object.maps_mut() {
            if map.map_type() == MapType::StructOps {
                let value = map.initial_value_mut().unwrap_or_default();
                if !rename(value, from, to) {
                    let error = io::Error::new(
                        io::ErrorKind::InvalidData,
                        "the object does not hold the name: `make bpf` again",
                    );
                    return Err(refused("name", &error.into()));
                }
            }
        }
        let mut object = object.load().map_err(|error| refused("load", &error))?;
        let link = object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .ok_or_else(|| {
                let error =
                    io::Error::new(io::ErrorKind::InvalidData, "the object registers nothing");
                refused("register", &error.into())
            })?
            .attach_struct_ops()
            .map_err(|error| refused("register", &error))?;
        Ok(Self {
            link,
            _object: object,
        })
    }
}

impl Drop for InKernel {
    /// Takes it out at once. Closing the link would do the same, but not while a child of this process
    /// that has just been forked, and has not yet become another program, holds a copy of it.
    fn drop(&mut self) {
        // Kernels before 6.10 cannot; there the close has to do.
        let _ = self.link.detach();
    }
}

/// Puts `to` where `from` stands in the initial value of a `struct tcp_congestion_ops`, whose other
/// fields are pointers that are still zero, and numbers.
fn rename(value: &mut [u8], from: &Field, to: &Field) -> bool {
    let Some(at) = value.windows(from.len()).position(|window| window == from) else {
        return false;
    };
    value[at..at + to.len()].copy_from_slice(to);
    true
}

/// Collects what libbpf says, in place of its writing on standard error.
#[allow(
    clippy::needless_pass_by_value,
    reason = "libbpf-rs says what it looks like"
)]
fn listen(_level: PrintLevel, words: String) {
    SAID.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push_str(&words);
}

fn refusal(what: &'static str, name: &str, error: &libbpf_rs::Error) -> BpfError {
    match error.kind() {
        ErrorKind::PermissionDenied => BpfError::NotPermitted,
        ErrorKind::AlreadyExists => BpfError::AlreadyRegistered(name.to_owned()),
        _ => BpfError::Kernel {
            what,
            name: name.to_owned(),
            source: io::Error::other(format!("{error:#}")),
            log: last_words(&SAID.lock().unwrap_or_else(PoisonError::into_inner)),
        },
    }
}

/// The end of what was said: the verifier tells its whole way, and at the end why it stopped.
fn last_words(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::field;

    #[test]
    fn an_error_repeats_the_end_of_the_log() {
        let said: String =
            (0..100).fold(String::new(), |said, line| format!("{said}line {line}\n"));
        let words = last_words(&said);
        assert!(
            words.starts_with("line 88\n") && words.ends_with("line 99"),
            "{words}"
        );
        assert_eq!(last_words("one\n"), "one");
    }

    #[test]
    fn a_name_is_replaced_whole() {
        let mut value = [0u8; 40];
        value[10..17].copy_from_slice(b"bpf_bic");
        assert!(rename(&mut value, &field("bpf_bic"), &field("bpf_bic0a1")));
        assert_eq!(&value[10..26], b"bpf_bic0a1\0\0\0\0\0\0");
        assert!(
            !rename(&mut value, &field("bpf_bic"), &field("bpf_bic0a2")),
            "it has another name now"
        );
    }
}
