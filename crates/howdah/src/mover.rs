//! Where other programs begin: a client with setters, and what it does as values that are run.

use crate::keys;
use crate::{
    Cancel, CopyConfig, Difference, Error, ErrorKind, Identity, KnownHosts, Location, Progress,
    RatePolicy, Share, Summary, Throttle, Transport, TreeOptions, Trust, Verification,
    default_path_memory,
};
use howdah_core::{Rate, Span};
use std::fmt;
use std::path::PathBuf;

/// Moves, mirrors and compares on behalf of one key.
///
/// Places are written as for the command: a path, `host:path` (through ssh), `howdah://host:port/path` (a server), or a
/// [`Location`]. One that makes no sense is an error when the copy is run, of kind [`ErrorKind::Usage`].
#[derive(Clone, Debug)]
pub struct Client {
    config: CopyConfig,
}

impl Client {
    /// A client that shows `identity` and knows no server: [`known_hosts`](Self::known_hosts) or [`trust`](Self::trust) say whom
    /// it believes. Hosts that ssh reaches are ssh's to know.
    pub fn new(identity: Identity) -> Self {
        Self {
            config: CopyConfig::new(identity, KnownHosts::default()),
        }
    }

    /// The client that the `howdah` command is for this user: with the same key, which is made if there is none, the same
    /// known servers and the same memory of paths; a connection that is lost is made again for 30 s.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] without a home directory, and what reading the files gives.
    pub fn of_this_user() -> Result<Self, Error> {
        let place = |path: Option<PathBuf>| {
            path.ok_or_else(|| Error::new(ErrorKind::Usage, "there is no home directory: set HOME"))
        };
        let (identity, _) = Identity::load_or_create(&place(keys::default_identity_path())?)?;
        let known = KnownHosts::load(&place(keys::default_known_hosts_path())?)?;
        let mut client = Self::new(identity)
            .known_hosts(known)
            .reconnect(Span::from_secs(30));
        client.config.paths = default_path_memory();
        Ok(client)
    }

    /// The servers' keys that it knows.
    #[must_use]
    pub fn known_hosts(mut self, known: KnownHosts) -> Self {
        self.config.known_hosts = known;
        self
    }

    /// What to do with a server that is not among them. At first it is refused.
    #[must_use]
    pub fn trust(mut self, trust: Trust) -> Self {
        self.config.trust = trust;
        self
    }

    /// How to share the path. At first fairly.
    #[must_use]
    pub fn policy(mut self, policy: RatePolicy) -> Self {
        self.config.policy = policy;
        self
    }

    /// Each of its copies is one of so many that count as one flow to others, with [`RatePolicy::Fair`]. At first each is a flow of its own.
    #[must_use]
    pub fn share(mut self, share: Share) -> Self {
        self.config.share = share;
        self
    }

    /// The most that each of its copies sends, of IP packets. [`throttle`](Self::throttle) changes it while they run.
    #[must_use]
    pub fn limit(self, rate: Rate) -> Self {
        self.config.throttle.set_limit(Some(rate));
        self
    }

    /// UDP, TCP or ssh. At first UDP, and TCP or ssh where no UDP passes.
    #[must_use]
    pub fn transport(mut self, transport: Transport) -> Self {
        self.config.transport = transport;
        self
    }

    /// A connection that is lost is made again until nothing has come for that long. At first it is an error at once.
    #[must_use]
    pub fn reconnect(mut self, patience: Span) -> Self {
        self.config.reconnect = patience;
        self
    }

    /// Everything else that can be set.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut CopyConfig)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn config(&self) -> &CopyConfig {
        &self.config
    }

    /// The limit and the pause of all its copies, also of those that run.
    pub fn throttle(&self) -> &Throttle {
        &self.config.throttle
    }

    /// A copy of one file, pipe or device. One of the two places is on another machine, or both are on machines that ssh reaches.
    pub fn copy(&self, from: impl Place, to: impl Place) -> Transfer {
        let places = from.place().map(|from| vec![from]);
        self.task(places, to, None)
    }

    /// A copy of files and directories into one place, as `howdah cp -r` does it: all `from` are on one machine, and an existing
    /// directory `to` gets them below it.
    pub fn copy_tree<P: Place>(
        &self,
        from: impl IntoIterator<Item = P>,
        to: impl Place,
    ) -> Transfer {
        let options = TreeOptions {
            recursive: true,
            ..TreeOptions::default()
        };
        let places = from.into_iter().map(Place::place).collect();
        self.task(places, to, Some(options))
    }

    /// Makes what is in `to` what is in `from`, as `howdah sync` does it. Nothing is deleted without
    /// [`TreeOptions::delete`].
    pub fn sync(&self, from: impl Place, to: impl Place) -> Transfer {
        let options = TreeOptions {
            contents: true,
            recursive: true,
            mirror: true,
            permissions: true,
            ..TreeOptions::default()
        };
        let places = from.place().map(|from| vec![from]);
        self.task(places, to, Some(options))
    }

    /// A comparison of two files or directories, by size and time unless [`TreeOptions::checksum`] asks for contents.
    pub fn verify(&self, a: impl Place, b: impl Place) -> Comparison {
        Comparison {
            client: self.clone(),
            places: a.place().and_then(|a| Ok((a, b.place()?))),
            options: TreeOptions {
                recursive: true,
                ..TreeOptions::default()
            },
            watched: Watched::default(),
            on_difference: Box::new(|_| {}),
        }
    }

    fn task(
        &self,
        sources: Result<Vec<Location>, Error>,
        to: impl Place,
        options: Option<TreeOptions>,
    ) -> Transfer {
        Transfer {
            client: self.clone(),
            places: sources.and_then(|from| Ok((from, to.place()?))),
            options,
            watched: Watched::default(),
        }
    }
}

/// What names a place: a text as for the command, or a [`Location`].
pub trait Place: sealed::Sealed {
    /// The place.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] if the text names none.
    fn place(self) -> Result<Location, Error>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Location {}
    impl Sealed for &super::Location {}
    impl Sealed for &str {}
    impl Sealed for String {}
    impl Sealed for &std::path::Path {}
    impl Sealed for std::path::PathBuf {}
}

impl Place for Location {
    fn place(self) -> Result<Location, Error> {
        Ok(self)
    }
}

impl Place for &Location {
    fn place(self) -> Result<Location, Error> {
        Ok(self.clone())
    }
}

impl Place for &str {
    fn place(self) -> Result<Location, Error> {
        self.parse().map_err(|error: crate::ParseLocationError| {
            Error::new(ErrorKind::Usage, error.to_string())
        })
    }
}

impl Place for String {
    fn place(self) -> Result<Location, Error> {
        self.as_str().place()
    }
}

/// A path is one of this machine, whatever its name looks like.
impl Place for PathBuf {
    fn place(self) -> Result<Location, Error> {
        Ok(Location::File(self))
    }
}

/// A path is one of this machine, whatever its name looks like.
impl Place for &std::path::Path {
    fn place(self) -> Result<Location, Error> {
        self.to_owned().place()
    }
}

/// Who watches, and who may end it.
struct Watched {
    cancel: Cancel,
    on_progress: Box<dyn FnMut(&Progress) + Send>,
}

impl Default for Watched {
    fn default() -> Self {
        Self {
            cancel: Cancel::new(),
            on_progress: Box::new(|_| {}),
        }
    }
}

/// A copy that has not begun; [`run`](Self::run) does it.
#[must_use = "nothing is copied before it is run"]
pub struct Transfer {
    client: Client,
    places: Result<(Vec<Location>, Location), Error>,
    options: Option<TreeOptions>,
    watched: Watched,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Transfer");
        out.field("places", &self.places).finish_non_exhaustive()
    }
}

impl Transfer {
    /// Changes how a tree is copied. Of a single file there is nothing to change.
    pub fn options(mut self, change: impl FnOnce(&mut TreeOptions)) -> Self {
        if let Some(options) = &mut self.options {
            change(options);
        }
        self
    }

    /// Hears how far it is, about ten times a second.
    pub fn on_progress(mut self, hear: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.watched.on_progress = Box::new(hear);
        self
    }

    /// What ends it early. What is at the destination by then is gone on with by the next copy.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.watched.cancel = cancel.clone();
        self
    }

    /// Copies, and returns when everything is verified, durable and in its place.
    ///
    /// # Errors
    ///
    /// Any [`ErrorKind`]. [`ErrorKind::Partial`], [`ErrorKind::SourceChanged`] or [`ErrorKind::Limit`] if some names of a tree could not
    /// be copied (or deleted); the others are in place.
    pub fn run(mut self) -> Result<Summary, Error> {
        let (from, to) = self.places?;
        let config = &self.client.config;
        let cancel = &self.watched.cancel;
        let hear = &mut *self.watched.on_progress;
        let summary = match (&self.options, &*from) {
            (None, [from]) => crate::copy(from, &to, config, cancel, hear)?,
            (None, _) => return Err(Error::new(ErrorKind::Usage, "a copy has one source")),
            (Some(options), from) => crate::copy_tree(from, &to, options, config, cancel, hear)?,
        };
        summary.shortfall().map_or(Ok(summary), Err)
    }

    /// [`run`](Self::run) on a thread of the runtime's that may block. Dropping the future ends the copy.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    #[cfg(feature = "tokio")]
    pub async fn start(self) -> Result<Summary, Error> {
        let cancel = self.watched.cancel.clone();
        blocking(cancel, move || self.run()).await
    }
}

/// A comparison that has not begun; [`run`](Self::run) does it.
#[must_use = "nothing is compared before it is run"]
pub struct Comparison {
    client: Client,
    places: Result<(Location, Location), Error>,
    options: TreeOptions,
    watched: Watched,
    on_difference: Box<dyn FnMut(&Difference) + Send>,
}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Comparison");
        out.field("places", &self.places).finish_non_exhaustive()
    }
}

impl Comparison {
    /// Changes what is compared.
    pub fn options(mut self, change: impl FnOnce(&mut TreeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Hears of each difference, in an order that depends on the names only.
    pub fn on_difference(mut self, hear: impl FnMut(&Difference) + Send + 'static) -> Self {
        self.on_difference = Box::new(hear);
        self
    }

    /// Hears how far it is, about ten times a second.
    pub fn on_progress(mut self, hear: impl FnMut(&Progress) + Send + 'static) -> Self {
        self.watched.on_progress = Box::new(hear);
        self
    }

    /// What ends it early.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.watched.cancel = cancel.clone();
        self
    }

    /// Compares. Differences are no error: [`Verification::equal`].
    ///
    /// # Errors
    ///
    /// Any [`ErrorKind`]; [`ErrorKind::Partial`] or [`ErrorKind::SourceChanged`] if something could not be read, so that nobody knows.
    pub fn run(mut self) -> Result<Verification, Error> {
        let (a, b) = self.places?;
        let verification = crate::verify(
            &a,
            &b,
            &self.options,
            &self.client.config,
            &self.watched.cancel,
            &mut *self.on_difference,
            &mut *self.watched.on_progress,
        )?;
        verification.shortfall().map_or(Ok(verification), Err)
    }

    /// [`run`](Self::run) on a thread of the runtime's that may block. Dropping the future ends the comparison.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run).
    #[cfg(feature = "tokio")]
    pub async fn start(self) -> Result<Verification, Error> {
        let cancel = self.watched.cancel.clone();
        blocking(cancel, move || self.run()).await
    }
}

/// Does `work` where threads may block. `cancel` is thrown if nobody waits for it any more.
#[cfg(feature = "tokio")]
async fn blocking<T: Send + 'static>(
    cancel: Cancel,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    struct CancelOnDrop(Option<Cancel>);

    impl Drop for CancelOnDrop {
        fn drop(&mut self) {
            if let Some(cancel) = &self.0 {
                cancel.cancel();
            }
        }
    }

    let mut guard = CancelOnDrop(Some(cancel));
    let done = tokio::task::spawn_blocking(work).await;
    guard.0 = None;
    done.unwrap_or_else(|error| Err(Error::new(ErrorKind::Io, error.to_string())))
}
