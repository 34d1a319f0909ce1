//! Messages of the model; the programs' are not published. Each begins with a byte that says what
//! it is; numbers are big-endian.

use crate::blast::channel::Channel;
use howdah_core::HeaderBytes;

/// Bytes of the packet number before the payload.
pub(super) const HEADER_BYTES: usize = 4;
/// Most holes in one message.
pub(super) const MOST_HOLES: usize = 1000;

pub(super) fn header(number: u32) -> HeaderBytes {
    HeaderBytes::from_slice(&number.to_be_bytes())
}

pub(super) fn number(header: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(*header.first_chunk::<HEADER_BYTES>()?))
}

/// Packets in a row: the first one and how many.
pub(super) type Hole = (u32, u32);

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// First step, from the sender: size in bytes, payload of a packet, highest rate in bit/s.
    Offer(u64, u32, u64),
    /// Second step, from the receiver: rate in bit/s.
    Grant(u64),
    /// Third step, from the sender: the rate it begins with.
    Confirm(u64),
    /// From the receiver: send at this rate from now on.
    Rate(u64),
    /// From the sender: every packet has left at least once.
    Sent,
    /// From the receiver: these are missing.
    Missing(Vec<Hole>),
    /// From the receiver: all is there.
    Done,
}

impl Message {
    pub(super) fn write(&self, channel: &mut Channel) {
        match self {
            Self::Offer(size, payload, rate) => {
                channel.write(&[1]);
                channel.write(&size.to_be_bytes());
                channel.write(&payload.to_be_bytes());
                channel.write(&rate.to_be_bytes());
            }
            Self::Grant(rate) => write_rate(channel, 2, *rate),
            Self::Confirm(rate) => write_rate(channel, 3, *rate),
            Self::Rate(rate) => write_rate(channel, 4, *rate),
            Self::Sent => channel.write(&[5]),
            Self::Missing(holes) => {
                let holes = &holes[..holes.len().min(MOST_HOLES)];
                channel.write(&[6]);
                channel.write(&(holes.len() as u16).to_be_bytes());
                for (first, count) in holes {
                    channel.write(&first.to_be_bytes());
                    channel.write(&count.to_be_bytes());
                }
            }
            Self::Done => channel.write(&[7]),
        }
    }

    /// The next message. `Ok(None)` if it is not all there yet, `Err` if it is none.
    pub(super) fn read(channel: &mut Channel) -> Result<Option<Self>, ()> {
        let Some(kind) = channel.peek(0) else {
            return Ok(None);
        };
        let length = match kind {
            1 => 21,
            2..=4 => 9,
            5 | 7 => 1,
            6 => {
                let (Some(high), Some(low)) = (channel.peek(1), channel.peek(2)) else {
                    return Ok(None);
                };
                let count = usize::from(u16::from_be_bytes([high, low]));
                if count > MOST_HOLES {
                    return Err(());
                }
                3 + 8 * count
            }
            _ => return Err(()),
        };
        let Some(bytes) = channel.read_exact(length) else {
            return Ok(None);
        };
        let wide = |at: usize| {
            let part = bytes[at..at + 8].iter();
            part.fold(0, |sum, &byte| sum << 8 | u64::from(byte))
        };
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        Ok(Some(match kind {
            1 => Self::Offer(wide(1), word(9), wide(13)),
            2 => Self::Grant(wide(1)),
            3 => Self::Confirm(wide(1)),
            4 => Self::Rate(wide(1)),
            5 => Self::Sent,
            6 => Self::Missing(
                (0..(length - 3) / 8)
                    .map(|at| (word(3 + 8 * at), word(7 + 8 * at)))
                    .collect(),
            ),
            _ => Self::Done,
        }))
    }
}

fn write_rate(channel: &mut Channel, kind: u8, rate: u64) {
    channel.write(&[kind]);
    channel.write(&rate.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Message> {
        prop_oneof![
            any::<(u64, u32, u64)>().prop_map(|(a, b, c)| Message::Offer(a, b, c)),
            any::<u64>().prop_map(Message::Grant),
            any::<u64>().prop_map(Message::Confirm),
            any::<u64>().prop_map(Message::Rate),
            Just(Message::Sent),
            prop::collection::vec(any::<Hole>(), 0..20).prop_map(Message::Missing),
            Just(Message::Done),
        ]
    }

    proptest! {
        #[test]
        fn messages_survive_the_round_trip(messages in prop::collection::vec(any_message(), 1..20)) {
            let mut channel = Channel::new(false);
            for message in &messages {
                message.write(&mut channel);
            }
            channel.loop_back();
            for message in messages {
                prop_assert_eq!(Message::read(&mut channel), Ok(Some(message)));
            }
            prop_assert_eq!(Message::read(&mut channel), Ok(None));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let mut channel = Channel::new(false);
            channel.write(&bytes);
            channel.loop_back();
            while let Ok(Some(_)) = Message::read(&mut channel) {}
        }
    }
}
