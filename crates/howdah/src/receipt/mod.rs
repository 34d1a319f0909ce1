//! Receipts: what a copy has brought, signed by both ends, for whoever asks years later. docs/receipts.md specifies the form.

mod checking;
mod form;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod making;

pub use checking::{Checked, Wanted, check_receipt};
pub use form::{Direction, End, Receipt, Statement};
pub use making::ReceiptMaker;

pub(crate) use form::{Entry, PartSum, root_of};
