//! What the daemon asks of this program.

use crate::control::{Answer, Request, Sockets, ask};
use crate::limit::Limit;
use howdah::{KnownHosts, PathMemory, RememberedPath};
use howdah_daemon::limits::{HostFacts, PathFacts};
use howdah_daemon::outside::{Outside, Standing};
use std::collections::BTreeMap;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// See [`Outside`].
pub(super) struct Program {
    pub(super) paths: Option<PathMemory>,
    pub(super) known_hosts: Option<std::path::PathBuf>,
}

impl Outside for Program {
    fn allowed(&self, limit: &str) -> Result<Option<u64>, String> {
        Ok(limit.parse::<Limit>()?.now().bps())
    }

    fn share(&self, pid: u32, limit: Option<u64>) -> Result<Standing, String> {
        let request = Request::Share { limit_bps: limit };
        match ask(&Sockets::of(pid), &request) {
            Ok(Answer::Ok(status)) => Ok(Standing {
                bytes: status.bytes,
                total_bytes: status.total_bytes,
                goodput_bps: status.goodput_bps,
                wire_bps: status.wire_bps,
            }),
            Ok(Answer::Error(text)) => Err(text),
            Ok(Answer::Server(_)) => Err("that is a server".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn hosts(&self, names: &[String]) -> Vec<HostFacts> {
        let known = self
            .known_hosts
            .as_ref()
            .and_then(|path| KnownHosts::load(path).ok());
        let paths = self.paths.as_ref().map_or_else(Vec::new, PathMemory::all);
        let addresses = if paths.is_empty() {
            BTreeMap::new()
        } else {
            addresses(names)
        };
        let facts = |name: &String| {
            let keys = known.iter().flat_map(|known| known.keys_of(name));
            let own = addresses.get(name);
            let path = paths
                .iter()
                .find(|path| own.is_some_and(|own| own.contains(&path.peer)));
            HostFacts {
                keys: keys.map(|key| key.fingerprint()).collect(),
                path: path.map(path_facts),
            }
        };
        names.iter().map(facts).collect()
    }
}

/// Those that can be found soon. Whoever is asked for names may take its time; then they are not known this time.
fn addresses(names: &[String]) -> BTreeMap<String, Vec<IpAddr>> {
    const PATIENCE: Duration = Duration::from_secs(1);
    const MOST: usize = 64;
    let mut found = BTreeMap::new();
    let (sender, receiver) = mpsc::channel();
    for name in names.iter().take(MOST).cloned() {
        if let Ok(address) = name.trim_matches(['[', ']']).parse() {
            found.insert(name, vec![address]);
            continue;
        }
        let sender = sender.clone();
        thread::spawn(move || {
            let all = (name.as_str(), 0).to_socket_addrs().into_iter().flatten();
            let all = all.map(|address| address.ip().to_canonical()).collect();
            // Nobody may wait any more.
            let _ = sender.send((name, all));
        });
    }
    drop(sender);
    let end = Instant::now() + PATIENCE;
    while let Ok((name, all)) = receiver.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        found.insert(name, all);
    }
    found
}

fn path_facts(path: &RememberedPath) -> PathFacts {
    PathFacts {
        address: path.peer.to_string(),
        capacity_bps: path.knowledge.capacity.bits_per_sec(),
        rtt_seconds: path.knowledge.rtt.as_nanos() as f64 / 1e9,
        loss: path.knowledge.loss,
        age_seconds: path.age.as_secs(),
    }
}
