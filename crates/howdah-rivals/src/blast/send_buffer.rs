//! A socket's send buffer whose packets are charged until a delay queue lets them go.

use howdah_core::{Span, Time};
use std::collections::VecDeque;

/// A UDP socket's send buffer on a host that delays what it sends.
///
/// Linux charges a packet to the socket that sent it until the packet is freed. A delay made by
/// netem on the sending host itself keeps packets that long, so that the socket blocks when the
/// buffer is full of packets that wait for nothing but their time: rate <= size / held. A path
/// that delays packets elsewhere needs none of this.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SendBuffer {
    /// `SO_SNDBUF`, in bytes of UDP payload (what the kernel charges beyond that is left out).
    pub bytes: u64,
    /// How long each packet stays charged.
    pub held: Span,
}

#[derive(Clone, Debug)]
pub(super) struct HeldBuffer {
    settings: SendBuffer,
    charged: u64,
    /// When each charge ends.
    packets: VecDeque<(Time, u32)>,
}

impl HeldBuffer {
    pub(super) fn new(settings: SendBuffer) -> Self {
        Self {
            settings,
            charged: 0,
            packets: VecDeque::new(),
        }
    }

    pub(super) fn charge(&mut self, now: Time, bytes: u32) {
        self.release(now);
        self.charged += u64::from(bytes);
        self.packets.push_back((now + self.settings.held, bytes));
    }

    pub(super) fn release(&mut self, now: Time) {
        while let Some(&(at, bytes)) = self.packets.front() {
            if at > now {
                break;
            }
            self.charged -= u64::from(bytes);
            self.packets.pop_front();
        }
    }

    /// A packet is taken as long as there is any room at all, as Linux does.
    pub(super) const fn is_full(&self) -> bool {
        self.charged >= self.settings.bytes
    }

    /// When there is room again, if there is none.
    pub(super) fn room_at(&self) -> Option<Time> {
        if self.is_full() {
            self.packets.front().map(|packet| packet.0)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_size_over_the_time_held() {
        let settings = SendBuffer {
            bytes: 10_000,
            held: Span::from_millis(10),
        };
        let mut buffer = HeldBuffer::new(settings);
        let mut sent = 0;
        let mut now = Time::ZERO;
        while now < Time::ZERO + Span::from_secs(1) {
            buffer.release(now);
            while !buffer.is_full() {
                buffer.charge(now, 1000);
                sent += 1000;
            }
            now = buffer.room_at().expect("it is full");
        }
        assert_eq!(sent, 1_000_000);
    }
}
