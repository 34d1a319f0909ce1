//! The twin of a cell that this machine cannot carry: slower, with the same bandwidth-delay product in packets.

use crate::catalog::Options;
use crate::scenario::{Cell, OneWaySpec, QueueSpec};

/// What a small machine carries for any program, in bit/s.
const TWIN_BPS: u64 = 1_000_000_000;
/// MTU of the twin of a path with larger packets.
const TWIN_MTU: u32 = 1500;
/// Headers of IP and UDP in bytes.
const UDP_HEADERS: u32 = 28;
/// The measurement gets longer with the round-trip time, but not by more.
const MOST_LONGER: f64 = 4.0;

/// The cell at a rate of at most 1 Gbit/s, with packets of at most 1500 bytes and with delays stretched so that as many packets as
/// before are under way; queues, buffers and short flows have as many packets, losses are the same. `None` if the cell is no faster than that.
pub fn twin(cell: &Cell) -> Option<Cell> {
    let rates = cell
        .paths
        .iter()
        .flat_map(|path| [&path.forward, &path.backward]);
    let fastest = rates.filter_map(|spec| spec.rate_bps).max()?;
    if fastest <= TWIN_BPS {
        return None;
    }
    let slower = fastest as f64 / TWIN_BPS as f64;
    let mut twin = cell.clone();
    let mut stretch = 1.0_f64;
    for path in &mut twin.paths {
        for spec in [&mut path.forward, &mut path.backward] {
            stretch = stretch.max(scale(spec, slower));
        }
    }
    for change in &mut twin.timeline {
        for spec in [&mut change.forward, &mut change.backward] {
            scale(spec, slower);
        }
    }
    let longer = stretch.clamp(1.0, MOST_LONGER);
    let time = |ns: &mut u64| *ns = (*ns as f64 * longer) as u64;
    let rate = |bps: u64| (bps as f64 / slower) as u64;
    // By how much packets are smaller, and what is counted in them.
    let smaller = slower / stretch;
    let size = |bytes: u64| (bytes as f64 / smaller) as u64;
    let told = |options: &mut Options| {
        options.rate_bps = options.rate_bps.map(rate);
        options.read_bps = options.read_bps.map(rate);
        options.write_bps = options.write_bps.map(rate);
        options.packet_bytes = options.packet_bytes.map(|bytes| bytes.min(TWIN_MTU));
        options.mss_bytes = options.mss_bytes.map(|bytes| bytes.min(TWIN_MTU - 72));
        for buffer in [
            &mut options.send_buffer_bytes,
            &mut options.receive_buffer_bytes,
        ] {
            *buffer = buffer.map(size);
        }
    };
    time(&mut twin.measure.duration_ns);
    time(&mut twin.measure.warmup_ns);
    for change in &mut twin.timeline {
        time(&mut change.at_ns);
    }
    for flow in &mut twin.flows {
        time(&mut flow.start_ns);
        told(&mut flow.options);
        // As long as before, at the lower rate.
        flow.size_bytes = flow.size_bytes.map(rate);
    }
    for group in &mut twin.groups {
        time(&mut group.start_ns);
        time(&mut group.window_ns);
        told(&mut group.options);
        // The same share of the link.
        group.mean_bytes /= slower / longer;
        group.load_bps = group.load_bps.map(rate);
    }
    for stream in &mut twin.streams {
        time(&mut stream.start_ns);
        stream.rate_bps = rate(stream.rate_bps);
        stream.packet_bytes = stream.packet_bytes.min(TWIN_MTU - UDP_HEADERS);
        if let Some(stop) = &mut stream.stop_ns {
            time(stop);
        }
        if let Some((on, off)) = &mut stream.on_off_ns {
            time(on);
            time(off);
        }
    }
    Some(twin)
}

/// Scales one direction; returns by how much its delay grows.
fn scale(spec: &mut OneWaySpec, slower: f64) -> f64 {
    let mtu = if spec.mtu_bytes == 0 {
        TWIN_MTU
    } else {
        spec.mtu_bytes
    };
    let smaller = f64::from(mtu) / f64::from(mtu.min(TWIN_MTU));
    // Packets under way are rate x delay / size.
    let stretch = slower / smaller;
    let times = |ns: u64| (ns as f64 * stretch) as u64;
    spec.rate_bps = spec.rate_bps.map(|bps| (bps as f64 / slower) as u64);
    spec.mtu_bytes = mtu.min(TWIN_MTU);
    spec.delay_ns = times(spec.delay_ns);
    spec.queue = match spec.queue {
        QueueSpec::Ns(ns) => QueueSpec::Ns(times(ns)),
        QueueSpec::Bytes(bytes) => QueueSpec::Bytes((bytes as f64 / smaller) as u64),
        other => other,
    };
    stretch
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;
    use std::path::Path;

    const TEXT: &str = r#"
        id = "T"
        [path.main]
        rate = "10gbit"
        rtt = "50ms"
        mtu = 9000
        buffer = "25ms"
        loss = "0.1%"
        [flow.main]
        protocol = "udt"
        [measure]
        duration = "10s"
        warmup = "2s"
    "#;

    #[test]
    fn as_many_packets_are_under_way() {
        let plan = scenario::parse(Path::new("t.toml"), TEXT, false).unwrap();
        let cell = plan.cells().next().unwrap();
        let twin = twin(cell).unwrap();
        let under_way = |cell: &Cell| {
            let spec = &cell.paths[0].forward;
            let bytes = spec.rate_bps.unwrap() as f64 / 8.0 * spec.delay_ns as f64 / 1e9;
            bytes / f64::from(spec.mtu_bytes)
        };
        assert!((under_way(&twin) / under_way(cell) - 1.0).abs() < 1e-6);
        let (slow, fast) = (&twin.paths[0].forward, &cell.paths[0].forward);
        assert_eq!(slow.rate_bps, Some(TWIN_BPS));
        assert_eq!(slow.mtu_bytes, 1500);
        assert_eq!(slow.loss, fast.loss);
        // 10 times slower, packets 6 times smaller: 5/3 of the time.
        assert_eq!(slow.delay_ns, fast.delay_ns * 5 / 3);
        assert!((twin.measure.duration_ns as f64 / 10e9 - 5.0 / 3.0).abs() < 1e-6);
        assert_ne!(twin.id(), cell.id());
        assert_eq!(super::twin(&twin), None);
    }

    /// What else goes over the link has the same share of it, and windows that buffers hold down are as many packets.
    #[test]
    fn everything_beside_it_is_as_slow() {
        let text = format!(
            "{TEXT}{}",
            r#"
            [flow.other]
            protocol = "cubic"
            socket_buffer = "0.5bdp"
            write = "5gbit"
            [group.some]
            protocol = "cubic"
            count = 1000
            mean = "1MB"
            window = "10s"
            [group.many]
            protocol = "cubic"
            load = "2gbit"
            mean = "1MB"
            [stream.video]
            rate = "1gbit"
            packet = 8900
            on = "1s"
            off = "1s"
            "#
        );
        let plan = scenario::parse(Path::new("t.toml"), &text, false).unwrap();
        let cell = plan.cells().next().unwrap();
        let twin = twin(cell).unwrap();
        let load = |cell: &Cell| {
            let [some, many] = &cell.groups[..] else {
                panic!("{:?}", cell.groups);
            };
            let bits = f64::from(some.count) * some.mean_bytes * 8e9;
            let rate = cell.paths[0].forward.rate_bps.unwrap() as f64;
            [
                bits / some.window_ns as f64 / rate,
                many.load_bps.unwrap() as f64 / rate,
                cell.flows[1].options.write_bps.unwrap() as f64 / rate,
            ]
        };
        for (slow, fast) in load(&twin).into_iter().zip(load(cell)) {
            assert!((slow / fast - 1.0).abs() < 1e-3, "{slow} {fast}");
        }
        let buffer = |cell: &Cell| cell.flows[1].options.send_buffer_bytes.unwrap();
        assert!(buffer(&twin).abs_diff(buffer(cell) / 6) < 2);
        let (slow, fast) = (&twin.streams[0], &cell.streams[0]);
        assert_eq!((slow.packet_bytes, fast.packet_bytes), (1472, 8900));
        let on = |cell: &Cell| cell.streams[0].on_off_ns.unwrap().0 as f64;
        assert!((on(&twin) / on(cell) - 5.0 / 3.0).abs() < 1e-6);
    }
}
