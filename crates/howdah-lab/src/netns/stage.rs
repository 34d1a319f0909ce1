//! One performance: hosts made, programs started, watched and ended.

use super::Trouble;
use super::course::{self, Course};
use super::environment;
use super::plan::{self, Ends, Plan};
use super::program::{
    AdapterArgs, Figures, Launch, Launches, Ready, Recipe, Said, read_group, read_stream,
};
use super::tcp_counts::{TcpCounters, TcpCounts};
use crate::scenario::Cell;
use howdah_load::short_flows::ShortReport;
use howdah_load::stream::SinkReport;
use howdah_path::PathConfig;
use howdah_wan::{Certificate, Namespace, Network, Process, Used};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long an interrupted program may take to say what it has to say.
const GRACE: Duration = Duration::from_secs(5);
/// A sender of which nothing is seen for so long, in seconds, does not work.
const SILENCE_S: f64 = 2.0;
const TICK: Duration = Duration::from_millis(2);
/// Between two looks at the memory of the programs.
const MEMORY_LOOK: Duration = Duration::from_millis(200);

/// One end of a flow.
struct Actor {
    recipe: Recipe,
    dir: PathBuf,
    role: &'static str,
    process: Option<Process>,
}

impl Actor {
    fn new(recipe: Recipe, dir: &Path, role: &'static str) -> Self {
        Self {
            recipe,
            dir: dir.to_owned(),
            role,
            process: None,
        }
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.dir.join(format!("{}.{ending}", self.role))
    }

    fn start(&mut self, host: &Namespace) -> Result<(), Trouble> {
        let mut command = host.command(&self.recipe.program);
        command.args(&self.recipe.arguments).current_dir(&self.dir);
        for (name, value) in &self.recipe.environment {
            command.env(name, value);
        }
        let file = |ending: &str| {
            let path = self.file(ending);
            File::create(&path).map_err(Trouble::io(format!("create {}", path.display())))
        };
        let name = Path::new(&self.recipe.program).file_name().map_or_else(
            || "a program".to_owned(),
            |name| name.to_string_lossy().into_owned(),
        );
        self.process = Some(Process::spawn(name, command, file("out")?, file("err")?)?);
        Ok(())
    }

    fn said(&self) -> Said {
        let read = |ending| {
            let bytes = fs::read(self.file(ending)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Said {
            out: read("out"),
            err: read("err"),
        }
    }

    /// What went wrong, with what the program said last.
    fn failure(&self, what: &str) -> Trouble {
        let name = self.process.as_ref().map_or("a program", Process::name);
        let said = self.said();
        let text = if said.err.trim().is_empty() {
            said.out
        } else {
            said.err
        };
        let lines: Vec<&str> = text.trim().lines().collect();
        let last = lines[lines.len().saturating_sub(3)..].join("; ");
        let role = self.role;
        Trouble::Failed(format!(
            "{name} ({role}) {what}{}{last}",
            if last.is_empty() { "" } else { ": " }
        ))
    }

    fn wait_until_ready(
        &mut self,
        host: &Namespace,
        patience: Duration,
        stop: &AtomicBool,
    ) -> Result<(), Trouble> {
        let end = Instant::now() + patience;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            let ready = match self.recipe.ready {
                Ready::AtOnce => true,
                Ready::Line(text) => {
                    let said = self.said();
                    let has = |all: &str| all.lines().any(|line| line.contains(text));
                    has(&said.out) || has(&said.err)
                }
                Ready::TcpPort(port) => host.has_port(port, false).unwrap_or(false),
                Ready::UdpPort(port) => host.has_port(port, true).unwrap_or(false),
            };
            if ready {
                return Ok(());
            }
            if self.ended() {
                return Err(self.failure("ended before it was ready"));
            }
            if Instant::now() > end {
                let what = format!("is not ready after {} s", patience.as_secs_f64());
                return Err(self.failure(&what));
            }
            std::thread::sleep(TICK * 5);
        }
    }

    fn ended(&mut self) -> bool {
        self.process
            .as_mut()
            .is_some_and(|process| process.ended().is_some())
    }

    /// Ended badly, where that is a failure: of a program that ends by itself.
    fn failed(&mut self) -> bool {
        let status = self.process.as_mut().and_then(Process::ended);
        self.recipe.ends_itself && status.is_some_and(|status| !status.success())
    }

    /// Ended although it should go on until it is told to end.
    fn left(&mut self) -> bool {
        !self.recipe.ends_itself && self.ended()
    }

    fn stop(&mut self, grace: Duration) {
        if let Some(process) = &mut self.process {
            process.stop(grace);
        }
    }

    fn look(&mut self) {
        if let Some(process) = &mut self.process {
            process.look();
        }
    }

    fn used(&mut self) -> Used {
        self.process.as_mut().map(Process::used).unwrap_or_default()
    }
}

/// A sender with its receiver.
struct FlowProcesses {
    ends: Ends,
    start_s: f64,
    /// The measurement waits for it to end by itself.
    is_sized: bool,
    receiver: Actor,
    sender: Actor,
    counters: Option<TcpCounters>,
    /// What they said, and when, in seconds from the beginning.
    counts: Vec<(f64, TcpCounts)>,
    /// When the sender was seen to have ended, in seconds from the beginning.
    ended_s: Option<f64>,
}

/// Everything that is needed for a run.
pub(super) struct Stage {
    network: Network,
    flows: Vec<FlowProcesses>,
    groups: Vec<FlowProcesses>,
    streams: Vec<FlowProcesses>,
    reads: Vec<super::program::Read>,
    /// How long a receiving end may take to be ready, and a sending end may go on after the end of the measurement:
    /// losses, far ends, slow exits.
    patience: Duration,
    _keep: Vec<Box<dyn Send>>,
}

/// What became of a flow.
#[derive(Debug)]
pub(super) struct Acted {
    pub(super) figures: Figures,
    pub(super) started_s: f64,
    /// The sender's end; `None` if it was interrupted.
    pub(super) ended_s: Option<f64>,
    pub(super) sender: Used,
    pub(super) receiver: Used,
    /// What the kernel counted on the sender's host, and when, in seconds from the beginning.
    pub(super) counts: Vec<(f64, TcpCounts)>,
}

/// What became of everything.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) course: Course,
    /// End of the measurement in seconds.
    pub(super) end_s: f64,
    pub(super) flows: Vec<Acted>,
    /// With the timeouts of each.
    pub(super) groups: Vec<(ShortReport, Option<u64>)>,
    pub(super) streams: Vec<(u64, SinkReport)>,
    pub(super) certificate: Certificate,
    pub(super) environment: BTreeMap<String, String>,
}

impl Stage {
    /// Makes the network and prepares the programs.
    pub(super) fn build(
        plan: &Plan,
        launches: Launches<'_>,
        scratch: &Path,
    ) -> Result<Self, Trouble> {
        let dir = |kind: &str, index: usize| {
            let dir = scratch.join(format!("{kind}{index}"));
            fs::create_dir(&dir).map_err(Trouble::io(format!("create {}", dir.display())))?;
            Ok::<_, Trouble>(dir)
        };
        let mut keep = Vec::new();
        let (mut flows, mut reads) = (Vec::new(), Vec::new());
        for (index, (errand, prepare)) in launches.flows.iter().enumerate() {
            let dir = dir("flow", index)?;
            let Launch {
                receiver,
                sender,
                read,
                keep: more,
            } = prepare(errand, &dir)?;
            let AdapterArgs { flow, ends, .. } = errand;
            keep.extend(more);
            reads.push(read);
            flows.push(FlowProcesses {
                start_s: flow.start_ns as f64 / 1e9,
                is_sized: flow.size_bytes.is_some(),
                ..FlowProcesses::new(*ends, [receiver, sender], &dir)
            });
        }
        let mut groups = Vec::new();
        for (index, mut group) in launches.groups.into_iter().enumerate() {
            let dir = dir("group", index)?;
            let (recipes, more) = group.recipes(launches.kit, &dir)?;
            keep.extend(more);
            // Its flows know their own times.
            groups.push(FlowProcesses::new(group.ends, recipes, &dir));
        }
        let mut streams = Vec::new();
        for (index, stream) in launches.streams.iter().enumerate() {
            let dir = dir("stream", index)?;
            streams.push(FlowProcesses {
                start_s: stream.start_s(),
                ..FlowProcesses::new(stream.ends(), stream.recipes(launches.kit), &dir)
            });
        }
        Ok(Self {
            network: Network::create(&plan.config)?,
            flows,
            groups,
            streams,
            reads,
            patience: launches.kit.patience(),
            _keep: keep,
        })
    }

    fn casts(&mut self) -> impl Iterator<Item = &mut FlowProcesses> {
        self.flows
            .iter_mut()
            .chain(&mut self.groups)
            .chain(&mut self.streams)
    }

    /// Runs the cell to its end.
    pub(super) fn play(
        mut self,
        cell: &Cell,
        plan: &Plan,
        stop: &AtomicBool,
    ) -> Result<Played, Trouble> {
        let network = &self.network;
        let all = self
            .flows
            .iter_mut()
            .chain(&mut self.groups)
            .chain(&mut self.streams);
        let mut all: Vec<&mut FlowProcesses> = all.collect();
        for cast in &mut all {
            cast.receiver.start(cast.ends.receiver_host(network))?;
        }
        for cast in &mut all {
            let host = cast.ends.receiver_host(network);
            cast.receiver.wait_until_ready(host, self.patience, stop)?;
            if let Some(process) = &mut cast.receiver.process {
                process.begin_count();
            }
            cast.counters = TcpCounters::open(cast.ends.sender_host(network));
        }
        drop(all);
        let (course, end_s) = self.watch(cell, plan, stop)?;
        self.end(stop)?;
        for cast in &self.flows {
            cast.object_to_silence(&course, end_s)?;
        }
        let certificate = self.network.certificate();
        let mut environment = environment::of(&self.network);
        let mut flows = Vec::new();
        for (cast, read) in self.flows.iter_mut().zip(&self.reads) {
            let figures = read(&cast.sender.said(), &cast.receiver.said());
            let figures = figures.map_err(Trouble::Failed)?;
            environment.extend(figures.environment.iter().cloned());
            flows.push(Acted {
                figures,
                started_s: cast.start_s,
                ended_s: cast.ended_s.filter(|_| cast.is_sized),
                sender: cast.sender.used(),
                receiver: cast.receiver.used(),
                counts: std::mem::take(&mut cast.counts),
            });
        }
        let groups = self.groups.iter().map(|cast| {
            let timeouts = cast.counts.last().map(|(_, counts)| counts.timeouts);
            Ok((read_group(&cast.sender.said())?, timeouts))
        });
        let streams = self
            .streams
            .iter()
            .map(|cast| read_stream(&cast.sender.said(), &cast.receiver.said()));
        Ok(Played {
            course,
            end_s,
            flows,
            groups: groups.collect::<Result<_, _>>().map_err(Trouble::Failed)?,
            streams: streams.collect::<Result<_, _>>().map_err(Trouble::Failed)?,
            certificate,
            environment,
        })
    }

    /// Starts each sender at its time and carries out the timeline, until the time is over.
    fn watch(
        &mut self,
        cell: &Cell,
        plan: &Plan,
        stop: &AtomicBool,
    ) -> Result<(Course, f64), Trouble> {
        let duration_s = cell.measure.duration_ns as f64 / 1e9;
        let mut paths: Vec<[PathConfig; 2]> = plan
            .config
            .paths
            .iter()
            .map(|path| [path.forward.clone(), path.backward.clone()])
            .collect();
        let mut changes = cell.timeline.iter().peekable();
        let mut course = Course::begin(&self.network, course::step_s(cell));
        let tick = TICK.min(Duration::from_secs_f64(course.step_s() / 2.0));
        let mut memory_look = Instant::now();
        loop {
            let now_s = course.now_s();
            if stop.load(Ordering::Relaxed) {
                return Err(Trouble::Stopped);
            }
            while let Some(change) = changes.next_if(|change| change.at_ns as f64 / 1e9 <= now_s) {
                let [forward, backward] = &paths[change.path];
                paths[change.path] = plan::change(&self.network, [forward, backward], change);
            }
            let network = &self.network;
            let all = self
                .flows
                .iter_mut()
                .chain(&mut self.groups)
                .chain(&mut self.streams);
            for cast in all {
                if cast.sender.process.is_none() && cast.start_s <= now_s {
                    cast.sender.start(cast.ends.sender_host(network))?;
                }
                if cast.ended_s.is_none() && cast.sender.ended() {
                    cast.ended_s = Some(now_s);
                    if cast.sender.failed() {
                        return Err(cast.sender.failure("failed"));
                    }
                }
                if cast.receiver.failed() {
                    return Err(cast.receiver.failure("failed"));
                }
                if now_s < duration_s && cast.receiver.left() {
                    let what = format!("ended by itself after {now_s:.1} s");
                    return Err(cast.receiver.failure(&what));
                }
            }
            // Short flows may be over before.
            let mut flows = self.flows.iter_mut();
            let left = flows.find_map(|cast| cast.sender.left().then_some(cast));
            if let Some(cast) = left.filter(|_| now_s < duration_s) {
                let what = format!("ended by itself after {now_s:.1} s");
                return Err(cast.sender.failure(&what));
            }
            course.look(&self.network);
            if memory_look.elapsed() >= MEMORY_LOOK {
                self.casts().for_each(|cast| cast.look(now_s));
                memory_look = Instant::now();
            }
            let mut sized = self.flows.iter().filter(|cast| cast.is_sized).peekable();
            let complete = cell.measure.until_complete
                && sized.peek().is_some()
                && sized.all(|cast| cast.ended_s.is_some());
            if now_s >= duration_s || complete {
                let end_s = now_s.min(duration_s);
                course.end(&self.network);
                self.casts().for_each(|cast| cast.look(end_s));
                return Ok((course, end_s));
            }
            std::thread::sleep(tick);
        }
    }

    /// Ends the senders, then the receivers.
    fn end(&mut self, stop: &AtomicBool) -> Result<(), Trouble> {
        let grace = GRACE.min(self.patience);
        for cast in self.casts() {
            if !cast.sender.recipe.ends_itself || cast.is_sized {
                cast.sender.stop(grace);
            }
        }
        let patience = self.patience;
        let end = Instant::now() + patience;
        for cast in self.casts() {
            while !cast.sender.ended() && cast.sender.process.is_some() {
                if stop.load(Ordering::Relaxed) {
                    return Err(Trouble::Stopped);
                }
                if Instant::now() > end {
                    let seconds = patience.as_secs_f64();
                    let what = format!("goes on {seconds} s after the measurement");
                    return Err(cast.sender.failure(&what));
                }
                std::thread::sleep(TICK);
            }
            if cast.sender.failed() && cast.ended_s.is_none() && !cast.is_sized {
                return Err(cast.sender.failure("failed"));
            }
        }
        for cast in self.casts() {
            let end = Instant::now() + grace;
            while cast.receiver.recipe.ends_itself
                && !cast.is_cut_off()
                && !cast.receiver.ended()
                && Instant::now() < end
            {
                std::thread::sleep(TICK);
            }
            cast.receiver.stop(grace);
        }
        Ok(())
    }
}

impl FlowProcesses {
    /// From the beginning, without a size.
    fn new(ends: Ends, [receiver, sender]: [Recipe; 2], dir: &Path) -> Self {
        Self {
            ends,
            start_s: 0.0,
            is_sized: false,
            receiver: Actor::new(receiver, dir, "receiver"),
            sender: Actor::new(sender, dir, "sender"),
            counters: None,
            counts: Vec::new(),
            ended_s: None,
        }
    }

    /// Takes note of what is used and counted up to now.
    fn look(&mut self, now_s: f64) {
        self.sender.look();
        self.receiver.look();
        let counts = self.counters.as_ref().and_then(TcpCounters::read);
        self.counts.extend(counts.map(|counts| (now_s, counts)));
    }

    /// A sender that hangs has no rate, not a rate of 0.
    fn object_to_silence(&self, course: &Course, end_s: f64) -> Result<(), Trouble> {
        let [(sent, _), _] = course.at(end_s, self.ends.route);
        let ran_s = end_s - self.start_s;
        if sent.packets == 0 && self.sender.process.is_some() && ran_s >= SILENCE_S {
            let what = format!("sent nothing in {ran_s:.1} s");
            return Err(self.sender.failure(&what));
        }
        Ok(())
    }

    /// A sized transfer that the end of the measurement interrupted: its receiver waits in vain.
    fn is_cut_off(&self) -> bool {
        self.is_sized && self.ended_s.is_none()
    }
}
