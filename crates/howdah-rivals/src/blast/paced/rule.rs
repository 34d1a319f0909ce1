//! The rules for the rate.

use crate::blast::budget::Member;
use howdah_core::Rate;

/// Whose rule sets the rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PacedRule {
    /// Memory, disk and remaining size: [`pa_udp_rate`].
    PaUdp,
    /// A share of the receiver's capacity, bounded by what the flow's losses allow.
    Gtp,
}

/// `PA-UDP`'s rate: the highest at which the receiver's memory does not overflow.
///
/// While `left` bytes arrive at r, the disk takes `disk / r` of them; the rest, left (1 - disk / r),
/// must fit into `free` bytes of memory: r = disk x left / (left - free). What fits whole may come as
/// fast as the host can take it in; so may anything if the disk is faster than that. Reconstructed
/// from the descriptions of Eckart, He, Wu (IPDPS 2008; TPDS 21(1), 2010) in other papers.
pub fn pa_udp_rate(receive: Rate, disk: Option<Rate>, left_bytes: u64, free_bytes: u64) -> Rate {
    let Some(disk) = disk else {
        return receive;
    };
    if left_bytes <= free_bytes {
        return receive;
    }
    let stretch = left_bytes as f64 / (left_bytes - free_bytes) as f64;
    disk.mul_f64(stretch).min(receive)
}

/// GTP's rate of one flow (Wu, Chien, `CCGrid` 2004; **a model**: the abstract gives the structure,
/// and the constants are ours): the flow's controller lowers what it asks for in proportion to the
/// losses of an interval and raises it slowly without; the receiver's scheduler divides the capacity
/// max-min fairly among what the flows ask for.
#[derive(Clone, Copy, Debug)]
pub(super) struct GtpController {
    asked: Rate,
}

/// Losses below this share do not count.
const GTP_NOISE: f64 = 0.001;
/// Share of the losses by which a rate is lowered.
const GTP_DECREASE: f64 = 0.5;
/// Factor of an interval without losses.
const GTP_INCREASE: f64 = 1.02;

impl GtpController {
    pub(super) const fn new(most: Rate) -> Self {
        Self { asked: most }
    }

    /// After an interval in which `lost` of `expected` packets were missing; the new rate.
    pub(super) fn update(
        &mut self,
        lost: u64,
        expected: u64,
        most: Rate,
        member: Option<&Member>,
    ) -> Rate {
        let ratio = lost as f64 / expected.max(1) as f64;
        self.asked = if ratio > GTP_NOISE {
            self.asked.mul_f64(1.0 - GTP_DECREASE * ratio)
        } else {
            self.asked.mul_f64(GTP_INCREASE)
        }
        .clamp(most.mul_f64(0.01), most);
        member.map_or(self.asked, |member| {
            member.demand(self.asked);
            member.share()
        })
    }
}
