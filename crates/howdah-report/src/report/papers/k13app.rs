//! K13app: rate and duration of five file movers, then all of them without loss and at 1 %.
//!
//! The text and the captions number the figures differently; both are given. The fact sheet gives the
//! two figures of a mover as a pair: that the first shows the rate and the second the duration is our
//! reading.

use super::Is::{AtLeast, AtMost, Between, Number};
use super::{At, Paper, PaperFigure, Stated};

const RATE: &[(&str, &str)] = &[("A1", "displayed_bps/main")];
const DURATION: &[(&str, &str)] = &[("A1", "duration_s/main")];

const VELOCITY: At = &[("protocol", &["velocity-like"])];
const TIXSTREAM: At = &[("protocol", &["tixstream-like"])];
const FILECATALYST: At = &[("protocol", &["filecatalyst-direct-like"])];
const XDT: At = &[("protocol", &["xdt-like"])];
const EXPEDAT: At = &[("protocol", &["expedat-like"])];

/// 30 GiB at 10 Gbit/s, in seconds (equation 1).
const IDEAL_S: f64 = 25.77;

pub(super) const PAPER: Paper = Paper {
    name: "K13app",
    about: "One file of 30 GiB, RTT 0 to 200 ms by loss 0 to 1 %, the best of four repeats. Every mover is a model. The text and the captions number the figures differently; of the pair of each mover, that the first shows the rate and the second the duration is our reading.",
    figures: &[
        PaperFigure::missing(
            "Figs. 1, 2",
            "not known here",
            "the fact sheet tells nothing of them",
        ),
        PaperFigure::of("Fig. 3", "Velocity: displayed rate", RATE).panels(VELOCITY),
        PaperFigure::of("Fig. 4", "Velocity: duration", DURATION).panels(VELOCITY),
        PaperFigure::of("Fig. 5 (printed: 1)", "TIXstream: displayed rate", RATE)
            .panels(TIXSTREAM)
            .also("At every loss faster at 50 ms than at RTT 0."),
        PaperFigure::of("Fig. 6 (printed: 2)", "TIXstream: duration", DURATION).panels(TIXSTREAM),
        PaperFigure::of("Fig. 7 (printed: 3)", "FileCatalyst Direct: displayed rate", RATE)
            .panels(FILECATALYST)
            .also("The conclusion, \"never below 93 %\", contradicts the 90 to 94 % of the abstract."),
        PaperFigure::of("Fig. 8 (printed: 4)", "FileCatalyst Direct: duration", DURATION)
            .panels(FILECATALYST)
            .also("Rises slightly and evenly with RTT."),
        PaperFigure::of("Fig. 9 (printed: 5)", "XDT Catapult: displayed rate", RATE).panels(XDT),
        PaperFigure::of("Fig. 10 (printed: 6)", "XDT Catapult: duration", DURATION).panels(XDT),
        PaperFigure::of("Fig. 11 (printed: 7)", "ExpeDat: displayed rate", RATE)
            .panels(EXPEDAT)
            .also("Latency hurts far more than loss."),
        PaperFigure::of("Fig. 12 (printed: 8)", "ExpeDat: duration", DURATION).panels(EXPEDAT),
        PaperFigure::of(
            "Fig. 13 (printed: 9)",
            "displayed rates of all without loss, over RTT",
            &[("A1", "displayed_bps/main@loss=0%")],
        ),
        PaperFigure::of(
            "Fig. 14 (printed: 10)",
            "displayed rates at 1 % loss, of those above 100 Mbit/s, over RTT",
            &[("A1", "displayed_bps/main@loss=1%")],
        ),
        PaperFigure::of(
            "Fig. 15 (printed: 11)",
            "the least duration of each",
            &[("A1", "duration_s/main@least")],
        )
        .also("The ideal is 25.77 s (30 GiB at 10 Gbit/s)."),
        PaperFigure::of(
            "Fig. 16 (printed: 12)",
            "discrepancy of duration and displayed rate without loss, over RTT",
            &[("A1", "discrepancy_s/main@loss=0%")],
        )
        .also("Velocity's is the lowest of all; ExpeDat's is below zero at 100 and 150 ms; XDT's is good below 200 ms and the worst of all there."),
        PaperFigure::of(
            "Fig. 17 (printed: 13)",
            "discrepancy at 1 % loss, over RTT",
            &[("A1", "discrepancy_s/main@loss=1%")],
        )
        .also("TIXstream's falls with RTT; FileCatalyst's is that without loss except at 150 and 200 ms, where it is higher."),
        PaperFigure::of(
            "Text (one stream)",
            "Velocity with one TCP connection",
            &[("A1-one", "displayed_bps/main")],
        ),
        PaperFigure::of(
            "Text (untuned)",
            "ExpeDat before tuning",
            &[("A1-untuned", "displayed_bps/main")],
        ),
        PaperFigure::of("Text (Iperf)", "plain TCP at 50 ms and 0.1 %", &[("A-iperf", "goodput")]),
        PaperFigure::of(
            "Quoted (TCP)",
            "Reno-like and Scalable TCP at 0.001 % and 120 ms",
            &[("A-quoted", "goodput")],
        ),
        PaperFigure::of(
            "Quoted (1 Gbit/s)",
            "RBUDP, SABUL, GTP and tuned TCP at 58 ms, loss below 0.1 %",
            &[("A-quoted-1g", "goodput")],
        ),
    ],
};

const fn rate(at: At, is: super::Is, id: &'static str) -> Stated {
    of(&["A1"], "displayed_bps/main", at, is, id)
}

const fn of(
    experiments: &'static [&'static str],
    key: &'static str,
    at: At,
    is: super::Is,
    id: &'static str,
) -> Stated {
    Stated {
        experiments,
        key,
        at,
        is,
        id,
    }
}

const FAR: &[&str] = &["50ms", "100ms", "150ms", "200ms"];

pub(super) const STATED: &[Stated] = &[
    rate(
        &[
            ("protocol", &["velocity-like", "xdt-like", "expedat-like"]),
            ("rtt", &["0ms"]),
            ("loss", &["0%"]),
        ],
        AtLeast(9.3e9),
        "A.0",
    ),
    rate(
        &[
            ("protocol", &["velocity-like"]),
            ("rtt", &["200ms"]),
            ("loss", &["0%"]),
        ],
        Number(8e9),
        "A.v1",
    ),
    rate(
        &[
            ("protocol", &["velocity-like"]),
            ("rtt", &["0ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(9e9),
        "A.v3",
    ),
    rate(
        &[
            ("protocol", &["velocity-like"]),
            ("rtt", &["0ms"]),
            ("loss", &["1%"]),
        ],
        Number(500e6),
        "A.v3",
    ),
    rate(
        &[
            ("protocol", &["velocity-like"]),
            ("rtt", FAR),
            ("loss", &["0.1%"]),
        ],
        Number(250e6),
        "A.v4",
    ),
    rate(
        &[
            ("protocol", &["velocity-like"]),
            ("rtt", FAR),
            ("loss", &["0.3%", "0.5%", "1%"]),
        ],
        AtMost(100e6),
        "A.v4",
    ),
    rate(
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["150ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(8.7e9),
        "A.t3",
    ),
    rate(
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["200ms"]),
            ("loss", &["1%"]),
        ],
        Number(3.75e9),
        "A.t4",
    ),
    rate(
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["0ms", "50ms", "100ms"]),
            ("loss", &["0%", "0.1%"]),
        ],
        AtLeast(9.7e9),
        "A.t1",
    ),
    rate(
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["150ms", "200ms"]),
            ("loss", &["0%"]),
        ],
        Number(9.8e9),
        "A.t2",
    ),
    rate(
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["0ms", "50ms", "100ms"]),
            ("loss", &["0.3%"]),
        ],
        Number(9.7e9),
        "A.t6",
    ),
    rate(
        &[
            ("protocol", &["filecatalyst-direct-like"]),
            ("loss", &["0%"]),
        ],
        Between(9.2e9, 9.3e9),
        "A.f2",
    ),
    rate(FILECATALYST, Between(9e9, 9.4e9), "A.f1"),
    rate(
        &[
            ("protocol", &["xdt-like"]),
            ("rtt", &["150ms"]),
            ("loss", &["0%"]),
        ],
        Number(8.3e9),
        "A.x1",
    ),
    rate(
        &[
            ("protocol", &["xdt-like"]),
            ("loss", &["0.1%", "0.3%", "0.5%", "1%"]),
        ],
        AtMost(100e6),
        "A.x2",
    ),
    rate(
        &[
            ("protocol", &["expedat-like"]),
            ("rtt", &["0ms"]),
            ("loss", &["1%"]),
        ],
        Number(5.7e9),
        "A.e3",
    ),
    rate(
        &[
            ("protocol", &["expedat-like"]),
            ("rtt", &["200ms"]),
            ("loss", &["1%"]),
        ],
        Number(400e6),
        "A.e3",
    ),
    rate(
        &[
            ("protocol", &["expedat-like"]),
            ("rtt", FAR),
            ("loss", &["1%"]),
        ],
        AtMost(1e9),
        "A.e3",
    ),
    of(
        &["A1"],
        "duration_s/main",
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["150ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(37.25),
        "A.t3",
    ),
    of(
        &["A1"],
        "discrepancy_s/main",
        &[
            ("protocol", &["tixstream-like"]),
            ("rtt", &["150ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(7.63),
        "A.t3",
    ),
    of(
        &["A1"],
        "duration_s/main@least",
        FILECATALYST,
        Number(IDEAL_S + 3.8),
        "A.f3",
    ),
    of(
        &["A1"],
        "duration_s/main@least",
        XDT,
        Number(IDEAL_S + 1.4),
        "A.x3",
    ),
    of(
        &["A1"],
        "duration_s/main@least",
        &[(
            "protocol",
            &["velocity-like", "tixstream-like", "expedat-like"],
        )],
        AtMost(IDEAL_S + 2.0),
        "A.d1",
    ),
    of(
        &["A1-one"],
        "displayed_bps/main",
        &[("rtt", &["200ms"])],
        Number(2.2e9),
        "A.v2",
    ),
    of(
        &["A1-untuned"],
        "displayed_bps/main",
        &[],
        Number(2e9),
        "A.e1",
    ),
    of(
        &["A-iperf"],
        "goodput",
        &[("window", &["untuned"])],
        Number(40e6),
        "A.i1",
    ),
    of(
        &["A-iperf"],
        "goodput",
        &[("window", &["128MiB"])],
        AtMost(60e6),
        "A.i1",
    ),
    of(
        &["A-quoted"],
        "goodput",
        &[("protocol", &["reno"])],
        AtMost(1e9),
        "A.i2",
    ),
    of(
        &["A-quoted"],
        "goodput",
        &[("protocol", &["scalable"])],
        Number(5e9),
        "A.i2",
    ),
    of(&["A-quoted-1g"], "goodput", &[], Number(900e6), "A.i3"),
];
