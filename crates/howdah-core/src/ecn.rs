//! What a packet's IP header says about congestion.

/// The two ECN bits (RFC 3168, section 5; RFC 9331 for ECT(1)).
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Ecn {
    /// Its sender does not know marks: it can only be dropped.
    #[default]
    NotEct = 0,
    /// ECT(1): its sender answers marks finely, as L4S asks.
    Ect1 = 1,
    /// ECT(0): its sender takes a mark for a loss.
    Ect0 = 2,
    /// Congestion experienced: marked on the way.
    Ce = 3,
}

impl Ecn {
    /// Whether it can be marked instead of dropped.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotEct)
    }

    /// Whether a dual queue takes it for L4S: the lower bit, as a mark may have been ECT(1) before (RFC 9332, 2.5.1).
    pub const fn is_l4s(self) -> bool {
        self as u8 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bit_decides() {
        let all = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce];
        assert_eq!(all.map(Ecn::is_l4s), [false, true, false, true]);
        assert_eq!(all.map(Ecn::is_capable), [false, true, true, true]);
    }
}
