//! The client, with its settings.

use crate::errors::{Raise as _, usage};
use crate::files::Files;
use crate::keys::Identity;
use crate::place::place;
use crate::task::{Task, Teller};
use crate::told;
use howdah::{
    Error, ErrorKind, KnownHosts, Location, Rate, RatePolicy, RuleRef, Share, Span, Transport,
    TreeOptions, Trust,
};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// What can be set, as the Python half writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    trust: String,
    policy: String,
    rate_bps: Option<u64>,
    limit_bps: Option<u64>,
    share: String,
    transport: String,
    reconnect_seconds: f64,
    wait_for_space_seconds: f64,
    resume: bool,
    reread: bool,
}

impl Settings {
    fn trust(&self) -> Result<Trust, Error> {
        match &*self.trust {
            "strict" => Ok(Trust::Strict),
            "accept-new" => Ok(Trust::AcceptNew),
            key => key.parse().map(Trust::Exactly).map_err(|e| {
                let text = format!(
                    "trust is \"strict\", \"accept-new\" or a server's public key \
                     (\"howdah-ed25519 ...\"), not {key:?}: {e}"
                );
                Error::new(ErrorKind::Usage, text)
            }),
        }
    }

    fn policy(&self) -> Result<RatePolicy, Error> {
        let wrong = |text: &str| Err(Error::new(ErrorKind::Usage, text));
        match (&*self.policy, self.rate_bps) {
            ("fair", None) => Ok(RatePolicy::Fair),
            ("background", None) => Ok(RatePolicy::Background),
            ("fixed", Some(rate)) => Ok(RatePolicy::Fixed(Rate::from_bits_per_sec(rate))),
            ("fixed", None) => wrong("the policy \"fixed\" needs rate_bps"),
            ("fair" | "background", Some(_)) => {
                wrong("rate_bps is of the policy \"fixed\"; limit_bps is an upper bound of any")
            }
            _ => wrong("policy is \"fair\", \"background\" or \"fixed\""),
        }
    }

    fn share(&self) -> Result<Share, Error> {
        let share = self.share.parse::<Share>();
        share.map_err(|e| Error::new(ErrorKind::Usage, format!("share: {e}")))
    }

    fn transport(&self) -> Result<Transport, Error> {
        match &*self.transport {
            "auto" => Ok(Transport::Auto),
            "udp" => Ok(Transport::Udp),
            "tcp" => Ok(Transport::Tcp),
            _ => Err(Error::new(
                ErrorKind::Usage,
                "transport is \"auto\", \"udp\" or \"tcp\"",
            )),
        }
    }

    fn apply(&self, client: howdah::Client) -> Result<howdah::Client, Error> {
        let seconds = |name: &str, value: f64| {
            // A day in nanoseconds is far from the end of what a span can be.
            if (0.0..=86_400.0).contains(&value) {
                Ok(Span::from_nanos((value * 1e9) as u64))
            } else {
                let text = format!("{name} is from 0 to 86400 seconds, not {value}");
                Err(Error::new(ErrorKind::Usage, text))
            }
        };
        let reconnect = seconds("reconnect_seconds", self.reconnect_seconds)?;
        let wait = seconds("wait_for_space_seconds", self.wait_for_space_seconds)?;
        let client = client
            .trust(self.trust()?)
            .policy(self.policy()?)
            .share(self.share()?)
            .transport(self.transport()?)
            .reconnect(reconnect);
        set_limit(&client, self.limit_bps)?;
        Ok(client.configure(|config| {
            config.wait_for_space = wait;
            (config.resume, config.reread) = (self.resume, self.reread);
        }))
    }
}

fn set_limit(client: &howdah::Client, bps: Option<u64>) -> Result<(), Error> {
    let least = howdah::Throttle::MIN.bits_per_sec();
    if bps.is_some_and(|bps| bps < least) {
        let text = format!("limit_bps is at least {least}; to stop, pause");
        return Err(Error::new(ErrorKind::Usage, text));
    }
    client
        .throttle()
        .set_limit(bps.map(Rate::from_bits_per_sec));
    Ok(())
}

/// How a tree is copied: the library's option of each name, and the rules.
#[derive(Deserialize)]
struct Wanted {
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(flatten)]
    options: Map<String, Value>,
}

impl Wanted {
    fn parse(text: &str) -> Result<Self, Error> {
        serde_json::from_str(text).map_err(|e| Error::new(ErrorKind::Usage, e.to_string()))
    }

    /// `options` with what is wanted in them.
    fn apply(&self, options: &TreeOptions) -> Result<TreeOptions, Error> {
        let wrong = |e: serde_json::Error| Error::new(ErrorKind::Usage, format!("an option: {e}"));
        let mut all = serde_json::to_value(options).map_err(wrong)?;
        for (name, value) in &self.options {
            let Some(place) = all.get_mut(name) else {
                let text = format!("there is no option {name}; help(howdah.TreeOptions) has all");
                return Err(Error::new(ErrorKind::Usage, text));
            };
            *place = value.clone();
            // The words of what reads it name no option.
            serde_json::from_value::<TreeOptions>(all.clone()).map_err(|e| {
                let text = format!("the option {name} cannot be {value}: {e}");
                Error::new(ErrorKind::Usage, text)
            })?;
        }
        let mut options: TreeOptions = serde_json::from_value(all).map_err(wrong)?;
        for (include, patterns) in [(true, &self.include), (false, &self.exclude)] {
            for pattern in patterns {
                options.rules.push(RuleRef {
                    include,
                    listed: false,
                    pattern,
                });
            }
        }
        Ok(options)
    }
}

/// Moves, mirrors and compares on behalf of one key.
#[pyclass(frozen, module = "howdah._howdah")]
pub(crate) struct Client(howdah::Client);

impl Client {
    /// The client of one task, which tells what it has to say.
    fn told(&self, teller: &Teller) -> howdah::Client {
        self.0.clone().configure(|config| {
            config.warn = teller.log("warning");
            config.note = teller.log("info");
            config.heard = teller.log("info");
        })
    }
}

#[pymethods]
impl Client {
    /// With the keys in `config_dir`, or those of this user.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn new(
        py: Python<'_>,
        settings: &str,
        identity: Option<Identity>,
        config_dir: Option<PathBuf>,
    ) -> PyResult<Self> {
        let settings: Settings =
            serde_json::from_str(settings).map_err(|e| usage(py, e.to_string()))?;
        let base = match (&identity, &config_dir) {
            (None, None) => howdah::Client::of_this_user().raise(py)?,
            (Some(identity), None) => howdah::Client::new(identity.0.clone()),
            (given, Some(dir)) => {
                let identity = if let Some(given) = given {
                    given.0.clone()
                } else {
                    let file = dir.join("id_ed25519.pem");
                    howdah::Identity::load_or_create(&file).raise(py)?.0
                };
                let known = KnownHosts::load(&dir.join("known_hosts")).raise(py)?;
                howdah::Client::new(identity).known_hosts(known)
            }
        };
        settings.apply(base).raise(py).map(Self)
    }

    /// The most that its copies send, in bit/s, of IP packets.
    #[getter]
    fn limit_bps(&self) -> Option<u64> {
        self.0.throttle().limit().map(Rate::bits_per_sec)
    }

    #[setter]
    fn set_limit_bps(&self, py: Python<'_>, bps: Option<u64>) -> PyResult<()> {
        set_limit(&self.0, bps).raise(py)
    }

    #[getter]
    fn paused(&self) -> bool {
        self.0.throttle().is_paused()
    }

    #[setter]
    fn set_paused(&self, paused: bool) {
        self.0.throttle().set_paused(paused);
    }

    /// A copy of one file.
    fn copy(&self, source: &Bound<'_, PyAny>, destination: &Bound<'_, PyAny>) -> PyResult<Task> {
        let (from, to) = (place(source)?, place(destination)?);
        let told = Self(self.0.clone());
        Ok(Task::new(move |teller, cancel| {
            let copy = told.told(teller).copy(from, to).cancel(cancel);
            let hear = teller.clone();
            told::text(&copy.on_progress(move |now| hear.progress(now)).run()?)
        }))
    }

    /// A copy of files and directories, or with `mirror` of what is in one.
    #[expect(clippy::needless_pass_by_value, reason = "extracted from Python")]
    fn copy_tree(
        &self,
        sources: Vec<Bound<'_, PyAny>>,
        destination: &Bound<'_, PyAny>,
        options: &str,
        mirror: bool,
    ) -> PyResult<Task> {
        let py = destination.py();
        let from: Vec<Location> = sources.iter().map(place).collect::<PyResult<_>>()?;
        let to = place(destination)?;
        let wanted = Wanted::parse(options).raise(py)?;
        let told = Self(self.0.clone());
        Ok(Task::new(move |teller, cancel| {
            let client = told.told(teller);
            let transfer = match &*from {
                [from] if mirror => client.sync(from, to),
                from => client.copy_tree(from, to),
            };
            let mut wrong = None;
            let transfer = transfer.options(|options| match wanted.apply(options) {
                Ok(changed) => *options = changed,
                Err(error) => wrong = Some(error),
            });
            if let Some(error) = wrong {
                return Err(error);
            }
            let hear = teller.clone();
            let transfer = transfer.cancel(cancel);
            told::text(&transfer.on_progress(move |now| hear.progress(now)).run()?)
        }))
    }

    /// A session for single files of the machine of a place.
    fn open(&self, py: Python<'_>, place: &str) -> PyResult<Files> {
        crate::files::open(py, &self.0, place)
    }

    /// A comparison of two files or directories.
    fn verify(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, options: &str) -> PyResult<Task> {
        let py = a.py();
        let (a, b) = (place(a)?, place(b)?);
        let wanted = Wanted::parse(options).raise(py)?;
        let told = Self(self.0.clone());
        Ok(Task::new(move |teller, cancel| {
            let mut wrong = None;
            let comparison = told.told(teller).verify(a, b);
            let comparison = comparison.options(|options| match wanted.apply(options) {
                Ok(changed) => *options = changed,
                Err(error) => wrong = Some(error),
            });
            if let Some(error) = wrong {
                return Err(error);
            }
            let (hear, differs) = (teller.clone(), teller.clone());
            let found = comparison
                .cancel(cancel)
                .on_progress(move |now| hear.progress(now))
                .on_difference(move |found| differs.tell("difference", told::difference(found)))
                .run()?;
            told::verification(&found)
        }))
    }
}
