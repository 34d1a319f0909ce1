//! Sessions that stay open for single files.

use howdah::{
    AuthorizedKeys, Cancel, Client, Error, ErrorKind, FileKind, Files, FilesAnswer, FilesRequest,
    Identity, Log, Server, ServerConfig, Trust,
};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A server of a directory, for a key with those options.
struct Site {
    dir: tempfile::TempDir,
    client: Client,
    address: String,
    stop: Cancel,
    said: Arc<Mutex<Vec<String>>>,
    serving: Option<JoinHandle<()>>,
}

impl Site {
    fn new(options: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = dir.path().join("site");
        fs::create_dir(&root).expect("a directory");
        let (ours, theirs) = (identity(), identity());
        let trust = Trust::Exactly(*theirs.public_key());
        let list = dir.path().join("keys");
        fs::write(&list, format!("{options} {}\n", ours.public_key())).expect("a list");
        let keys = AuthorizedKeys::load(&list).expect("keys");
        let listen = (std::net::Ipv4Addr::LOCALHOST, 0).into();
        let mut config = ServerConfig::new(&root, listen, theirs, keys);
        let said = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&said);
        config.log = Log::new(move |line| hears.lock().expect("no panic").push(line.to_owned()));
        let server = Server::bind(config).expect("a server");
        let address = format!("howdah://{}/", server.local_addr());
        let stop = Cancel::new();
        let switch = stop.clone();
        Self {
            client: Client::new(ours).trust(trust),
            dir,
            address,
            stop,
            said,
            serving: Some(std::thread::spawn(move || {
                server.run(&switch).expect("a server that ends well");
            })),
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join("site").join(name)
    }

    fn put(&self, name: &str, content: &[u8]) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(path, content).expect("a file");
    }

    fn open(&self) -> Files {
        self.client.open(&*self.address).expect("a session")
    }

    /// Waits until the server has said that.
    fn hears(&self, part: &str) {
        let end = Instant::now() + Duration::from_mins(1);
        while !self.has_said(part) {
            let said = self.said.lock().expect("no panic").clone();
            assert!(Instant::now() < end, "{part:?} is not in {said:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn has_said(&self, part: &str) -> bool {
        let said = self.said.lock().expect("no panic");
        said.iter().any(|line| line.contains(part))
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

/// Bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32)
        .flat_map(u32::to_le_bytes)
        .take(len)
        .collect()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.expect_err("a refusal").kind()
}

fn read(files: &Files, path: &str, range: (u64, u64)) -> Result<Vec<u8>, Error> {
    files
        .read_ranges([(path, None, range)])
        .pop()
        .expect("an answer")
}

#[test]
fn files_are_listed_looked_at_and_read_in_one_session() {
    let site = Site::new("");
    let content = pattern(3_000_001);
    site.put("data/big", &content);
    site.put("data/small", b"small");
    fs::create_dir(site.at("data/dir")).expect("a directory");
    let files = site.open();
    let mut listed = files.list("data").expect("a list");
    listed.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
    let listed: Vec<_> = listed
        .iter()
        .map(|entry| {
            (
                entry.name.to_string(),
                entry.info.kind,
                entry.info.version.size,
            )
        })
        .collect();
    assert_eq!(listed[0], ("big".to_owned(), FileKind::File, 3_000_001));
    assert_eq!(listed[1].1, FileKind::Directory);
    assert_eq!(listed[2].2, 5);
    let info = files.stat("data/big").expect("it is there");
    assert_eq!(files.stat("").expect("the root").kind, FileKind::Directory);
    assert_eq!(files.stat("data/").expect("it").kind, FileKind::Directory);
    assert_eq!(kind(files.stat("none")), ErrorKind::NotFound);
    // Thousands of ranges, with others that fail in between.
    let ranges: Vec<(u64, u64)> = (0..3_000u64)
        .map(|n| (n * 997 % 2_900_000, 700 + n))
        .collect();
    let wanted = ranges
        .iter()
        .map(|&range| ("data/big", Some(info.version), range));
    let answers = files.read_ranges(wanted.chain([("none", None, (0, 1)), ("data", None, (0, 1))]));
    for (&(start, len), answer) in ranges.iter().zip(&answers) {
        let (start, end) = (start as usize, ((start + len) as usize).min(content.len()));
        assert!(answer.as_ref().expect("bytes")[..] == content[start..end]);
    }
    assert_eq!(kind(answers[3_000].clone()), ErrorKind::NotFound);
    assert_eq!(kind(answers[3_001].clone()), ErrorKind::Refused);
    let blake3 = files.hash("data/big").expect("a hash");
    assert_eq!(blake3, *blake3::hash(&content).as_bytes());
    files.close();
    site.hears("files \"\" \"data\" \"data/\" \"data/big\" \"none\" done,");
}

/// A71: no range reaches beyond its file, however it is written.
#[test]
fn a71_ranges_past_the_end_are_short_and_too_many_are_refused() {
    let site = Site::new("");
    site.put("ten", b"0123456789");
    let files = site.open();
    for (range, expected) in [
        ((0, 0), &b""[..]),
        ((8, 100), b"89"),
        ((10, 1), b""),
        ((u64::MAX, u64::MAX), b""),
        ((3, u64::MAX), b"3456789"),
    ] {
        assert_eq!(read(&files, "ten", range).expect("bytes"), expected);
    }
    let many = FilesRequest::Read {
        path: "ten".into(),
        version: None,
        ranges: vec![(0, 1); 1_025],
    };
    assert_eq!(
        kind(files.answers([many]).pop().expect("one")),
        ErrorKind::Usage
    );
    // A hundred thousand that overlap: each is answered, and no more is open at a time than may be.
    let all = files.read_ranges((0..100_000u64).map(|n| ("ten", None, (n % 9, 2))));
    for (n, bytes) in (0..).zip(all) {
        let start = n % 9;
        assert_eq!(bytes.expect("bytes"), &b"0123456789"[start..start + 2]);
    }
}

/// A72: what is read is one version of a file.
#[test]
fn a72_a_file_that_changes_or_shrinks_is_told() {
    let site = Site::new("");
    site.put("log", &pattern(1_000_000));
    let files = site.open();
    let version = files.stat("log").expect("it").version;
    let again = || {
        files
            .read_ranges([("log", Some(version), (0, 10))])
            .pop()
            .expect("one")
    };
    assert!(again().is_ok());
    let mut log = fs::OpenOptions::new()
        .append(true)
        .open(site.at("log"))
        .expect("it");
    log.write_all(b"more").expect("written");
    let error = again().expect_err("another version");
    assert_eq!(error.kind(), ErrorKind::SourceChanged);
    assert!(
        error
            .to_string()
            .contains("1000000 bytes and has 1000004 now"),
        "{error}"
    );
    // One that shrinks while it is read: much more than what is on its way has to be read from it.
    site.put("shrinks", &vec![7; 300 << 20]);
    let (tell, heard) = channel();
    let whole = FilesRequest::Read {
        path: "shrinks".into(),
        version: None,
        ranges: vec![(0, u64::MAX)],
    };
    files.ask(whole, move |answer| drop(tell.send(answer)));
    site.put("shrinks", b"");
    match heard.recv().expect("an answer") {
        Err(error) => assert_eq!(error.kind(), ErrorKind::SourceChanged),
        // It was opened afterwards.
        Ok(FilesAnswer::Bytes { parts, .. }) => assert_eq!(parts, [Vec::<u8>::new()]),
        Ok(other) => panic!("{other:?}"),
    }
    assert!(read(&files, "log", (0, 4)).is_ok(), "the session goes on");
}

/// A73: nothing outside the root is read, told, made or removed, whatever leads there.
#[test]
fn a73_nothing_leads_out_of_the_root() {
    let site = Site::new("");
    fs::write(site.dir.path().join("secret"), "s").expect("written");
    fs::create_dir(site.dir.path().join("elsewhere")).expect("made");
    symlink("../secret", site.at("link")).expect("a link");
    symlink("../elsewhere", site.at("way")).expect("a link");
    site.put("inside", b"x");
    let files = site.open();
    assert_eq!(files.stat("link").expect("a link").kind, FileKind::Link);
    for path in [
        "link",
        "../secret",
        "/etc/passwd",
        "way/../../secret",
        "a\0b",
    ] {
        assert_eq!(
            kind(read(&files, path, (0, 1))),
            ErrorKind::Refused,
            "{path}"
        );
        assert_eq!(kind(files.hash(path)), ErrorKind::Refused, "{path}");
    }
    assert_eq!(kind(files.list("way")), ErrorKind::Refused);
    assert_eq!(kind(files.list("..")), ErrorKind::Refused);
    assert_eq!(kind(files.make_dir("way/new", true)), ErrorKind::Refused);
    assert_eq!(
        kind(files.rename("inside", "way/inside")),
        ErrorKind::Refused
    );
    assert_eq!(kind(files.remove("../secret", false)), ErrorKind::Refused);
    assert_eq!(
        kind(files.rename("inside", ".x.0123456789abcdef.howdah-part")),
        ErrorKind::Refused
    );
    assert!(site.dir.path().join("secret").exists() && site.at("inside").exists());
}

/// A74: a key does with single files what it may do with copies.
#[test]
fn a74_the_rights_of_the_key_hold() {
    let site = Site::new("write-only");
    site.put("dir/x", b"x");
    let files = site.open();
    for refused in [
        files.stat("dir/x").map(drop),
        files.list("dir").map(drop),
        read(&files, "dir/x", (0, 1)).map(drop),
        files.hash("dir/x").map(drop),
        files.make_dir("new", true),
        files.remove("dir/x", false),
        files.rename("dir/x", "y"),
    ] {
        assert_eq!(kind(refused), ErrorKind::Refused);
    }
    let site = Site::new("read-only");
    site.put("dir/x", b"x");
    let files = site.open();
    assert_eq!(read(&files, "dir/x", (0, 9)).expect("it"), b"x");
    for refused in [
        files.make_dir("new", true),
        files.remove("dir/x", false),
        files.rename("dir/x", "y"),
    ] {
        assert_eq!(kind(refused), ErrorKind::Refused);
    }
    let site = Site::new("no-list");
    site.put("dir/x", b"x");
    let files = site.open();
    assert_eq!(read(&files, "dir/x", (0, 9)).expect("it"), b"x");
    assert!(files.stat("dir/x").is_ok());
    for refused in [files.stat("dir").map(drop), files.list("dir").map(drop)] {
        assert!(
            refused
                .expect_err("a refusal")
                .to_string()
                .contains("no-list")
        );
    }
    let site = Site::new("no-delete");
    site.put("dir/x", b"x");
    let files = site.open();
    files.make_dir("new/a", true).expect("new names may come");
    for refused in [files.remove("dir/x", false), files.rename("dir/x", "y")] {
        assert_eq!(kind(refused), ErrorKind::Refused);
    }
    let site = Site::new("max-files=\"2\"");
    let files = site.open();
    files.make_dir("a", false).expect("one");
    files.make_dir("b", false).expect("two");
    assert_eq!(kind(files.make_dir("c", false)), ErrorKind::Refused);
}

#[test]
fn names_are_made_changed_and_removed() {
    let site = Site::new("");
    site.put("x", b"x");
    let files = site.open();
    files.make_dir("a/b", true).expect("made");
    files.make_dir("a/b", true).expect("it may be there");
    assert_eq!(kind(files.make_dir("a/b", false)), ErrorKind::Refused);
    files.rename("x", "a/b/y").expect("renamed");
    assert_eq!(fs::read(site.at("a/b/y")).expect("it"), b"x");
    assert!(files.remove("a/b", true).is_err(), "not empty");
    files.remove("a/b/y", false).expect("removed");
    files.remove("a/b", true).expect("removed");
    assert!(!site.at("a/b").exists());
    site.hears("rename \"x\" \"a/b/y\" done");
    site.hears("remove \"a/b\" failed");
    site.hears("remove \"a/b\" done");
}

/// A75: who asks for much and takes nothing holds what he may, and others get theirs.
#[test]
fn a75_a_client_that_never_takes_its_answers_harms_nobody() {
    let site = Site::new("");
    let big = fs::File::create(site.at("big")).expect("a file");
    big.set_len(1 << 30).expect("holes");
    site.put("other", b"theirs");
    let greedy = site.open();
    // Whoever reads its answers stands still with the first one.
    let (hold, held) = channel::<()>();
    let (tell, came) = channel();
    let first = FilesRequest::Read {
        path: "other".into(),
        version: None,
        ranges: vec![(0, 1)],
    };
    greedy.ask(first, move |_| {
        let _ = tell.send(());
        let _ = held.recv();
    });
    came.recv().expect("the first answer");
    for _ in 0..64 {
        let all = FilesRequest::Read {
            path: "big".into(),
            version: None,
            ranges: vec![(0, u64::MAX)],
        };
        greedy.ask(all, |_| ());
    }
    for _ in 0..20 {
        let files = site.open();
        assert_eq!(read(&files, "other", (0, 9)).expect("it"), b"theirs");
    }
    drop(hold);
    drop(greedy);
    site.hears("failed: ");
    let files = site.open();
    assert_eq!(read(&files, "other", (0, 9)).expect("it"), b"theirs");
}

#[test]
fn a_session_is_made_again_when_the_server_was_away() {
    let mut site = Site::new("");
    site.put("x", b"x");
    let files = site.open();
    assert_eq!(read(&files, "x", (0, 1)).expect("it"), b"x");
    // The address stays, whoever serves there.
    let (ours, theirs) = (identity(), identity());
    let client = Client::new(ours.clone());
    let root = site.dir.path().join("site");
    let serve = |listen: std::net::SocketAddr| {
        let keys: AuthorizedKeys = [*ours.public_key()].into_iter().collect();
        let server = Server::bind(ServerConfig::new(&root, listen, theirs.clone(), keys));
        let server = server.expect("a server");
        let (address, stop) = (server.local_addr(), Cancel::new());
        let switch = stop.clone();
        let serving = std::thread::spawn(move || server.run(&switch).expect("it ends"));
        (address, stop, serving)
    };
    let (address, stop, serving) = serve(([127, 0, 0, 1], 0).into());
    let client = client.trust(Trust::Exactly(*theirs.public_key()));
    let files = client
        .open(format!("howdah://{address}/"))
        .expect("a session");
    assert_eq!(read(&files, "x", (0, 1)).expect("it"), b"x");
    stop.cancel();
    serving.join().expect("no panic");
    let (_, stop, serving) = serve(address);
    assert_eq!(read(&files, "x", (0, 1)).expect("another connection"), b"x");
    stop.cancel();
    serving.join().expect("no panic");
    site.serving.take().map(|serving| {
        site.stop.cancel();
        serving.join()
    });
}

/// Programs make paths of anything; a message that is longer than it may be is a fault.
#[test]
fn a_path_that_is_longer_than_any_is_an_error_and_the_session_goes_on() {
    let site = Site::new("");
    site.put("a", b"1");
    let files = site.open();
    let long = "x".repeat(70_000);
    assert_eq!(kind(files.stat(&*long)), ErrorKind::Usage);
    assert_eq!(kind(read(&files, &long, (0, 1))), ErrorKind::Usage);
    assert_eq!(kind(files.rename("a", &*long)), ErrorKind::Usage);
    assert_eq!(read(&files, "a", (0, 1)).expect("it"), b"1");
}

#[test]
fn who_cannot_be_reached_or_is_here_is_an_error() {
    let client = Client::new(identity());
    assert_eq!(kind(client.open(Path::new("/tmp"))), ErrorKind::Usage);
    let nobody = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let address = nobody.local_addr().expect("an address");
    drop(nobody);
    let client = client.transport(howdah::Transport::Udp);
    let error = kind(client.open(format!("howdah://{address}/")));
    assert_eq!(error, ErrorKind::Network);
}

#[cfg(feature = "tokio")]
#[test]
fn answers_can_be_awaited() {
    let site = Site::new("");
    site.put("x", b"x");
    let files = site.open();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let answer = runtime.block_on(files.answered(FilesRequest::Stat { path: "x".into() }));
    assert!(matches!(answer, Ok(FilesAnswer::Info(info)) if info.version.size == 1));
}
