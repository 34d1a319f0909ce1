//! What is said about the holes of an object before the object itself is announced.

use crate::Misbehaved;
use crate::message::Message;
use crate::resume::WireRanges;
use howdah_core::{ObjectId, RangeSet};

/// Bytes of holes that are left out of a file: both sides hash them, which takes an hour for some TiB, so a peer must not name any
/// number. Further ones are sent as zeros.
pub const MAX_HOLE_BYTES: u64 = 16 << 40;

/// The holes of the object that is announced next.
#[derive(Debug, Default)]
pub struct Announced(Option<(ObjectId, WireRanges)>);

impl Announced {
    /// What was told and not used, in bytes of memory.
    pub fn held_bytes(&self) -> usize {
        let told = self.0.as_ref();
        told.map_or(0, |(_, ranges)| ranges.held_bytes())
    }

    /// The sender has told them; what it told before and did not use is forgotten.
    pub fn note(&mut self, object: ObjectId, ranges: WireRanges) {
        self.0 = Some((object, ranges));
    }

    /// What was told of an object that comes now: its groups that are holes. `None`: it has none.
    ///
    /// # Errors
    ///
    /// It cannot have them.
    pub fn take(
        &mut self,
        object: ObjectId,
        size: Option<u64>,
    ) -> Result<Option<RangeSet>, Misbehaved> {
        let Some((_, ranges)) = self.0.take_if(|(told, _)| *told == object) else {
            return Ok(None);
        };
        let Some(size) = size else {
            let text = "has holes in an object whose size it does not know";
            return Err(Misbehaved::new(text));
        };
        let holes = ranges.within(size)?;
        if holes.byte_count() > MAX_HOLE_BYTES {
            let text = format!(
                "has more than {} TiB of holes in a file",
                MAX_HOLE_BYTES >> 40
            );
            return Err(Misbehaved::new(text));
        }
        Ok(Some(holes))
    }
}

/// The message that tells them.
pub fn announce(object: ObjectId, holes: &RangeSet) -> Message {
    let ranges = holes.into();
    Message::Holes { object, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resume::GROUP;
    use howdah_core::ByteRange;

    #[test]
    fn holes_are_those_of_their_object_and_lie_in_it() {
        let mut holes = RangeSet::new();
        holes.insert(ByteRange::new(GROUP, 3 * GROUP));
        let mut announced = Announced::default();
        let tell = |announced: &mut Announced, object| match announce(object, &holes) {
            Message::Holes { object, ranges } => announced.note(object, ranges),
            _ => unreachable!("another message"),
        };
        tell(&mut announced, ObjectId::new(4));
        assert!(
            announced
                .take(ObjectId::new(2), Some(9 * GROUP))
                .unwrap()
                .is_none()
        );
        assert_eq!(
            announced.take(ObjectId::new(4), Some(3 * GROUP)).unwrap(),
            Some(holes.clone())
        );
        assert!(
            announced
                .take(ObjectId::new(4), Some(3 * GROUP))
                .unwrap()
                .is_none(),
            "once"
        );
        tell(&mut announced, ObjectId::new(4));
        assert!(
            announced
                .take(ObjectId::new(4), Some(3 * GROUP - 1))
                .is_err(),
            "beyond the end"
        );
        tell(&mut announced, ObjectId::new(4));
        assert!(
            announced.take(ObjectId::new(4), None).is_err(),
            "of no size"
        );
    }

    #[test]
    fn a41_a_hole_of_any_size_is_an_error() {
        for (bytes, good) in [(MAX_HOLE_BYTES, true), (MAX_HOLE_BYTES + GROUP, false)] {
            let mut holes = RangeSet::new();
            holes.insert(ByteRange::new(0, bytes));
            let mut announced = Announced::default();
            announced.note(ObjectId::new(4), (&holes).into());
            let taken = announced.take(ObjectId::new(4), Some(bytes));
            assert_eq!(taken.is_ok(), good, "{taken:?}");
        }
    }
}
