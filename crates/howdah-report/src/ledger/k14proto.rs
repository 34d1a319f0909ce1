//! K14proto: UDT4, RBUDP, MTP and RWTP bare, 10 Gbit/s, 42 cells of RTT and loss.
//!
//! Fitted: what is stated about the cells that the models of the proprietary protocols (and the hosts of all
//! four) took their parameters from: RWTP (0, 0) and (400 ms, 2 %); MTP (0, 0), (50 ms, 0) and
//! (0, 0.1 %); RBUDP (0, 0) and (50 ms, 0); the processor times of all. Which parameter came from which
//! statement: docs/ledger-notes.md, "What was fitted to what".

mod checks;

use super::{Kind, Paper, Statement};

pub(super) fn statements() -> Vec<Statement> {
    ALL.to_vec()
}

const ALL: &[Statement] = &[
    Statement::of(
        Paper::K14proto,
        "P.u1",
        "P1",
        "UDT4 at 0.1 % loss stays below a fiftieth of the link at every RTT",
        "<= 200 Mbit/s; lowest quoted 130",
        Kind::Bound,
        checks::u1,
    ),
    Statement::of(
        Paper::K14proto,
        "P.u2",
        "P1",
        "UDT4 above 0.1 % loss is unsuccessful at every RTT",
        "< 100 Mbit/s",
        Kind::Bound,
        checks::u2,
    ),
    Statement::of(
        Paper::K14proto,
        "P.u3",
        "P1",
        "UDT4 without loss is fast at RTT 0 and falls with RTT",
        "high, falling (figure)",
        Kind::Trend,
        checks::u3,
    ),
    Statement::of(
        Paper::K14proto,
        "P.u4",
        "P2",
        "UDT4's sender: CPU per Gbit/s, least at its highest rate; more than one core is possible",
        "28.1 to 97.8 %, mean 63.4 %; sender/receiver 1.1",
        Kind::Number,
        checks::u4,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.u5",
        "P3",
        "UDT4's feedback per GiB: independent of the rate, lower with loss",
        "MiB/GiB: 0.7 (400 ms, 0.1 %), 1.5 (0, 0.1 %), 1.4 at best rate, mean 1.2",
        Kind::Number,
        checks::u5,
    ),
    Statement::of(
        Paper::K14proto,
        "P.r1",
        "P1",
        "RBUDP at 50 ms has less than half of what it has at 0 ms, without loss and at 2 %",
        "R(50) < R(0)/2",
        Kind::Trend,
        checks::r1,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.r2",
        "P1",
        "RBUDP depends much less on RTT beyond 50 ms",
        "flat (figure)",
        Kind::Trend,
        checks::r2,
    )
    .implied("P.r1 was fitted: what is left at 50 ms is little, so the rest of the fall is"),
    Statement::of(
        Paper::K14proto,
        "P.r3",
        "P1",
        "RBUDP at 50 ms",
        "up to 3000 Mbit/s",
        Kind::Number,
        checks::r3,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.r4",
        "P1",
        "RBUDP: 2 % of loss matter less than the first 50 ms of RTT",
        "loss < RTT (figure)",
        Kind::Order,
        checks::r4,
    )
    .implied("P.r1 was fitted: its fall is more than loss takes of any rate that is left"),
    Statement::of(
        Paper::K14proto,
        "P.r5",
        "P1",
        "RBUDP succeeds in all 42 cells",
        "> 100 Mbit/s",
        Kind::Bound,
        checks::r5,
    ),
    Statement::of(
        Paper::K14proto,
        "P.r6",
        "P2",
        "RBUDP's sender: CPU per Gbit/s nearly the same everywhere",
        "10.4 %; 12.7 % at (400 ms, 2 %); mean 10.6 %; sender/receiver 1.2",
        Kind::Number,
        checks::r6,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.r7",
        "P2",
        "RBUDP nearly fills one core at RTT 0 with at most 0.1 % loss",
        "just under 100 %",
        Kind::Bound,
        checks::r7,
    )
    .implied("P.r6's 10.4 % per Gbit/s, which was fitted, times the preset rate"),
    Statement::of(
        Paper::K14proto,
        "P.r8",
        "P3",
        "RBUDP's feedback per GiB depends mainly on loss",
        "KiB/GiB: 30 (0, 0), 50 in the heaviest cell, mean 37",
        Kind::Number,
        checks::r8,
    ),
    Statement::of(
        Paper::K14proto,
        "P.m1",
        "P1",
        "MTP is four times slower at 50 ms than at 0 ms without loss",
        "R(0,0)/R(50,0) = 4",
        Kind::Number,
        checks::m1,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.m2",
        "P1",
        "MTP at RTT 0 is faster with 0.1 % loss than without",
        "R(0,0.1) > R(0,0)",
        Kind::Order,
        checks::m2,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.m3",
        "P1",
        "MTP at RTT 0 is reasonable up to 0.5 % loss and poor beyond; some cells fail",
        "some < 100 Mbit/s",
        Kind::Trend,
        checks::m3,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.m4",
        "P2",
        "MTP's sender: CPU per Gbit/s falls as the rate grows",
        "8.4 % (50 ms, 0.1 %), 17.6 % (50 ms, 0 %), mean 11.4 %, 9.2 % at best rate",
        Kind::Number,
        checks::m4,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.m5",
        "P2",
        "MTP's receiver needs more CPU than its sender, about twice as much without loss",
        "sender/receiver 0.7 in the mean",
        Kind::Number,
        checks::m5,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.m6",
        "P3",
        "MTP's feedback is largest without impairments",
        "tens of MiB/GiB; mean 3.2",
        Kind::Number,
        checks::m6,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.w1",
        "P1",
        "RWTP has a seventh of the link or more in all 42 cells",
        "R >= 1500 Mbit/s",
        Kind::Bound,
        checks::w1,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.w2",
        "P1",
        "RWTP shows no fall below 100 ms or below 1 % loss",
        "flat (figure)",
        Kind::Trend,
        checks::w2,
    ),
    Statement::of(
        Paper::K14proto,
        "P.w3",
        "P2",
        "RWTP's sender: CPU per Gbit/s; more than one core is possible",
        "12.4 % (50 ms, 0.1 %), 29.9 % (400 ms, 2 %), 12.6 % at best rate, mean 15.4 %; sender/receiver 1.2",
        Kind::Number,
        checks::w3,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.w4",
        "P3",
        "RWTP's feedback per GiB grows with RTT and loss",
        "KiB/GiB: 5.6 (0, 0), 6215 (400 ms, 2 %), mean about 1024",
        Kind::Number,
        checks::w4,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.c1",
        "P1",
        "Only RBUDP and RWTP succeed in every cell",
        "rbudp, rwtp",
        Kind::Trend,
        checks::c1,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c2",
        "P2",
        "Least mean CPU per Gbit/s: RBUDP; at the highest rate least MTP, most UDT4",
        "rbudp; mtp 9.2 %, udt4 28.1 %",
        Kind::Order,
        checks::c2,
    )
    .implied("it compares P.u4's, P.r6's, P.m4's and P.w3's figures, which were fitted"),
    Statement::of(
        Paper::K14proto,
        "P.c3",
        "P2",
        "CPU per Gbit/s grows with impairments for all but MTP, whose falls with the rate",
        "grows; falls",
        Kind::Trend,
        checks::c3,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c4",
        "P1",
        "The fall with RTT without loss is an effect of buffers: without their limits it is gone",
        "counterfactual",
        Kind::Trend,
        checks::c4,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c5",
        "P1",
        "Larger packets help every protocol",
        "8800 better than 1472",
        Kind::Order,
        checks::c5,
    )
    .implied("a packet costs these hosts the same time whatever its size"),
    Statement::of(
        Paper::K14proto,
        "P.c6",
        "P1",
        "RBUDP and RWTP do not recover from a preset rate above the path's",
        "no recovery",
        Kind::Trend,
        checks::c6,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c7",
        "P1",
        "The application ExpeDat is faster than bare MTP even without loss; bare RWTP is faster than TIXstream",
        "order",
        Kind::Order,
        checks::c7,
    )
    .implied("both sides are fitted figures"),
    Statement::of(
        Paper::K14proto,
        "P.m7",
        "P2",
        "MTP nearly fills one core at its best rate",
        "near 100 %",
        Kind::Bound,
        checks::m7,
    )
    .fitted(),
    Statement::of(
        Paper::K14proto,
        "P.c8",
        "P3",
        "Least feedback: RBUDP; most: MTP",
        "37 KiB/GiB; 3.2 MiB/GiB",
        Kind::Order,
        checks::c8,
    )
    .implied("MTP's and RWTP's feedback were fitted (P.m6, P.w4), and RBUDP's is a list that nothing else comes near"),
    Statement::of(
        Paper::K14proto,
        "P.c9",
        "P3",
        "Loss makes feedback less for UDT4 and MTP, and more for RBUDP and RWTP",
        "less; more",
        Kind::Trend,
        checks::c9,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c10",
        "P2",
        "Only UDT4 and RWTP need more than one core",
        "> 100 %",
        Kind::Bound,
        checks::c10,
    )
    .implied("the hosts of these two have two cores in the scenario, those of the others one"),
    Statement::of(
        Paper::K14proto,
        "P.c11",
        "P1",
        "RWTP is the fastest of all, and RBUDP of the open ones",
        "order",
        Kind::Order,
        checks::c11,
    ),
    Statement::of(
        Paper::K14proto,
        "P.c12",
        "F12",
        "Losses one by one are harder than the same loss in bursts",
        "order",
        Kind::Order,
        checks::c12,
    ),
    Statement::of(
        Paper::K14proto,
        "P.q1",
        "P4",
        "Quoted from 2005: UDT over 116 ms with 1, 2 and 8 streams (the version of that year; ours is 4)",
        "4500, 5000, 6600 Mbit/s",
        Kind::Number,
        checks::q1,
    ),
    Statement::of(
        Paper::K14proto,
        "P.q2",
        "P4",
        "Quoted: RBUDP from storage of 3500 Mbit/s over 100 ms",
        "1200 Mbit/s",
        Kind::Number,
        checks::q2,
    ),
];
