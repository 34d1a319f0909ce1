//! How a copy begins: who the server is, what is sent, where it goes.

use super::{Client, Step, Task};
use crate::error::from_store;
use crate::keys::PublicKey;
use crate::session::pace;
use crate::session::receiving::Place;
use crate::session::sending::Sending;
use crate::{Error, ErrorKind, Location, PathBytes};
use howdah_core::Time;
use howdah_proto::Connection;
use howdah_session::TreeOptions;
use howdah_session::client::Coming;
use howdah_session::message::Message;
use howdah_session::resume::WireHeld;
use howdah_store::{
    Limits, RoomWait, Sink, SinkOptions, SinkSpec, Source, SourceSpec, StoreError, Target,
};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

impl Client<'_> {
    pub(super) fn judge(&mut self, peer_key: &[u8]) -> Result<(), Error> {
        let key = PublicKey::from_spki_der(peer_key).ok_or_else(|| {
            Error::new(
                ErrorKind::Auth,
                "the server's key is no Ed25519 key, or one that anybody can sign for",
            )
        })?;
        let judgement = self.outside.judge(key, self.wake());
        self.step = Step::Judging(judgement);
        self.lanes.is_of(peer_key);
        Ok(())
    }

    /// Makes the side that sends keep the pace that the user wants now.
    pub(super) fn keep_pace(&mut self, now: Time, connection: &mut Connection) {
        let pace = pace::wanted(self.config.policy, self.config.share, &self.config.throttle);
        // What a server refuses for seconds makes it slow for long afterwards.
        let pace = pace.split(self.hub().map_or(1, |hub| hub.count()));
        let pace = pace.resting_if(self.peer_is_busy && self.task.is_put());
        if pace == self.pace {
            return;
        }
        self.pace = pace;
        if self.task.is_put() {
            pace::apply(pace, now, connection, None, true);
        } else {
            connection.send_control(&Message::Pace(pace).encode());
        }
    }

    pub(super) fn begin(&mut self, connection: &mut Connection) -> Result<(), Error> {
        self.progress.answered = true;
        self.step = Step::Talking;
        self.room = RoomWait::new(self.config.wait_for_space.into(), self.wake());
        match &self.task {
            Task::Put { source, path } => {
                let hash = *path != *"null:" && self.config.duration_limit.is_none();
                let spec = match source {
                    Location::File(path) => SourceSpec::LocalFile(path),
                    Location::Stdio => SourceSpec::Reader(Box::new(stdin()?)),
                    Location::Zero(size) => SourceSpec::Zero(*size),
                    Location::Null | Location::Remote { .. } | Location::Ssh(_) => {
                        return Err(Error::new(ErrorKind::Usage, "nothing can be read there"));
                    }
                };
                let name = match source {
                    Location::File(path) => path.file_name(),
                    _ => None,
                };
                let name = name.map(PathBytes::from);
                self.progress.current = name.iter().map(PathBytes::to_string).collect();
                let open = if self.config.growing {
                    Source::open_growing
                } else {
                    Source::open
                };
                let source = open(spec, hash, self.wake()).map_err(|e| from_store(&e))?;
                let object = connection.allocate_object();
                // A copy that will be cut does not know its size yet.
                let cuttable = self.config.duration_limit.is_some();
                let size = source.size().filter(|_| !cuttable);
                let path = path.clone();
                self.total = size;
                let mode = source.mode();
                let mut sending = Sending::new(connection, object, source, hash, None);
                sending.cuttable = cuttable;
                let lanes = self.lanes_asked();
                if lanes > 1 {
                    sending.share_out();
                }
                if !cuttable {
                    sending.leave_out_holes(connection);
                }
                let source = sending.offer();
                self.can_go_on = source.is_some();
                let put = Message::Put {
                    object,
                    path,
                    name,
                    size,
                    hash,
                    source,
                    resume: self.config.resume,
                    reread: self.config.reread,
                    mode,
                };
                let patience = self.config.wait_for_space;
                connection.send_control(&if lanes > 1 {
                    let seconds = patience.as_millis().div_ceil(1000);
                    put.encode_with(&(seconds, lanes))
                } else {
                    put.encode_patient(patience)
                });
                self.machine.sends(sending);
            }
            Task::PutLease(lease) => {
                let lease = Arc::clone(lease);
                self.begin_lease(connection, &lease)?;
            }
            Task::Get { path, destination } => {
                let hash = !matches!(destination, Location::Null);
                // The first window of a pipe is known before the pipe is: no round trip is spent on it.
                let window_end = matches!(destination, Location::Stdio)
                    .then_some(Limits::default().first_window());
                let path = path.clone();
                self.progress.current = vec![path.to_string()];
                let target = self.open_target().map_err(|e| from_store(&e))?;
                let held = target.as_ref().and_then(Target::held);
                let held = held
                    .filter(|_| self.config.resume)
                    .map(|held| WireHeld::new(held.source, &held.ranges));
                let values = target.is_some();
                self.target = target;
                let get = Message::Get {
                    path,
                    window_end,
                    hash,
                    held,
                    values,
                };
                let lanes = self.lanes_asked();
                connection.send_control(&if lanes > 1 {
                    get.encode_with(&(self.config.growing, lanes))
                } else if self.config.growing {
                    get.encode_with(&true)
                } else {
                    get.encode()
                });
                self.machine.asked();
            }
            Task::Look(path, _) => self.ask_for(connection, path.clone(), None),
            Task::Range(path, target) => {
                let (path, target) = (path.clone(), Arc::clone(target));
                self.ask_for(connection, path, Some(&target));
            }
            Task::Ask { question, .. } => {
                connection.send_control(&Message::Ask(question.clone()).encode());
                self.machine.asked();
            }
            Task::Files { .. } => {
                connection.send_control(&Message::OpenFiles.encode());
                self.machine.asked();
            }
            Task::PutTree { options, .. } => {
                // The list is for the one who walks.
                let asked = TreeOptions {
                    files: None,
                    ..options.clone()
                };
                self.tell(connection, Vec::new(), asked)?;
            }
            Task::GetTree { paths, options, .. } => {
                let (paths, options) = (paths.clone(), options.clone());
                self.tell(connection, paths, options)?;
            }
            Task::Describe { options, .. } => {
                let options = options.clone();
                self.tell(connection, Vec::new(), options)?;
            }
        }
        Ok(())
    }

    /// The file that is to be received, and what is there of it.
    pub(super) fn open_target(&self) -> Result<Option<Target>, StoreError> {
        let Task::Get {
            path,
            destination: Location::File(target),
        } = &self.task
        else {
            return Ok(None);
        };
        if target.as_os_str().as_encoded_bytes().ends_with(b"/") || target.is_dir() {
            let below = target.join(path.as_path().file_name().unwrap_or_default());
            return Target::open_local(&below).map(Some);
        }
        Target::open_local(target).map(Some)
    }

    pub(super) fn place_for(&mut self, coming: &Coming) -> Result<Place, StoreError> {
        let (size, hash, source) = (coming.size, coming.hash, coming.source);
        let wake = self.wake();
        if let Some(target) = self.target.take() {
            let held = target.held().cloned();
            let options = SinkOptions {
                hash,
                size,
                source,
                holes: coming.holes.clone(),
                reread: self.config.reread,
                mode: coming.mode,
                room: self.room.clone(),
                ..SinkOptions::default()
            };
            let target = if self.config.resume {
                target
            } else {
                target.anew()
            };
            let sink = Sink::resume(target, &options, wake)?;
            self.held_bytes = sink.held().byte_count();
            self.can_go_on = sink.wants_values();
            match (held, source) {
                (Some(held), Some(source)) if self.config.resume => {
                    let changed = held.source.difference(&source);
                    self.tell_resumed(changed.as_deref());
                }
                _ => {}
            }
            return Ok(Place::Store(sink));
        }
        match &self.task {
            Task::Get {
                destination: Location::Stdio,
                ..
            } => {
                let writer = SinkSpec::Writer(Box::new(stdout()?));
                Sink::create(writer, hash, size, wake).map(Place::Store)
            }
            _ => Ok(Place::Null { bytes: 0 }),
        }
    }

    /// Says what becomes of an interrupted copy that was found.
    pub(super) fn tell_resumed(&self, changed: Option<&str>) {
        if let Some(changed) = changed {
            self.config.warn.line(&format!(
                "the source has changed since the copy that was interrupted ({changed}); \
                 it begins anew"
            ));
        } else if self.held_bytes > 0 {
            let mib = self.held_bytes >> 20;
            self.config.note.line(&format!(
                "going on with a copy that was interrupted: {mib} MiB are there already"
            ));
        }
    }
}

/// Standard input without a lock held by this process' printing.
fn stdin() -> Result<std::fs::File, Error> {
    std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .map(std::fs::File::from)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot read standard input: {e}")))
}

fn stdout() -> Result<std::fs::File, StoreError> {
    let owned = std::io::stdout().as_fd().try_clone_to_owned();
    owned.map(std::fs::File::from).map_err(|e| StoreError::Io {
        path: PathBuf::from("-"),
        operation: "write to",
        source: Arc::new(e),
    })
}
