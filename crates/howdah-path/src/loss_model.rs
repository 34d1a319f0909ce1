//! Which packets are lost.

use crate::trace::{TraceError, lines};
use howdah_core::Span;
use std::sync::Arc;

/// Which packets are lost behind the bottleneck.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LossModel {
    /// None.
    #[default]
    None,
    /// Each one independently with this probability.
    Bernoulli(f64),
    /// A chain of two states (E. N. Gilbert 1960, E. O. Elliott 1963). Each packet is lost with the
    /// probability of the state it meets; after it the chain may change state. The chain starts in
    /// its stationary distribution.
    GilbertElliott {
        /// Probability of the step from good to bad, per packet.
        p_enter_bad: f64,
        /// Probability of the step from bad to good, per packet: 1 / mean length of a bad period.
        p_leave_bad: f64,
        /// Probability of loss in the good state.
        loss_good: f64,
        /// Probability of loss in the bad state.
        loss_bad: f64,
    },
    /// Bursts in time: whatever comes while one lasts is lost. Lengths of bursts, and of the times between them, are
    /// exponential; the share of time, and so of packets that come evenly, is `loss`. A sender that backs off does not
    /// make a burst last longer, as it does in [`GilbertElliott`](Self::GilbertElliott), which counts packets.
    Outages {
        /// Share of the time that bursts last, from 0 to below 1.
        loss: f64,
        /// Mean length of a burst.
        mean: Span,
    },
    /// Single losses at distances of about 1/`loss` packets, normally distributed: one way to read
    /// the papers' "packet loss with normal distribution". The distance is cut off at 1 and, so
    /// that the mean stays, at as much above the mean.
    NormalGap {
        /// Share of packets lost.
        loss: f64,
        /// Standard deviation of the distance as a share of its mean; 0 is every n-th packet.
        relative_deviation: f64,
    },
    /// A recorded pattern, from its beginning and again and again.
    Trace(LossTrace),
    /// Exactly these packets: 0 is the first one offered to the path. For tests. Packets that the
    /// MTU or the queue drops are counted too.
    List(Vec<u64>),
}

impl LossModel {
    /// Bursts of `mean_burst` packets on average, all of whose packets are lost, such that the
    /// share `loss` of all packets is lost: a Gilbert-Elliott chain without loss in the good state.
    /// With independent losses the mean burst is 1 / (1 - loss).
    pub fn bursts(loss: f64, mean_burst: f64) -> Self {
        let loss = loss.clamp(0.0, 1.0);
        let p_leave_bad = 1.0 / mean_burst.max(1.0);
        let p_enter_bad = if loss < 1.0 {
            (p_leave_bad * loss / (1.0 - loss)).min(1.0)
        } else {
            1.0
        };
        Self::GilbertElliott {
            p_enter_bad,
            p_leave_bad: if loss < 1.0 { p_leave_bad } else { 0.0 },
            loss_good: 0.0,
            loss_bad: 1.0,
        }
    }

    /// Long-run share of packets lost; 0 for a [`List`](Self::List).
    pub fn stationary_loss(&self) -> f64 {
        match self {
            Self::None | Self::List(_) => 0.0,
            Self::Bernoulli(p) => p.clamp(0.0, 1.0),
            Self::NormalGap { loss, .. } | Self::Outages { loss, .. } => loss.clamp(0.0, 1.0),
            Self::Trace(trace) => trace.loss(),
            &Self::GilbertElliott {
                p_enter_bad,
                p_leave_bad,
                loss_good,
                loss_bad,
            } => {
                let bad = stationary_bad(p_enter_bad, p_leave_bad);
                loss_good.clamp(0.0, 1.0) * (1.0 - bad) + loss_bad.clamp(0.0, 1.0) * bad
            }
        }
    }
}

/// Share of packets that meet the bad state. A chain that never moves counts as good.
pub(crate) fn stationary_bad(p_enter_bad: f64, p_leave_bad: f64) -> f64 {
    let (enter, leave) = (p_enter_bad.clamp(0.0, 1.0), p_leave_bad.clamp(0.0, 1.0));
    if enter > 0.0 {
        enter / (enter + leave)
    } else {
        0.0
    }
}

/// A recorded pattern of losses. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct LossTrace {
    /// Numbers of packets that pass, are lost, pass, are lost, ... in turn; the sum is not zero.
    runs: Arc<[u64]>,
}

impl LossTrace {
    /// A pattern of one entry per packet: `true` is lost.
    ///
    /// # Errors
    /// If there is no packet in it.
    pub fn new(lost: impl IntoIterator<Item = bool>) -> Result<Self, TraceError> {
        let mut runs = vec![0u64];
        let mut state = false;
        for lost in lost {
            if lost != state {
                state = lost;
                runs.push(0);
            }
            if let Some(run) = runs.last_mut() {
                *run += 1;
            }
        }
        // Lost and passing runs alternate when the pattern begins again, too.
        if !runs.len().is_multiple_of(2) {
            runs.push(0);
        }
        if runs.iter().sum::<u64>() == 0 {
            return Err(TraceError::empty());
        }
        Ok(Self { runs: runs.into() })
    }

    /// Reads one `0` (arrived) or `1` (lost) per packet, in any number of lines; spaces do not
    /// matter and `#` starts a comment.
    ///
    /// # Errors
    /// With the line, if there is anything else in it, or nothing at all.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let mut lost = Vec::new();
        for (number, line) in lines(text) {
            for mark in line.chars().filter(|mark| !mark.is_whitespace()) {
                match mark {
                    '0' => lost.push(false),
                    '1' => lost.push(true),
                    _ => {
                        return Err(TraceError::at(
                            number,
                            format!("'{mark}' is neither 0 (arrived) nor 1 (lost)"),
                        ));
                    }
                }
            }
        }
        Self::new(lost)
    }

    /// Share of packets lost.
    pub fn loss(&self) -> f64 {
        let lost: u64 = self.runs.iter().skip(1).step_by(2).sum();
        lost as f64 / self.packets() as f64
    }

    /// Packets in the pattern.
    pub fn packets(&self) -> u64 {
        self.runs.iter().sum()
    }

    pub(crate) fn runs(&self) -> &[u64] {
        &self.runs
    }
}
