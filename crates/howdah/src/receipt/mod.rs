//! Receipts: what a copy has brought, signed by both ends, for whoever asks years later. docs/receipts.md specifies the form.

mod checking;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod making;

pub use checking::{Checked, Wanted, check_receipt};
pub use making::ReceiptMaker;
