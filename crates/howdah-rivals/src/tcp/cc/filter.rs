//! The maximum over a sliding window.

/// The largest value of the current tick and of the `N - 1` ticks before it.
///
/// What a tick is (a round trip, a probing cycle) is the caller's affair. A window only slides
/// when a value is offered: a filter that is left alone remembers what it knew. An update costs
/// O(1) within a tick and O(`N`) at the first value of a new one.
///
/// This is the exact window; K. Nichols' three-sample algorithm, which kernels use, approximates
/// it in less memory.
#[derive(Clone, Debug)]
pub(crate) struct WindowedMax<const N: usize> {
    slots: [f64; N],
    newest: u64,
    max: f64,
}

impl<const N: usize> WindowedMax<N> {
    /// An empty window.
    pub(crate) const fn new() -> Self {
        Self {
            slots: [0.0; N],
            newest: 0,
            max: 0.0,
        }
    }

    /// Offers a value (not negative) at a tick (that never goes back); returns the maximum.
    pub(crate) fn update(&mut self, tick: u64, value: f64) -> f64 {
        let steps = tick.saturating_sub(self.newest).min(N as u64);
        if steps > 0 {
            for step in 0..steps {
                self.slots[((tick - step) % N as u64) as usize] = 0.0;
            }
            self.newest = tick;
            self.max = self.slots.iter().copied().fold(0.0, f64::max);
        }
        let slot = &mut self.slots[(self.newest % N as u64) as usize];
        *slot = slot.max(value);
        self.max = self.max.max(value);
        self.max
    }

    /// The maximum; zero if nothing was offered.
    pub(crate) const fn get(&self) -> f64 {
        self.max
    }
}

#[cfg(test)]
#[allow(
    clippy::float_cmp,
    reason = "a maximum is one of the values, bit by bit"
)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_peak_is_remembered_for_the_window_and_no_longer() {
        let mut filter = WindowedMax::<10>::new();
        assert_eq!(filter.update(5, 100.0), 100.0);
        for tick in 6..15 {
            assert_eq!(filter.update(tick, 10.0), 100.0, "tick {tick}");
        }
        assert_eq!(filter.update(15, 10.0), 10.0);
    }

    #[test]
    fn it_does_not_age_without_values() {
        let mut filter = WindowedMax::<2>::new();
        filter.update(1, 7.0);
        assert_eq!(filter.get(), 7.0);
        assert_eq!(filter.update(1_000, 3.0), 3.0);
    }

    proptest! {
        #[test]
        fn it_is_the_maximum_of_the_window(
            values in proptest::collection::vec((0u64..4, 0u32..1000), 1..200),
        ) {
            let mut filter = WindowedMax::<5>::new();
            let mut tick = 0;
            let mut seen: Vec<(u64, f64)> = Vec::new();
            for (step, value) in values {
                tick += step;
                seen.push((tick, f64::from(value)));
                let expected = seen
                    .iter()
                    .filter(|(at, _)| at + 5 > tick)
                    .map(|(_, v)| *v)
                    .fold(0.0, f64::max);
                prop_assert_eq!(filter.update(tick, f64::from(value)), expected);
            }
        }
    }
}
