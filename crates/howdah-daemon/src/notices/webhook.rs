//! A webhook: JSON by HTTP POST, signed as Standard Webhooks has it (<https://www.standardwebhooks.com>).

use super::notice::Notice;
use super::{FEW, MANY, NotTaken, ONCE, Receiver, in_words};
use crate::time::now_ms;
use crate::tls;
use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Of the head of an answer; nothing is read of its body.
const HEAD: usize = 16 << 10;
/// What a secret begins with in the file.
const PREFIX: &str = "whsec_";
/// Bytes of a secret.
const SECRET: std::ops::RangeInclusive<usize> = 24..=64;

/// What the file says of it.
pub(super) struct Wanted<'a> {
    pub(super) url: &'a str,
    pub(super) secret: &'a str,
    pub(super) authorization: Option<&'a str>,
    pub(super) ca: Option<&'a Path>,
    /// Without TLS also to other machines.
    pub(super) plain: bool,
    pub(super) patience: Duration,
}

/// Where notices go.
pub(super) struct Webhook {
    /// Without brackets.
    host: String,
    port: u16,
    /// As `Host` has it.
    authority: String,
    target: Uri,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    key: hmac::Key,
    authorization: Option<HeaderValue>,
    patience: Duration,
}

/// Whether that is this machine, by its name alone.
pub(super) fn is_here(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

impl Webhook {
    /// What is wrong is said without the address: there may be secrets in it.
    pub(super) fn new(wanted: &Wanted<'_>) -> Result<Self, String> {
        let wrong = || "'url' is no address: https://HOST/PATH".to_owned();
        let uri: Uri = wanted.url.parse().map_err(|_| wrong())?;
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("there is a user or a password in 'url', which others may see: use 'authorization' for that".to_owned());
        }
        let host = authority.host().to_ascii_lowercase();
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (tls, port) = match uri.scheme_str() {
            Some("https") => (Some(connector(&host, wanted.ca)?), 443),
            Some("http") if wanted.plain || is_here(&host) => (None, 80),
            Some("http") => {
                return Err("'url' is http, which anybody on the way can read and change: https, or 'plain = true'".to_owned());
            }
            _ => return Err(wrong()),
        };
        let key = secret(wanted.secret)?;
        let authorization = wanted.authorization.map(|text| {
            let mut value = HeaderValue::try_from(text)
                .map_err(|_| "'authorization' is no text for a header".to_owned())?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        let target = uri.path_and_query().map_or("/", |found| found.as_str());
        Ok(Self {
            host,
            port: uri.port_u16().unwrap_or(port),
            authority: authority.as_str().to_owned(),
            target: target.parse().map_err(|_| wrong())?,
            tls,
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            authorization: authorization.transpose()?,
            patience: wanted.patience,
        })
    }

    /// Where it is, for people; paths and queries of such addresses are secrets.
    pub(super) fn place(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }

    async fn post(&self, notice: &Notice) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        let Some((connector, name)) = &self.tls else {
            return self.exchange(stream, notice).await;
        };
        let stream = connector.connect(name.clone(), stream).await?;
        self.exchange(stream, notice).await
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        notice: &Notice,
    ) -> Result<StatusCode, Box<dyn Error + Send + Sync>> {
        let body = notice.json();
        let seconds = now_ms() / 1000;
        let signature = signature(&self.key, &notice.id, seconds, &body);
        let mut request = Request::post(self.target.clone())
            .header(HOST, &self.authority)
            .header(CONTENT_TYPE, "application/json")
            .header(CONNECTION, "close")
            .header(USER_AGENT, concat!("howdah/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", seconds)
            .header("webhook-signature", signature);
        if let Some(value) = &self.authorization {
            request = request.header(AUTHORIZATION, value.clone());
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD)
            .handshake(TokioIo::new(stream))
            .await?;
        // It ends with this function, whatever comes.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        driver.shutdown().await;
        Ok(status)
    }
}

impl Receiver for Webhook {
    fn tell(&mut self, notice: &Notice, runtime: &Runtime) -> Result<String, NotTaken> {
        let patience = self.patience;
        let told =
            runtime.block_on(async { tokio::time::timeout(patience, self.post(notice)).await });
        let place = self.place();
        match told {
            Ok(Ok(status)) => judge(status, &place),
            Ok(Err(error)) => {
                let why = format!("{place}: {}", in_words(&*error));
                Err(NotTaken::new(MANY, why))
            }
            Err(_) => {
                let seconds = patience.as_secs();
                let why = format!("{place}: no answer in {seconds} s");
                Err(NotTaken::new(MANY, why))
            }
        }
    }
}

/// What an answer means.
fn judge(status: StatusCode, place: &str) -> Result<String, NotTaken> {
    let code = status.as_u16();
    let (tries, more) = match code {
        200..300 => return Ok(String::new()),
        300..400 => (
            FEW,
            ", which would lead elsewhere: redirects are not followed, name the last address",
        ),
        408 | 425 | 429 | 500.. => (MANY, ""),
        410 => (ONCE, ": nobody is there any more"),
        _ => (FEW, ""),
    };
    Err(NotTaken::new(
        tries,
        format!("{place} answers {code}{more}"),
    ))
}

fn secret(text: &str) -> Result<Vec<u8>, String> {
    let bytes = text
        .strip_prefix(PREFIX)
        .map(|text| BASE64_STANDARD.decode(text));
    match bytes {
        Some(Ok(bytes)) if SECRET.contains(&bytes.len()) => Ok(bytes),
        _ => Err(format!(
            "'secret' is '{PREFIX}' and 24 to 64 bytes in base64: echo {PREFIX}$(openssl rand -base64 32)"
        )),
    }
}

fn signature(key: &hmac::Key, id: &str, seconds: u64, body: &[u8]) -> String {
    let signed = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    let tag = hmac::sign(key, &signed);
    format!("v1,{}", BASE64_STANDARD.encode(tag.as_ref()))
}

fn connector(host: &str, ca: Option<&Path>) -> Result<(TlsConnector, ServerName<'static>), String> {
    let roots = match ca {
        Some(path) => tls::authorities(path)?,
        None => tls::known_authorities()?,
    };
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![tls::SPOKEN.to_vec()];
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| "the host in 'url' is no name and no address".to_owned())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

#[cfg(test)]
mod tests {
    use super::super::notice::tests::happening;
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    const GOOD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn wanted(url: &str) -> Wanted<'_> {
        Wanted {
            url,
            secret: GOOD,
            authorization: None,
            ca: None,
            plain: false,
            patience: Duration::from_mins(1),
        }
    }

    fn runtime() -> Runtime {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    }

    #[test]
    fn it_is_signed_as_the_standard_has_it() {
        // The example of the specification's libraries.
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret(GOOD).unwrap());
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        for text in [
            "",
            "whsec_",
            "whsec_c2hvcnQ=",
            "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        ] {
            assert!(secret(text).unwrap_err().contains("openssl"), "{text}");
        }
    }

    #[test]
    fn an_address_is_taken_or_refused_and_never_shown_whole() {
        let new = |url: &str| Webhook::new(&wanted(url));
        for url in [
            "http://localhost:1/x",
            "http://127.0.0.1/?k=v",
            "http://[::1]:8",
        ] {
            assert!(new(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "/x",
            "host",
            "ftp://h/",
            "http://192.0.2.1/secret",
            "http://example.org/secret",
            "https://u:secret@h/",
            "https://",
            "http://localhost:1@example.org/secret",
        ] {
            let why = new(url).err().expect(url);
            assert!(!why.contains("secret"), "{why}");
        }
        let plain = Webhook::new(&Wanted {
            plain: true,
            ..wanted("http://192.0.2.1/secret?more")
        });
        assert_eq!(
            plain.unwrap_or_else(|why| panic!("{why}")).place(),
            "http://192.0.2.1"
        );
        let odd = Webhook::new(&Wanted {
            authorization: Some("Bearer secret\r\nx: y"),
            ..wanted("http://localhost/")
        });
        assert!(!odd.err().unwrap().contains("secret"));
    }

    /// Somebody who answers that to whatever comes, for ever if it must be; what came.
    fn told(
        answer: &'static [u8],
        times: usize,
        patience: Duration,
    ) -> (Result<String, NotTaken>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook?key=secret", listener.local_addr().unwrap());
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut came = Vec::new();
            let mut part = [0; 4096];
            while !came.ends_with(b"}}") {
                let n = stream.read(&mut part).unwrap();
                assert!(n > 0, "{}", String::from_utf8_lossy(&came));
                came.extend_from_slice(&part[..n]);
            }
            for _ in 0..times {
                if stream.write_all(answer).is_err() {
                    break;
                }
            }
            // Until it is left.
            let _ = stream.read(&mut part);
            String::from_utf8(came).unwrap()
        });
        let mut webhook = Webhook::new(&Wanted {
            authorization: Some("Bearer b"),
            patience,
            ..wanted(&url)
        })
        .unwrap_or_else(|why| panic!("{why}"));
        let runtime = runtime();
        let notice = Notice::new("0", &happening("failed", &["a", "h:b"]));
        let told = webhook.tell(&notice, &runtime);
        drop(runtime);
        (told, server.join().unwrap())
    }

    #[test]
    fn a_receiver_hears_what_it_can_check() {
        let (told, came) = told(
            b"HTTP/1.1 204 No Content\r\n\r\n",
            1,
            Duration::from_mins(1),
        );
        told.unwrap_or_else(|error| panic!("{error:?}"));
        let (head, body) = came.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("POST /hook?key=secret HTTP/1.1\r\n"),
            "{head}"
        );
        let header = |name: &str| {
            let line = head
                .lines()
                .find(|line| line.to_ascii_lowercase().starts_with(name));
            line.unwrap().split_once(": ").unwrap().1.to_owned()
        };
        assert_eq!(header("authorization"), "Bearer b");
        assert_eq!(header("content-type"), "application/json");
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret(GOOD).unwrap());
        let (id, time) = (header("webhook-id"), header("webhook-timestamp"));
        let signed = signature(&key, &id, time.parse().unwrap(), body.as_bytes());
        assert_eq!(header("webhook-signature"), signed);
        let value: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(value["id"], id);
        assert_eq!(value["data"]["what"], "failed");
    }

    #[test]
    fn an_answer_that_leads_elsewhere_or_never_ends_is_none() {
        let minute = Duration::from_mins(1);
        let (moved, _) = told(
            b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
            1,
            minute,
        );
        let error = moved.unwrap_err();
        assert!(
            error.tries == FEW && error.why.contains("not followed"),
            "{error:?}"
        );
        assert!(!error.why.contains("secret"), "{error:?}");
        // A body of 10 GB: its head is enough.
        let huge = b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n";
        told(huge, 1, minute)
            .0
            .unwrap_or_else(|error| panic!("{error:?}"));
        // A head of 10 GB.
        let (head, _) = told(b"HTTP/1.1 200 OK\r\nx: y", usize::MAX, minute);
        assert_eq!(head.unwrap_err().tries, MANY);
        // Nothing, for ever.
        let (nothing, _) = told(b"", 0, Duration::from_millis(100));
        assert!(nothing.unwrap_err().why.contains("no answer"));
        for (code, tries) in [
            (400, FEW),
            (404, FEW),
            (410, ONCE),
            (429, MANY),
            (503, MANY),
            (100, FEW),
        ] {
            let status = StatusCode::from_u16(code).unwrap();
            assert_eq!(judge(status, "h").unwrap_err().tries, tries, "{code}");
        }
    }

    #[test]
    fn https_is_spoken_with_who_proves_his_name() {
        let dir = tempfile::tempdir().unwrap();
        let address = "127.0.0.1:1".parse().unwrap();
        let shown =
            tls::load(&tls::Tls::Own, dir.path(), address).unwrap_or_else(|e| panic!("{e:?}"));
        let certificate = dir.path().join(tls::CERTIFICATE);
        let tell = |ca: &Path| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!(
                "https://localhost:{}/",
                listener.local_addr().unwrap().port()
            );
            let config = Arc::clone(&shown.config);
            let server = thread::spawn(move || {
                let (stream, _) = listener.accept().unwrap();
                let connection = rustls::ServerConnection::new(config).unwrap();
                let mut stream = rustls::StreamOwned::new(connection, stream);
                let mut came = Vec::new();
                let mut part = [0; 4096];
                while !came.ends_with(b"}}") {
                    match stream.read(&mut part) {
                        Ok(n) if n > 0 => came.extend_from_slice(&part[..n]),
                        _ => return false,
                    }
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
                let _ = stream.flush();
                let _ = stream.read(&mut part);
                true
            });
            let webhook = Webhook::new(&Wanted {
                ca: Some(ca),
                ..wanted(&url)
            });
            let mut webhook = webhook.unwrap_or_else(|why| panic!("{why}"));
            let notice = Notice::new("0", &happening("done", &[]));
            let told = webhook.tell(&notice, &runtime());
            (told, server.join().unwrap())
        };
        let (told, heard) = tell(&certificate);
        told.unwrap_or_else(|error| panic!("{error:?}"));
        assert!(heard);
        let other = tempfile::tempdir().unwrap();
        tls::load(&tls::Tls::Own, other.path(), address).unwrap_or_else(|e| panic!("{e:?}"));
        let (told, heard) = tell(&other.path().join(tls::CERTIFICATE));
        assert!(told.unwrap_err().why.contains("certificate"));
        assert!(!heard, "nothing is said to a stranger");
    }
}
