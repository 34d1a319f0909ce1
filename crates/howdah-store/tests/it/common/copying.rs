//! A source, a place for its copy, and copies that end on the way.

use crate::common::{Engine, batch, hash, names_in, random_bytes};
use howdah_core::RangeSet;
use howdah_store::{
    GROUP, Limits, Sink, SinkOptions, Source, SourceIdentity, SourceSpec, StoreError, Target,
};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub(crate) const MIB: usize = GROUP as usize;

/// A source and a place for its copy.
pub(crate) struct Copy {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) engine: Engine,
    pub(crate) data: Vec<u8>,
}

impl Copy {
    pub(crate) fn new(size: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("there")).unwrap();
        let data = random_bytes(size);
        fs::write(dir.path().join("source"), &data).unwrap();
        Self {
            dir,
            engine: Engine::new(),
            data,
        }
    }

    pub(crate) fn source_path(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    pub(crate) fn there(&self) -> PathBuf {
        self.dir.path().join("there")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.there().join("file")
    }

    pub(crate) fn source(&self) -> Source {
        let path = self.source_path();
        Source::open(SourceSpec::LocalFile(&path), true, self.engine.wake()).unwrap()
    }

    pub(crate) fn identity(&self) -> SourceIdentity {
        self.source().identity().unwrap()
    }

    pub(crate) fn target(&self) -> Target {
        Target::open_local(&self.path()).unwrap()
    }

    pub(crate) fn options(&self) -> SinkOptions {
        SinkOptions {
            size: Some(self.data.len() as u64),
            source: Some(self.identity()),
            limits: Limits {
                // A claim for each MiB.
                dirty_bytes: GROUP,
                ..Limits::default()
            },
            ..SinkOptions::default()
        }
    }

    pub(crate) fn sink(&self) -> Sink {
        Sink::resume(self.target(), &self.options(), self.engine.wake()).unwrap()
    }

    /// Writes these groups and tells what they hash to.
    pub(crate) fn write(&self, sink: &mut Sink, groups: impl IntoIterator<Item = usize>) {
        for group in groups {
            let start = group * MIB;
            let len = MIB.min(self.data.len() - start);
            let value = group_value(&self.data[start..start + len], group);
            sink.tell_values(group as u64, &[value]).unwrap();
            for at in (0..len).step_by(60_000) {
                let range = (start + at, 60_000.min(len - at));
                self.engine.submit(sink, batch(&self.data, &[range]));
            }
        }
    }

    /// A copy that ended when these groups were claimed.
    pub(crate) fn interrupted(&self, groups: impl IntoIterator<Item = usize>) {
        let mut sink = self.sink();
        let groups: Vec<_> = groups.into_iter().collect();
        let bytes = sink.kept_bytes() + groups.len() as u64 * GROUP;
        self.write(&mut sink, groups);
        until("everything is claimed", || sink.kept_bytes() == bytes);
        self.drop(sink);
    }

    /// The writer's own threads hold the lock for a moment longer.
    pub(crate) fn drop(&self, sink: Sink) {
        drop(sink);
        let identity = self.identity();
        until("the file is let go of", || {
            !self.target().is_being_written_from(&identity)
        });
    }

    pub(crate) fn finish(&self, mut sink: Sink) -> Result<(), StoreError> {
        let held = sink.held();
        let groups = self.data.len().div_ceil(MIB);
        let missing = (0..groups).filter(|group| !holds(&held, *group));
        self.write(&mut sink, missing);
        let whole = held.is_empty().then(|| hash(&self.data));
        sink.finish(self.data.len() as u64, whole);
        let outcome = self.engine.outcome(&mut sink)?;
        assert_eq!(outcome.hash, Some(hash(&self.data)), "the root is known");
        assert!(fs::read(self.path()).unwrap() == self.data);
        assert_eq!(names_in(&self.there()), ["file"]);
        Ok(())
    }
}

pub(crate) fn holds(held: &RangeSet, group: usize) -> bool {
    let start = group as u64 * GROUP;
    held.contains(howdah_core::ByteRange::new(start, start + 1))
}

pub(crate) fn group_value(bytes: &[u8], index: usize) -> [u8; 32] {
    use blake3::hazmat::HasherExt as _;
    let mut hasher = blake3::Hasher::new();
    hasher.set_input_offset(index as u64 * GROUP).update(bytes);
    hasher.finalize_non_root()
}

/// Waits for it, with a limit.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_mins(1), "never: {what}");
        std::thread::yield_now();
    }
}
