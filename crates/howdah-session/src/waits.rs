//! A clock for each wait for the other side's next word. The peer's host may live and its program
//! hang: the connection is kept alive by one and says nothing of the other.

use howdah_core::{Span, Time};

/// What a session waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wait {
    /// Client: somebody judges the server's key.
    Judgement,
    /// Client: the server opens what was asked for.
    Answer,
    /// Receiver: all bytes are here, but not where the object ends and what it hashes to.
    End,
    /// Client: the server has all bytes and makes them durable.
    Verdict,
    /// Client: the server's figures.
    Thanks,
    /// Server: the client asks for something.
    Request,
    /// Server: a tree, or an answer about one, moves at all: either side may have to hash for long before it has a word to say.
    Progress,
    /// Server: a client takes the answers that it has asked for, or a disk gives them.
    Taking,
}

impl Wait {
    /// How long it may last.
    pub const fn limit(self) -> Span {
        Span::from_secs(match self {
            Self::Thanks => 5,
            // A slow tape or an automounter may have to wake up.
            Self::Answer | Self::End => 60,
            // Somebody is asked; a disk may be behind by all of its cache.
            Self::Judgement | Self::Verdict | Self::Taking => 600,
            // Longer than the judgement that comes before it.
            Self::Request => 900,
            Self::Progress => 12 * 3600,
        })
    }
}

/// Measures how long the wait of now lasts.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitClock(Option<(Wait, Time)>);

impl WaitClock {
    /// Something has moved: the wait of now begins anew.
    pub fn restart(&mut self, now: Time) {
        self.0 = self.0.map(|(wait, _)| (wait, now));
    }

    /// Tells what is waited for now. Returns it if it has lasted too long.
    pub fn check(&mut self, now: Time, wait: Option<Wait>) -> Option<Wait> {
        match (self.0, wait) {
            (Some((before, since)), Some(wait)) if before == wait => {
                (now.since(since) >= wait.limit()).then_some(wait)
            }
            _ => {
                self.0 = wait.map(|wait| (wait, now));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_has_its_own_clock() {
        let at = |seconds| Time::ZERO + Span::from_secs(seconds);
        let mut clock = WaitClock::default();
        assert_eq!(clock.check(at(100), Some(Wait::Answer)), None);
        assert_eq!(clock.check(at(159), Some(Wait::Answer)), None);
        assert_eq!(clock.check(at(159), Some(Wait::End)), None, "it moved on");
        assert_eq!(clock.check(at(200), Some(Wait::End)), None);
        assert_eq!(clock.check(at(219), Some(Wait::End)), Some(Wait::End));
        assert_eq!(clock.check(at(300), None), None);
        assert_eq!(clock.check(at(301), Some(Wait::End)), None);
    }

    /// H11: a tree may stand still for long, and not for ever.
    #[test]
    fn h11_what_moves_has_its_time_again() {
        let at = |hours: u64| Time::ZERO + Span::from_secs(hours * 3600);
        let mut clock = WaitClock::default();
        let wait = Some(Wait::Progress);
        assert_eq!(clock.check(at(0), wait), None);
        for hour in 1..100 {
            clock.restart(at(hour));
            assert_eq!(clock.check(at(hour + 11), wait), None);
        }
        assert_eq!(clock.check(at(111), wait), wait);
    }
}
