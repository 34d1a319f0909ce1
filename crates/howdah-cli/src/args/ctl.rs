//! `howdah ctl`.

use clap::{Args, Subcommand};

/// Looks at running copies of this user and changes their pace
///
/// Each copy listens on a socket in $XDG_RUNTIME_DIR/howdah (or /tmp/howdah-UID), which only its user can reach. PID may be left out
/// if just one copy is running; 'all' means every one.
///
/// Examples:
///
///   howdah ctl list
///   howdah ctl limit 500mbit
///   howdah ctl limit none 4711
///   howdah ctl pause all
///   howdah ctl limit auto        (back to the flag, the timetable or the configuration)
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CtlArgs {
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Lists running copies, with their rates and limits
    List {
        /// Print a JSON object per copy
        #[arg(long)]
        json: bool,
    },
    /// Sets the limit of a running copy: a rate, 'none', or 'auto'
    Limit {
        /// 500mbit, none, or auto: what flag, environment or configuration say
        limit: String,
        /// Which copy
        #[arg(value_name = "PID|all")]
        pid: Option<Which>,
    },
    /// Lets a copy rest; the connection stays alive
    Pause {
        /// Which copy
        #[arg(value_name = "PID|all")]
        pid: Option<Which>,
    },
    /// Lets it go on
    Resume {
        /// Which copy
        #[arg(value_name = "PID|all")]
        pid: Option<Which>,
    },
}

/// Which copies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Which {
    All,
    Pid(u32),
}

impl std::str::FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let pid = text.parse().map(Self::Pid);
        pid.map_err(|_| "write the number of a process ('howdah ctl list' has them) or all".into())
    }
}
