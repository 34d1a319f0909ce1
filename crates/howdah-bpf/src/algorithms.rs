//! The list of congestion controls: one line each.

/// A congestion control of `bpf/`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Algorithm {
    /// Name under which the kernel knows it: what `TCP_CONGESTION` and `iperf3 -C` take.
    pub name: &'static str,
    /// Its object in `target/bpf`, without `.o`, and its source in `bpf/`, without `.c`.
    pub object: &'static str,
    /// Name of the same algorithm in the simulator (`howdah_rivals::tcp::cc`).
    pub simulated_as: &'static str,
    /// What it is and where it is written down, in one line.
    pub about: &'static str,
}

const ALL: [Algorithm; 6] = [
    Algorithm {
        name: "bpf_hstcp",
        object: "hstcp",
        simulated_as: "hstcp",
        about: "HighSpeed TCP (RFC 3649, table of appendix B)",
    },
    Algorithm {
        name: "bpf_scalable",
        object: "scalable",
        simulated_as: "scalable",
        about: "Scalable TCP (Kelly 2003, legacy window 16)",
    },
    Algorithm {
        name: "bpf_htcp",
        object: "htcp",
        simulated_as: "htcp",
        about: "H-TCP (Leith, Shorten 2004; draft-leith-tcp-htcp)",
    },
    Algorithm {
        name: "bpf_fast",
        object: "fast",
        simulated_as: "fast",
        about: "FAST TCP (Jin, Wei, Low 2004), alpha 200 packets",
    },
    Algorithm {
        name: "bpf_bic",
        object: "bic",
        simulated_as: "bic",
        about: "BIC (Xu, Harfoush, Rhee 2004; constants of Linux 2.6)",
    },
    Algorithm {
        name: "bpf_cubic05",
        object: "cubic05",
        simulated_as: "cubic2005",
        about: "CUBIC of its paper (Rhee, Xu, PFLDnet 2005; beta 0.8, at most 160 segments/s)",
    },
];

/// Every congestion control that can be registered.
pub fn list() -> &'static [Algorithm] {
    &ALL
}

/// The one of that name.
pub(crate) fn find(name: &str) -> Option<&'static Algorithm> {
    ALL.iter().find(|algorithm| algorithm.name == name)
}

/// Their names, for a message.
pub(crate) fn names() -> String {
    ALL.map(|algorithm| algorithm.name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_leave_room_for_a_suffix() {
        for algorithm in list() {
            assert!(algorithm.name.starts_with("bpf_"), "{algorithm:?}");
            let private = crate::name::private(algorithm.name, 0);
            assert!(private.len() <= 15, "{algorithm:?}");
            assert_eq!(find(algorithm.name), Some(algorithm));
        }
    }

    #[test]
    fn each_is_simulated_too() {
        for algorithm in list() {
            assert!(
                howdah_rivals::tcp::cc::find(algorithm.simulated_as).is_some(),
                "{algorithm:?}"
            );
        }
    }
}
