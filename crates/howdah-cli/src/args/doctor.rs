//! `howdah doctor`.

use clap::Args;
use std::path::PathBuf;

/// Checks this machine for what slows transfers down, and prints what to change
///
/// Looks at UDP buffers and offloads, the MTU of the interfaces, clocks, AES in hardware, processors, open files, ssh, the UDP port of
/// 'howdah serve', and the file system of a directory (free space, speed of fsync, sparse files, reflinks, extended attributes).
/// What should be changed comes with the exact lines for a root shell. Nothing is changed by this command; in DIR it writes and removes a file of
/// 64 MiB.
///
/// Exit code 0: all is well. 14: something should be changed.
///
/// Examples:
///
///   howdah doctor
///   howdah doctor --json /data
///   howdah doctor --peer anna@site
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct DoctorArgs {
    /// Where files would be read or written
    #[arg(value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Look at the path to that host, too: howdah://HOST:PORT or [USER@]HOST
    ///
    /// A copy of nothing much finds out what its largest packets are.
    #[arg(long, value_name = "HOST")]
    pub(crate) peer: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
