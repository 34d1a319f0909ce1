//! `howdah lab`.

use super::values;
use clap::{Args, Subcommand, ValueEnum};
use howdah_core::{Rate, Span, units};
use howdah_lab::attack::Goal;
use howdah_lab::run::{Only, Shard};
use std::path::PathBuf;

/// Runs the laboratory: experiments over simulated long fat networks, and what comes out
///
/// A scenario file says which transports meet which network; docs/lab.md explains how to write one.
/// A campaign is a directory of results: it goes on where it was if it is stopped.
///
/// Examples:
///
///   howdah lab list scenarios
///   howdah lab run scenarios/jgn06 --quick
///   howdah lab report results/jgn06-quick
#[derive(Debug, Subcommand)]
#[command(verbatim_doc_comment, subcommand_required = true)]
pub(crate) enum LabCommand {
    /// Shows which experiments there are, and how many cells each has
    List(LabListArgs),
    /// Runs the cells that have no result yet
    Run(LabRunArgs),
    /// Writes a campaign as one HTML file
    Report(LabReportArgs),
    /// Prints one figure over two axes as a table in Markdown
    Table(LabTableArgs),
    /// Holds the papers' statements against the results
    Ledger(LabLedgerArgs),
    /// Compares a campaign with a snapshot, and fails if it differs
    Gate(LabGateArgs),
    /// Looks for the simplest network on which a transport fails worst, and writes it as a scenario
    Attack(LabAttackArgs),
    /// Shows what held a recorded copy up, and what other transports would have made of its path
    Replay(LabReplayArgs),
    /// Measures this machine as a host of a scenario (Linux)
    #[cfg(target_os = "linux")]
    Calibrate(LabCalibrateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct LabListArgs {
    /// Scenario files, or directories of them
    #[arg(value_name = "PATH", default_value = "scenarios")]
    pub(crate) paths: Vec<PathBuf>,

    /// The reduced set
    #[arg(long)]
    pub(crate) quick: bool,

    /// The protocols that a scenario can name, instead
    #[arg(long)]
    pub(crate) protocols: bool,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Testbed {
    /// In virtual time
    #[default]
    Sim,
    /// In network namespaces of this machine, in real time, with real programs; needs root
    Netns,
}

#[derive(Args, Debug)]
pub(crate) struct LabRunArgs {
    /// Scenario files, or directories of them
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,

    /// Where it runs
    #[arg(long, value_name = "TESTBED", default_value = "sim")]
    pub(crate) on: Testbed,

    /// With netns: runs of a cell at most; fewer if its median is settled before
    #[arg(long, value_name = "N", default_value = "10")]
    pub(crate) runs: std::num::NonZeroUsize,

    /// With netns: two runs of a cell are enough if they are no further than this from the middle of
    /// them, like 5%; without it a median needs six
    #[arg(long, value_name = "SHARE", value_parser = values::share)]
    pub(crate) agree: Option<f64>,

    /// With netns: directory of the programs that 'make peers' builds [default: peers beside this
    /// program's directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) peers: Option<PathBuf>,

    /// With netns: how long a program may take to get ready, and may go on after the measurement;
    /// then it is ended, and its cell has no result
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "20s")]
    pub(crate) patience: Span,

    /// Cells at a time [default: one for each core; with netns always one]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,

    /// Only a part of the cells: the I-th of N, to share a campaign between machines
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<Shard>,

    /// Only cells with one of these values of an axis ('howdah lab list' shows both); may be given
    /// for several axes
    #[arg(long, value_name = "AXIS=VALUE[,VALUE...]")]
    pub(crate) only: Vec<Only>,

    /// The reduced set that each scenario names: minutes instead of hours
    #[arg(long)]
    pub(crate) quick: bool,

    /// Every combination of the values that scenarios name under [sweep]: what papers leave open
    #[arg(long)]
    pub(crate) sweep: bool,

    /// At least so many seeds of each cell, whatever the scenario says; with netns '--runs' counts
    #[arg(long, value_name = "N")]
    pub(crate) seeds: Option<std::num::NonZeroU64>,

    /// Directory of the results [default: results/NAME, with -quick and -netns behind it]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Run finished cells again
    #[arg(long)]
    pub(crate) again: bool,

    /// Write the packets at both ends of each cell, for Wireshark and the like, to 'pcap' in the
    /// directory of the results: sixteen cells at most, which are run again; of the simulator only
    #[arg(long)]
    pub(crate) pcap: bool,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabReportArgs {
    /// Directory of a campaign; further ones are shown with it: the testbed's beside the simulator's
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// The file; report.html in the first directory without it. With --comparison a document whose
    /// half is brought up to date: the simulated or the testbed's, as the campaigns are
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// The protocol that is shown first under the headings of RFC 9743, and in the place of ours with --company
    #[arg(long, value_name = "PROTOCOL", default_value = "howdah")]
    pub(crate) subject: String,

    /// Prints a table of all systems in all matrices as Markdown, instead: docs/comparison.md
    #[arg(long)]
    pub(crate) comparison: bool,

    /// Prints how far simulation and testbed are apart as Markdown, instead: docs/fidelity.md
    #[arg(long, conflicts_with = "comparison")]
    pub(crate) fidelity: bool,

    /// Prints how ours shares links with others as Markdown, instead: scenarios/company.toml
    #[arg(long, conflicts_with_all = ["comparison", "fidelity"])]
    pub(crate) company: bool,

    /// Prints how long flows take to start as Markdown, instead: scenarios/starts.toml
    #[arg(long, conflicts_with_all = ["comparison", "fidelity", "company"])]
    pub(crate) starts: bool,

    /// Writes all figures and series as CSV into this directory, instead: figures.csv, series.csv
    #[arg(long, value_name = "DIR", conflicts_with_all = ["comparison", "fidelity", "company", "starts", "out"])]
    pub(crate) csv: Option<PathBuf>,

    /// Writes the specification of each figure (Vega-Lite) into this directory, instead; and SVG and PDF where Python has vl-convert
    #[arg(long, value_name = "DIR", conflicts_with_all = ["comparison", "fidelity", "company", "starts", "out", "csv"])]
    pub(crate) figures: Option<PathBuf>,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub(crate) enum Of {
    #[default]
    Median,
    Mean,
    Least,
    Greatest,
    /// How many there are
    Count,
}

/// Prints one figure over two axes as a table in Markdown
///
/// A field takes what all cells in its place have: seeds, and axes that are neither rows nor columns. Besides the scenario's axes there
/// are 'experiment', 'testbed' and 'subject': the flow, group, stream or link that a figure is of.
///
/// Examples:
///
///   howdah lab table results/k14proto --only experiment=P1 --columns loss --of mean
///   howdah lab table results/jgn06 --only experiment=J-D --columns rtt2 --only subject=far
///   howdah lab table results/future --only experiment=F12 --columns burst --relative-to 1.01
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabTableArgs {
    /// Directories of campaigns, taken together
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// The figure, by its name in what 'howdah lab report --csv' writes; a wrong name shows all
    #[arg(long, value_name = "NAME", default_value = "goodput_bps")]
    pub(crate) figure: String,

    /// Axis of the rows [default: protocol]
    #[arg(long, value_name = "AXIS")]
    pub(crate) rows: Option<String>,

    /// Axis of the columns [default: the only other one]
    #[arg(long, value_name = "AXIS")]
    pub(crate) columns: Option<String>,

    /// Only cells with one of these values of an axis; may be given for several axes
    #[arg(long, value_name = "AXIS=VALUE[,VALUE...]")]
    pub(crate) only: Vec<Only>,

    /// What to make of several values in one place
    #[arg(long, value_name = "WHAT", default_value = "median")]
    pub(crate) of: Of,

    /// Show each value as a multiple of its row's in this column
    #[arg(long, value_name = "COLUMN")]
    pub(crate) relative_to: Option<String>,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabLedgerArgs {
    /// Directories of campaigns, taken together
    #[arg(value_name = "DIR", required = true)]
    pub(crate) dirs: Vec<PathBuf>,

    /// Write the page that is kept, docs/ledger.md, and the same as JSON beside it
    #[arg(long, value_name = "FILE.md", conflicts_with = "json")]
    pub(crate) out: Option<PathBuf>,

    /// Keep the verdicts of the page that is there where these campaigns judge less: not at all, or by a reduced set only
    #[arg(long, requires = "out")]
    pub(crate) keep: bool,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LabGateArgs {
    /// Directory of a campaign
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,

    /// The snapshot [default: quick.snap or full.snap beside the first scenario]
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Option<PathBuf>,

    /// Write the snapshot anew instead
    #[arg(long)]
    pub(crate) update: bool,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Scenarios are TOML, whose numbers end there; some seeds follow the one that is given.
const MOST_SEED: u64 = i64::MAX as u64 - 100;

/// Looks for the simplest network on which a transport fails worst, and writes it as a scenario
///
/// Paths, what changes on them, and who else is there are bred in virtual time: the worst ones have
/// children that differ a little. What is found holds at the median of five seeds, and is made as simple
/// as it can be without getting better. 'howdah lab run' repeats it, with real programs too (--on netns).
///
/// Examples:
///
///   howdah lab attack cubic --goal starve
///   howdah lab attack howdah --goal stall --runs 5000 --out stalls.toml
///   howdah lab run attack-cubic-starve.toml
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabAttackArgs {
    /// The transport; 'howdah lab list --protocols' shows them
    #[arg(value_name = "PROTOCOL")]
    pub(crate) protocol: String,

    /// starve: it gets least beside another one; unfair: another one gets least beside it; stall: it stands still, alone; overshoot:
    /// it makes the queue overflow, alone
    #[arg(long, value_name = "GOAL")]
    pub(crate) goal: Goal,

    /// Networks that are tried
    #[arg(long, value_name = "N", default_value = "1000")]
    pub(crate) runs: std::num::NonZeroUsize,

    /// End the search after this long [default: when all runs are done]
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) time: Option<Span>,

    /// Another seed breeds other networks
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(..=MOST_SEED))]
    pub(crate) seed: u64,

    /// The fastest path that is tried; faster ones take longer to simulate
    #[arg(long, value_name = "RATE", value_parser = units::parse_rate, default_value = "100mbit")]
    pub(crate) max_rate: Rate,

    /// Networks at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,

    /// The scenario; it must not be there [default: attack-PROTOCOL-GOAL.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Shows what held a recorded copy up, and what other transports would have made of its path
///
/// FILE is what 'howdah cp --record FILE' wrote, or a copy kept that was held up for long. What its path did (rate, round trip, loss,
/// in time) becomes a network of the simulator, and each transport copies the same bytes over it, alone. The transport that was recorded is
/// the first: how near it comes to what was recorded says how far the rest can be believed. docs/lab.md says what
/// a recording does not know.
///
/// Examples:
///
///   howdah cp --record run7.flight run7.tar site:incoming/
///   howdah lab replay --show run7.flight
///   howdah lab replay run7.flight --protocols howdah,cubic,bbr3,udt
///   howdah lab replay run7.flight --out run7.toml && howdah lab run run7.toml
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabReplayArgs {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,

    /// Only what was recorded: what held the copy back, and when
    #[arg(long, conflicts_with_all = ["protocols", "out"])]
    pub(crate) show: bool,

    /// The transports, with commas [default: the recorded one, cubic, bbr1, bbr3, quic]; 'howdah lab list --protocols' shows them
    #[arg(long, value_name = "NAME[,NAME...]", value_delimiter = ',')]
    pub(crate) protocols: Vec<String>,

    /// Write the scenario to FILE.toml; it must not be there
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,

    /// Transports at a time [default: one for each core]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,

    /// For programs: JSON on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measures this machine as a host of a scenario (Linux)
///
/// Prints a [host.NAME] for scenarios: what packets and timers cost, how sending calls are interrupted, how
/// arrivals are gathered, for how long cores stand still, what a receive buffer holds. Uses all cores for some
/// seconds; what packets cost takes the testbed, and root. Run it when the machine does what it usually does.
///
/// Examples:
///
///   howdah lab calibrate
///   howdah lab calibrate --name near --out near.toml    # in a scenario: include = "near.toml"
#[cfg(target_os = "linux")]
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct LabCalibrateArgs {
    /// Name of the host
    #[arg(long, value_name = "NAME", default_value = "here")]
    pub(crate) name: String,

    /// How long standstills and arrivals are watched, and each packet size moved
    #[arg(long, value_name = "TIME", value_parser = units::parse_span, default_value = "4s")]
    pub(crate) time: Span,

    /// Write it to FILE.toml; it must not be there
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,

    /// For programs: the figures as JSON on standard output
    #[arg(long, conflicts_with = "out")]
    pub(crate) json: bool,
}
