//! Sequence numbers of 31 bits, and the positions for which they stand.
//!
//! Inside an endpoint packets are counted from 0 in 64 bits; the wire has the initial sequence
//! number plus that, modulo 2^31.

/// The bits of a sequence number.
pub(crate) const MASK: u32 = 0x7fff_ffff;

/// Sequence number of the packet at `position`.
#[inline]
pub(crate) const fn on_wire(initial: u32, position: u64) -> u32 {
    initial.wrapping_add(position as u32) & MASK
}

/// The position nearest to `near` that has this sequence number; `None` if it lies before the first.
#[inline]
pub(crate) fn position(initial: u32, near: u64, sequence: u32) -> Option<u64> {
    let ahead = sequence.wrapping_sub(on_wire(initial, near)) & MASK;
    let steps = if ahead > MASK / 2 {
        i64::from(ahead) - (1 << 31)
    } else {
        i64::from(ahead)
    };
    near.checked_add_signed(steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn positions_come_back(
            initial in 0..=MASK,
            near in 0..1_u64 << 40,
            steps in -(1_i64 << 30) + 1..1_i64 << 30,
        ) {
            let Some(at) = near.checked_add_signed(steps) else { return Ok(()) };
            prop_assert_eq!(position(initial, near, on_wire(initial, at)), Some(at));
        }
    }

    #[test]
    fn the_number_after_the_last_is_zero() {
        assert_eq!(on_wire(MASK, 0), MASK);
        assert_eq!(on_wire(MASK, 1), 0);
        assert_eq!(position(MASK, 0, 0), Some(1));
        assert_eq!(position(5, 0, 4), None);
    }
}
