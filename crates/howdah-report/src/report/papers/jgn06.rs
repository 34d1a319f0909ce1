//! JGN06: fifteen figures of high-speed TCPs and UDT, 1 Gbit/s. Most of what the text states are shapes.

use super::Is::Number;
use super::{Paper, PaperFigure, Stated};

const OVER_TIME: &str = "over-time-goodput";
const HIGH_SPEED: &[&str] = &["hstcp", "scalable", "fast", "cubic2005", "htcp", "udt2"];

pub(super) const PAPER: Paper = Paper {
    name: "JGN06",
    about: "Kernels of 2004 to 2005 and UDT 2; the paper shows trials that it calls relatively good. CUBIC of RFC 9438, BBR and Howdah are additions of ours.",
    figures: &[
        PaperFigure::missing("Fig. 1", "the network", "a drawing, no measurement"),
        PaperFigure::of("Fig. 2", "throughput over time, one flow of each protocol alone, emulated 180 ms", &[("J-A1", OVER_TIME)])
            .also("All high-speed protocols reach about 1 Gbit/s and differ in how they climb and recover."),
        PaperFigure::of(
            "Fig. 3",
            "throughput over time on the line from Japan to the USA (180 ms), router's buffer of 127 and 512 packets",
            &[("J-A2", OVER_TIME), ("J-A2", "goodput")],
        )
        .also("FAST is greatly better with 512; it has losses with 127 and none with 512."),
        PaperFigure::of("Fig. 4", "throughput over time by the receiver's operating system", &[("J-B", OVER_TIME)])
            .also("All but standard TCP reach about 1 Gbit/s with every receiver; Windows XP rises more slowly; standard TCP is higher with XP."),
        PaperFigure::of("Fig. 5", "throughput over time, the path changes from 38 to 80 ms and back", &[("J-C1", OVER_TIME)])
            .also("On the longer path each TCP falls to near half and recovers gradually, UDT does not mind; back on the short one all dip and recover quickly."),
        PaperFigure::of("Fig. 6", "throughput over time, the capacity falls to 250 Mbit/s and comes back", &[("J-C2", OVER_TIME)])
            .also("Every protocol is very unstable at 250 Mbit/s; back at 1 Gbit/s all recover without loss."),
        PaperFigure::of("Fig. 7", "mean throughput of two flows of one protocol, the second with one, two and four times the RTT", &[("J-D", "flows")])
            .also("UDT does not mind; the TCPs are unfair and inefficient; at four times the RTT the second falls strongly and the first gains little."),
        PaperFigure::of("Text (starvation)", "one long-lived standard TCP beside one high-speed flow", &[("J-E0", "flows")])
            .also("Standard TCP is starved, the high-speed flow hardly affected."),
        PaperFigure::of("Fig. 8a", "sum of the mean throughputs of every pair of protocols", &[("J-E1", "pair-sum")])
            .also("A pair of different protocols has less than pairs of the same one."),
        PaperFigure::of("Fig. 8b", "HSTCP beside each other protocol: each flow's mean", &[("J-E2", "flows")])
            .also("Unfair everywhere; UDT depresses TCP most."),
        PaperFigure::of("Fig. 9a", "throughput of one high-speed flow beside 3000 short ones, by their mean size", &[("J-F1", "goodput")])
            .also("TCPs are hurt considerably, more by larger sizes; UDT least, and not in the order of sizes."),
        PaperFigure::of("Fig. 9b", "throughput of the short flows", &[("J-F1", "shorts-throughput")])
            .also("Grows with the mean size; at 500 KB it is lower beside a high-speed flow than alone."),
        PaperFigure::of("Fig. 10", "throughput over time, short flows from 50 to 350 s", &[("J-F2", OVER_TIME)]),
        PaperFigure::of(
            "Fig. 11",
            "high-speed flow and short flows with a buffer of 127 and of 512 packets",
            &[("J-F3", "goodput"), ("J-F3", "shorts-throughput")],
        )
        .also("512 packets improve both."),
        PaperFigure::of("Fig. 12", "loss of the constant-rate streams of 8 Mbit/s, the flow first", &[("J-G2", "stream_loss")])
            .also("A few losses beside every high-speed protocol."),
        PaperFigure::of("Fig. 13a", "jitter of the streams, the streams first", &[("J-G1", "stream_jitter")])
            .also("Above that of the streams alone; in most cases higher with 512."),
        PaperFigure::of("Fig. 13b", "throughput of the flow beside the streams, the streams first", &[("J-G1", "goodput")])
            .also("All high-speed flows are reduced, UDT least; 512 softens it; standard TCP is reduced too."),
        PaperFigure::of("Fig. 14a", "jitter of the streams, the flow first", &[("J-G2", "stream_jitter")])
            .also("Above that of the streams alone."),
        PaperFigure::of("Fig. 14b", "throughput of the flow beside the streams, the flow first", &[("J-G2", "goodput")])
            .also("All high-speed flows are reduced, UDT least; standard TCP is not."),
        PaperFigure::of(
            "Fig. 15",
            "throughput over time of HSTCP and CUBIC without streams and in both cases, 127 packets",
            &[("J-G1", OVER_TIME), ("J-G2", OVER_TIME)],
        )
        .also("Streams first: the climb is cut. Flow first: losses recur near the maximum."),
        PaperFigure::missing("Tables I, II", "hosts and protocols", "lists, no measurements"),
    ],
};

pub(super) const STATED: &[Stated] = &[
    Stated {
        experiments: &["J-A1"],
        key: OVER_TIME,
        at: &[("protocol", HIGH_SPEED)],
        is: Number(1e9),
        id: "J.a1",
    },
    Stated {
        experiments: &["J-B"],
        key: OVER_TIME,
        at: &[("protocol", HIGH_SPEED)],
        is: Number(1e9),
        id: "J.b1",
    },
    Stated {
        experiments: &["J-A2"],
        key: "goodput",
        at: &[("protocol", &["scalable"]), ("buffer", &["127packets"])],
        is: Number(450e6),
        id: "J.a2s",
    },
    Stated {
        experiments: &["J-A2"],
        key: "goodput",
        at: &[("protocol", &["scalable"]), ("buffer", &["512packets"])],
        is: Number(300e6),
        id: "J.a2s",
    },
    Stated {
        experiments: &["J-G2"],
        key: "stream_loss",
        at: &[("protocol", &["none", "reno"]), ("cbr", &["8mbit"])],
        is: Number(0.0),
        id: "J.g12a",
    },
];
