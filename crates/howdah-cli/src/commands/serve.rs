//! `howdah serve`.

use super::key::public_line;
use super::key_file;
use crate::args::ServeArgs;
use crate::become_user::NewUser;
use crate::control::{self, Answer, ControlSocket, Request, ServerStatus, SessionLine};
use crate::ui::{self, Signals};
use howdah::keys::{self, AuthorizedKeys, Identity};
use howdah::sandbox::{self, Sandbox, names};
use howdah::{
    AuditFile, Error, ErrorKind, Inherited, Level, Log, Reread, Server, ServerConfig,
    ServerControl, SessionStatus,
};
use howdah_core::Span;
use listenfd::ListenFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[cfg(debug_assertions)]
mod inside;
#[cfg(target_os = "linux")]
mod metrics;
#[cfg(debug_assertions)]
pub(super) use inside::try_all;

pub(super) fn run(args: ServeArgs) -> anyhow::Result<()> {
    // Before there is a second thread, which could look at the environment meanwhile.
    let inherited = inherited()?;
    let become_user = NewUser::choose(args.user.as_deref())?;
    let config = match &become_user {
        Some(user) => Some(keys::config_dir_of(&user.home)),
        None => keys::config_dir(),
    };
    let usual = |name| config.as_ref().map(|dir| dir.join(name));
    let reread = Reread {
        path: key_file(args.authorized_keys.as_ref(), usual("authorized_keys"))?,
        now: Arc::new(AtomicBool::new(false)),
    };
    let signals = Signals::install_with_hangup(Arc::clone(&reread.now))?;
    let log = Log::with_levels(ui::log);
    let identity_path = key_file(args.identity.as_ref(), usual("id_ed25519.pem"))?;
    let mut known = None;
    let loops = args.loops.map(usize::from);
    let mut beside = None;
    let inherited = match (become_user, inherited) {
        (Some(user), inherited) => {
            // A key that only root can read stays that, and a port below 1024 takes root to open.
            known = Identity::load(&identity_path).ok();
            let sockets = match inherited {
                Some(sockets) => sockets,
                None => Inherited::bind(args.listen, &log)?,
            };
            beside = Some(sockets.beside(loops));
            user.enter()?;
            Some(sockets)
        }
        (None, inherited) => inherited,
    };
    // All that comes is done by that user: he must be able to read the list of keys, also later.
    if !args.root.is_dir() {
        let text = format!("the root {} is not a directory", args.root.display());
        return Err(Error::new(ErrorKind::NotFound, text).into());
    }
    let (identity, made) = match known {
        Some(identity) => (identity, false),
        None => Identity::load_or_create(&identity_path)?,
    };
    if made {
        ui::say(&format!(
            "made a new private key in {}",
            identity_path.display()
        ));
    }
    let authorized = listed(&reread.path, args.authorized_keys.is_some())?;
    let audit = args.audit.open()?;
    #[cfg(target_os = "linux")]
    let figures = args.metrics.map(metrics::Figures::bind).transpose()?;
    #[cfg(not(target_os = "linux"))]
    if args.metrics.is_some() {
        return Err(Error::new(ErrorKind::Usage, "--metrics needs Linux").into());
    }
    let line = public_line(&identity);
    let clients = clients(&authorized, &reread.path);
    let list = reread.path.clone();
    let root = args.root.display().to_string();
    // A new one could not be opened any more.
    let sockets = match inherited {
        Some(sockets) => sockets,
        None => Inherited::bind(args.listen, &log)?,
    };
    let beside = beside.unwrap_or_else(|| sockets.beside(loops));
    let confined = !args.no_sandbox && !is_sandbox_off();
    if confined {
        let audited = audit.as_ref().map(AuditFile::directory);
        confine(&args.root, &authorized, &reread.path, audited);
    } else {
        ui::say("without a sandbox: this process can do all that its user may");
    }
    let control = ServerControl::new();
    #[cfg(target_os = "linux")]
    if let Some(figures) = figures {
        ui::say(&format!("metrics on http://{}/metrics", figures.address()));
        figures.begin(&control)?;
    }
    let mut config = ServerConfig::new(args.root, args.listen, identity, authorized);
    config.reread = Some(reread);
    let own = [Some(list), Some(identity_path), args.audit.audit];
    config.own_files = own.into_iter().flatten().collect();
    config.inherited = Some(sockets);
    config.loops = loops;
    config.beside = beside;
    config.control = control.clone();
    config.max_rate = args.max_rate;
    config.memory = Some(args.memory);
    config.log = log;
    config.audit = audit;
    let server = Server::bind(config)?;
    let server = match args.expire_unfinished {
        Span::ZERO => server,
        time => server.keeping_unfinished(time.into()),
    };
    let server = if confined {
        server.opening_nothing(hears)
    } else {
        server
    };
    let shown = root.clone();
    let listen = server.local_addr().to_string();
    let door = ControlSocket::open(move |request| answer(&control, request, &shown, &listen));
    if let Err(error) = &door {
        // The server is worth more than its remote control.
        ui::say(&format!("howdah ctl cannot reach this server: {error}"));
    }
    // `howdah demo` waits for this line.
    ui::say(&format!("serving {root} on {}", server.local_addr()));
    ui::say(&format!("server key {line}"));
    ui::say(&format!("fingerprint {}", line.key.fingerprint()));
    ui::say(&clients);
    #[cfg(debug_assertions)]
    try_all();
    // Nobody waits for whoever reads from here on.
    let _log = ui::log_aside();
    let result = server.run(signals.cancel());
    // Whoever told it to end hears that it does.
    drop(door);
    result?;
    Ok(())
}

/// Called by what hears the network, once it can open nothing any more.
fn hears() {
    #[cfg(debug_assertions)]
    inside::try_opening();
}

/// Whether somebody has trouble with it.
pub(super) fn is_sandbox_off() -> bool {
    std::env::var_os("HOWDAH_SANDBOX").is_some_and(|value| value == "off")
}

/// What a root may turn out to be when a session begins. Where the directory that it lies in is not within reach, a root that is
/// replaced takes a restart.
fn reach(root: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid());
    let own = own.ok().flatten().map(|user| user.dir);
    let homes: Vec<_> = [home, own].into_iter().flatten().collect();
    sandbox::reach(root, &homes)
}

/// Leaves this process the directories that clients may reach, the list of keys, and the directories of its audit log and its
/// remote control.
/// There must be no second thread yet.
fn confine(root: &Path, authorized: &AuthorizedKeys, list: &Path, audited: Option<PathBuf>) {
    if let Err(error) = names::Names::ask() {
        ui::say(&format!(
            "users and groups have numbers only: what says their names cannot be started ({error})"
        ));
    }
    // Files are replaced, so it is their directories that count, of names and of what links lead to.
    let real = list.canonicalize();
    let lists = [Some(list), real.as_deref().ok()].into_iter().flatten();
    let lists = lists
        .filter_map(Path::parent)
        .map(|dir| match dir.as_os_str() {
            empty if empty.is_empty() => PathBuf::from("."),
            dir => PathBuf::from(dir),
        });
    let control = control::directory();
    // It says later what is wrong with it.
    let _ = control::prepare(&control);
    let roots = authorized.roots().chain([root]);
    let sandbox = Sandbox {
        writable: roots.flat_map(reach).chain(audited).collect(),
        readable: lists.collect(),
        sockets: vec![control],
        ..Sandbox::default()
    };
    for line in sandbox.enter() {
        ui::say(&line);
    }
}

/// What `howdah ctl` hears and orders.
fn answer(control: &ServerControl, request: &Request, root: &str, listen: &str) -> Answer {
    match request {
        Request::Status => {}
        Request::Drain => {
            control.drain();
            let told = "told to end with its last session (by howdah ctl)";
            ui::log(Level::Info, told);
        }
        Request::End { session } => {
            if !control.end(*session) {
                let text = format!("there is no session {session}; 'howdah ctl list' shows them");
                return Answer::Error(text);
            }
            let told = format!("session {session} is ended by howdah ctl");
            ui::log(Level::Info, &told);
        }
        Request::Limit { .. } | Request::Share { .. } | Request::Pause | Request::Resume => {
            let text = "this is a server: max-rate in its list of keys limits a key, and clients set the pace of their copies";
            return Answer::Error(text.to_owned());
        }
    }
    let line = |session: SessionStatus| SessionLine {
        session: session.id,
        peer: session.peer,
        what: session.what,
        bytes: session.bytes,
        wire_bps: session.rate.bits_per_sec(),
        elapsed_seconds: session.elapsed.as_secs_f64(),
    };
    Answer::Server(Box::new(ServerStatus {
        pid: std::process::id(),
        command: "serve".to_owned(),
        root: root.to_owned(),
        listen: listen.to_owned(),
        draining: control.is_draining(),
        sessions: control.sessions().into_iter().map(line).collect(),
    }))
}

/// Sockets that a service manager has bound: first UDP, then perhaps TCP (`sd_listen_fds(3)`).
fn inherited() -> anyhow::Result<Option<Inherited>> {
    let mut sockets = ListenFd::from_env();
    if sockets.len() == 0 {
        return Ok(None);
    }
    let wrong = |e| {
        let text = format!(
            "the sockets that were handed over are not a UDP socket and perhaps a TCP one ({e}); see \
             packaging/systemd/howdah.socket"
        );
        Error::new(ErrorKind::Usage, text)
    };
    let udp = sockets.take_udp_socket(0).map_err(wrong)?;
    let tcp = if sockets.len() > 1 {
        sockets.take_tcp_listener(1).map_err(wrong)?
    } else {
        None
    };
    Ok(udp.map(|udp| Inherited { udp, tcp }))
}

/// What lets a client in.
const LET_IN: &str =
    "run 'howdah key show' on the client and append the line that it prints to that file";

/// Those who get in. Where the usual list is not there nobody does, and one that somebody `named` must be: he means that it holds keys.
fn listed(path: &Path, named: bool) -> Result<AuthorizedKeys, Error> {
    match AuthorizedKeys::load(path) {
        Err(error) if error.is_not_found() && named => {
            let path = path.display();
            let text = format!("--authorized-keys {path}: there is no such file; {LET_IN}");
            Err(Error::new(ErrorKind::NotFound, text))
        }
        Err(error) if error.is_not_found() => Ok(AuthorizedKeys::new()),
        other => Ok(other?),
    }
}

fn clients(authorized: &AuthorizedKeys, path: &Path) -> String {
    let path = path.display();
    match authorized.len() {
        0 => format!("nobody gets in yet: {path} lists no key; {LET_IN}"),
        1 => format!("1 key is authorised by {path}"),
        n => format!("{n} keys are authorised by {path}"),
    }
}
