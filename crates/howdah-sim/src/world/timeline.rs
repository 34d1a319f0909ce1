//! Things that happen to the world from outside, at set times.

use super::World;
use crate::agenda::Key;
use howdah_core::{Span, Time};
use std::collections::BTreeMap;

/// Changes the world once.
type Once<T> = Box<dyn FnOnce(&mut World<T>)>;
/// Looks at the world again and again.
type Every<T> = Box<dyn FnMut(Time, &mut World<T>)>;

/// What a timeline holds.
pub(crate) enum Action<T> {
    Once(Once<T>),
    Every { span: Span, sample: Every<T> },
}

/// Actions in the order in which they are due.
pub(crate) struct Timeline<T> {
    actions: BTreeMap<(Time, u64), Action<T>>,
}

impl<T> Timeline<T> {
    pub(crate) const fn new() -> Self {
        Self {
            actions: BTreeMap::new(),
        }
    }

    pub(crate) fn insert(&mut self, key: Key, action: Action<T>) {
        self.actions.insert((key.time, key.seq), action);
    }

    pub(crate) fn pop(&mut self) -> Option<Action<T>> {
        self.actions.pop_first().map(|(_, action)| action)
    }

    pub(crate) fn head(&self) -> Option<Key> {
        self.actions
            .first_key_value()
            .map(|(&(time, seq), _)| Key::new(time, seq))
    }
}
