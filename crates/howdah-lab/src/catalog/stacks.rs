//! TCP stacks by era and operating system.

use howdah_rivals::tcp::{ReceiverConfig, TcpConfig};

/// A sending stack by name.
type Era = (&'static str, fn() -> TcpConfig);
/// A receiving stack by name.
type Receiver = (&'static str, fn() -> ReceiverConfig);

/// The stacks of three eras.
const ERAS: [Era; 3] = [
    ("linux24", TcpConfig::linux24),
    ("linux26", TcpConfig::linux26),
    ("modern", TcpConfig::modern),
];

/// Receivers by operating system.
const RECEIVERS: [Receiver; 5] = [
    ("linux24", ReceiverConfig::linux24),
    ("linux26", ReceiverConfig::linux26),
    ("modern", ReceiverConfig::modern),
    ("freebsd53", ReceiverConfig::freebsd53),
    ("winxp_sp2", ReceiverConfig::winxp_sp2),
];

/// Names of the eras.
pub(crate) fn eras() -> [&'static str; 3] {
    ERAS.map(|era| era.0)
}

/// Names of the receivers.
pub(crate) fn receivers() -> [&'static str; 5] {
    RECEIVERS.map(|receiver| receiver.0)
}

/// The sending stack of an era; today's if none is named.
pub(crate) fn sender(era: Option<&str>) -> TcpConfig {
    let known = ERAS.iter().find(|known| Some(known.0) == era);
    known.map_or_else(TcpConfig::modern, |known| known.1())
}

/// The receiving stack of that name; today's if none is named.
pub(crate) fn receiver(name: Option<&str>) -> ReceiverConfig {
    let known = RECEIVERS.iter().find(|known| Some(known.0) == name);
    known.map_or_else(ReceiverConfig::modern, |known| known.1())
}
