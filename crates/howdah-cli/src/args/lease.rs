//! `howdah plan`, `howdah finish`, and what `howdah cp` is told of a lease.

use super::{ConnectArgs, location};
use clap::Args;
use howdah::Location;
use howdah_core::units;
use std::path::PathBuf;

/// Cuts a huge file, or a tree, into leases that many hosts move at the same time
///
/// SRC is a file on another machine (HOST:path or howdah://HOST:PORT/path), with -r or -a a directory. DST is a path, or an
/// existing directory, that all hosts that will move leases see under that name: a shared file system, or this machine alone.
/// Or the other way round: SRC is a file or, with -r or -a, a directory that all these hosts see, and DST is on another machine. A file
/// may also go from one path that all hosts see to another one.
///
/// The plan says which version of SRC it is, and what each lease has: a range of a large file, or many small files. Each host runs
/// 'howdah cp --plan PLAN --lease ID', in any order, as often as anybody likes; 'howdah finish PLAN' checks that everything
/// is there and gives the file or directory its name. Until then all of it lies beside DST in a directory .NAME.ID.howdah-plan, with
/// a record of each lease that was moved. Removing that directory forgets the plan. A directory that is there already is not
/// planned into: plan beside it, or use 'howdah sync'.
///
/// Standard output gets the numbers of the leases as an array job wants them (0-15). docs/clusters.md has Slurm, Kubernetes
/// and Dask.
///
/// Examples:
///
///   howdah plan howdah://site/run7.h5 /shared/run7.h5 --lease 1GiB -o run7.plan
///   sbatch --array="$(howdah plan site:/data/run7.h5 /shared/ -o run7.plan)" move.sh
///   howdah plan -a site:/data/run7 /shared/ --lease 256MiB -o run7.plan
///   howdah plan /shared/run7.h5 howdah://site/data/ --lease 1GiB -o run7.plan
///   howdah plan -a /shared/run7 site:data/ --lease 256MiB -o run7.plan
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct PlanArgs {
    /// The file or, with -r or -a, the directory, on another machine or as all hosts see it
    #[arg(value_name = "SRC", value_parser = location())]
    pub(crate) source: Location,

    /// What it becomes, or an existing directory that it goes into; for what all hosts see also on another machine
    #[arg(value_name = "DST")]
    pub(crate) destination: PathBuf,

    /// Plan directories with all that is in them, as 'cp -r' copies them
    #[arg(long, short = 'r', visible_short_alias = 'R')]
    pub(crate) recursive: bool,

    /// The same with permissions, owners, extended attributes and ACLs, as 'cp -a' copies them
    ///
    /// Names of one file (hard links) stay such within a lease; between leases they become files of their own.
    #[arg(long, short = 'a')]
    pub(crate) archive: bool,

    /// With -r: make permissions equal
    #[arg(long, short = 'p', requires = "recursive")]
    pub(crate) preserve: bool,

    /// Bytes of each lease but the last: a power of two, at least 1MiB
    ///
    /// Of a tree it is the most: files that are not longer are moved whole, up to so many bytes of them, and 8192 files, in one lease.
    /// A mover that dies loses at most one lease. A host wants some seconds' worth of it at least, and several leases for each
    /// host let fast ones do more.
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes, default_value = "1GiB")]
    pub(crate) lease: u64,

    /// Where the plan is written; it must not exist yet
    #[arg(long, short, value_name = "PLAN")]
    pub(crate) out: PathBuf,

    /// Print a JSON object instead of the numbers
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// Gives the file or directory of a plan its name when every lease was moved
///
/// Reads the records of the leases, checks that they cover the file and agree, joins their hashes to the BLAKE3 of the whole
/// file (the one that b3sum prints) without reading it again, syncs it, and renames it. Standard output gets a line
/// 'HEX  DST', as b3sum writes it. Exit code 6: leases are missing; run them, then finish again.
///
/// Of a tree it is checked that each file is the one that a record tells of; permissions and times of directories are set, and
/// the directory is renamed. HEX is then the BLAKE3 of the list of all files that --manifest writes.
///
/// Examples:
///
///   howdah finish run7.plan
///   howdah finish --manifest run7.b3 run7.plan && cd /shared/run7 && b3sum --check --quiet ~/run7.b3
///   sbatch --array="$(howdah finish --check run7.plan)" move.sh
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct FinishArgs {
    /// What 'howdah plan' wrote
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,

    /// Only say what is missing: the numbers of the leases as an array job wants them (3,5-7), nothing if there are none
    #[arg(long, conflicts_with = "keep")]
    pub(crate) check: bool,

    /// Of a tree: finish also without files that changed, vanished or could not be read since it was planned; exit code 6 if there are any
    ///
    /// Every lease was run all the same. They are named.
    #[arg(long, conflicts_with = "check")]
    pub(crate) partial: bool,

    /// Of a tree: write the BLAKE3 of each file to FILE, a line each, as b3sum does
    #[arg(long, value_name = "FILE", conflicts_with = "check")]
    pub(crate) manifest: Option<PathBuf>,

    /// Keep the records: finishing once more then says the same
    #[arg(long)]
    pub(crate) keep: bool,

    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

/// One lease of a plan instead of a copy.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "One of many hosts")]
pub(crate) struct LeaseArgs {
    /// Move one lease of what 'howdah plan' wrote; no SRC and DST are given then
    #[arg(
        long,
        value_name = "PLAN",
        requires = "lease",
        conflicts_with = "paths"
    )]
    pub(crate) plan: Option<PathBuf>,

    /// Which one, from 0. One that was moved already is left as it is
    #[arg(long, value_name = "ID", requires = "plan", value_parser = one_lease)]
    pub(crate) lease: Option<u64>,

    /// In which run of it: whoever runs it in a lower one gives up. Without it one more than the highest so far
    #[arg(long, value_name = "N", requires = "plan", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) epoch: Option<u64>,
}

fn one_lease(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        "a lease is named by its number, as in 3; where 'howdah plan' has printed 0-15, a command of its own moves each of them"
            .to_owned()
    })
}
