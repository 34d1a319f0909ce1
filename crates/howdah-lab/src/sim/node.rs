//! The transports of a scenario as one type, so that driving them costs no indirect call.

use crate::catalog::{self, Core, Manner, Options, Protocol, stacks};
use crate::scenario::StreamSpec;
use howdah_core::{
    Arrival, Datagram, Ecn, Observe, Rate, Snapshot, Span, Time, Transport, WakeReason,
};
use howdah_proto::sim::{SimEndpoint, sim_config};
use howdah_proto::{Config, PathKnowledge, Policy, Share};
use howdah_rivals::blast::{BlastEndpoint, SharedBudget};
use howdah_rivals::model::{Drive, ModelEndpoint, RateLaw, Settings};
use howdah_rivals::sabul::SabulEndpoint;
use howdah_rivals::tcp::{self, Bundle, MetricsCache, Supply, TcpConfig, TcpEndpoint, cc};
use howdah_rivals::udp::{
    CbrSettings, Extent, OnOffSettings, Periods, Received, SettingsError, UdpEndpoint,
};
use howdah_rivals::udt::UdtEndpoint;
use howdah_sim::IPV4_UDP_BYTES;

/// One endpoint.
#[derive(Debug)]
pub(crate) enum Node {
    Ours(Box<SimEndpoint>),
    Tcp(TcpEndpoint),
    Bundle(Box<Bundle>),
    Model(ModelEndpoint),
    Blast(BlastEndpoint),
    Udp(UdpEndpoint),
    Udt(UdtEndpoint),
    Sabul(SabulEndpoint),
}

macro_rules! each {
    ($node:expr, $inner:ident => $call:expr) => {
        match $node {
            Node::Ours($inner) => $call,
            Node::Tcp($inner) => $call,
            Node::Bundle($inner) => $call,
            Node::Model($inner) => $call,
            Node::Blast($inner) => $call,
            Node::Udp($inner) => $call,
            Node::Udt($inner) => $call,
            Node::Sabul($inner) => $call,
        }
    };
}

impl Transport for Node {
    #[inline]
    fn handle_datagram(&mut self, now: Time, arrival: Arrival<'_>) {
        each!(self, node => node.handle_datagram(now, arrival));
    }

    #[inline]
    fn handle_timeout(&mut self, now: Time) {
        each!(self, node => node.handle_timeout(now));
    }

    #[inline]
    fn is_settled(&mut self, now: Time) -> bool {
        each!(self, node => node.is_settled(now))
    }

    #[inline]
    fn poll_transmit(&mut self, now: Time, max: usize, out: &mut Vec<Datagram>) -> usize {
        each!(self, node => node.poll_transmit(now, max, out))
    }

    fn handle_refused(&mut self, now: Time, datagram: Datagram) -> Option<Datagram> {
        each!(self, node => node.handle_refused(now, datagram))
    }

    #[inline]
    fn ecn(&self, datagram: &Datagram) -> Ecn {
        each!(self, node => node.ecn(datagram))
    }

    fn handle_ecn(&mut self, now: Time, ecn: Ecn) {
        each!(self, node => node.handle_ecn(now, ecn));
    }

    #[inline]
    fn poll_timeout(&self) -> Option<(Time, WakeReason)> {
        each!(self, node => node.poll_timeout())
    }
}

impl Observe for Node {
    fn snapshot(&self) -> Snapshot {
        each!(self, node => node.snapshot())
    }
}

/// A pair of endpoints, and what their datagrams weigh beyond what they hand over.
pub(crate) struct Pair {
    pub(crate) sender: Node,
    pub(crate) receiver: Node,
    pub(crate) header_bytes: u32,
}

/// What a flow's endpoints need to know.
pub(crate) struct Wish<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) options: &'a Options,
    pub(crate) size_bytes: Option<u64>,
    pub(crate) start: Time,
    /// Largest IP packet of the route.
    pub(crate) mtu: u32,
    /// Some queue of it marks packets that can be marked.
    pub(crate) marks: bool,
    pub(crate) seeds: [u64; 2],
    /// What the receiving host can take in of all flows that share it.
    pub(crate) budget: Option<&'a SharedBudget>,
    /// What the sending host remembers of the receiving one.
    pub(crate) cache: Option<&'a MetricsCache>,
    /// What ours remembers of the path.
    pub(crate) known: Option<PathKnowledge>,
}

/// Makes the endpoints of a flow. `None` if there is no such protocol, which a decoded scenario
/// rules out.
pub(crate) fn pair(wish: &Wish<'_>) -> Option<Pair> {
    Some(match catalog::find(wish.protocol)? {
        Protocol::Howdah(manner) => ours(wish, manner),
        Protocol::Tcp(entry) => over_tcp(wish, *entry),
        Protocol::Model(settings) => modelled(wish, settings()),
        Protocol::Udt(config) => super::udt::pair(config(), wish),
        Protocol::Sabul => super::udt::sabul(wish),
        Protocol::Quic => quic(wish),
        // The runner skips such cells.
        Protocol::Foreign(_) => return None,
        Protocol::Blast(tool) => {
            let (sender, receiver) =
                tool.pair(wish.options, wish.size_bytes, wish.mtu, wish.budget);
            Pair {
                sender: Node::Blast(sender),
                receiver: Node::Blast(receiver),
                header_bytes: IPV4_UDP_BYTES,
            }
        }
        Protocol::Mover(mover) => match mover.core {
            Core::Model(settings) => modelled(wish, settings()),
            Core::Tcp { cc, .. } => {
                let options = mover.options(wish.options);
                let entry = cc::find(cc)?;
                over_tcp(
                    &Wish {
                        options: &options,
                        ..*wish
                    },
                    *entry,
                )
            }
        },
    })
}

impl Node {
    /// How long its host is busy with an arrival before it has it.
    pub(crate) fn handling_time(&self, arrival: &Arrival<'_>) -> Span {
        match self {
            Self::Tcp(node) => node.handling_time(arrival),
            _ => Span::ZERO,
        }
    }

    /// TCP connections that it is made of.
    pub(crate) fn connections(&self) -> Option<u32> {
        match self {
            Self::Tcp(_) => Some(1),
            Self::Bundle(node) => Some(node.connections()),
            _ => None,
        }
    }

    /// User bytes that have reached the application here.
    pub(crate) fn delivered_bytes(&self) -> u64 {
        match self {
            Self::Ours(node) => node.delivered_bytes(),
            Self::Tcp(node) => node.snapshot().delivered_bytes,
            Self::Bundle(node) => node.delivered_bytes(),
            Self::Model(node) => node.delivered_bytes(),
            Self::Blast(node) => node.delivered_bytes(),
            Self::Udp(node) => node.received().map_or(0, |received| received.bytes),
            Self::Udt(node) => node.delivered_bytes(),
            Self::Sabul(node) => node.delivered_bytes(),
        }
    }

    /// What the sink of a stream has received.
    pub(crate) fn received(&self) -> Received {
        match self {
            Self::Udp(node) => node.received().copied().unwrap_or_default(),
            _ => Received::default(),
        }
    }

    /// Packets that the sender of a stream has sent.
    pub(crate) fn sent_packets(&self) -> u64 {
        match self {
            Self::Udp(node) => node.sent_packets().unwrap_or(0),
            _ => 0,
        }
    }

    /// What its sender has learnt of the path.
    pub(crate) fn learnt(&self) -> Option<PathKnowledge> {
        match self {
            Self::Ours(node) => node.connection().path_knowledge(),
            _ => None,
        }
    }

    /// The rate that the tool itself displays at its end, without its negotiation.
    pub(crate) fn tool_rate(&self) -> Option<Rate> {
        match self {
            Self::Blast(node) => node.displayed_rate(),
            _ => None,
        }
    }

    /// Whether a sized transfer is known to be complete here, or given up.
    pub(crate) fn is_finished(&self) -> bool {
        if let Self::Blast(node) = self {
            let snapshot = node.snapshot();
            return snapshot.finished_at.is_some() || snapshot.failed.is_some();
        }
        if let Self::Bundle(node) = self {
            return node.finished_at().is_some();
        }
        self.snapshot().finished_at.is_some()
    }
}

fn ours(wish: &Wish<'_>, manner: Manner) -> Pair {
    let mut config = sim_config();
    config.ecn = wish.marks;
    config.path = wish.known;
    if let Some(bytes) = wish.options.mss_bytes {
        config.max_datagram = bytes.min(u32::from(u16::MAX)) as u16;
    }
    config.policy = match manner {
        Manner::Fair => Policy::Fair,
        Manner::Background => Policy::Background,
        Manner::Fixed => Policy::Fixed(Rate::from_bits_per_sec(wish.options.rate_bps.unwrap_or(0))),
    };
    config.train = manner == Manner::Fair
        && wish
            .size_bytes
            .is_none_or(|bytes| bytes >= Config::MUCH_BYTES);
    config.share = Share::one_of(wish.options.share_of.unwrap_or(1).into());
    let [seed, other] = wish.seeds;
    let sender = SimEndpoint::sender(wish.start, config.clone(), seed, wish.size_bytes);
    let receiver = SimEndpoint::receiver(wish.start, config, seed, other, wish.size_bytes);
    Pair {
        sender: Node::Ours(Box::new(sender)),
        receiver: Node::Ours(Box::new(receiver)),
        header_bytes: IPV4_UDP_BYTES,
    }
}

/// A model, with what the scenario says otherwise.
fn modelled(wish: &Wish<'_>, mut settings: Settings) -> Pair {
    let options = wish.options;
    let most = wish
        .mtu
        .saturating_sub(IPV4_UDP_BYTES + howdah_rivals::model::wire::DATA_BYTES as u32);
    let unit = options.mss_bytes.unwrap_or(settings.unit_bytes);
    settings.unit_bytes = unit.min(most).clamp(256, 65_000);
    let windows = [options.send_buffer_bytes, options.receive_buffer_bytes];
    if let Some(bytes) = windows.into_iter().flatten().min() {
        settings.window_bytes = bytes.clamp(8 * u64::from(settings.unit_bytes), 64 << 30);
    }
    if let Some(rate) = options.rate_bps.map(Rate::from_bits_per_sec) {
        match &mut settings.law {
            RateLaw::Fixed(fixed) => *fixed = rate,
            RateLaw::Delay {
                target, initial, ..
            } => {
                *target = rate;
                *initial = (*initial).min(rate);
            }
        }
    }
    settings.read = options.read_bps.map(Rate::from_bits_per_sec);
    settings.write = options.write_bps.map(Rate::from_bits_per_sec);
    if let (Drive::Pull(pull), Some(loss)) = (&mut settings.drive, options.expect_loss) {
        // A datagram fails to come if it is lost, or the request for it.
        pull.loss_threshold = pull.loss_threshold.max(2.0 * loss);
    }
    let sender = ModelEndpoint::sender(&settings, wish.size_bytes);
    let receiver = ModelEndpoint::receiver(&settings);
    Pair {
        sender: Node::Model(sender.expect("a decoded scenario has possible settings")),
        receiver: Node::Model(receiver.expect("a decoded scenario has possible settings")),
        header_bytes: IPV4_UDP_BYTES,
    }
}

fn over_tcp(wish: &Wish<'_>, congestion_control: cc::Entry) -> Pair {
    let sender = stacks::sender(wish.options.era.as_deref());
    tcp_pair(wish, sender.with(congestion_control))
}

/// What the sending host spends on each segment that a SACK block makes it look at. Later kernels than Linux 2.4 do not begin at the
/// head of the queue each time.
pub(crate) fn walk_ns(options: &Options) -> Option<u64> {
    let walks = options.era.as_deref() == Some("linux24");
    options.sack_walk_ns.filter(|_| walks)
}

/// Packets that quinn's pacer lets out at once (`MIN_BURST_SIZE`).
const QUINN_BURST: u32 = 10;

/// What quinn adds to its congestion control: it paces, in small bursts, and its packets' headers are about as
/// long as TCP's. Finding and repairing losses is TCP's here: by time, as QUIC does (RFC 9002).
fn quic(wish: &Wish<'_>) -> Pair {
    let sender = TcpConfig {
        pacing: true,
        burst_segments: QUINN_BURST,
        defers_small_bursts: false,
        ..TcpConfig::modern()
    };
    tcp_pair(wish, sender.with(cc::quinn::ENTRY))
}

fn tcp_pair(wish: &Wish<'_>, mut sender: TcpConfig) -> Pair {
    let options = wish.options;
    if let Some(walk_ns) = walk_ns(options) {
        sender.sack_walk = Span::from_nanos(walk_ns);
    }
    // An old sender talks to a receiver of its time, unless the scenario says otherwise.
    let receiver = options.receiver.as_deref().or(options.era.as_deref());
    let mut receiver = stacks::receiver(receiver);
    if let Some(timestamps) = options.timestamps {
        sender.timestamps = timestamps;
        receiver.timestamps = timestamps;
    }
    if let Some(sack) = options.sack {
        sender.sack = sack;
        receiver.sack = sack;
    }
    sender.mtu = match options.mss_bytes {
        // What the headers add to that payload.
        Some(mss) => mss + (sender.mtu - sender.mss_bytes()),
        None => wish.mtu,
    };
    receiver.mtu = sender.mtu;
    sender.send_buffer_bytes = options
        .send_buffer_bytes
        .unwrap_or(sender.send_buffer_bytes);
    receiver.receive_buffer_bytes = options
        .receive_buffer_bytes
        .unwrap_or(receiver.receive_buffer_bytes);
    sender.pacing = options.pacing.unwrap_or(sender.pacing);
    sender.burst_segments = options.burst_segments.unwrap_or(sender.burst_segments);
    sender.initial_window_segments = options
        .initial_window_segments
        .unwrap_or(sender.initial_window_segments);
    let slow_start = &mut sender.slow_start;
    slow_start.max_ssthresh_segments = options
        .max_ssthresh_segments
        .or(slow_start.max_ssthresh_segments);
    slow_start.initial_ssthresh_segments = options
        .ssthresh_segments
        .or(slow_start.initial_ssthresh_segments);
    if let Some(segments) = options.ack_every_segments {
        receiver = receiver.acking_every(segments);
    }
    let disk = match (options.read_bps, options.write_bps) {
        // A pipe with two narrow places passes what the narrower one does.
        (Some(read), Some(write)) => Some(read.min(write)),
        (read, write) => read.or(write),
    };
    if options.streams.is_some() || disk.is_some() {
        let streams = options.streams.unwrap_or(1);
        let (size, seed) = (wish.size_bytes, wish.seeds[0]);
        let disk = disk.map(Rate::from_bits_per_sec);
        return Pair {
            sender: Node::Bundle(Box::new(Bundle::sender(&sender, streams, size, disk, seed))),
            receiver: Node::Bundle(Box::new(Bundle::receiver(&receiver, streams, size))),
            header_bytes: tcp::IPV4_BYTES,
        };
    }
    let supply = match wish.size_bytes {
        Some(bytes) => Supply::Sized { bytes },
        None => Supply::Endless,
    };
    let seed = wish.seeds[0];
    Pair {
        sender: Node::Tcp(match wish.cache {
            Some(cache) => TcpEndpoint::sender_that_remembers(&sender, supply, seed, cache),
            None => TcpEndpoint::sender(&sender, supply, seed),
        }),
        receiver: Node::Tcp(TcpEndpoint::receiver(&receiver)),
        header_bytes: tcp::IPV4_BYTES,
    }
}

/// Makes the endpoints of a stream.
pub(crate) fn stream(spec: &StreamSpec, seed: u64) -> Result<Pair, SettingsError> {
    let rate = Rate::from_bits_per_sec(spec.rate_bps);
    let extent = Extent {
        start: Time::from_nanos(spec.start_ns),
        stop: spec.stop_ns.map(Time::from_nanos),
        packets: None,
    };
    let sender = match spec.on_off_ns {
        None => UdpEndpoint::cbr(&CbrSettings {
            rate,
            payload_bytes: spec.packet_bytes,
            extent,
        })?,
        Some((on, off)) => {
            let (on, off) = (Span::from_nanos(on), Span::from_nanos(off));
            UdpEndpoint::on_off(&OnOffSettings {
                rate,
                payload_bytes: spec.packet_bytes,
                periods: if spec.exponential {
                    Periods::Exponential {
                        mean_on: on,
                        mean_off: off,
                    }
                } else {
                    Periods::Fixed { on, off }
                },
                seed,
                extent,
            })?
        }
    };
    Ok(Pair {
        sender: Node::Udp(sender),
        receiver: Node::Udp(UdpEndpoint::sink()),
        header_bytes: IPV4_UDP_BYTES,
    })
}
