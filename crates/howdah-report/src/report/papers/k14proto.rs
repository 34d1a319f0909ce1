//! K14proto: three figures for each of four bare protocols, 10 Gbit/s.

use super::Is::{AtLeast, AtMost, Number};
use super::{At, Paper, PaperFigure, Stated};

const MIB: f64 = 1_048_576.0;
const KIB: f64 = 1024.0;

const UDT: At = &[("protocol", &["udt"])];
const RBUDP: At = &[("protocol", &["rbudp"])];
const MTP: At = &[("protocol", &["mtp-like"])];
const RWTP: At = &[("protocol", &["rwtp-like"])];

const RATE: &[(&str, &str)] = &[("P1", "goodput")];
const CPU: &[(&str, &str)] = &[("P1", "sender_cpu")];
const RECEIVER: &[(&str, &str)] = &[("P1", "receiver_cpu")];
const FEEDBACK: &[(&str, &str)] = &[("P1", "feedback")];

pub(super) const PAPER: Paper = Paper {
    name: "K14proto",
    about: "Cells are RTT 0 to 400 ms by loss 0 to 2 %, 180 s each, the best of four repeats. MTP and RWTP are proprietary: ours are models.",
    figures: &[
        PaperFigure::missing("Fig. 1", "the topology", "a drawing, no measurement"),
        PaperFigure::missing(
            "Fig. 2",
            "not known here",
            "the fact sheet tells nothing of it",
        ),
        PaperFigure::of("Fig. 3", "UDT 4: data rate over RTT and loss", RATE)
            .panels(UDT)
            .also("Lowest quoted rate at 0.1 % loss: 130 Mbit/s. Without loss high at RTT 0 and falling with RTT."),
        PaperFigure::of("Fig. 4", "UDT 4: CPU per Gbit/s over RTT and loss", CPU)
            .panels(UDT)
            .also("Highest 97.8 %, mean 63.4 %; sender over receiver 1.1."),
        PaperFigure::of("Fig. 5", "UDT 4: feedback per GiB over RTT and loss", FEEDBACK)
            .panels(UDT)
            .also("Mean 1.2 MiB/GiB; independent of the rate, lower with loss."),
        PaperFigure::of("Fig. 6", "RBUDP: data rate over RTT and loss", RATE)
            .panels(RBUDP)
            .also("At 50 ms less than half of RTT 0, with no loss and with 2 %; beyond 50 ms RTT matters much less. All 42 cells above 100 Mbit/s."),
        PaperFigure::of("Fig. 7", "RBUDP: CPU per Gbit/s over RTT and loss", CPU)
            .panels(RBUDP)
            .also("10.4 % nearly everywhere, mean 10.6 %; sender over receiver 1.2."),
        PaperFigure::of("Fig. 8", "RBUDP: feedback per GiB over RTT and loss", FEEDBACK)
            .panels(RBUDP)
            .also("Mean 37 KiB/GiB; depends on the loss mainly."),
        PaperFigure::of("Fig. 9", "MTP: data rate over RTT and loss", RATE)
            .panels(MTP)
            .also("RTT 0 without loss is four times 50 ms without loss, and below RTT 0 with 0.1 %; poor beyond 0.5 %; some cells below 100 Mbit/s."),
        PaperFigure::of("Fig. 10", "MTP: the receiver's CPU per Gbit/s", RECEIVER)
            .panels(MTP)
            .also("The receiver needs more than the sender: sender over receiver 0.7, about 0.5 without loss. Of the sender: 8.4 % at 50 ms and 0.1 %, 17.6 % at 50 ms without loss, 9.2 % at the best rate, mean 11.4 %."),
        PaperFigure::of("Fig. 11", "MTP: feedback per GiB over RTT and loss", FEEDBACK)
            .panels(MTP)
            .also("Mean 3.2 MiB/GiB, most without impairments (the plot's axis ends at 20000 KiB)."),
        PaperFigure::of("Fig. 12", "RWTP: data rate over RTT and loss", RATE)
            .panels(RWTP)
            .also("No visible fall below 100 ms or 1 %."),
        PaperFigure::of("Fig. 13", "RWTP: CPU per Gbit/s over RTT and loss", CPU)
            .panels(RWTP)
            .also("12.6 % at the best rate, mean 15.4 %; sender over receiver 1.2."),
        PaperFigure::of("Fig. 14", "RWTP: feedback per GiB over RTT and loss", FEEDBACK)
            .panels(RWTP)
            .also("Mean about 1 MiB/GiB, grows with RTT and loss."),
        PaperFigure::of(
            "Quoted (UDT)",
            "data rate of 1, 2 and 8 UDT streams over 116 ms, from another paper",
            &[("P4-udt", "goodput")],
        ),
        PaperFigure::of(
            "Quoted (RBUDP)",
            "CineGrid: RBUDP from storage of 3.5 Gbit/s over 100 ms",
            &[("P4-rbudp", "goodput")],
        ),
    ],
};

const fn p1(key: &'static str, at: At, is: super::Is, id: &'static str) -> Stated {
    Stated {
        experiments: &["P1"],
        key,
        at,
        is,
        id,
    }
}

pub(super) const STATED: &[Stated] = &[
    p1(
        "goodput",
        &[("protocol", &["udt"]), ("loss", &["0.1%"])],
        AtMost(200e6),
        "P.u1",
    ),
    p1(
        "goodput",
        &[
            ("protocol", &["udt"]),
            ("loss", &["0.3%", "0.5%", "1%", "1.5%", "2%"]),
        ],
        AtMost(100e6),
        "P.u2",
    ),
    p1(
        "goodput",
        &[("protocol", &["rbudp"]), ("rtt", &["50ms"])],
        AtMost(3e9),
        "P.r3",
    ),
    p1("goodput", RBUDP, AtLeast(100e6), "P.r5"),
    p1("goodput", RWTP, AtLeast(1.5e9), "P.w1"),
    // "At the maximal rate": RTT 0 without loss, by P.u3.
    p1(
        "sender_cpu",
        &[("protocol", &["udt"]), ("rtt", &["0ms"]), ("loss", &["0%"])],
        Number(0.281),
        "P.u4",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["rbudp"]),
            ("rtt", &["400ms"]),
            ("loss", &["2%"]),
        ],
        Number(0.127),
        "P.r6",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["rbudp"]),
            ("rtt", &["0ms"]),
            ("loss", &["0%"]),
        ],
        Number(0.104),
        "P.r6",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["mtp-like"]),
            ("rtt", &["50ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(0.084),
        "P.m4",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["mtp-like"]),
            ("rtt", &["50ms"]),
            ("loss", &["0%"]),
        ],
        Number(0.176),
        "P.m4",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["rwtp-like"]),
            ("rtt", &["50ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(0.124),
        "P.w3",
    ),
    p1(
        "sender_cpu",
        &[
            ("protocol", &["rwtp-like"]),
            ("rtt", &["400ms"]),
            ("loss", &["2%"]),
        ],
        Number(0.299),
        "P.w3",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["udt"]),
            ("rtt", &["400ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(0.7 * MIB),
        "P.u5",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["udt"]),
            ("rtt", &["0ms"]),
            ("loss", &["0.1%"]),
        ],
        Number(1.5 * MIB),
        "P.u5",
    ),
    p1(
        "feedback",
        &[("protocol", &["udt"]), ("rtt", &["0ms"]), ("loss", &["0%"])],
        Number(1.4 * MIB),
        "P.u5",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["rbudp"]),
            ("rtt", &["0ms"]),
            ("loss", &["0%"]),
        ],
        Number(30.0 * KIB),
        "P.r8",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["rbudp"]),
            ("rtt", &["400ms"]),
            ("loss", &["2%"]),
        ],
        Number(50.0 * KIB),
        "P.r8",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["rwtp-like"]),
            ("rtt", &["0ms"]),
            ("loss", &["0%"]),
        ],
        Number(5.6 * KIB),
        "P.w4",
    ),
    p1(
        "feedback",
        &[
            ("protocol", &["rwtp-like"]),
            ("rtt", &["400ms"]),
            ("loss", &["2%"]),
        ],
        Number(6215.0 * KIB),
        "P.w4",
    ),
    quoted(&["P4-udt"], &[("streams", &["1"])], 4.5e9),
    quoted(&["P4-udt"], &[("streams", &["2"])], 5e9),
    quoted(&["P4-udt"], &[("streams", &["8"])], 6.6e9),
    quoted(&["P4-rbudp"], &[], 1.2e9),
];

/// What K14proto quotes from others.
const fn quoted(experiments: &'static [&'static str], at: At, bps: f64) -> Stated {
    Stated {
        experiments,
        key: "goodput",
        at,
        is: Number(bps),
        id: "P4",
    }
}
