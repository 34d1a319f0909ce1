//! Where a daemon is, and how its client knows that it is that one.

use super::ClientError;
use crate::tls::{self, Fingerprint, SPOKEN};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::http::request::Builder;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// How long it may take until both ends know each other.
const PATIENCE: Duration = Duration::from_secs(30);
/// Where a daemon listens if nothing is said.
const PORT: u16 = 8470;

/// What proves that a daemon is the one that is meant.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Its certificate is that one.
    Fingerprint(Fingerprint),
    /// Its certificate is for the name in the address, and somebody in that file (PEM) says so.
    Authorities(PathBuf),
    /// Nothing: the error says what it has shown.
    Nothing,
}

/// A daemon's.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Socket(PathBuf),
    Remote(Arc<Remote>),
}

#[derive(Debug)]
pub(super) struct Remote {
    url: String,
    /// As it stands in the address: IPv6 in brackets.
    host: String,
    port: u16,
    /// None: nothing is encrypted.
    tls: Option<Secure>,
    token: HeaderValue,
}

#[derive(Debug)]
struct Secure {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    /// Of a certificate that was not the one that is meant.
    seen: Arc<OnceLock<Fingerprint>>,
}

/// What HTTP goes over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

impl Place {
    pub(super) fn remote(url: &str, token: &str, trust: &Trust) -> Result<Self, ClientError> {
        let wrong = || {
            ClientError::Usage(format!(
                "'{url}' is no address of a daemon: https://HOST:8470"
            ))
        };
        let parsed: hyper::Uri = url.parse().map_err(|_| wrong())?;
        let host = parsed.host().ok_or_else(wrong)?.to_ascii_lowercase();
        let authority = parsed.authority().map_or("", |known| known.as_str());
        if !["", "/"].contains(&parsed.path())
            || parsed.query().is_some()
            || authority.contains('@')
        {
            return Err(wrong());
        }
        let bare = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let tls = match parsed.scheme_str() {
            Some("https") => Some(Secure {
                name: ServerName::try_from(bare).map_err(|_| wrong())?,
                ..Secure::new(trust)?
            }),
            Some("http") => {
                let address = bare.parse::<IpAddr>();
                if bare != "localhost" && !address.is_ok_and(|ip| ip.to_canonical().is_loopback()) {
                    let text =
                        format!("{url}: the token would be read on the way; https://, or ssh -L");
                    return Err(ClientError::Usage(text));
                }
                None
            }
            _ => return Err(wrong()),
        };
        let text = || ClientError::Usage("that is no token".to_owned());
        let mut token = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| text())?;
        token.set_sensitive(true);
        Ok(Self::Remote(Arc::new(Remote {
            url: url.to_owned(),
            host,
            port: parsed.port_u16().unwrap_or(PORT),
            tls,
            token,
        })))
    }

    /// Says for whom a request is, and from whom.
    pub(super) fn introduce(&self, request: Builder) -> Builder {
        match self {
            Self::Socket(_) => request.header(HOST, "localhost"),
            Self::Remote(remote) => request
                .header(HOST, format!("{}:{}", remote.host, remote.port))
                .header(AUTHORIZATION, remote.token.clone()),
        }
    }

    pub(super) async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        match self {
            Self::Socket(path) => {
                let stream = UnixStream::connect(path).await;
                let path = path.clone();
                Ok(Box::new(
                    stream.map_err(|why| ClientError::Nobody { path, why })?,
                ))
            }
            Self::Remote(remote) => {
                let connected = tokio::time::timeout(PATIENCE, remote.connect()).await;
                connected.unwrap_or_else(|_| Err(remote.unreachable(&"it does not say anything")))
            }
        }
    }
}

impl Remote {
    fn unreachable(&self, why: &impl ToString) -> ClientError {
        ClientError::Unreachable {
            url: self.url.clone(),
            why: why.to_string(),
        }
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, ClientError> {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((bare, self.port)).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let shaken = connector.connect(tls.name.clone(), stream).await;
        shaken.map(|stream| Box::new(stream) as Box<dyn Stream>).map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
            match (tls.seen.get(), inner) {
                (Some(seen), _) => ClientError::Untrusted(format!(
                    "{} shows a certificate with the fingerprint {seen}: if that is what the daemon there has printed, give it with --fingerprint",
                    self.url
                )),
                (None, Some(Error::InvalidCertificate(why))) => {
                    ClientError::Untrusted(format!("{} shows a certificate that is not good: {why}", self.url))
                }
                _ => self.unreachable(&error),
            }
        })
    }
}

impl Secure {
    /// For no name yet.
    fn new(trust: &Trust) -> Result<Self, ClientError> {
        let provider = Arc::new(default_provider());
        let seen = Arc::new(OnceLock::new());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|error| ClientError::Usage(error.to_string()))?;
        let pinned = |wanted| {
            Arc::new(Pinned {
                wanted,
                seen: Arc::clone(&seen),
                provider,
            })
        };
        let mut config = match trust {
            Trust::Fingerprint(wanted) => builder
                .dangerous()
                .with_custom_certificate_verifier(pinned(Some(*wanted)))
                .with_no_client_auth(),
            Trust::Nothing => builder
                .dangerous()
                .with_custom_certificate_verifier(pinned(None))
                .with_no_client_auth(),
            Trust::Authorities(path) => builder
                .with_root_certificates(tls::authorities(path).map_err(ClientError::Usage)?)
                .with_no_client_auth(),
        };
        config.alpn_protocols = vec![SPOKEN.to_vec()];
        Ok(Self {
            config: Arc::new(config),
            name: ServerName::IpAddress(IpAddr::from([127, 0, 0, 1]).into()),
            seen,
        })
    }
}

/// Takes one certificate, whatever names and times are in it.
#[derive(Debug)]
struct Pinned {
    wanted: Option<Fingerprint>,
    seen: Arc<OnceLock<Fingerprint>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let seen = Fingerprint::of(certificate);
        if self.wanted == Some(seen) {
            return Ok(ServerCertVerified::assertion());
        }
        let _ = self.seen.set(seen);
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // It is not offered.
        Err(Error::General("TLS 1.2 is not spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_or_refused_before_anybody_is_asked() {
        let place = |url: &str| Place::remote(url, "t", &Trust::Nothing);
        for url in [
            "https://h",
            "https://h:1/",
            "https://[::1]:9",
            "http://localhost:8470",
            "http://127.0.0.1:1",
            "http://[::1]",
        ] {
            assert!(place(url).is_ok(), "{url}");
        }
        for url in [
            "",
            "h",
            "h:8470",
            "ftp://h",
            "https://h/x",
            "https://h?x",
            "https://u@h",
            "http://h",
            "http://192.0.2.1",
            "https://",
        ] {
            assert!(matches!(place(url), Err(ClientError::Usage(_))), "{url}");
        }
        assert!(Place::remote("https://h", "a\nb", &Trust::Nothing).is_err());
    }
}
