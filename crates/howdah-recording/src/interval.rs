//! A stretch of time.

use serde::{Deserialize, Serialize};

/// What held a copy back at a moment.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Held {
    /// The ends talk: what is to be moved, whether it is all there.
    Talk,
    /// The rate control looks for the capacity.
    Startup,
    /// The path, or what its rate control thinks of it.
    Path,
    /// The source gives bytes too slowly.
    Source,
    /// The sink takes them too slowly, or makes them durable.
    Sink,
    /// The receiving host drops packets, or this one's thread has no time left.
    Host,
    /// The user allows no more.
    Cap,
    /// There is no connection.
    Away,
}

impl Held {
    /// All of them, in the order of [`Interval::held_us`].
    pub const ALL: [Self; 8] = [
        Self::Talk,
        Self::Startup,
        Self::Path,
        Self::Source,
        Self::Sink,
        Self::Host,
        Self::Cap,
        Self::Away,
    ];

    /// Where it stands there.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// A word for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Talk => "talk",
            Self::Startup => "start-up",
            Self::Path => "path",
            Self::Source => "source",
            Self::Sink => "sink",
            Self::Host => "host",
            Self::Cap => "rate cap",
            Self::Away => "no connection",
        }
    }
}

/// What happened in a stretch of time. Rates are of UDP payload, times in microseconds; 0 is "not known" where a value cannot be 0.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Interval {
    /// How long it is.
    pub span_us: u64,
    /// UDP payload bytes that are known to have arrived meanwhile.
    pub delivered_bytes: u64,
    /// Datagrams of the data's sender.
    pub sent_packets: u64,
    /// Those concluded to be lost, with what the receiving host dropped of them.
    pub lost_packets: u64,
    /// Datagrams that the receiving host or its sink had no room for.
    pub host_drops: u64,
    /// Payload bytes of files that went again.
    pub repeated_bytes: u64,
    /// Mean rate at which packets might leave, in bit/s.
    pub pacing_bps: u64,
    /// Mean estimate of what the path carries, in bit/s.
    pub capacity_bps: u64,
    /// Least round trip until then.
    pub base_rtt_us: u64,
    /// Mean of the round trips.
    pub rtt_us: u64,
    /// Shortest queue seen on the way.
    pub queue_min_us: u64,
    /// Longest.
    pub queue_max_us: u64,
    /// Shares of the time by what held the copy back, in the order of [`Held::ALL`]. Their sum is `span_us`.
    pub held_us: [u64; 8],
}

/// Mean of two values, each over its time; one that is 0 is not known.
fn mean((a, a_us): (u64, u64), (b, b_us): (u64, u64)) -> u64 {
    match (a, b) {
        (0, known) | (known, 0) => known,
        _ => {
            let sum = u128::from(a) * u128::from(a_us) + u128::from(b) * u128::from(b_us);
            let mean = sum / (u128::from(a_us) + u128::from(b_us)).max(1);
            // A mean of two that are known is known.
            u64::try_from(mean).unwrap_or(u64::MAX).max(1)
        }
    }
}

impl Interval {
    /// This one and the next as one: counts and times are sums, rates and round trips means over time, bounds bounds.
    #[must_use]
    pub fn merged(&self, next: &Self) -> Self {
        let over_time =
            |of: fn(&Self) -> u64| mean((of(self), self.span_us), (of(next), next.span_us));
        let sum = |of: fn(&Self) -> u64| of(self).saturating_add(of(next));
        Self {
            span_us: sum(|i| i.span_us),
            delivered_bytes: sum(|i| i.delivered_bytes),
            sent_packets: sum(|i| i.sent_packets),
            lost_packets: sum(|i| i.lost_packets),
            host_drops: sum(|i| i.host_drops),
            repeated_bytes: sum(|i| i.repeated_bytes),
            pacing_bps: over_time(|i| i.pacing_bps),
            capacity_bps: over_time(|i| i.capacity_bps),
            base_rtt_us: match (self.base_rtt_us, next.base_rtt_us) {
                (0, known) | (known, 0) => known,
                (a, b) => a.min(b),
            },
            rtt_us: over_time(|i| i.rtt_us),
            queue_min_us: self.queue_min_us.min(next.queue_min_us),
            queue_max_us: self.queue_max_us.max(next.queue_max_us),
            held_us: std::array::from_fn(|at| self.held_us[at].saturating_add(next.held_us[at])),
        }
    }

    /// Packets that the path lost, as far as the receiving host's own drops are known.
    pub fn lost_on_path(&self) -> u64 {
        self.lost_packets.saturating_sub(self.host_drops)
    }

    /// What arrived, in bit/s of UDP payload.
    pub fn delivered_bps(&self) -> f64 {
        self.delivered_bytes as f64 * 8e6 / self.span_us.max(1) as f64
    }

    /// Share of its time, from 0 to 1, in which that held the copy back.
    pub fn share(&self, held: Held) -> f64 {
        self.held_us[held.index()] as f64 / self.span_us.max(1) as f64
    }

    /// What held the copy back for most of its time.
    pub fn mostly(&self) -> Held {
        let most = Held::ALL
            .into_iter()
            .max_by_key(|held| self.held_us[held.index()]);
        most.unwrap_or(Held::Path)
    }
}
