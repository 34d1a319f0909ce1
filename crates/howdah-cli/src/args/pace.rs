//! How fast a command that moves files may be.

use crate::limit::Limit;
use clap::{Args, ValueEnum};
use howdah::{Error, ErrorKind, RatePolicy, Share};
use howdah_core::{Rate, units};

/// `--policy`.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Fill the path and share it fairly with others (default)
    Fair,
    /// Take what nobody else wants
    Background,
    /// Send at --rate whatever else the path carries: for a circuit of your own
    Fixed,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "How fast")]
pub(crate) struct PaceArgs {
    /// How to share the path with others [default: fair; with --rate: fixed]
    #[arg(long, value_name = "POLICY", value_enum)]
    pub(crate) policy: Option<PolicyName>,

    /// The rate of --policy fixed
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate)]
    pub(crate) rate: Option<Rate>,

    /// This is one of N sessions that count as one flow to others: 1/N
    ///
    /// For the parts of one file that several hosts move at the same time. Of the policy 'fair'; a far side that is older counts each as a flow.
    #[arg(long, value_name = "1/N")]
    pub(crate) share: Option<Share>,

    /// Take at most that much of the wire, in either direction: 2gbit, or a timetable
    ///
    /// A timetable is a list of times of day, in this machine's time zone, with days if need be, and what holds otherwise; the first
    /// entry that fits counts, and 'none' and 'pause' are rates, too:
    ///
    ///   --limit '08:00-18:00 500mbit, else 5gbit'
    ///   --limit 'mon-fri 07:30-19:00 200mbit, sat 00:00-24:00 pause, else none'
    ///
    /// 'howdah ctl limit' changes it while the copy runs.
    #[arg(long, value_name = "LIMIT", verbatim_doc_comment)]
    pub(crate) limit: Option<Limit>,
}

impl PaceArgs {
    /// The policy that they mean.
    pub(crate) fn policy(&self) -> Result<RatePolicy, Error> {
        match (self.policy, self.rate) {
            (None | Some(PolicyName::Fixed), Some(rate)) => Ok(RatePolicy::Fixed(rate)),
            (Some(PolicyName::Fixed), None) => Err(Error::new(
                ErrorKind::Usage,
                "--policy fixed must be told the rate: --rate 2gbit",
            )),
            (Some(PolicyName::Fair) | None, _) => Ok(RatePolicy::Fair),
            (Some(PolicyName::Background), _) => Ok(RatePolicy::Background),
        }
    }
}
