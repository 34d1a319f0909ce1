//! The audit log of whatever serves others.

use clap::Args;
use howdah::{AuditFile, Error, ErrorKind};
use howdah_core::units;
use std::path::PathBuf;

/// Of the server, and of the daemon.
#[derive(Args, Debug)]
pub(crate) struct AuditArgs {
    /// File to which is added, as a line of JSON each, who came, what he asked for, and how it ended (docs/serve.md, docs/daemon.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) audit: Option<PathBuf>,

    /// Do nothing for anybody while the audit log cannot be written
    #[arg(long, requires = "audit")]
    pub(crate) audit_required: bool,

    /// Size at which the audit log is renamed, and a new one begun
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = audit_size, requires = "audit")]
    pub(crate) audit_size: u64,
}

impl AuditArgs {
    /// None: none is wanted.
    pub(crate) fn open(&self) -> Result<Option<AuditFile>, Error> {
        let file = self.audit.as_deref().map(|path| {
            let file = AuditFile::open(path, self.audit_size)
                .map_err(|error| Error::new(ErrorKind::Io, error.to_string()))?;
            let is_required = self.audit_required;
            Ok(if is_required { file.required() } else { file })
        });
        file.transpose()
    }
}

/// A size at which a file is not renamed for every line.
fn audit_size(text: &str) -> Result<u64, String> {
    const LEAST: u64 = 64 << 10;
    match units::parse_bytes(text).map_err(|e| e.to_string())? {
        few if few < LEAST => Err("less than 64KiB would be a file for each few lines".to_owned()),
        bytes => Ok(bytes),
    }
}
