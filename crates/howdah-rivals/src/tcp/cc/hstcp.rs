//! HighSpeed TCP: AIMD whose two constants depend on the window.
//!
//! Source: RFC 3649 (S. Floyd, 2003). Per acknowledgement `w += a(w)/w`, per loss event
//! `w -= b(w) w`, and with `Low_Window` 38, `High_Window` 83000, `Low_P` 1.5/38^2 = 1e-3,
//! `High_P` 1e-7, `High_Decrease` 0.1 (section 5):
//!
//! ```text
//! b(w) = (0.1 - 0.5) (ln w - ln 38) / (ln 83000 - ln 38) + 0.5
//! p(w) = 0.078 / w^1.2
//! a(w) = w^2 p(w) 2 b(w) / (2 - b(w))
//! ```
//!
//! which is built so that the mean window is 0.12 / p^0.835 under a loss ratio p. At 38 segments
//! and below it is Reno.
//!
//! Like the patches of its time and Linux since 2.6.13 (`tcp_highspeed.c`) this uses the table of
//! appendix B and not the formula: in row k (1..=72) `a = k`, and b is held in 1/256. What a
//! connection with a window in row k adds is therefore whole segments. "Per acknowledgement" is as the
//! stack counts: under the Linux of the time a receiver that acknowledges every second segment
//! halves the growth.
//!
//! JGN06 ran it on Linux 2.4.20. The patch of the web100/net100 line had limited slow start
//! (RFC 3742) as an option; here that is an option of the engine.

use super::window::Window;
use super::{Ack, CcSettings, Congestion, CongestionControl, Entry};
use howdah_core::{Span, Time};

/// Registration.
pub const ENTRY: Entry = Entry {
    name: "hstcp",
    about: "HighSpeed TCP (RFC 3649, table of appendix B)",
    make: |settings| Box::new(Hstcp::new(settings)),
};

/// RFC 3649 appendix B: row k-1 holds the largest window in segments for which a(w) = k, and
/// b(w) there in 1/256 (as Linux stores it).
const TABLE: [(f64, f64); 72] = [
    (38.0, 128.0),
    (118.0, 112.0),
    (221.0, 104.0),
    (347.0, 98.0),
    (495.0, 93.0),
    (663.0, 89.0),
    (851.0, 86.0),
    (1058.0, 83.0),
    (1284.0, 81.0),
    (1529.0, 78.0),
    (1793.0, 76.0),
    (2076.0, 74.0),
    (2378.0, 72.0),
    (2699.0, 71.0),
    (3039.0, 69.0),
    (3399.0, 68.0),
    (3778.0, 66.0),
    (4177.0, 65.0),
    (4596.0, 64.0),
    (5036.0, 62.0),
    (5497.0, 61.0),
    (5979.0, 60.0),
    (6483.0, 59.0),
    (7009.0, 58.0),
    (7558.0, 57.0),
    (8130.0, 56.0),
    (8726.0, 55.0),
    (9346.0, 54.0),
    (9991.0, 53.0),
    (10661.0, 52.0),
    (11358.0, 52.0),
    (12082.0, 51.0),
    (12834.0, 50.0),
    (13614.0, 49.0),
    (14424.0, 48.0),
    (15265.0, 48.0),
    (16137.0, 47.0),
    (17042.0, 46.0),
    (17981.0, 45.0),
    (18955.0, 45.0),
    (19965.0, 44.0),
    (21013.0, 43.0),
    (22101.0, 43.0),
    (23230.0, 42.0),
    (24402.0, 41.0),
    (25618.0, 41.0),
    (26881.0, 40.0),
    (28193.0, 39.0),
    (29557.0, 39.0),
    (30975.0, 38.0),
    (32450.0, 38.0),
    (33986.0, 37.0),
    (35586.0, 36.0),
    (37253.0, 36.0),
    (38992.0, 35.0),
    (40808.0, 35.0),
    (42707.0, 34.0),
    (44694.0, 33.0),
    (46776.0, 33.0),
    (48961.0, 32.0),
    (51258.0, 32.0),
    (53677.0, 31.0),
    (56230.0, 30.0),
    (58932.0, 30.0),
    (61799.0, 29.0),
    (64851.0, 28.0),
    (68113.0, 28.0),
    (71617.0, 27.0),
    (75401.0, 26.0),
    (79517.0, 26.0),
    (84035.0, 25.0),
    (89053.0, 24.0),
];

/// HighSpeed TCP.
#[derive(Clone, Debug)]
pub struct Hstcp {
    window: Window,
    /// The window's row of [`TABLE`], kept between calls: it moves by one now and then.
    row: usize,
}

impl Hstcp {
    /// At the initial window.
    pub fn new(settings: &CcSettings) -> Self {
        Self {
            window: Window::new(settings),
            row: 0,
        }
    }

    fn find_row(&mut self) {
        let cwnd = self.window.cwnd;
        while self.row + 1 < TABLE.len() && cwnd > TABLE[self.row].0 {
            self.row += 1;
        }
        while self.row > 0 && cwnd <= TABLE[self.row - 1].0 {
            self.row -= 1;
        }
    }

    /// a(w) in segments.
    fn increase(&self) -> f64 {
        (self.row + 1) as f64
    }

    /// The window that a loss leaves.
    fn reduced(&mut self) -> f64 {
        self.find_row();
        self.window.cwnd * (1.0 - TABLE[self.row].1 / 256.0)
    }
}

impl CongestionControl for Hstcp {
    fn name(&self) -> &'static str {
        "hstcp"
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        if !self.window.may_grow(ack) {
            return;
        }
        if self.window.in_slow_start() {
            self.window.grow_slow_start(ack);
        } else {
            self.find_row();
            let counted = self.window.counted(ack);
            self.window.cwnd += self.increase() * counted / self.window.cwnd;
        }
    }

    fn on_congestion(&mut self, _event: &Congestion) {
        let target = self.reduced();
        self.window.reduce_to(target);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.window.recovered();
    }

    fn on_timeout(&mut self, _event: &Congestion) {
        let target = self.reduced();
        self.window.collapse(target);
    }

    fn on_undo(&mut self, _now: Time) {
        self.window.undo();
    }

    fn on_restart(&mut self, _now: Time, _idle: Span) {
        self.window.restart();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::cc::testkit::{self, Pipe};

    /// b(w) of RFC 3649 section 5.
    fn b(w: f64) -> f64 {
        (0.1 - 0.5) * (w.ln() - 38f64.ln()) / (83_000f64.ln() - 38f64.ln()) + 0.5
    }

    /// a(w) of RFC 3649 section 5.
    fn a(w: f64) -> f64 {
        let p = 0.078 / w.powf(1.2);
        w * w * p * 2.0 * b(w) / (2.0 - b(w))
    }

    #[test]
    fn the_table_is_the_formula() {
        for (row, (window, decrease_256)) in TABLE.into_iter().enumerate() {
            let stated = (row + 1) as f64;
            let computed = a(window);
            assert!(
                (computed - stated).abs() < 0.15,
                "a({window}) is {computed}, the table says {stated}"
            );
            let computed = b(window) * 256.0;
            assert!(
                (computed - decrease_256).abs() <= 1.0,
                "256 b({window}) is {computed}, the table says {decrease_256}"
            );
        }
    }

    #[test]
    fn rows_follow_the_window_both_ways() {
        let mut hstcp = Hstcp::new(&testkit::settings());
        for (cwnd, increase) in [(10.0, 1.0), (38.0, 1.0), (38.5, 2.0), (14_600.0, 36.0)] {
            hstcp.window.cwnd = cwnd;
            hstcp.find_row();
            testkit::assert_near(hstcp.increase(), increase);
        }
        for (cwnd, increase) in [(1e6, 72.0), (1058.0, 8.0), (1.0, 1.0)] {
            hstcp.window.cwnd = cwnd;
            hstcp.find_row();
            testkit::assert_near(hstcp.increase(), increase);
        }
    }

    #[test]
    fn below_38_segments_it_is_reno() {
        let mut hstcp = Hstcp::new(&testkit::settings());
        hstcp.window.cwnd = 20.0;
        hstcp.window.ssthresh = 20.0;
        hstcp.on_ack(&testkit::ack());
        assert!((hstcp.cwnd() - 20.05).abs() < 1e-9, "{}", hstcp.cwnd());
        hstcp.on_congestion(&Congestion::default());
        assert!((hstcp.cwnd() - 10.025).abs() < 1e-9, "{}", hstcp.cwnd());
    }

    /// RFC 3649 section 5: w = 0.12 / p^0.835, of which periodic losses should measure a little
    /// more: the table rounds a(w) up to whole segments. At 263 segments it has 4 for 3.23, which
    /// makes the window sqrt(4/3.23) = 1.11 times as large; at 1794 still 1.04.
    #[test]
    fn the_response_function_holds() {
        for p in [1e-4, 1e-5] {
            let stated = 0.12 / f64::powf(p, 0.835);
            let mut hstcp = Hstcp::new(&testkit::settings());
            hstcp.window.ssthresh = stated;
            let mut pipe = Pipe::new(hstcp);
            pipe.lose_one_in = Some((1.0 / p) as u64);
            let measured = pipe.mean_window(40);
            let ratio = measured / stated;
            assert!(
                (0.97..1.14).contains(&ratio),
                "p {p}: {measured:.0} segments, formula {stated:.0}"
            );
        }
    }
}
