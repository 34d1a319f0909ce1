//! What the papers' words mean here, in numbers.
//!
//! JGN06 gives most results as plots and words. Each word that a check uses is fixed here, with
//! the reason for its size. All of it was written before the first simulated cell was looked at;
//! a change after that is a commit of its own that says so.
//!
//! # Which trial
//!
//! JGN06 shows "relatively good" trials. So a throughput of a high-speed flow is the upper
//! quartile over the seeds ([`Cells::good`](super::Cells::good)); everything that the selection
//! would not have favoured (losses, jitter, short flows) is the median
//! ([`Cells::median`](super::Cells::median)). K14proto and K13app show the best of four runs. These are the figures that the
//! ledger shows; the tables of a report show medians. A verdict is that of the middle trial: of single seeds
//! for JGN06 and WTRL10, of choices of four seeds for the other two; the ledger says in how many trials a statement holds.
//!
//! # What "in shape" means
//!
//! A statement has parts: protocols, numbers, cells. Each says yes, partly or no, and what *partly* means depends on the
//! kind of the statement, and on nothing else (decided on 2026-11-26, before the runs that the ledger is made of):
//!
//! | kind | yes | partly |
//! |---|---|---|
//! | number | within [`NUMBER_TOLERANCE`] | within a factor of [`NUMBER_FACTOR`], or of what the text itself gives |
//! | bound | kept | missed by at most [`BOUND_TOLERANCE`] |
//! | order | by a factor of [`CLEARLY`] | the right way round, by more than [`SAME`] |
//! | trend | as the words below say | the right direction from end to end; a step between, or its size, is not |
//!
//! A statement *holds* if all of its parts say yes. Its *shape holds* if at least half say yes and
//! [`SHAPE_SHARE`] yes or partly, or if its only part says partly; of a bound, if no part says no. Else it *fails*. A
//! statement without data for all of its parts *cannot be judged*; in a reduced set, which leaves parts out by design and is
//! marked, half of them are enough.

/// Largest goodput of TCP with timestamps on Gigabit Ethernet, in bit/s: 1448 bytes of data in
/// frames that occupy 1538 bytes of the link. JGN06 measured 940 Mbit/s with UDP.
pub const CEILING_BPS: f64 = 1e9 * 1448.0 / 1538.0;

/// "Reaches about 1 Gbit/s": the best mean over [`REACH_WINDOW_S`] is at least this share of the
/// ceiling. The figures' axes end at 1 Gbit/s and can be read to about 5 %; a curve at 90 % of
/// what is possible would be called "almost 1 Gbit/s" by everybody.
pub const REACHED: f64 = 0.90;
/// ... and partly, from this share.
pub const NEARLY_REACHED: f64 = 0.75;
/// Window over which "reaches" is judged, in seconds: short enough to be a peak of a curve of
/// 300 s, long enough that one second of data released by a repaired hole is none.
pub const REACH_WINDOW_S: f64 = 10.0;

/// Shares of "yes" (and "partly") that make a shape.
pub const SHAPE_SHARE: f64 = 2.0 / 3.0;

/// A number is met within this share. The papers' numbers are read off plots with one or two
/// digits (5 %), from one or few trials whose spread is not given (some 10 %).
pub const NUMBER_TOLERANCE: f64 = 0.15;
/// A number is met in shape within this factor: what [`GREATLY`] tells apart is not the same number.
pub const NUMBER_FACTOR: f64 = GREATLY;
/// A bound is missed by little within this share: the tolerance of a number.
pub const BOUND_TOLERANCE: f64 = NUMBER_TOLERANCE;

/// "Greatly better": at least half as much again. A smaller gain would be called "better".
pub const GREATLY: f64 = 1.5;
/// "Better", "higher", "slower": by at least this factor; the spread of good trials is below it.
pub const CLEARLY: f64 = 1.1;

/// "Near half": within these shares of the level before. 38/80 of the rate, 0.475, is what a window
/// filled on the short path gives on the long one.
pub const NEAR_HALF: (f64, f64) = (0.35, 0.65);
/// A visible fall, where "near half" is not met.
pub const VISIBLE_FALL: f64 = 0.8;
/// A dip: a one-second sample below this share of the level before. A tenth is the smallest
/// notch that a reader of the figures can see.
pub const DIP: f64 = 0.9;
/// "Gradually": at least so many seconds to 90 % of the level, i.e. at least three samples of the
/// figure.
pub const GRADUAL_S: f64 = 3.0;
/// "Quickly": at most so many seconds to 90 % of the level. The figures span 120 to 150 s.
pub const QUICK_S: f64 = 10.0;

/// "Very unstable": standard deviation of the one-second samples over their mean. A saw-tooth that
/// halves and climbs back linearly has 0.19; "very unstable" is more than that.
pub const VERY_UNSTABLE: f64 = 0.25;
/// "Unstable": half of such a saw-tooth.
pub const UNSTABLE: f64 = 0.10;

/// "Insensitive": changes by less than this share.
pub const INSENSITIVE: f64 = 0.10;

/// "Starved": at most this share of the ceiling, a fifth of the fair half.
pub const STARVED: f64 = 0.10;
/// ... and partly, at most two fifths of the fair half.
pub const NEARLY_STARVED: f64 = 0.20;
/// "Hardly affected": keeps this share of what it has alone.
pub const HARDLY_AFFECTED: f64 = 0.90;
/// ... and partly.
pub const LITTLE_AFFECTED: f64 = 0.75;

/// "Unfair": the larger mean is at least this many times the smaller one (a Jain index of 0.96).
/// Two flows of a good trial that share well differ by a few per cent.
pub const UNFAIR: f64 = 1.5;
/// ... and partly.
pub const SOMEWHAT_UNFAIR: f64 = 1.2;

/// "Inefficient": the flows together use less than this share of the ceiling.
pub const INEFFICIENT: f64 = 0.90;
/// ... and partly.
pub const SOMEWHAT_INEFFICIENT: f64 = 0.95;
/// "Drops strongly": to at most this share.
pub const STRONG_DROP: f64 = 0.5;
/// "Gains only a little": at most this share of what the other loses.
pub const LITTLE_GAIN: f64 = 0.5;

/// "Hurt considerably": loses at least this share of what it has alone.
pub const HURT: f64 = 0.20;
/// ... and partly.
pub const SOMEWHAT_HURT: f64 = 0.10;

/// "Reduced": loses at least this share of what it has alone. Two CBR streams of 8 Mbit/s take
/// 2.1 % of the link, 200-byte packets' headers and gaps included; less than 5 % would be mostly
/// that.
pub const REDUCED: f64 = 0.05;

/// Two values within this share of each other are not different: the larger of two equal seeds'
/// spread in the simulator is of that size.
pub const SAME: f64 = 0.02;

/// "A few losses" of a CBR stream: more than none, at most this share of its packets.
pub const FEW_LOSSES: f64 = 0.01;

/// Jitter "above" another: by at least this factor, ...
pub const ABOVE: f64 = 1.05;
/// ... and by so many milliseconds: a tenth of one is the least that a figure in milliseconds shows.
pub const JITTER_SEEN_MS: f64 = 0.1;
/// Repairs "at the moment of return" come in these seconds after it; in the first one what the slow stage lost is repaired.
pub const MOMENT_S: (f64, f64) = (1.0, 5.0);
/// More than one core: this share of one, in per cent, leaves room for rounding.
pub const ONE_CORE: f64 = 100.5;
