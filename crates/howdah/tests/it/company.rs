//! A server with hostile company: of each kind there is somebody who sends a thousand packets a second, while somebody else copies
//! a file there and back. The copies are done, their sessions have the turns of the server's loop that they want, a turn is no
//! longer for the company, and nobody has more sent to him than he sent.

use crate::hostile;
use crate::hostile::Stage;
use crate::hostile::forgers::{FORGERIES, forge, wander};
use crate::hostile::talkers::{SPEECHES, talk};
use crate::support;
use howdah::{Cancel, CopyConfig, Identity, KnownHosts, Location, Log, Transport, Trust, copy};
use howdah_core::Span;
use howdah_net::TurnCounts;
use howdah_proto::KnockKey;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::time::Instant;

const SIZE: usize = 2_000_000;
/// What is looked at for others in one turn: as many buffers as a turn reads, and as many as lie there before; whoever is
/// greeted at the door, and four connections of a key.
const MOST_FOR_OTHERS: u64 = 64 + 64 + 256 + 4;

/// Somebody who copies a file to the server and back.
struct Copies<'a> {
    both_ways: &'a (dyn Fn() + Sync),
    turns: &'a TurnCounts,
    /// Of the key that copies.
    group: u64,
}

impl Copies<'_> {
    /// Does it while `company` does its worst; what that says of itself.
    fn beside<T: Send>(&self, what: &str, company: impl FnOnce(&Stage) -> T + Send) -> T {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let stage = Stage::new(begun);
        self.turns.take();
        let (said, done, took) = std::thread::scope(|scope| {
            let company = scope.spawn(|| company(&stage));
            // If it never begins it has ended, which shows below.
            let _ = has_begun.recv();
            let began = Instant::now();
            let done = catch_unwind(AssertUnwindSafe(self.both_ways));
            let took = began.elapsed();
            stage.stop();
            (company.join().expect("no panic"), done, took)
        });
        assert!(done.is_ok(), "beside {what}");
        let counts = self.turns.take();
        let turns = counts.get(&self.group).copied().unwrap_or_default();
        println!(
            "beside {what}: {took:?}, {} turns had, {} missed, at most {} for others in one",
            turns.had, turns.missed, turns.most_for_others
        );
        assert!(turns.had > 0, "beside {what}: nobody was seen to copy");
        assert!(turns.share() >= 0.9, "beside {what}: {turns:?}");
        assert!(
            turns.most_for_others <= MOST_FOR_OTHERS,
            "beside {what}: {turns:?}"
        );
        said
    }
}

#[test]
fn h4_h10_h11_a_copy_is_done_in_any_company() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
    let key = || Identity::generate().expect("a key");
    let (ours, hostile, theirs, stranger) = (key(), key(), key(), key());
    let shown = *theirs.public_key();
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let log = Log::new(move |line| kept.lock().expect("no panic").push(line.to_owned()));
    let mut server = support::server(dir.path(), &[&ours, &hostile], theirs, log);
    let turns = server.count_turns();
    let target = server.local_addr();
    let content: Vec<u8> = (0..SIZE).map(|n| (n * 31 % 251) as u8).collect();
    let file = dir.path().join("here");
    std::fs::write(&file, &content).expect("a file");
    let both_ways = || {
        let mut config = CopyConfig::new(ours.clone(), KnownHosts::default());
        config.trust = Trust::Exactly(shown);
        config.transport = Transport::Udp;
        config.idle_timeout = Span::from_secs(60);
        let there: Location = format!("howdah://{target}/there").parse().expect("a place");
        let here = Location::File(file.clone());
        let back = Location::File(dir.path().join("back"));
        for (from, to) in [(&here, &there), (&there, &back)] {
            let done = copy(from, to, &config, &Cancel::new(), &mut |_| {});
            assert_eq!(done.expect("it is done").bytes, SIZE as u64);
        }
        let back = std::fs::read(dir.path().join("back"));
        assert_eq!(back.expect("there"), content);
    };
    let knock = Some(KnockKey::of(shown.spki_der()));
    let (knowing, unknowing) = (
        hostile::config(&stranger, knock),
        hostile::config(&stranger, None),
    );
    let inside = hostile::config(&hostile, knock);
    let lines = || lines.lock().expect("no panic").clone();
    let stop_server = Cancel::new();
    std::thread::scope(|scope| {
        let running = scope.spawn(|| server.run(&stop_server));
        let result = catch_unwind(AssertUnwindSafe(|| {
            both_ways();
            // Who comes in is of the group of its key, and so far there is one.
            let groups = turns.take().into_keys().filter(|group| group >> 63 == 1);
            let groups: Vec<_> = groups.collect();
            let [group] = groups[..] else {
                panic!("one key has copied: {groups:?}")
            };
            let copies = Copies {
                both_ways: &both_ways,
                turns: &turns,
                group,
            };
            for (what, words) in hostile::strangers::callers(target, knowing.clone()) {
                let call = |stage: &Stage| hostile::strangers::call(target, stage, words);
                let came = copies.beside(what, call);
                println!("{what}: {came} connections");
            }
            for (what, words) in hostile::strangers::kinds(target, knowing, unknowing) {
                let say = |stage: &Stage| hostile::strangers::say(target, stage, words);
                let (sent, heard) = copies.beside(what, say);
                assert!(heard <= sent, "{what}: {sent} bytes brought {heard}");
            }
            let few_lines = |what: &str, before: usize, entered: u64| {
                let said = lines().split_off(before);
                println!(
                    "{what}: came in {entered} times, {} lines of the log",
                    said.len()
                );
                // Connected, what was wrong up to eight times, gone; and those of the copies.
                let few = 12 * (entered as usize + 3);
                assert!(
                    said.len() <= few,
                    "{what}: came in {entered} times: {said:#?}"
                );
            };
            for forgery in &FORGERIES {
                let before = lines().len();
                let forge = |stage: &Stage| forge(target, stage, &inside, forgery);
                let entered = copies.beside(forgery.what, forge);
                few_lines(forgery.what, before, entered);
            }
            let (what, before) = ("who comes from everywhere", lines().len());
            let wander = |stage: &Stage| wander(target, stage, &inside);
            let entered = copies.beside(what, wander);
            few_lines(what, before, entered);
            // These come last: what they leave unfinished keeps the disk busy for a while.
            for speech in &SPEECHES {
                let before = lines().len();
                let talk = |stage: &Stage| talk(target, stage, &inside, speech);
                let entered = copies.beside(speech.what, talk);
                few_lines(speech.what, before, entered);
            }
        }));
        stop_server.cancel();
        running.join().expect("no panic").expect("a server");
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    });
}
