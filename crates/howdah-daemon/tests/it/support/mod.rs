//! A daemon in the process of a test, and what is said to it.

use howdah_audit::AuditFile;
use howdah_daemon::job::{Grammar, Meaning, Spec};
use howdah_daemon::limits::HostFacts;
use howdah_daemon::outside::{Outside, Standing};
use howdah_daemon::queue::Limits;
use howdah_daemon::tls::{self, Fingerprint, Tls};
use howdah_daemon::{Config, serve};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::ErrorKind::{BrokenPipe, ConnectionReset, Interrupted, UnexpectedEof};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Everything is an argument, and the last two are places.
pub(crate) struct Any;

impl Grammar for Any {
    fn check(&self, spec: &Spec) -> Result<Meaning, String> {
        let places = spec.arguments.iter().rev().take(2).rev();
        let places: Vec<_> = places.cloned().collect();
        let paths = places.iter().map(PathBuf::from);
        Ok(Meaning {
            paths: paths.filter(|path| path.is_absolute()).collect(),
            places,
            ..Meaning::default()
        })
    }
}

impl Outside for Any {
    fn allowed(&self, limit: &str) -> Result<Option<u64>, String> {
        limit.parse().map(Some).map_err(|_| "no limit".to_owned())
    }

    fn share(&self, _: u32, _: Option<u64>) -> Result<Standing, String> {
        Err("there is nobody".to_owned())
    }

    fn hosts(&self, names: &[String]) -> Vec<HostFacts> {
        vec![HostFacts::default(); names.len()]
    }
}

/// Of one that does nothing yet, below that directory.
pub(crate) fn config(dir: &Path) -> Config {
    Config {
        directory: dir.join("state"),
        // Nothing here may ever start it.
        program: dir.join("nothing"),
        limits: Limits::default(),
        listen: None,
        tls: None,
        audit: None,
        notify: None,
        log: |_, _| (),
        allow: Vec::new(),
        kept: Vec::new(),
        home: "/".into(),
        limit: None,
        grammar: Arc::new(Any),
        outside: Arc::new(Any),
    }
}

/// A daemon in this process; it ends with it.
pub(crate) struct Daemon {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) socket: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Daemon {
    pub(crate) fn new() -> Self {
        Self::with(None)
    }

    /// Speaks TLS over TCP, if that is wanted; writes an audit log.
    pub(crate) fn with(tls: Option<Tls>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path());
        let listen = if tls.is_some() {
            "0.0.0.0:0"
        } else {
            "127.0.0.1:0"
        };
        config.listen = Some(listen.parse().unwrap());
        config.tls = tls;
        Self::begin(dir, config)
    }

    /// One below that directory, told that and to write an audit log.
    pub(crate) fn begin(dir: tempfile::TempDir, mut config: Config) -> Self {
        config.audit = Some(AuditFile::open(&dir.path().join("audit"), 1 << 30).unwrap());
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            serve(config, |socket, door| {
                ready.send((socket.to_owned(), door.unwrap())).unwrap();
            })
        });
        let (socket, door) = is_ready.recv_timeout(PATIENCE).unwrap();
        Self {
            dir,
            socket,
            address: SocketAddr::from(([127, 0, 0, 1], door.address.port())),
            fingerprint: door.fingerprint,
        }
    }

    /// Lines of the audit log that are on the disk.
    pub(crate) fn audit(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("audit")).unwrap()
    }

    /// Its certificate, if it has made one.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.dir.path().join("state").join(tls::CERTIFICATE)
    }

    /// TLS with it, over that.
    pub(crate) fn secure(&self, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(self.certificate()).unwrap();
        roots.add(certificate).unwrap();
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().unwrap();
        StreamOwned::new(
            ClientConnection::new(Arc::new(config), name).unwrap(),
            stream,
        )
    }

    pub(crate) fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// What comes back until the connection ends.
    pub(crate) fn say(&self, bytes: &[u8]) -> String {
        said(self.connect(), bytes)
    }

    /// The same over TCP.
    pub(crate) fn status_over_tcp(&self, bytes: &[u8]) -> u16 {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        if self.fingerprint.is_some() {
            return code(&said(self.secure(stream), bytes));
        }
        code(&said(stream, bytes))
    }

    /// The token of that role.
    pub(crate) fn token(&self, role: &str) -> String {
        let text = std::fs::read_to_string(self.dir.path().join("state/tokens")).unwrap();
        let line = text.lines().find(|line| line.starts_with(role)).unwrap();
        line.split_once(' ').unwrap().1.to_owned()
    }

    /// What is meant for the socket, as somebody with that token says it over TCP.
    pub(crate) fn over_tcp(&self, bytes: &[u8], token: &str) -> Vec<u8> {
        let host = format!(
            "Host: {}\r\nAuthorization: Bearer {token}\r\n",
            self.address
        );
        let at = bytes
            .windows(HOST.len())
            .position(|part| part == HOST.as_bytes());
        match at {
            Some(at) => [&bytes[..at], host.as_bytes(), &bytes[at + HOST.len()..]].concat(),
            None => bytes.to_vec(),
        }
    }

    pub(crate) fn status(&self, bytes: &[u8]) -> u16 {
        code(&self.say(bytes))
    }
}

pub(crate) fn code(answer: &str) -> u16 {
    let lower = answer.to_ascii_lowercase();
    assert!(!lower.contains("access-control"), "{answer}");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or(0)
}

pub(crate) fn said(mut stream: impl Read + Write, bytes: &[u8]) -> String {
    // It may be closed before all is said.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(n) => answer.extend_from_slice(&part[..n]),
            // (A read with a time limit is not begun again after a signal, as of a child that ends.)
            Err(error) if error.kind() == Interrupted => {}
            // Whoever is refused in the midst of what he says may hear nothing more.
            Err(error) if [ConnectionReset, UnexpectedEof, BrokenPipe].contains(&error.kind()) => {
                break;
            }
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&answer)),
        }
    }
    String::from_utf8_lossy(&answer).into_owned()
}

pub(crate) fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

pub(crate) const HOST: &str = "Host: localhost\r\n";

pub(crate) fn get(path: &str) -> Vec<u8> {
    request(&format!("GET {path}"), HOST, b"")
}

pub(crate) fn post(body: &[u8]) -> Vec<u8> {
    request(
        "POST /v1/jobs",
        &format!("{HOST}Content-Type: application/json\r\n"),
        body,
    )
}

pub(crate) fn job(with: &str) -> Vec<u8> {
    post(
        format!(r#"{{"kind":"cp","arguments":["a","h:b"],"directory":"/","hold":true{with}}}"#)
            .as_bytes(),
    )
}

pub(crate) fn watch(path: &str, arguments: &str, with: &str) -> Vec<u8> {
    let job = format!(r#"{{"kind":"cp","arguments":[{arguments}],"directory":"/"}}"#);
    let body = format!(r#"{{"path":"{path}","job":{job}{with}}}"#);
    request(
        "POST /v1/watches",
        &format!("{HOST}Content-Type: application/json\r\n"),
        body.as_bytes(),
    )
}

pub(crate) fn put(path: &str, body: &[u8]) -> Vec<u8> {
    request(
        &format!("PUT {path}"),
        &format!("{HOST}Content-Type: application/json\r\n"),
        body,
    )
}

pub(crate) fn bench(body: &[u8]) -> Vec<u8> {
    request(
        "POST /v1/bench",
        &format!("{HOST}Content-Type: application/json\r\n"),
        body,
    )
}

pub(crate) fn ticket(body: &[u8]) -> Vec<u8> {
    request(
        "POST /v1/tickets/use",
        &format!("{HOST}Content-Type: application/json\r\n"),
        body,
    )
}

pub(crate) fn schedule(cron: &str, zone: &str, with: &str) -> Vec<u8> {
    let job = format!(r#"{{"kind":"cp","arguments":["a","h:b"],"directory":"/"{with}}}"#);
    let body = format!(r#"{{"cron":"{cron}","zone":"{zone}","job":{job}}}"#);
    request(
        "POST /v1/schedules",
        &format!("{HOST}Content-Type: application/json\r\n"),
        body.as_bytes(),
    )
}
