use howdah_core::{Observe, Rate, Span, Time};
use howdah_path::{LossModel, PathConfig, QueueLimit};
use howdah_rivals::udt::{UdtConfig, UdtEndpoint};
use howdah_sim::{Flow, World};
fn main() {
    let a: Vec<f64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (gbit, rtt, loss, packet, buf, secs, v2, q) = (a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
    let rtt = Span::from_secs_f64(rtt / 1e3);
    let base = PathConfig { delay: rtt / 2, loss: if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None }, ..PathConfig::default() };
    let forward = PathConfig { rate: Some(Rate::from_bits_per_sec((gbit * 1e9) as u64)), queue: if q > 0.0 { QueueLimit::Packets(q as u64) } else { QueueLimit::Unlimited }, ..base.clone() };
    let base0 = if v2 > 0.5 { UdtConfig::v2() } else { UdtConfig::default() };
    let mut config = UdtConfig { packet_bytes: packet as u32, flight_packets: (buf as u32).max(25600), send_buffer_packets: buf as u32, receive_buffer_packets: buf as u32, ..base0 };
    if a.len() > 8 { config.rules.write_bytes = if a[8] > 0.0 { Some(a[8] as u32) } else { None }; }
    let mut world = World::new(1);
    let (l, r) = (world.add_host("l"), world.add_host("r"));
    let link = world.add_link(&forward, &base);
    let f = Flow::between((l, UdtEndpoint::sender(&config, None, 1)), (r, UdtEndpoint::receiver(&config, 2))).over(link);
    let ends = world.add_flow(f);
    let mut last = 0;
    let step = if a.len() > 9 { a[9] } else { secs / 20.0 };
    let mut t = 0.0;
    while t < secs {
        t += step;
        world.run_until(Time::ZERO + Span::from_secs_f64(t));
        let s = world.endpoint(ends.a).snapshot();
        let d = world.endpoint(ends.b).snapshot().delivered_bytes;
        println!("{t:7.2} {:8.1} Mbit/s P {:8.2} cwnd {:8} srtt {:?} lost {} cuts {} exp {} fl {} cap {} back {:?}", (d - last) as f64 * 8e-6 / step, world.endpoint(ends.a).period_us().unwrap(), s.cwnd_bytes.unwrap() / 1456, s.srtt.unwrap(), s.lost_packets, s.congestion_events, s.timeouts, s.in_flight_bytes / 1456, world.endpoint(ends.a).capacity().unwrap(), world.counters(ends.b).sent_datagrams);
        last = d;
    }
    println!("mean {:.1} Mbit/s, feedback {:.2} MiB/GiB", last as f64 * 8e-6 / secs, (world.counters(ends.b).sent_bytes + 42 * world.counters(ends.b).sent_datagrams) as f64 / 1048576.0 / (last as f64 / 1073741824.0));
}
