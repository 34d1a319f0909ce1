//! `howdah config`.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    Show(ConfigShowArgs),
    /// Prints the name of the config file
    ///
    /// It is $HOWDAH_CONFIG, or else config.toml in $HOWDAH_CONFIG_DIR, $XDG_CONFIG_HOME/howdah or ~/.config/howdah. It
    /// need not exist.
    ///
    /// For example:
    ///
    ///   howdah config path
    #[command(verbatim_doc_comment)]
    Path,
}

/// Prints every setting with its value and where that is from
///
/// Examples:
///
///   howdah config show
///   howdah config show --host site.example.org
///   howdah config show serve
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct ConfigShowArgs {
    /// Whose settings
    #[arg(value_name = "COMMAND", default_value = "cp")]
    pub(crate) command: String,

    /// What would hold for copies to or from that host
    #[arg(long, value_name = "HOST")]
    pub(crate) host: Option<String>,

    /// Print a JSON object per setting
    #[arg(long)]
    pub(crate) json: bool,
}
