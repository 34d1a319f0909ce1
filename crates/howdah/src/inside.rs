//! The part of a copy that hears the network runs on a thread that is kept from the rest of the machine, as are all threads that
//! it starts. What it needs of the rest is done outside, by whoever started it: people are told and asked there, and a
//! connection that is lost is made again.

use crate::keys::{KnownHosts, PublicKey, Trust};
use crate::sandbox::Sandbox;
use crate::{CopyConfig, Error, ErrorKind, Progress};
use howdah_store::Wake;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;

/// Does `work`, whose threads are in the sandbox for good if there is one; the caller is not.
pub(crate) fn with_threads_in<T: Send>(
    sandbox: Option<&Sandbox>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    let Some(sandbox) = sandbox else {
        return Ok(work());
    };
    std::thread::scope(|scope| {
        let begin = move || {
            // What the kernel lacks is said by others.
            let _ = sandbox.enter();
            work()
        };
        let thread = Builder::new().spawn_scoped(scope, begin);
        let joined = thread.map_err(no_thread)?.join();
        joined.map_err(|panic| resume_unwind(panic))
    })
}

/// What is said to the outside.
enum Word {
    Progress(Box<Progress>),
    Judge(Question),
    /// Nobody is inside any more.
    Over,
}

/// Whether a server's key is the right one.
struct Question {
    key: PublicKey,
    tell: Sender<Result<(), Error>>,
    wake: Wake,
}

/// Speaks to the outside.
#[derive(Clone, Debug)]
pub(crate) struct Teller(Sender<Word>);

impl Teller {
    pub(crate) fn progress(&self, progress: &Progress) {
        // If nobody listens any more, all is over.
        let _ = self.0.send(Word::Progress(Box::new(progress.clone())));
    }

    /// Has a server's key compared with what is on record, which may take a person. `wake` is called when that is told.
    pub(crate) fn judge(&self, key: PublicKey, wake: Wake) -> Receiver<Result<(), Error>> {
        let (tell, judgement) = channel();
        let _ = self.0.send(Word::Judge(Question { key, tell, wake }));
        judgement
    }
}

/// Says that it is over, also in a panic.
struct Last(Sender<Word>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.send(Word::Over);
    }
}

/// Whoever stays outside.
pub(crate) struct Outside<'a> {
    config: &'a CopyConfig,
    peer: (String, u16),
    on_progress: &'a mut dyn FnMut(&Progress),
    tell: Sender<Word>,
    words: Receiver<Word>,
    /// What the kernel lacks has been said.
    said: bool,
}

impl<'a> Outside<'a> {
    pub(crate) fn new(
        config: &'a CopyConfig,
        peer: (String, u16),
        on_progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let (tell, words) = channel();
        Self {
            config,
            peer,
            on_progress,
            tell,
            words,
            said: false,
        }
    }

    pub(crate) fn teller(&self) -> Teller {
        Teller(self.tell.clone())
    }

    /// Runs `work` on a thread of its own, in the sandbox if there is one, and does meanwhile what that thread says.
    pub(crate) fn run<T: Send>(
        &mut self,
        sandbox: Option<&Sandbox>,
        work: impl FnOnce() -> T + Send,
    ) -> Result<T, Error> {
        let (config, last) = (self.config, Last(self.tell.clone()));
        let tells = config.ssh.wordy && !std::mem::replace(&mut self.said, true);
        let begin = move || {
            let _last = last;
            if let Some(sandbox) = sandbox {
                let lacking = sandbox.enter();
                for line in lacking.iter().filter(|_| tells) {
                    config.heard.line(line);
                }
            }
            work()
        };
        std::thread::scope(|scope| {
            let thread = Builder::new().name("howdah-inside".to_owned());
            let thread = thread.spawn_scoped(scope, begin).map_err(no_thread)?;
            while let Ok(word) = self.words.recv() {
                match word {
                    Word::Over => break,
                    word => self.hear(word),
                }
            }
            thread.join().map_err(|panic| resume_unwind(panic))
        })
    }

    /// The last words.
    pub(crate) fn end(mut self) {
        while let Ok(word) = self.words.try_recv() {
            self.hear(word);
        }
    }

    fn hear(&mut self, word: Word) {
        match word {
            Word::Progress(progress) => (self.on_progress)(&progress),
            Word::Judge(question) => self.judge(question),
            Word::Over => {}
        }
    }

    /// On a thread of its own: asking somebody takes long, and the connection must be kept alive meanwhile.
    fn judge(&self, question: Question) {
        let (known, trust) = (self.config.known_hosts.clone(), self.config.trust.clone());
        let (peer, tell) = (self.peer.clone(), question.tell.clone());
        let judge = move || question.answer(known, &peer, &trust);
        let thread = Builder::new().name("howdah-trust".to_owned());
        if let Err(error) = thread.spawn(judge) {
            let _ = tell.send(Err(no_thread(error)));
        }
    }
}

impl Question {
    fn answer(self, mut known: KnownHosts, (host, port): &(String, u16), trust: &Trust) {
        let result = known.verify(host, *port, &self.key, trust);
        // Whoever asked may have given up.
        let _ = self.tell.send(result.map_err(Error::from));
        (self.wake)();
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn no_thread(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot start a thread: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Identity;

    #[test]
    fn whoever_is_inside_is_heard_and_a_panic_is_the_callers() {
        let identity = Identity::generate().expect("a key");
        let config = CopyConfig::new(identity, KnownHosts::default());
        let mut heard = Vec::new();
        let mut on_progress = |progress: &Progress| heard.push(progress.bytes);
        let mut outside = Outside::new(&config, ("host".to_owned(), 1), &mut on_progress);
        let teller = outside.teller();
        let tell = |bytes| {
            teller.progress(&Progress {
                bytes,
                ..Progress::default()
            });
        };
        let result = outside.run(None, || {
            tell(1);
            let key = *config.identity.public_key();
            // Nobody is on record, and nobody may be asked.
            teller.judge(key, std::sync::Arc::new(|| ())).recv()
        });
        assert!(matches!(result, Ok(Ok(Err(_)))), "{result:?}");
        let mut panics = || outside.run(None, || -> u8 { panic!("inside") });
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut panics));
        assert!(caught.is_err());
        assert_eq!(outside.run(None, || 7).expect("a thread"), 7);
        tell(2);
        outside.end();
        assert_eq!(heard, [1, 2]);
    }
}
