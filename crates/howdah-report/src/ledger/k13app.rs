//! K13app: Velocity, `TIXstream`, `FileCatalyst`, XDT and `ExpeDat`, 10 Gbit/s, one file of 30 GiB.
//!
//! Fitted: what is stated about the cells that the models take their parameters from: `TIXstream` (0, 0) and
//! (200 ms, 1 %); `FileCatalyst` (0, 0); `ExpeDat` (0, 0) and (0, 1 %); the number of XDT's connections
//! (150 ms, 0); the MTU of the quoted TCPs (A.i2); CPU of `TIXstream` and `ExpeDat`; and the service
//! times, which the least durations give.

mod checks;

use super::{Kind, Paper, Statement, remark};

pub(super) fn statements() -> Vec<Statement> {
    ALL.to_vec()
}

const SERVICE: &str =
    "the discrepancy of a model is its service time, a constant that does not know the network";

const ALL: &[Statement] = &[
    Statement::of(
        Paper::K13app,
        "A.0",
        "A1",
        "All five systems come near the link without delay and loss, Velocity highest",
        "R >= 9300 Mbit/s",
        Kind::Bound,
        checks::a_0,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.v1",
        "A1",
        "Velocity without loss falls only to four fifths of the link with RTT",
        "8000 Mbit/s",
        Kind::Number,
        checks::v1,
    ),
    Statement::of(
        Paper::K13app,
        "A.v2",
        "A1",
        "Velocity with one stream at 200 ms without loss",
        "2200 Mbit/s",
        Kind::Number,
        checks::v2,
    ),
    Statement::of(
        Paper::K13app,
        "A.v3",
        "A1",
        "Velocity at RTT 0 with loss",
        "0.1 %: 9000 (800 less than clean); 1 %: 500 Mbit/s",
        Kind::Number,
        checks::v3,
    ),
    Statement::of(
        Paper::K13app,
        "A.v4",
        "A1",
        "Velocity at 0.1 % and 50 ms or more; unsuccessful with more loss and delay",
        "250 Mbit/s; < 100",
        Kind::Number,
        checks::v4,
    ),
    Statement::of(
        Paper::K13app,
        "A.v5",
        "A1",
        "Velocity's duration at 0.1 % loss is printed as only 0.1 ms longer, though its displayed rate is 800 Mbit/s lower: the display is not size over time",
        "(contradiction in the paper)",
        Kind::Remark,
        remark,
    ),
    Statement::of(
        Paper::K13app,
        "A.v6",
        "A1",
        "Velocity has the lowest discrepancy of all without loss",
        "lowest",
        Kind::Order,
        checks::v6,
    )
    .implied(SERVICE),
    Statement::of(
        Paper::K13app,
        "A.t1",
        "A1",
        "TIXstream up to 100 ms and 0.1 %",
        "R >= 9700 Mbit/s",
        Kind::Bound,
        checks::t1,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.t2",
        "A1",
        "TIXstream without loss is flat up to 200 ms",
        "up to 9800 Mbit/s",
        Kind::Trend,
        checks::t2,
    ),
    Statement::of(
        Paper::K13app,
        "A.t3",
        "A1",
        "TIXstream at 150 ms, 0.1 %",
        "8700 Mbit/s; 37.25 s, of which 7.63 s service",
        Kind::Number,
        checks::t3,
    ),
    Statement::of(
        Paper::K13app,
        "A.t4",
        "A1",
        "TIXstream at 200 ms, 1 %",
        "3750 Mbit/s",
        Kind::Number,
        checks::t4,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.t5",
        "A1",
        "TIXstream is faster at 50 ms than at 0 ms for every loss",
        "R(50,x) > R(0,x)",
        Kind::Order,
        checks::t5,
    ),
    Statement::of(
        Paper::K13app,
        "A.t6",
        "A1",
        "TIXstream: about 97 % up to 0.3 % and 100 ms; best of all at 1 % for 0 and 50 ms; discrepancy at 1 % falls with RTT",
        "97 %; best; falls",
        Kind::Trend,
        checks::t6,
    ),
    Statement::of(
        Paper::K13app,
        "A.t7",
        "A1",
        "TIXstream's CPU",
        "sender 70 + 80 %, receiver 40 + 90 + 30 %",
        Kind::Number,
        checks::t7,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.f1",
        "A1",
        "FileCatalyst in all 25 cells (the conclusion's \"never below 93 %\" contradicts it)",
        "9000 to 9400 Mbit/s",
        Kind::Bound,
        checks::f1,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.f2",
        "A1",
        "FileCatalyst without loss",
        "9200 to 9300 Mbit/s",
        Kind::Bound,
        checks::f2,
    ),
    Statement::of(
        Paper::K13app,
        "A.f3",
        "A1",
        "FileCatalyst's duration rises slightly with RTT; its best is the worst of all systems",
        "ideal + 3.8 s",
        Kind::Number,
        checks::f3,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.f4",
        "A1",
        "FileCatalyst's discrepancy is the same at 0 and 1 % but for 150 and 200 ms",
        "same; higher",
        Kind::Trend,
        checks::f4,
    )
    .implied(SERVICE),
    Statement::of(
        Paper::K13app,
        "A.x1",
        "A1",
        "XDT without loss falls with RTT",
        "8300 Mbit/s at 150 ms",
        Kind::Number,
        checks::x1,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.x2",
        "A1",
        "XDT with any loss is unsuccessful",
        "< 100 Mbit/s",
        Kind::Bound,
        checks::x2,
    ),
    Statement::of(
        Paper::K13app,
        "A.x3",
        "A1",
        "XDT's best duration is the best of all",
        "ideal + 1.4 s",
        Kind::Number,
        checks::x3,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.x4",
        "A1",
        "XDT's discrepancy is good below 200 ms and worst of all there",
        "good; worst",
        Kind::Order,
        checks::x4,
    )
    .implied(SERVICE),
    Statement::of(
        Paper::K13app,
        "A.e1",
        "A1",
        "ExpeDat at RTT 0 without loss, before and after tuning; one core full",
        "2000; 9000 Mbit/s; 99 %",
        Kind::Number,
        checks::e1,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.e2",
        "A1",
        "ExpeDat suffers far more from latency than from loss",
        "order",
        Kind::Order,
        checks::e2,
    )
    .implied("both of its figures were fitted"),
    Statement::of(
        Paper::K13app,
        "A.e3",
        "A1",
        "ExpeDat at 1 %",
        "5700 Mbit/s at RTT 0; < 1000 with latency; 400 at 200 ms",
        Kind::Number,
        checks::e3,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.e4",
        "A1",
        "ExpeDat's discrepancy is lowest in nearly all cells, and negative at 100 and 150 ms without loss",
        "lowest; negative",
        Kind::Order,
        checks::e4,
    )
    .implied(SERVICE),
    Statement::of(
        Paper::K13app,
        "A.d1",
        "A1",
        "Best durations of Velocity, TIXstream and ExpeDat",
        "< ideal + 2 s",
        Kind::Bound,
        checks::d1,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.c1",
        "A1",
        "Without loss TIXstream is the fastest of all under delay",
        "best",
        Kind::Order,
        checks::c1,
    ),
    Statement::of(
        Paper::K13app,
        "A.c2",
        "A1",
        "At 1 % FileCatalyst is the fastest of all from 100 ms on",
        "best",
        Kind::Order,
        checks::c2,
    ),
    Statement::of(
        Paper::K13app,
        "A.c3",
        "A1",
        "The discrepancy grows with latency",
        "grows",
        Kind::Trend,
        checks::c3,
    )
    .implied(SERVICE),
    Statement::of(
        Paper::K13app,
        "A.i1",
        "A-iperf",
        "Plain TCP at 50 ms, 0.1 % on 10 Gbit/s, untuned and with 128 MiB buffers",
        "40; <= 60 Mbit/s",
        Kind::Number,
        checks::i1,
    ),
    Statement::of(
        Paper::K13app,
        "A.i2",
        "A-quoted",
        "Quoted: Reno-type TCP at 0.001 %, 120 ms on 10 Gbit/s, and Scalable TCP there",
        "< 1000; about 5000 Mbit/s",
        Kind::Number,
        checks::i2,
    )
    .fitted(),
    Statement::of(
        Paper::K13app,
        "A.i3",
        "A-quoted",
        "Quoted: RBUDP, SABUL, GTP and standard tuned TCP over 58 ms, below 0.1 % loss, on 1 Gbit/s",
        "about 90 %",
        Kind::Number,
        checks::i3,
    ),
    Statement::of(
        Paper::K13app,
        "A.s1",
        "A1",
        "Sockets that the systems use",
        "7 TCP a side; 1 TCP + 1 UDP; 10/4 UDP + 1 TCP; not given; 1 UDP",
        Kind::Number,
        checks::s1,
    )
    .implied("it is what the models are built of; nothing is measured"),
];
