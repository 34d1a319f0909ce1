//! Sinks that take less than the path brings: they are kept busy, and little comes in vain.

use crate::support::{Net, at, ms, path, secs};
use howdah_core::{Rate, Span};
use howdah_path::{LossModel, PathConfig};
use howdah_proto::sim::SlowSink;

const QUEUE: u64 = 32 << 20;
const PATH: Rate = Rate::from_gbit_per_sec(10);

/// What a sink got of a path for some seconds.
struct Got {
    goodput: Rate,
    /// Of what the sender sent.
    refused: f64,
}

fn run(sink: SlowSink, rtt: Span, loss: f64) -> Got {
    let clean = path(PATH, rtt, 9_000);
    let forward = PathConfig {
        loss: LossModel::Bernoulli(loss),
        ..clean.clone()
    };
    let mut net = Net::new(1, &forward, &clean);
    net.world.endpoint_mut(net.ends.b).set_slow_sink(sink);
    let id = net.upload(1 << 40);
    net.world.run_until(at(secs(3)));
    let before = net.server().connection().received_bytes(id);
    let sent_before = net.client().connection().stats();
    net.world.run_until(at(secs(8)));
    let after = net.server().connection().received_bytes(id);
    let sent = net.client().connection().stats();
    let packets = sent.datagrams_sent - sent_before.datagrams_sent;
    let refused = sent.peer_sink_drops - sent_before.peer_sink_drops;
    Got {
        goodput: Rate::from_bytes_over(after - before, secs(5)),
        refused: refused as f64 / packets as f64,
    }
}

impl std::fmt::Display for Got {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {:.2} % refused", self.goodput, self.refused * 100.0)
    }
}

#[test]
fn a_sink_that_is_slower_than_the_path_is_kept_busy_and_refuses_little() {
    for rtt in [1, 20, 100, 400] {
        for gbit in [1, 3, 5, 8] {
            for loss in [0.0, 0.01] {
                let drain = Rate::from_gbit_per_sec(gbit);
                let got = run(SlowSink::new(drain, QUEUE), ms(rtt), loss);
                let case = format!("{rtt} ms, {gbit} Gbit/s, loss {loss}: {got}");
                println!("{case}");
                assert!(got.goodput >= drain.mul_f64(0.98), "{case}");
                assert!(got.refused < 0.002, "{case}");
            }
        }
    }
}

#[test]
fn a_sink_that_stands_still_now_and_then_refuses_what_does_not_fit_and_goes_on_as_before() {
    let drain = Rate::from_gbit_per_sec(5);
    for rtt in [1, 20, 100, 400] {
        for pause in [10, 40, 150] {
            let sink = SlowSink::new(drain, QUEUE).stalling(secs(1), ms(pause));
            let got = run(sink, ms(rtt), 0.001);
            let case = format!("{rtt} ms, pauses of {pause} ms: {got}");
            println!("{case}");
            let busy = 1.0 - pause as f64 / 1_000.0;
            assert!(got.goodput >= drain.mul_f64(0.85 * busy), "{case}");
            // Nobody knows of a pause before it; half of the queue is empty then.
            let comes = drain.bytes_in(ms(pause)).saturating_sub(QUEUE / 2);
            let most = comes as f64 / drain.bytes_in(secs(1)) as f64 + 0.02;
            assert!(got.refused < most, "{case}, at most {most:.3}");
        }
    }
}
