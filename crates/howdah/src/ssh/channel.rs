//! The far end and the channel to it.

use super::candidates::{Resolving, candidates};
use super::command;
use super::handover::{self, Answer, Ask, CopyEvent, HandoverError, OneCopy, ThirdPartyCopy};
use super::launched::{Caller, FAREWELL, Launched, Patience};
use super::process::Ssh;
use super::sharing::{self, Shared};
use super::verdict::{self, Heard};
use super::within::Within;
use crate::sandbox::keep_what_is_open;
use crate::{Cancel, CopyConfig, Error, ErrorKind, PublicKey, SshTarget};
use howdah_net::{Lanes, Tunnel};
use howdah_session::pace::Pace;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Somebody may have to type a password, touch a key, or be asked about a host.
const PATIENCE: Duration = Duration::from_mins(10);

/// The other end of a session, and the ssh that keeps it alive. Dropping it ends both.
#[derive(Debug)]
pub(crate) struct FarEnd {
    name: String,
    process: Arc<Ssh>,
    /// To the far end and from it. Closing the first is what tells it to end.
    channel: Mutex<Channel>,
    ready: Ready,
    named: Vec<SocketAddr>,
    /// Its work is done.
    left: bool,
    /// The thread that listens to it has nothing else.
    confined: bool,
}

type Channel = (Option<ChildStdin>, Option<BufReader<ChildStdout>>);

#[derive(Debug)]
struct Ready {
    port: u16,
    key: PublicKey,
    address: Option<IpAddr>,
}

impl FarEnd {
    /// Starts ssh and the far end, which will let the holder of `key` in, with all rights of the user there; the process
    /// keeps to what it is asked about.
    pub(crate) fn start(
        config: &CopyConfig,
        target: &SshTarget,
        (key, within): (&PublicKey, Within),
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        Self::start_for(config, target, (key, within), None, cancel)
    }

    /// The same for somebody else's key, which gets what one copy needs.
    pub(super) fn start_for(
        config: &CopyConfig,
        target: &SshTarget,
        (key, within): (&PublicKey, Within),
        only: Option<Box<OneCopy>>,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let ports = &config.ssh.ports;
        let ask = Ask::Serve {
            key: key.to_string(),
            ports: (*ports.start(), *ports.end()),
            only,
            within: Some(within),
            wordy: config.ssh.wordy,
        };
        Self::start_with(config, target, &ask, cancel)
    }

    /// Starts ssh and a far end that will send to another one.
    pub(crate) fn start_sender(
        config: &CopyConfig,
        target: &SshTarget,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        Self::start_with(config, target, &Ask::Send, cancel)
    }

    fn start_with(
        copy: &CopyConfig,
        target: &SshTarget,
        ask: &Ask,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let (config, name) = (&copy.ssh, &*target.to_string());
        let resolving = Resolving::start(config, target);
        let settings = resolving.settings();
        let caller = Caller {
            config,
            name,
            cancel,
            log: &copy.heard,
            warn: &copy.warn,
            wordy: settings.wordy(),
            confined: copy.confined,
        };
        let mut shared = None;
        if config.sharing.is_some() && !sharing::is_arranged(settings.text()) {
            shared = Shared::look(config, target, settings.text());
        }
        let corrections = settings.corrections();
        let launch = |shared: Option<&Shared<'_>>, whole, logged_in| {
            let options = shared.map(Shared::options);
            let options = options.as_ref().map_or(&[][..], |options| options);
            let command = command::start(config, target, &corrections, options);
            Launched::start(command, caller, ask, Patience { whole, logged_in })
        };
        let mut launched = None;
        if let Some(shared) = shared.as_mut().filter(|shared| shared.is_there()) {
            launched = launch(Some(shared), sharing::PATIENCE, true)?.filter(|l| !l.ssh_failed());
            if launched.is_none() {
                copy.heard.line(&format!(
                    "{name}: the connection of ssh that was there does not answer; making another"
                ));
                shared.give_up();
            }
        }
        if launched.is_none() {
            launched = launch(shared.as_ref(), PATIENCE, false)?;
        }
        let launched = launched.ok_or_else(|| {
            let text = format!(
                "ssh to {name} brought no answer within {} s",
                PATIENCE.as_secs()
            );
            Error::new(ErrorKind::Network, text)
        })?;
        let Launched {
            guard,
            stdin,
            stdout,
            answer,
            heard,
        } = launched;
        let answer = answer.map_err(|error| match error {
            HandoverError::Closed | HandoverError::Io(_) => {
                verdict::why(name, config, &guard.ssh().last_words(), &heard)
            }
            HandoverError::Noise if config.remote_howdah.is_none() && !heard.begun => {
                endless(name, &heard)
            }
            error => error.at(name),
        })?;
        let ready = match answer {
            Answer::Ready { port, key, address } => Ready {
                port,
                key: handover::key(&key).map_err(|e| e.at(name))?,
                address,
            },
            Answer::Sender { key } => Ready {
                port: 0,
                key: handover::key(&key).map_err(|e| e.at(name))?,
                address: None,
            },
            Answer::Failed { message, kind } => {
                let message: String = message.chars().filter(|c| !c.is_control()).collect();
                let kind = kind.map_or(ErrorKind::Io, super::kinds::kind);
                return Err(Error::new(kind, format!("{name}: {message}")));
            }
        };
        Ok(Self {
            name: name.to_owned(),
            process: guard.disarm(),
            channel: Mutex::new((Some(stdin), Some(stdout))),
            named: resolving.finish(ready.address.is_some()),
            ready,
            left: false,
            confined: copy.confined,
        })
    }

    /// Lets go of a far end that has done its work: it ends by itself, and ssh with it.
    pub(crate) fn leave(mut self) {
        self.left = true;
    }

    /// The key that it will show.
    pub(crate) fn key(&self) -> PublicKey {
        self.ready.key
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.ready.port
    }

    /// How the user calls it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sends a sender on its errand; what it tells of it.
    pub(super) fn send_on(&self, errand: ThirdPartyCopy) -> Result<Receiver<CopyEvent>, Error> {
        let trouble = |e| Error::new(ErrorKind::Io, format!("cannot talk to {}: {e}", self.name));
        let mut channel = self.lock_channel();
        // The first half stays: its end is the sender's.
        let stdout = channel.1.take();
        let (Some(stdin), Some(mut stdout)) = (channel.0.as_mut(), stdout) else {
            return Err(trouble(in_use()));
        };
        handover::write_errand(stdin, errand).map_err(trouble)?;
        let (tell, told) = std::sync::mpsc::channel();
        let confined = self.confined;
        let listen = move || {
            keep_what_is_open(confined);
            while let Some(message) = handover::read_told(&mut stdout) {
                if tell.send(message).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new()
            .name("howdah-ssh-told".into())
            .spawn(listen)
            .map(|_| told)
            .map_err(trouble)
    }

    /// Tells a sender that the user wants another pace.
    pub(super) fn set_pace(&self, pace: Pace) {
        if let Some(stdin) = self.lock_channel().0.as_mut() {
            // If it has gone, that shows elsewhere.
            let _ = handover::write_ask(stdin, &Ask::Pace(pace));
        }
    }

    /// Where it may be reached, best first.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        candidates(&self.named, self.ready.address, self.ready.port)
    }

    fn lock_channel(&self) -> MutexGuard<'_, Channel> {
        // There is no half of either.
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Carries datagrams of the endpoint of `lanes` through the channel from now on. Once.
    pub(crate) fn tunnel(&self, lanes: &Lanes) -> std::io::Result<Tunnel> {
        let mut channel = self.lock_channel();
        let (Some(mut stdin), Some(stdout)) = (channel.0.take(), channel.1.take()) else {
            return Err(in_use());
        };
        handover::write_tunnel(&mut stdin)?;
        Tunnel::over(stdout, stdin, lanes)
    }

    /// Whether ssh has ended, and the far end with it.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    /// A failure of the session, in the words of whoever knows most about it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Network || !self.has_ended() {
            return error;
        }
        error.in_words(format!(
            "ssh to {} ended during the copy ({}); try again",
            self.name,
            self.process.ending()
        ))
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.lock_channel().0 = None;
        if self.left {
            return;
        }
        self.process.wait_until(FAREWELL, |state| state.ended);
        self.process.end();
    }
}

/// What came is more than a login script has to say.
fn endless(name: &str, heard: &Heard) -> Error {
    let last = heard.noise.back().map_or("", String::as_str);
    let text = format!(
        "a login script on {name} (.bashrc, .profile, config.fish, .cshrc, ...) prints without end (last: {last:?}); let it \
         print only where there is a terminal"
    );
    Error::new(ErrorKind::Network, text)
}

fn in_use() -> std::io::Error {
    std::io::Error::other("the channel is in use")
}
