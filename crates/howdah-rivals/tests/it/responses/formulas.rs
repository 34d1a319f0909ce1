//! Mean windows in segments that the papers predict under a loss ratio p.

/// RFC 8312 and others: AIMD that adds `increase` a round trip and keeps `beta` of the window.
pub fn aimd(p: f64, increase: f64, beta: f64) -> f64 {
    (increase * (1.0 + beta) / (2.0 * (1.0 - beta) * p)).sqrt()
}

/// Mathis et al. 1997, with an acknowledgement for every segment: sqrt(3/(2 p)).
pub fn reno(p: f64) -> f64 {
    aimd(p, 1.0, 0.5)
}

/// RFC 3649 section 5, in its range.
pub fn hstcp(p: f64) -> f64 {
    0.12 / p.powf(0.835)
}

/// Kelly 2003: a/(b p).
pub fn scalable(p: f64) -> f64 {
    0.08 / p
}

/// RFC 9438 section 5.1, or what Reno with the same decrease and 3 (1-beta)/(1+beta) more a round
/// trip has, which is Reno's own window, if that is larger.
pub fn cubic(p: f64, beta: f64, rtt_s: f64) -> f64 {
    let curve = (0.4 * (3.0 + beta) / (4.0 * (1.0 - beta))).powf(0.25) * (rtt_s / p).powf(0.75);
    curve.max(reno(p))
}

/// H-TCP's growth (Leith and Shorten 2004) integrated between two losses, for a window that is
/// multiplied by `beta` at a loss and stands still for the round trip of its repair. With RTT
/// scaling.
pub fn htcp(p: f64, beta: f64, rtt_s: f64) -> f64 {
    let scale = (0.1 / rtt_s).clamp(0.5, 10.0);
    let step = rtt_s / 20.0;
    // Segments sent from one loss at window `top` to the next at the same window.
    let sent = |top: f64| {
        let (mut window, mut sent, mut time) = (beta * top, beta * top, 0.0);
        while window < top {
            let beyond = f64::max(time - 1.0, 0.0);
            let growth = (1.0 + 10.0 * beyond + beyond * beyond / 4.0) / scale;
            window += 2.0 * (1.0 - beta) * growth.max(1.0) * step / rtt_s;
            sent += window * step / rtt_s;
            time += step;
        }
        (sent, time + rtt_s)
    };
    let (mut low, mut high) = (1.0, 1e6);
    while high / low > 1.0001 {
        let top = f64::sqrt(low * high);
        if sent(top).0 < 1.0 / p {
            low = top;
        } else {
            high = top;
        }
    }
    let (sent, time) = sent(low);
    sent * rtt_s / time
}
