//! Who is who, from outside of the sandbox: a process that does nothing else.
//!
//! What a system knows of its users may lie in any file and behind any socket (nsswitch.conf(5)), so whoever asks for it can be
//! kept from nothing. A question has a byte for its kind, two for its length, and a name or a number in decimal; an answer has the same
//! shape, and nothing in it if nobody is called so.

use howdah_tree::accounts::{self, Accounts};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};

/// Longer names are nobody's.
const LONGEST: usize = 512;

const GROUP: u8 = 1;
const NUMBER: u8 = 2;

/// The process, as whoever asks it sees it. It ends with this one.
#[derive(Debug)]
pub struct Names(Mutex<(Child, ChildStdin, ChildStdout)>);

impl Names {
    /// Starts it: this program once more, which runs [`answer`] on its standard streams. Then everybody in this process asks
    /// it.
    pub fn ask() -> io::Result<()> {
        let mut command = Command::new(own_program()?);
        command.args(["internal", "names"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // Where so few threads are allowed that it takes the place of the last one, the copies need that more.
        let thread = std::thread::Builder::new().spawn(|| ());
        if let Err(error) = thread.map(std::thread::JoinHandle::join) {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
        let names = Self(Mutex::new((child, questions, answers)));
        accounts::ask(Box::new(names));
        Ok(())
    }

    fn question(&self, kind: u8, about: &[u8]) -> io::Result<Vec<u8>> {
        let mut streams = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, questions, answers) = &mut *streams;
        tell(questions, kind, about)?;
        let (_, answer) = hear(answers)?;
        Ok(answer)
    }
}

/// This program; where there is no /proc to tell, as it was called.
fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        let called = std::env::args_os().next().map(PathBuf::from);
        let called = called.ok_or(error)?;
        if called.components().nth(1).is_some() {
            return Ok(called);
        }
        let dirs = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&dirs).map(|dir| dir.join(&called));
        let mut found = found.filter(|program| program.is_file());
        found.next().ok_or_else(|| io::ErrorKind::NotFound.into())
    })
}

impl Accounts for Names {
    fn id_of(&self, group: bool, name: &str) -> Option<u32> {
        let kind = if group { GROUP } else { 0 };
        let answer = self.question(kind, name.as_bytes()).ok()?;
        std::str::from_utf8(&answer).ok()?.parse().ok()
    }

    fn name_of(&self, group: bool, id: u32) -> Option<Vec<u8>> {
        let kind = if group { GROUP } else { 0 } | NUMBER;
        let answer = self.question(kind, id.to_string().as_bytes()).ok()?;
        (!answer.is_empty()).then_some(answer)
    }
}

/// A thread that looks them up, and was started where nothing is kept from it.
struct Thread(Mutex<Sender<Question>>);

enum Question {
    Id(bool, String, Sender<Option<u32>>),
    Name(bool, u32, Sender<Option<Vec<u8>>>),
}

/// Has a thread of this process asked from now on, which is kept from no more than the caller is.
pub fn ask_a_thread() -> io::Result<()> {
    static STARTED: Mutex<bool> = Mutex::new(false);
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if *started {
        return Ok(());
    }
    let (ask, asked) = channel();
    let look = move || {
        // Whoever asked may have gone.
        for question in asked {
            match question {
                Question::Id(group, name, tell) => {
                    let _ = tell.send(accounts::id_by_system(group, &name));
                }
                Question::Name(group, id, tell) => {
                    let _ = tell.send(accounts::name_by_system(group, id));
                }
            }
        }
    };
    let thread = std::thread::Builder::new().name("howdah-names".to_owned());
    thread.spawn(look)?;
    accounts::ask(Box::new(Thread(Mutex::new(ask))));
    *started = true;
    Ok(())
}

impl Thread {
    fn question<T>(&self, question: impl FnOnce(Sender<Option<T>>) -> Question) -> Option<T> {
        let (tell, answer) = channel();
        let ask = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ask.send(question(tell)).ok()?;
        drop(ask);
        answer.recv().ok()?
    }
}

impl Accounts for Thread {
    fn id_of(&self, group: bool, name: &str) -> Option<u32> {
        self.question(|tell| Question::Id(group, name.to_owned(), tell))
    }

    fn name_of(&self, group: bool, id: u32) -> Option<Vec<u8>> {
        self.question(|tell| Question::Name(group, id, tell))
    }
}

fn tell(to: &mut impl Write, kind: u8, text: &[u8]) -> io::Result<()> {
    let text = text.get(..LONGEST.min(text.len())).unwrap_or_default();
    let length = u16::try_from(text.len()).unwrap_or(0);
    let mut bytes = vec![kind];
    bytes.extend(length.to_be_bytes());
    bytes.extend(text);
    to.write_all(&bytes)?;
    to.flush()
}

fn hear(from: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 3];
    from.read_exact(&mut head)?;
    let [kind, high, low] = head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    Ok((kind, text))
}

/// Answers questions until there are no more.
pub fn answer(mut questions: impl Read, mut answers: impl Write) -> io::Result<()> {
    loop {
        let (kind, about) = match hear(&mut questions) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            heard => heard?,
        };
        let group = kind & GROUP != 0;
        let text = str::from_utf8(&about).unwrap_or_default();
        let answer = if kind & NUMBER != 0 {
            let id = text.parse().ok();
            id.and_then(|id| accounts::name_of(group, id))
        } else {
            let id = accounts::id_of(group, text);
            id.map(|id| id.to_string().into_bytes())
        };
        tell(&mut answers, kind, &answer.unwrap_or_default())?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_asked_once_there_is_one() {
        ask_a_thread().expect("a thread");
        ask_a_thread().expect("the same one");
        assert_eq!(accounts::id_of(false, "root"), Some(0));
        assert_eq!(accounts::name_of(false, 0), Some(b"root".to_vec()));
        assert_eq!(accounts::id_of(true, "nobody-is-called-so"), None);
    }

    #[test]
    fn questions_are_answered_in_turn_and_nonsense_ends_it() {
        let mut questions = Vec::new();
        tell(&mut questions, 0, b"root").expect("memory");
        tell(&mut questions, NUMBER, b"0").expect("memory");
        tell(&mut questions, GROUP, b"nobody-is-called-so").expect("memory");
        let mut answers = Vec::new();
        answer(&*questions, &mut answers).expect("answered");
        let mut answers = &*answers;
        let mut next = || hear(&mut answers).expect("an answer").1;
        assert_eq!(next(), b"0");
        assert_eq!(next(), b"root");
        assert_eq!(next(), b"");
        let too_long = [0, 0xff, 0xff];
        assert!(answer(&too_long[..], Vec::new()).is_err());
    }
}
