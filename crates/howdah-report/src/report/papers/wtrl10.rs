//! WTRL10: five figures and two tables of end-system aware tools, 1 Gbit/s.

use super::Is::{AtLeast, AtMost, Between, Number};
use super::{At, Paper, PaperFigure, Stated};

const TOOLS: &[&str] = &["rbudp", "tsunami", "pa-udp"];

pub(super) const PAPER: Paper = Paper {
    name: "WTRL10",
    about: "The figures at 80 ms cannot come from the tools' rules alone, and the paper does not say where its delay was made: every experiment runs in three set-ups (ideal, h2, h3), and the same stated value is drawn into each. In h3 the send buffers are fitted to the figures at 80 ms.",
    figures: &[
        PaperFigure::of(
            "Fig. 1",
            "throughput by size of the file, 80 ms",
            &[("W1", "tool_bps/main")],
        )
        .also("Each nearly flat in size; RBUDP cannot send 2 and 2.5 GB."),
        PaperFigure::of(
            "Fig. 2",
            "throughput by RTT, 512 MB",
            &[("W2", "tool_bps/main")],
        )
        .also("RBUDP and Tsunami fall dramatically with RTT."),
        PaperFigure::of(
            "Fig. 3",
            "fairness (least over greatest rate) of two and four flows, 80 ms",
            &[("W3-2", "maxmin"), ("W3-4", "maxmin")],
        )
        .also("Near 1 for the three tools; four TCP flows differ about ten times."),
        PaperFigure::of(
            "Fig. 4",
            "rates over time of two PA-UDP flows, the second 3 s later",
            &[("W6", "over-time-goodput")],
        )
        .panels(&[("protocol", &["pa-udp", "pa-udp-apart"])])
        .also("A clean transition and equal shares; the first file ends at about 25 s."),
        PaperFigure::of(
            "Fig. 5",
            "the same of two Tsunami flows",
            &[("W6", "over-time-goodput")],
        )
        .panels(&[("protocol", &["tsunami"])])
        .also("Erratic, oscillating, leaves capacity unused."),
        PaperFigure::missing(
            "Tables 1, 2",
            "hosts and parameters",
            "lists, no measurements",
        ),
        PaperFigure::of(
            "Table 3",
            "a tool beside one TCP flow, locally: both rates and the asymmetry",
            &[("W4", "flows"), ("W4", "asymmetry")],
        ),
        PaperFigure::of(
            "Table 4",
            "the same at 80 ms",
            &[("W5", "flows"), ("W5", "asymmetry")],
        ),
    ],
};

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

const RATE: &str = "tool_bps/main";

pub(super) const STATED: &[Stated] = &[
    of(
        &["W1"],
        RATE,
        &[("protocol", &["pa-udp"])],
        AtLeast(600e6),
        "W.1",
    ),
    of(
        &["W1"],
        RATE,
        &[
            ("protocol", &["rbudp"]),
            (
                "size",
                &[
                    "8MB", "16MB", "32MB", "64MB", "128MB", "256MB", "512MB", "1GB", "1.5GB",
                ],
            ),
        ],
        Between(100e6, 150e6),
        "W.1",
    ),
    of(
        &["W1"],
        RATE,
        &[("protocol", &["tsunami"])],
        AtMost(100e6),
        "W.1",
    ),
    of(
        &["W2"],
        RATE,
        &[("protocol", TOOLS), ("rtt", &["0.1ms"])],
        AtLeast(600e6),
        "W.3",
    ),
    of(
        &["W2"],
        RATE,
        &[("protocol", &["pa-udp"])],
        Number(650e6),
        "W.3",
    ),
    of(
        &["W2"],
        RATE,
        &[("protocol", &["rbudp"]), ("rtt", &["80ms"])],
        Between(100e6, 150e6),
        "W.1",
    ),
    of(
        &["W2"],
        RATE,
        &[("protocol", &["tsunami"]), ("rtt", &["80ms"])],
        AtMost(100e6),
        "W.1",
    ),
    of(
        &["W3-2", "W3-4"],
        "maxmin",
        &[("protocol", TOOLS)],
        Number(1.0),
        "W.4",
    ),
    of(
        &["W3-4"],
        "maxmin",
        &[("protocol", &["reno", "reno-h3"])],
        AtMost(0.2),
        "W.4",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["rbudp"]), ("flow", &["tested"])],
        Number(214.88e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["rbudp"]), ("flow", &["tcp"])],
        Number(238e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["tsunami"]), ("flow", &["tested"])],
        Number(477.62e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["tsunami"]), ("flow", &["tcp"])],
        Number(309e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["pa-udp"]), ("flow", &["tested"])],
        Number(622.3e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["pa-udp"]), ("flow", &["tcp"])],
        Number(46.4e6),
        "W.5",
    ),
    of(
        &["W4"],
        "flows",
        &[("protocol", &["none"]), ("flow", &["tcp"])],
        Number(363e6),
        "W.5",
    ),
    of(
        &["W4"],
        "asymmetry",
        &[("protocol", &["rbudp"])],
        Number(-0.051),
        "W.5",
    ),
    of(
        &["W4"],
        "asymmetry",
        &[("protocol", &["tsunami"])],
        Number(0.214),
        "W.5",
    ),
    of(
        &["W4"],
        "asymmetry",
        &[("protocol", &["pa-udp"])],
        Number(0.861),
        "W.5",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["rbudp"]), ("flow", &["tested"])],
        Number(120.75e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["rbudp"]), ("flow", &["tcp"])],
        Number(121e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["tsunami"]), ("flow", &["tested"])],
        Number(72.56e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["tsunami"]), ("flow", &["tcp"])],
        Number(116e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["pa-udp"]), ("flow", &["tested"])],
        Number(612.33e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["pa-udp"]), ("flow", &["tcp"])],
        Number(9.47e6),
        "W.6",
    ),
    of(
        &["W5"],
        "flows",
        &[("protocol", &["none"]), ("flow", &["tcp"])],
        Number(178e6),
        "W.6",
    ),
    of(
        &["W5"],
        "asymmetry",
        &[("protocol", &["rbudp"])],
        Number(-0.001),
        "W.6",
    ),
    of(
        &["W5"],
        "asymmetry",
        &[("protocol", &["tsunami"])],
        Number(-0.23),
        "W.6",
    ),
    of(
        &["W5"],
        "asymmetry",
        &[("protocol", &["pa-udp"])],
        Number(0.97),
        "W.6",
    ),
];
