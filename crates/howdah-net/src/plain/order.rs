//! Puts packets that are numbered, and whose lengths nobody knows beforehand, where they belong.

use std::collections::BTreeMap;
use std::io;

/// See [the module](self). The transport's receive buffer bounds what waits here.
#[derive(Debug, Default)]
pub(super) struct PacketOrder {
    early: BTreeMap<u64, Vec<u8>>,
    next: u64,
    offset: u64,
}

impl PacketOrder {
    /// The packet `at` has come, once; writes what is in order now.
    pub(super) fn place(
        &mut self,
        at: u64,
        payload: &[u8],
        write: &mut impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        if at != self.next {
            self.early.insert(at, payload.to_vec());
            return Ok(());
        }
        self.put(payload, write)?;
        while let Some(payload) = self.early.remove(&self.next) {
            self.put(&payload, write)?;
        }
        Ok(())
    }

    fn put(
        &mut self,
        payload: &[u8],
        write: &mut impl FnMut(u64, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        write(self.offset, payload)?;
        self.offset += payload.len() as u64;
        self.next += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_length_in_any_order() {
        let mut order = PacketOrder::default();
        let mut object = Vec::new();
        for (at, payload) in [(2, "of"), (0, "a "), (3, ""), (4, " words"), (1, "row ")] {
            order
                .place(at, payload.as_bytes(), &mut |offset, part| {
                    assert_eq!(offset, object.len() as u64);
                    object.extend_from_slice(part);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(object, b"a row of words");
    }
}
