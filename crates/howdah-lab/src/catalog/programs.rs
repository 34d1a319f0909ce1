//! Real programs that only a testbed can run; `netns/program` has an adapter for each.

/// A real program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    /// As scenarios name it.
    pub(crate) name: &'static str,
    /// What it is, in a line.
    pub(crate) about: &'static str,
}

/// All of them. The simulator knows nothing of them.
pub(crate) static ALL: [Program; 11] = [
    Program {
        name: "iperf3-cubic",
        about: "iperf3 over the kernel's CUBIC",
    },
    Program {
        name: "iperf3-bbr",
        about: "iperf3 over the kernel's BBR (version 1)",
    },
    Program {
        name: "nuttcp",
        about: "nuttcp over the kernel's CUBIC",
    },
    Program {
        name: "libudt",
        about: "UDT 4 as Debian ships it (libudt), through a small program of ours",
    },
    Program {
        name: "srt",
        about: "SRT in file mode (srt-file-transmit), without encryption",
    },
    Program {
        name: "quic-bbr",
        about: "QUIC with BBR as quinn has it (experimental there)",
    },
    Program {
        name: "sendme",
        about: "sendme (QUIC, iroh): known, not run",
    },
    Program {
        name: "scp",
        about: "scp of OpenSSH, over CUBIC",
    },
    Program {
        name: "rsync",
        about: "rsync over ssh, a new file, over CUBIC",
    },
    Program {
        name: "rclone",
        about: "rclone to an sftp remote, with its check of the copy, over CUBIC",
    },
    Program {
        name: "qcp",
        about: "qcp: QUIC (quinn, CUBIC), set up over ssh",
    },
];

/// The program of that name.
pub(crate) fn find(name: &str) -> Option<&'static Program> {
    ALL.iter().find(|program| program.name == name)
}
