//! What stands in for loading where the feature `bpf` is off, or the system is not Linux.

use crate::BpfError;
use crate::name::Field;
use std::path::Path;

/// Whether anything can be loaded.
pub(crate) const BUILT_IN: bool = false;

/// Never made.
#[derive(Debug)]
pub(crate) struct InKernel(std::convert::Infallible);

impl InKernel {
    /// Refuses.
    pub(crate) fn register(_: &Path, _: &Field, _: &Field, _: &str) -> Result<Self, BpfError> {
        Err(BpfError::BuiltWithout)
    }
}
