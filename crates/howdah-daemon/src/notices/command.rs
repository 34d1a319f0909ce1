//! A command of the administrator's that is told on its standard input.

use super::notice::{Notice, plain};
use super::{FEW, NotTaken, ONCE, Receiver};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::env;
use std::fs::{self, File};
use std::io::{self, PipeReader, Read as _, Seek as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Of what it says that is kept; the rest is read and forgotten.
const OUTPUT: usize = 4 << 10;
/// The exit code of what may go well later (`EX_TEMPFAIL` of sysexits.h).
const LATER: i32 = 75;
/// Where programs are if this daemon was not told.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that is run.
pub(super) struct Hook {
    program: PathBuf,
    arguments: Vec<String>,
    patience: Duration,
    /// All of them take turns.
    turn: Arc<Mutex<()>>,
}

impl Hook {
    pub(super) fn new(
        program: &Path,
        arguments: &[String],
        patience: Duration,
        turn: &Arc<Mutex<()>>,
    ) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("'program' {} {why}", program.display()));
        if !program.is_absolute() {
            return wrong("is not named by its whole path, from / on");
        }
        let found = match fs::metadata(program) {
            Ok(found) => found,
            Err(error) => return wrong(&format!("cannot be run: {error}")),
        };
        if !found.is_file() || found.mode() & 0o111 == 0 {
            return wrong("is no program: chmod +x it");
        }
        if found.mode() & 0o002 != 0 {
            return wrong("can be changed by everybody: chmod o-w it");
        }
        if arguments.iter().any(|word| word.contains('\0')) {
            return Err("there is a zero byte in 'arguments'".to_owned());
        }
        Ok(Self {
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            patience,
            turn: Arc::clone(turn),
        })
    }

    fn start(&self, notice: &Notice) -> io::Result<(Child, PipeReader)> {
        let (output, theirs) = io::pipe()?;
        let path = env::var_os("PATH").unwrap_or_else(|| PATH.into());
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .env("PATH", path)
            .env("HOWDAH_NOTICE", &notice.id)
            .env("HOWDAH_EVENT", &notice.kind)
            .env("HOWDAH_JOB", notice.data.job.to_string())
            .current_dir("/")
            .stdin(input(&notice.json())?)
            .stdout(theirs.try_clone()?)
            .stderr(theirs)
            // What it starts ends with it.
            .process_group(0)
            .spawn()?;
        Ok((child, output))
    }
}

/// A file that nobody else sees: a pipe that nobody reads would hold this up.
fn input(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("howdah-notice", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.rewind()?;
    Ok(file)
}

impl Receiver for Hook {
    fn tell(&mut self, notice: &Notice, _: &Runtime) -> Result<String, NotTaken> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let started = self.start(notice);
        let (mut child, output) = started
            .map_err(|error| NotTaken::new(FEW, format!("could not be started: {error}")))?;
        let group = Pid::from_child(&child);
        let heard = pidfd_open(group, PidfdFlags::empty())
            .map_err(io::Error::from)
            .and_then(|handle| listen(output, &handle, self.patience));
        // Its number is its own until it is waited for.
        let _ = kill_process_group(group, Signal::KILL);
        let status = child.wait();
        let failed = |error: io::Error| NotTaken::new(ONCE, format!("was lost: {error}"));
        let (said, in_time) = heard.map_err(failed)?;
        judge(status.map_err(failed)?, &said, in_time, self.patience)
    }
}

/// What it says, until it ends (true) or its time does.
fn listen(
    mut output: PipeReader,
    handle: &OwnedFd,
    patience: Duration,
) -> io::Result<(Vec<u8>, bool)> {
    let end = Instant::now() + patience;
    let mut said = Vec::new();
    let mut part = [0; 4096];
    let mut open = true;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).unwrap_or_default();
        let ended = PollFd::new(handle, PollFlags::IN);
        let heard = PollFd::new(&output, PollFlags::IN);
        let mut both = [ended, heard];
        let looked = if open { &mut both[..] } else { &mut both[..1] };
        match poll(looked, Some(&left)) {
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            Ok(0) => return Ok((said, false)),
            Ok(_) => {}
        }
        let [ended, heard] = both.map(|each| !each.revents().is_empty());
        if open && heard {
            let n = output.read(&mut part)?;
            open = n > 0;
            let room = OUTPUT - said.len();
            said.extend_from_slice(&part[..n.min(room)]);
            // One that ends has said all; one that says too much has its time.
            if !ended || said.len() < OUTPUT && open {
                if Instant::now() < end {
                    continue;
                }
                return Ok((said, ended));
            }
        }
        if ended {
            return Ok((said, true));
        }
    }
}

fn judge(
    status: ExitStatus,
    said: &[u8],
    in_time: bool,
    patience: Duration,
) -> Result<String, NotTaken> {
    let said = String::from_utf8_lossy(said);
    let said = plain(said.trim_end(), OUTPUT);
    let with = |text: String| match said.as_str() {
        "" => text,
        said => format!("{text}; it says: {said}"),
    };
    let (tries, why) = match (in_time, status.code(), status.signal()) {
        (true, Some(0), _) => return Ok(said),
        (true, Some(code), _) => {
            let tries = if code == LATER { FEW } else { ONCE };
            (tries, format!("ended with code {code}"))
        }
        (true, None, signal) => (
            ONCE,
            format!("was ended by signal {}", signal.unwrap_or_default()),
        ),
        (false, ..) => (
            ONCE,
            format!("was not done in {} s, and was ended", patience.as_secs()),
        ),
    };
    Err(NotTaken::new(tries, with(why)))
}

#[cfg(test)]
mod tests {
    use super::super::notice::tests::happening;
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn tell(script: &str, patience: Duration) -> Result<String, NotTaken> {
        let arguments = ["-c", script].map(str::to_owned);
        let turn = Arc::default();
        let mut hook = Hook::new(Path::new("/bin/sh"), &arguments, patience, &turn).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        hook.tell(
            &Notice::new("0", &happening("failed", &["a", "h:b"])),
            &runtime,
        )
    }

    const LONG: Duration = Duration::from_mins(2);

    #[test]
    fn it_gets_the_notice_and_an_environment_of_its_own() {
        let said = tell("cat; env | cut -d= -f1 | sort | tr '\\n' ' '; pwd", LONG).unwrap();
        let (json, rest) = said.split_at(said.rfind('}').unwrap() + 1);
        let value: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(value["data"]["job"], 12);
        let names: Vec<_> = rest.split_whitespace().collect();
        // The shell's own are among them.
        let own = ["PWD", "OLDPWD", "SHLVL", "_", "/"];
        let given: Vec<_> = names.iter().filter(|name| !own.contains(*name)).collect();
        let wanted = ["HOWDAH_EVENT", "HOWDAH_JOB", "HOWDAH_NOTICE", "PATH"];
        assert_eq!(given, wanted.iter().collect::<Vec<_>>());
        let said = tell("echo $HOWDAH_EVENT $HOWDAH_JOB $HOWDAH_NOTICE", LONG).unwrap();
        assert_eq!(said, "job.failed 12 howdah_0_41");
    }

    #[test]
    fn its_end_is_understood_and_what_it_says_is_bounded() {
        assert_eq!(tell("exit 0", LONG).unwrap(), "");
        let error = tell("echo no >&2; exit 3", LONG).unwrap_err();
        assert_eq!(error.tries, ONCE);
        assert_eq!(error.why, "ended with code 3; it says: no");
        assert_eq!(tell("exit 75", LONG).unwrap_err().tries, FEW);
        let error = tell("kill -9 $$", LONG).unwrap_err();
        assert_eq!(error.why, "was ended by signal 9");
        let said = tell("printf 'a\\033[2J\\r\\nb'", LONG).unwrap();
        assert_eq!(said, "a [2J  b");
        let much = tell("head -c 300000 /dev/zero | tr '\\0' x", LONG).unwrap();
        assert_eq!(much.len(), OUTPUT);
        // Nothing is read of what it is told, and its output is closed.
        assert_eq!(tell("exec <&- >&- 2>&-; exit 0", LONG).unwrap(), "");
    }

    #[test]
    fn it_has_its_time_and_leaves_nobody_behind() {
        for script in ["sleep 1000", "yes", "exec >&- 2>&-; sleep 1000"] {
            let error = tell(script, Duration::from_millis(100)).unwrap_err();
            assert!(error.why.contains("was not done in"), "{error:?}");
            assert_eq!(error.tries, ONCE);
        }
        // Whoever holds on to its output holds nobody up, and is ended.
        let said = tell("sleep 1000 & echo $!", LONG).unwrap();
        let pid: i32 = said.parse().unwrap();
        let left = Pid::from_raw(pid).unwrap();
        let end = Instant::now() + LONG;
        let is_there = || {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            rustix::process::test_kill_process(left).is_ok() && !stat.contains(") Z")
        };
        while is_there() {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
    }

    #[test]
    fn what_is_no_program_of_the_administrators_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hook");
        let new = |path: &Path| {
            let made = Hook::new(path, &[], LONG, &Arc::default());
            made.err().unwrap_or_default()
        };
        assert!(new(Path::new("hook")).contains("whole path"));
        assert!(new(&path).contains("cannot be run"));
        assert!(new(dir.path()).contains("is no program"));
        fs::write(&path, "#!/bin/sh\n").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert!(new(&path).contains("chmod +x"));
        mode(0o757);
        assert!(new(&path).contains("chmod o-w"));
        mode(0o755);
        assert_eq!(new(&path), "");
    }
}
