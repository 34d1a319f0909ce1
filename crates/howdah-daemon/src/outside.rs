//! What a daemon asks of the program that it is part of.

use crate::limits::HostFacts;

/// How a running copy stands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Standing {
    /// What it moved.
    pub bytes: u64,
    /// Of so much, as far as it knows.
    pub total_bytes: Option<u64>,
    /// Of content, in bits per second, just now.
    pub goodput_bps: u64,
    /// With everything around it.
    pub wire_bps: u64,
}

/// The program's own words and ways.
pub trait Outside: Send + Sync + 'static {
    /// What a limit in words allows now, in bits per second: None is everything, 0 nothing.
    fn allowed(&self, limit: &str) -> Result<Option<u64>, String>;

    /// Tells a running copy of ours what it may take at the most, whatever else it was told, and asks how it stands.
    fn share(&self, pid: u32, limit: Option<u64>) -> Result<Standing, String>;

    /// What is known of machines, in their order, within a second or so.
    fn hosts(&self, names: &[String]) -> Vec<HostFacts>;
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::job::{Grammar, Meaning, Spec};

    /// Knows numbers only, and reaches nobody.
    pub(crate) struct Nobody;

    impl Grammar for Nobody {
        fn check(&self, _: &Spec) -> Result<Meaning, String> {
            Ok(Meaning::default())
        }
    }

    impl Outside for Nobody {
        fn allowed(&self, limit: &str) -> Result<Option<u64>, String> {
            limit.parse().map(Some).map_err(|_| "no limit".to_owned())
        }

        fn share(&self, _: u32, _: Option<u64>) -> Result<Standing, String> {
            Err("there is nobody".to_owned())
        }

        fn hosts(&self, names: &[String]) -> Vec<HostFacts> {
            vec![HostFacts::default(); names.len()]
        }
    }
}
