//! The client that other programs begin with.

use crate::support;
use howdah::{Cancel, Client, ErrorKind, Identity, Location, Log, Server, Trust};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// A server of a directory, and a client that may come in.
struct Site {
    dir: tempfile::TempDir,
    client: Client,
    address: String,
    stop: Cancel,
    serving: Option<JoinHandle<()>>,
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let (ours, theirs) = (identity(), identity());
        let trust = Trust::Exactly(*theirs.public_key());
        let root = dir.path().join("site");
        fs::create_dir(&root).expect("a directory");
        let server: Server = support::server(&root, &[&ours], theirs, Log::default());
        let address = format!("howdah://{}/", server.local_addr());
        let stop = Cancel::new();
        let switch = stop.clone();
        Self {
            client: Client::new(ours).trust(trust),
            dir,
            address,
            stop,
            serving: Some(std::thread::spawn(move || {
                server.run(&switch).expect("a server that ends well");
            })),
        }
    }

    fn here(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn there(&self, name: &str) -> String {
        format!("{}{name}", self.address)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn identity() -> Identity {
    Identity::generate().expect("a key")
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
    fs::write(path, content).expect("a file");
}

#[test]
fn it_copies_mirrors_and_compares() {
    let site = Site::new();
    write(&site.here("one"), &vec![1; 100_000]);
    let copy = site.client.copy(site.here("one"), site.there("one"));
    assert_eq!(copy.run().expect("a copy").bytes, 100_000);
    assert_eq!(
        fs::read(site.here("site/one")).expect("it"),
        vec![1; 100_000]
    );

    write(&site.here("a/x"), b"x");
    write(&site.here("b/y"), b"y");
    let both = [site.here("a"), site.here("b")];
    fs::create_dir(site.here("site/both")).expect("a directory");
    let summary = site.client.copy_tree(both, site.there("both")).run();
    assert_eq!(summary.expect("a copy").tree.expect("a tree").files, 2);
    assert_eq!(fs::read(site.here("site/both/b/y")).expect("it"), b"y");

    let compare = || {
        let pair = site.client.verify(site.here("a"), site.there("mirror"));
        pair.options(|options| options.checksum = true)
    };
    write(&site.here("site/mirror/extra"), b"extra");
    let found = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&found);
    let differs = compare().on_difference(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert!(!differs.run().expect("a comparison").equal);
    assert_eq!(found.load(Ordering::Relaxed), 2);
    let mirror = site.client.sync(site.here("a"), site.there("mirror"));
    mirror
        .options(|options| options.delete = true)
        .run()
        .expect("a mirror");
    assert!(compare().run().expect("a comparison").equal);
}

#[test]
fn what_fails_says_of_what_kind_it_is() {
    let site = Site::new();
    write(&site.here("one"), b"1");
    let kind = |copy: howdah::Transfer| copy.run().expect_err("no copy").kind();
    let client = &site.client;
    // Nothing is where it should be, or written as it should be.
    let nowhere = client.copy(site.here("nothing"), site.there("x"));
    assert_eq!(kind(nowhere), ErrorKind::NotFound);
    let wrong = client.copy(site.here("one"), "howdah://");
    assert_eq!(kind(wrong), ErrorKind::Usage);
    let here_only = client.copy(site.here("one"), site.here("two"));
    assert_eq!(kind(here_only), ErrorKind::Usage);
    let none = client.copy_tree(Vec::<Location>::new(), site.there("x"));
    assert_eq!(kind(none), ErrorKind::Usage);
    // A path is a file of this machine, whatever it looks like.
    let odd = Path::new("howdah://nowhere/x");
    let odd = client.copy(odd, site.there("x"));
    assert_eq!(kind(odd), ErrorKind::NotFound);
    // Neither side believes a stranger.
    let stranger = client.clone().trust(Trust::Strict);
    let refused = stranger.copy(site.here("one"), site.there("x"));
    assert_eq!(kind(refused), ErrorKind::Auth);
    let unknown = Client::new(identity()).trust(Trust::AcceptNew);
    let refused = unknown.copy(site.here("one"), site.there("x"));
    assert_eq!(kind(refused), ErrorKind::Auth);
    // Who is accepted without a file to put that in is accepted all the same.
    let trusting = client.clone().trust(Trust::AcceptNew);
    let copy = trusting.copy(site.here("one"), site.there("accepted"));
    assert_eq!(copy.run().expect("a copy").bytes, 1);
    // Thrown before it begins.
    let cancel = Cancel::new();
    cancel.cancel();
    let ended = client
        .copy(site.here("one"), site.there("x"))
        .cancel(&cancel);
    assert_eq!(kind(ended), ErrorKind::Cancelled);
    assert!(!site.here("site/x").exists());
}

/// A message that is longer than it may be is a fault.
#[test]
fn a_path_that_is_longer_than_any_is_an_error() {
    let site = Site::new();
    write(&site.here("one"), b"1");
    let long = site.there(&"x".repeat(70_000));
    let client = &site.client;
    let copies = [
        client.copy(site.here("one"), &*long),
        client.copy(&*long, site.here("two")),
        client.copy_tree([site.here("one")], &*long),
        client.copy_tree([&*long], site.here("two")),
    ];
    for copy in copies {
        let error = copy.run().expect_err("no copy");
        assert_eq!(error.kind(), ErrorKind::Usage, "{error:.200}");
    }
}

#[cfg(feature = "tokio")]
#[test]
fn a_copy_that_nobody_waits_for_ends() {
    let site = Site::new();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build();
    let runtime = runtime.expect("a runtime");
    write(&site.here("one"), b"1");
    let copy = site.client.copy(site.here("one"), site.there("one"));
    assert_eq!(runtime.block_on(copy.start()).expect("a copy").bytes, 1);
    // Without an end, until its future is dropped.
    let (begun, heard) = std::sync::mpsc::channel();
    let endless = site.client.copy("zero:1000000000000", site.there("null:"));
    let cancel = Cancel::new();
    let endless = endless.cancel(&cancel).on_progress(move |now| {
        if now.bytes > 0 {
            let _ = begun.send(());
        }
    });
    let task = runtime.spawn(endless.start());
    heard.recv().expect("it has begun");
    task.abort();
    let ended = runtime.block_on(task).expect_err("it was dropped");
    assert!(ended.is_cancelled() && cancel.is_cancelled());
    // The runtime waits for threads that block.
    drop(runtime);
}
