//! WTRL10: RBUDP, Tsunami, PA-UDP and TCP between two hosts and a netem delay, 1 Gbit/s.
//!
//! Order of trust: last. The figures at 80 ms cannot come from the tools' algorithms alone; the
//! scenarios will run the hypotheses about the set-up side by side and tune none of them.

use super::{Kind, Paper, Statement, not_built};

pub(super) fn statements() -> Vec<Statement> {
    ALL.to_vec()
}

const ALL: &[Statement] = &[
    Statement::of(
        Paper::Wtrl10,
        "W.1",
        "W1",
        "At 80 ms, whatever the size: PA-UDP fast, RBUDP slow, Tsunami slower; each flat in size",
        "> 600; 100 to 150; < 100 Mbit/s",
        Kind::Range,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.2",
        "W1",
        "RBUDP cannot send files that do not fit the sender's memory",
        "2 and 2.5 GB fail",
        Kind::Number,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.3",
        "W2",
        "All three are fast near RTT 0; with RTT Tsunami and RBUDP fall dramatically, PA-UDP does not",
        "> 600; PA-UDP about 650 throughout",
        Kind::Shape,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.4",
        "W3",
        "2 and 4 flows of one tool share evenly; 4 TCP flows do not",
        "f near 1; TCP < 0.2",
        Kind::Range,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.5",
        "W4",
        "Each tool beside one TCP flow, locally",
        "RBUDP 215/238, Tsunami 478/309, PA-UDP 622/46; TCP alone 363 Mbit/s",
        Kind::Number,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.6",
        "W5",
        "Each tool beside one TCP flow, 80 ms",
        "RBUDP 121/121, Tsunami 73/116, PA-UDP 612/9.5; TCP alone 178 Mbit/s",
        Kind::Number,
        not_built,
    ),
    Statement::of(
        Paper::Wtrl10,
        "W.7",
        "W6",
        "A second flow joins: PA-UDP changes over cleanly and shares equally, Tsunami oscillates and leaves capacity unused",
        "clean; erratic (figure)",
        Kind::Shape,
        not_built,
    ),
];
