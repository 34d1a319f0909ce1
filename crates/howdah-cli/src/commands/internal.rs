//! `howdah internal`: the ends of measurements, each a process of its own in the namespace of its host. It
//! prints one JSON object at the end.

use crate::args::{InternalCommand, ShortSendArgs, StreamSendArgs, TcpRecvArgs, TcpSendArgs};
use crate::ui::{self, Signals};
use anyhow::Context as _;
use howdah_load::short_flows::{self, ShortFlow};
use howdah_load::tcp::{ReceiveOptions, SendOptions};
use howdah_load::{READY, stream, tcp};
use howdah_rivals::udp::{CbrSettings, Extent, OnOffSettings, Periods, UdpEndpoint};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

pub(super) fn run(command: &InternalCommand) -> anyhow::Result<()> {
    let signals = Signals::install()?;
    let stop = &*signals.cancel().flag();
    match command {
        InternalCommand::FarEnd => super::far_end::run(&signals),
        InternalCommand::Names => {
            howdah::sandbox::names::answer(std::io::stdin().lock(), std::io::stdout().lock())?;
            Ok(())
        }
        InternalCommand::TcpSend(args) => tcp_send(args, stop),
        InternalCommand::TcpRecv(args) => tcp_receive(args, stop),
        InternalCommand::ShortSend(args) => short_send(args, stop),
        InternalCommand::ShortRecv(args) => print(&short_flows::receive(args.listen, stop, ready)?),
        InternalCommand::StreamSend(args) => stream_send(args, stop),
        InternalCommand::StreamRecv(args) => print(&stream::receive(args.listen, stop, ready)?),
    }
}

fn ready() {
    // Whoever has closed the output will not wait for the line.
    let _ = ui::print(READY);
}

fn print(report: &impl Serialize) -> anyhow::Result<()> {
    ui::print(&serde_json::to_string(report)?)?;
    Ok(())
}

fn tcp_send(args: &TcpSendArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let options = SendOptions {
        to: args.to,
        streams: args.streams,
        time: args.time,
        size_bytes: args.size,
        congestion: args.congestion.clone(),
        buffer_bytes: args.buffer,
    };
    print(&tcp::send(&options, stop)?)
}

fn tcp_receive(args: &TcpRecvArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let options = ReceiveOptions {
        listen: args.listen,
        streams: args.streams,
        time: args.time,
        buffer_bytes: args.buffer,
    };
    print(&tcp::receive(&options, stop, ready)?)
}

fn short_send(args: &ShortSendArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let name = args.flows.display();
    let text =
        std::fs::read_to_string(&args.flows).with_context(|| format!("cannot read {name}"))?;
    let flows: Vec<ShortFlow> =
        serde_json::from_str(&text).with_context(|| format!("{name} is no list of flows"))?;
    let report = short_flows::send(args.to, &args.congestion, &flows, stop)?;
    print(&report)
}

fn stream_send(args: &StreamSendArgs, stop: &AtomicBool) -> anyhow::Result<()> {
    let start = stream::now();
    let extent = Extent {
        start,
        stop: Some(start + args.time),
        packets: None,
    };
    let generator = match (args.on, args.off) {
        (Some(on), Some(off)) => UdpEndpoint::on_off(&OnOffSettings {
            rate: args.rate,
            payload_bytes: args.packet,
            periods: if args.exponential {
                Periods::Exponential {
                    mean_on: on,
                    mean_off: off,
                }
            } else {
                Periods::Fixed { on, off }
            },
            seed: args.seed,
            extent,
        })?,
        _ => UdpEndpoint::cbr(&CbrSettings {
            rate: args.rate,
            payload_bytes: args.packet,
            extent,
        })?,
    };
    print(&stream::send(args.to, generator, args.time, stop)?)
}
