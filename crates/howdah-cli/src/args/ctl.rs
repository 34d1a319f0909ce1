//! `howdah ctl`.

use clap::{Args, Subcommand};

/// Looks at running copies and servers of this user, and changes what they do
///
/// Each copy and each server listens on a socket in $XDG_RUNTIME_DIR/howdah (or /tmp/howdah-UID), which only its user can reach. PID may be left out
/// if just one copy is running; 'all' means every one.
///
/// Examples:
///
///   howdah ctl list
///   howdah ctl limit 500mbit
///   howdah ctl limit none 4711
///   howdah ctl pause all
///   howdah ctl limit auto        (back to the flag, the timetable or the configuration)
///   howdah ctl drain 4711        (a server lets its sessions end and goes)
///   howdah ctl end 4711 3
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub(crate) struct CtlArgs {
    #[command(subcommand)]
    pub(crate) command: CtlCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlCommand {
    /// Lists running copies, with their rates and limits, and servers with their sessions
    List {
        /// Print a JSON object per copy and server
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
    /// Lets no session of a server begin any more; the server ends with its last one
    ///
    /// Who comes, or does nothing, is told that the server is going away, and to try again later (code 5).
    Drain {
        /// Which server
        pid: u32,
    },
    /// Ends a session of a server; its client is refused (code 4) and does not come again by itself
    End {
        /// Which server
        pid: u32,
        /// Which of its sessions, by its number in 'howdah ctl list'
        session: u64,
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
