//! Mail over SMTP, through lettre: it bounds what a server may say, and knows what a header must not hold.

use super::notice::{Notice, plain};
use super::webhook::is_here;
use super::{FEW, MANY, NotTaken, Receiver, in_words};
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message};
use lettre::transport::smtp::AsyncSmtpTransport;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use lettre::{AsyncTransport as _, Tokio1Executor};
use serde::Deserialize;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Characters of a subject, and of a line of a mail.
const SUBJECT: usize = 150;
const LINE: usize = 2_000;
/// Addresses of one mail.
const MOST: usize = 32;

/// How a server is spoken with.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Security {
    /// TLS after a greeting, or not at all.
    #[default]
    Starttls,
    /// TLS from the first byte on.
    Tls,
    /// Nothing is encrypted.
    None,
}

/// What the file says of it.
pub(super) struct Wanted<'a> {
    pub(super) server: &'a str,
    pub(super) port: Option<u16>,
    pub(super) security: Security,
    pub(super) ca: Option<&'a Path>,
    /// Without TLS also to other machines.
    pub(super) plain: bool,
    pub(super) login: Option<(&'a str, &'a str)>,
    pub(super) from: &'a str,
    pub(super) to: &'a [String],
    pub(super) patience: Duration,
}

/// Where mail goes, from whom and to whom.
pub(super) struct Mail {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    server: String,
    from: Mailbox,
    to: Vec<Mailbox>,
    patience: Duration,
}

impl Mail {
    pub(super) fn new(wanted: &Wanted<'_>) -> Result<Self, String> {
        let server = wanted.server.to_ascii_lowercase();
        let is_odd = |c: char| !(c.is_ascii_alphanumeric() || ".-:".contains(c));
        let has_port = server.matches(':').count() == 1;
        if server.is_empty() || server.contains(is_odd) || has_port {
            return Err("'server' is the name of a machine, without a port".to_owned());
        }
        let parameters = || parameters(&server, wanted.ca);
        let (tls, port) = match wanted.security {
            Security::Starttls => (Tls::Required(parameters()?), 587),
            Security::Tls => (Tls::Wrapper(parameters()?), 465),
            Security::None if wanted.plain || is_here(&server) => (Tls::None, 25),
            Security::None => {
                return Err("without TLS anybody on the way can read and change it: tls = \"starttls\" or \"tls\", or 'plain = true'".to_owned());
            }
        };
        let mailbox = |what: &str, text: &str| {
            let parsed = text.parse::<Mailbox>();
            parsed.map_err(|error| format!("'{what}' has no address of mail: {error}"))
        };
        let to: Result<Vec<_>, _> = wanted.to.iter().map(|text| mailbox("to", text)).collect();
        let to = to?;
        if to.is_empty() || to.len() > MOST {
            return Err(format!("'to' has 1 to {MOST} addresses"));
        }
        let transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&server)
            .port(wanted.port.unwrap_or(port))
            .tls(tls)
            .timeout(Some(wanted.patience));
        let transport = match wanted.login {
            Some((user, password)) => {
                transport.credentials(Credentials::new(user.to_owned(), password.to_owned()))
            }
            None => transport,
        };
        let transport = match machine() {
            Some(name) => transport.hello_name(ClientId::Domain(name)),
            None => transport,
        };
        Ok(Self {
            transport: transport.build(),
            server,
            from: mailbox("from", wanted.from)?,
            to,
            patience: wanted.patience,
        })
    }

    fn message(&self, notice: &Notice) -> Result<Message, String> {
        let data = &notice.data;
        let mut builder = Message::builder()
            .from(self.from.clone())
            .subject(subject(notice))
            .date_now()
            // The same however often it is sent: readers show it once.
            .message_id(Some(format!("<{}@howdah>", notice.id)))
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        // So that no absence is answered to it (RFC 3834).
        let name = HeaderName::new_from_ascii_str("Auto-Submitted");
        builder = builder.raw_header(HeaderValue::new(name, "auto-generated".to_owned()));
        let mut text = format!("On {}, {}.\n\n", data.machine, notice.title());
        let mut line = |name: &str, value: &str| {
            // Text cannot fail to grow.
            let _ = writeln!(text, "{name:<11}{}", plain(value, LINE));
        };
        line("command", &data.command.join(" "));
        line("directory", &data.directory);
        if !data.labels.is_empty() {
            line("labels", &data.labels.join(", "));
        }
        line("time", &notice.timestamp);
        if let Some(code) = data.exit_code {
            line("exit code", &code.to_string());
        }
        if let Some(reason) = &data.reason {
            line("reason", reason);
        }
        let _ = writeln!(text, "\nMore: howdah job show {}", data.job);
        builder.body(text).map_err(|error| error.to_string())
    }
}

impl Receiver for Mail {
    fn tell(&mut self, notice: &Notice, runtime: &Runtime) -> Result<String, NotTaken> {
        let message = self.message(notice);
        let message = message.map_err(|why| NotTaken::new(FEW, why))?;
        let sent = runtime.block_on(async {
            tokio::time::timeout(self.patience, self.transport.send(message)).await
        });
        match sent {
            Ok(Ok(_)) => Ok(String::new()),
            Ok(Err(error)) => {
                let tries = if error.is_permanent() || error.is_client() {
                    FEW
                } else {
                    MANY
                };
                let why = format!("{}: {}", self.server, in_words(&error));
                Err(NotTaken::new(tries, why))
            }
            Err(_) => {
                let seconds = self.patience.as_secs();
                let why = format!("{}: it was not taken in {seconds} s", self.server);
                Err(NotTaken::new(MANY, why))
            }
        }
    }
}

fn subject(notice: &Notice) -> String {
    let command = notice.data.command.join(" ");
    let text = format!(
        "howdah on {}: {}: {command}",
        notice.data.machine,
        notice.title()
    );
    plain(&text, SUBJECT)
}

/// The name that this machine greets with, if it is one for mail.
fn machine() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_str().ok()?.to_ascii_lowercase();
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(name)
}

fn parameters(server: &str, ca: Option<&Path>) -> Result<TlsParameters, String> {
    let mut builder = TlsParameters::builder(server.to_owned());
    if let Some(path) = ca {
        let wrong = |why: String| format!("{}: {why}", path.display());
        // Whether there is one in it.
        crate::tls::authorities(path)?;
        let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
        let certificate = Certificate::from_pem(&text).map_err(|error| wrong(error.to_string()))?;
        builder = builder
            .certificate_store(CertificateStore::None)
            .add_root_certificate(certificate);
    }
    builder.build().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::super::notice::tests::happening;
    use super::*;
    use crate::tls;
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use std::io::{BufRead as _, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;
    use std::thread;

    const LONG: Duration = Duration::from_mins(1);

    /// What a server has heard: orders, and the mail.
    #[derive(Debug, Default)]
    struct Heard {
        orders: Vec<String>,
        mail: String,
    }

    trait Both: Read + Write + Send {}

    impl<T: Read + Write + Send> Both for T {}

    /// A small server of the test's own: one connection, with TLS if it has a certificate.
    fn serve(stream: TcpStream, tls: Option<&Arc<ServerConfig>>, answer_to_mail: &str) -> Heard {
        let mut heard = Heard::default();
        let plain = stream.try_clone().unwrap();
        let mut reader: BufReader<Box<dyn Both>> = BufReader::new(Box::new(stream));
        let mut is_secure = false;
        let say = |reader: &mut BufReader<Box<dyn Both>>, text: &str| {
            let stream = reader.get_mut();
            // Whoever is done with us goes.
            let _ = stream
                .write_all(text.as_bytes())
                .and_then(|()| stream.flush());
        };
        say(&mut reader, "220 mail.example.org\r\n");
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(n) if n > 0 => {}
                _ => return heard,
            }
            let order = line.trim_end().to_owned();
            heard.orders.push(order.clone());
            match order.split([' ', ':']).next().unwrap_or_default() {
                "EHLO" if tls.is_some() && !is_secure => {
                    say(&mut reader, "250-hello\r\n250 STARTTLS\r\n");
                }
                "EHLO" => say(&mut reader, "250-hello\r\n250 AUTH PLAIN\r\n"),
                "STARTTLS" => {
                    say(&mut reader, "220 go\r\n");
                    let config = Arc::clone(tls.unwrap());
                    let connection = ServerConnection::new(config).unwrap();
                    let stream = plain.try_clone().unwrap();
                    reader = BufReader::new(Box::new(StreamOwned::new(connection, stream)));
                    is_secure = true;
                }
                "AUTH" => say(&mut reader, "235 yes\r\n"),
                "MAIL" => say(&mut reader, answer_to_mail),
                "DATA" => {
                    say(&mut reader, "354 go\r\n");
                    while !heard.mail.ends_with("\r\n.\r\n") {
                        if reader.read_line(&mut heard.mail).unwrap() == 0 {
                            return heard;
                        }
                    }
                    say(&mut reader, "250 taken\r\n");
                }
                "QUIT" => {
                    say(&mut reader, "221 bye\r\n");
                    return heard;
                }
                _ => say(&mut reader, "250 yes\r\n"),
            }
        }
    }

    fn tell(
        security: Security,
        certificate: Option<&Path>,
        config: Option<Arc<ServerConfig>>,
        notice: &Notice,
        answer: &'static str,
    ) -> (Result<String, NotTaken>, Heard) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            serve(stream, config.as_ref(), answer)
        });
        let to = ["Ops <ops@example.org>", "anna@example.org"].map(str::to_owned);
        let mut mail = Mail::new(&Wanted {
            server: "localhost",
            port: Some(port),
            security,
            ca: certificate,
            plain: false,
            login: certificate.map(|_| ("howdah", "hunter2")),
            from: "Howdah <howdah@example.org>",
            to: &to,
            patience: LONG,
        })
        .unwrap_or_else(|why| panic!("{why}"));
        let runtime = runtime();
        let told = mail.tell(notice, &runtime);
        // Its connections end with it.
        drop((mail, runtime));
        (told, server.join().unwrap())
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    const YES: &str = "250 yes\r\n";

    #[test]
    fn people_read_what_became_of_a_job_and_no_word_of_it_is_a_header() {
        let arguments = ["a\r\nBcc: evil@example.org\r\n\r\n", "h:ü\n.\nQUIT"];
        let notice = Notice::new("0", &happening("failed", &arguments));
        let (told, heard) = tell(Security::None, None, None, &notice, YES);
        told.unwrap_or_else(|error| panic!("{error:?}"));
        let to = |order: &&String| order.starts_with("RCPT");
        let recipients: Vec<_> = heard.orders.iter().filter(to).collect();
        assert_eq!(recipients.len(), 2, "{heard:?}");
        assert!(!format!("{recipients:?}").contains("evil"), "{heard:?}");
        let (head, body) = heard.mail.split_once("\r\n\r\n").unwrap();
        let has = |start: &str| head.lines().any(|line| line.starts_with(start));
        assert!(
            has("From: ") && has("To: ") && has("Date: ") && has("Subject: "),
            "{head}"
        );
        assert!(has("Message-ID: <howdah_0_41@howdah>"), "{head}");
        assert!(has("Auto-Submitted: auto-generated"), "{head}");
        assert!(!has("Bcc"), "{head}");
        assert!(!body.is_empty());
        // One mail, whatever was in it.
        let mails = heard
            .orders
            .iter()
            .filter(|order| order.starts_with("MAIL"));
        assert_eq!(mails.count(), 1);
    }

    #[test]
    fn a_subject_says_it_in_a_line() {
        let notice = Notice::new("0", &happening("behind", &["a\r\nb", "h:c"]));
        let said = subject(&notice);
        assert!(
            said.ends_with(": job 12 will not be done by its time: cp a  b h:c"),
            "{said}"
        );
        let long = "x".repeat(1_000);
        let notice = Notice::new("0", &happening("done", &[long.as_str()]));
        assert_eq!(subject(&notice).chars().count(), SUBJECT + 1);
    }

    #[test]
    fn a_password_is_said_after_starttls_to_who_proves_his_name_and_to_nobody_else() {
        let notice = Notice::new("0", &happening("done", &[]));
        let dir = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let shown =
            tls::load(&tls::Tls::Own, dir.path(), address).unwrap_or_else(|e| panic!("{e:?}"));
        let known = dir.path().join(tls::CERTIFICATE);
        let config = || Some(Arc::clone(&shown.config));
        let (told, heard) = tell(Security::Starttls, Some(&known), config(), &notice, YES);
        told.unwrap_or_else(|error| panic!("{error:?}"));
        let at = |word: &str| {
            heard
                .orders
                .iter()
                .position(|order| order.starts_with(word))
        };
        assert!(
            at("STARTTLS") < at("AUTH") && at("AUTH") < at("MAIL"),
            "{heard:?}"
        );
        assert!(!heard.mail.is_empty());
        // One that does not offer it, or is somebody else.
        let (told, heard) = tell(Security::Starttls, Some(&known), None, &notice, YES);
        assert!(told.is_err());
        assert!(
            !format!("{heard:?}").contains("AUTH PLAIN") && heard.mail.is_empty(),
            "{heard:?}"
        );
        let other = tempfile::tempdir().unwrap();
        tls::load(&tls::Tls::Own, other.path(), address).unwrap_or_else(|e| panic!("{e:?}"));
        let known = other.path().join(tls::CERTIFICATE);
        let (told, heard) = tell(Security::Starttls, Some(&known), config(), &notice, YES);
        assert!(told.is_err());
        assert!(
            !heard.orders.iter().any(|order| order.starts_with("AUTH")),
            "{heard:?}"
        );
    }

    #[test]
    fn a_server_that_refuses_hangs_or_never_ends_is_told_of() {
        let notice = Notice::new("0", &happening("done", &[]));
        let (told, _) = tell(
            Security::None,
            None,
            None,
            &notice,
            "550 we do not like you\r\n",
        );
        let error = told.unwrap_err();
        assert!(
            error.tries == FEW && error.why.contains("we do not like you"),
            "{error:?}"
        );
        let (told, _) = tell(Security::None, None, None, &notice, "451 later\r\n");
        assert_eq!(told.unwrap_err().tries, MANY);
        // For each: what it says, again and again.
        for (text, patience) in [("250-x\r\n", LONG), ("", Duration::from_millis(100))] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port();
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                while !text.is_empty() && stream.write_all(text.as_bytes()).is_ok() {}
                // Until it is left.
                let _ = stream.read(&mut [0; 64]);
            });
            let to = ["ops@example.org".to_owned()];
            let mut mail = Mail::new(&Wanted {
                server: "127.0.0.1",
                port: Some(port),
                security: Security::None,
                ca: None,
                plain: false,
                login: None,
                from: "howdah@example.org",
                to: &to,
                patience,
            })
            .unwrap_or_else(|why| panic!("{why}"));
            let runtime = runtime();
            assert!(mail.tell(&notice, &runtime).is_err());
            drop((mail, runtime));
            server.join().unwrap();
        }
    }
}
