//! Messages on the control connection. The program's own layout was not read: these have the same
//! contents, each in words of four bytes, big-endian: type, number of words, words.

use crate::blast::channel::Channel;

/// No list of losses is longer.
const MAX_WORDS: u32 = 1 << 20;

/// What the receiver says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Message {
    /// Everything before this sequence number has arrived.
    Ack(u32),
    /// Packets are missing: pairs of first and last.
    Losses(Vec<(u32, u32)>),
    /// A period has passed.
    Syn,
    /// Three quarters of the buffer are full.
    Warning,
}

pub(super) fn write(channel: &mut Channel, message: &Message) {
    let mut put = |kind: u32, words: &[u32]| {
        channel.write(&kind.to_be_bytes());
        channel.write(&(words.len() as u32).to_be_bytes());
        for word in words {
            channel.write(&word.to_be_bytes());
        }
    };
    match message {
        Message::Ack(next) => put(1, &[*next]),
        Message::Losses(gaps) => {
            let words: Vec<u32> = gaps.iter().flat_map(|&(a, b)| [a, b]).collect();
            put(2, &words);
        }
        Message::Syn => put(3, &[]),
        Message::Warning => put(4, &[]),
    }
}

/// Reads messages; a head that was read waits for its words.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader {
    head: Option<(u32, u32)>,
}

impl Reader {
    /// The next message, if it is all there; an error if it is none of ours.
    pub(super) fn next(&mut self, channel: &mut Channel) -> Result<Option<Message>, ()> {
        let (kind, count) = if let Some(head) = self.head {
            head
        } else {
            if channel.unread() < 8 {
                return Ok(None);
            }
            let (Some(kind), Some(count)) = (channel.read(), channel.read()) else {
                return Ok(None);
            };
            let head = (u32::from_be_bytes(kind), u32::from_be_bytes(count));
            if head.1 > MAX_WORDS {
                return Err(());
            }
            *self.head.insert(head)
        };
        let Some(bytes) = channel.read_exact(count as usize * 4) else {
            return Ok(None);
        };
        self.head = None;
        let words: Vec<u32> = bytes
            .chunks_exact(4)
            .map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
            .collect();
        Ok(Some(match (kind, &words[..]) {
            (1, [next]) => Message::Ack(*next),
            (2, gaps) if gaps.len() % 2 == 0 => {
                Message::Losses(gaps.chunks_exact(2).map(|gap| (gap[0], gap[1])).collect())
            }
            (3, []) => Message::Syn,
            (4, []) => Message::Warning,
            _ => return Err(()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_from_the_stream_in_pieces() {
        let all = [
            Message::Ack(7),
            Message::Losses(vec![(1, 1), (5, 9)]),
            Message::Syn,
            Message::Warning,
        ];
        let mut channel = Channel::new(false);
        for message in &all {
            write(&mut channel, message);
        }
        // What was written comes in again, as if the other side had written it.
        channel.loop_back();
        let mut reader = Reader::default();
        for message in all {
            assert_eq!(reader.next(&mut channel), Ok(Some(message)));
        }
        assert_eq!(reader.next(&mut channel), Ok(None));
        channel.write(&[0, 0, 0, 9, 0, 0, 0, 0]);
        channel.loop_back();
        assert_eq!(reader.next(&mut channel), Err(()));
    }
}
