//! Who a daemon is for those who reach it from other machines: a certificate, its key, and its fingerprint.

use crate::private;
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{RootCertStore, ServerConfig};
use std::fmt::{self, Write as _};
use std::fs;
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use webpki::EndEntityCert;

/// Of a certificate that the daemon has made, in its directory.
pub const CERTIFICATE: &str = "tls-cert.pem";
/// Of its key.
pub const KEY: &str = "tls-key.pem";
/// Of a file; no more of a longer one is read.
const LONGEST: u64 = 1 << 20;
/// As ALPN has it: nothing else is spoken here.
pub(crate) const SPOKEN: &[u8] = b"http/1.1";

/// Where the certificate comes from.
#[derive(Clone, Debug)]
pub enum Tls {
    /// The daemon makes it, once, and signs it itself.
    Own,
    /// Somebody else has made it.
    Files {
        /// A certificate, and those that lead from it to one that clients know, in PEM.
        certificate: PathBuf,
        /// Its private key, in PEM, which nobody else may read.
        key: PathBuf,
    },
}

/// SHA-256 of a certificate: what tells it from every other one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, certificate).as_ref());
        Self(bytes)
    }
}

/// As openssl and browsers show it.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            write!(f, "{}{byte:02X}", if at > 0 { ":" } else { "" })?;
        }
        Ok(())
    }
}

impl FromStr for Fingerprint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a fingerprint is 64 hexadecimal digits, as the daemon prints it".to_owned();
        let text = text
            .get(..7)
            .filter(|start| start.eq_ignore_ascii_case("sha256:"))
            .map_or(text, |_| &text[7..]);
        let digits: String = text.chars().filter(|c| *c != ':').collect();
        blake3::Hash::from_hex(digits.to_ascii_lowercase())
            .map(|hash| Self(*hash.as_bytes()))
            .map_err(|_| wrong())
    }
}

/// What a daemon shows.
pub(crate) struct Shown {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) fingerprint: Fingerprint,
    certificate: CertificateDer<'static>,
}

impl Shown {
    /// Whether the certificate is for that name or address.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let Ok(name) = ServerName::try_from(bare.unwrap_or(host)) else {
            return false;
        };
        EndEntityCert::try_from(&self.certificate)
            .is_ok_and(|known| known.verify_is_valid_for_subject_name(&name).is_ok())
    }
}

/// Reads the certificate, or makes it for who listens there.
pub(crate) fn load(
    tls: &Tls,
    directory: &Path,
    address: SocketAddr,
) -> Result<Shown, (PathBuf, String)> {
    let (certificate, key) = match tls {
        Tls::Files { certificate, key } => (certificate.clone(), key.clone()),
        Tls::Own => {
            let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
            // The key comes first: a certificate that is there has one.
            if !certificate.try_exists().unwrap_or(true) {
                make(&certificate, &key, address).map_err(|why| (certificate.clone(), why))?;
            }
            (certificate, key)
        }
    };
    let text = read(&certificate, false).map_err(|why| (certificate.clone(), why))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| {
        (
            certificate.clone(),
            format!("no certificates in PEM: {error}"),
        )
    })?;
    let Some(first) = chain.first().cloned() else {
        return Err((
            certificate,
            "there is no certificate in it, in PEM".to_owned(),
        ));
    };
    if let Err(error) = EndEntityCert::try_from(&first) {
        return Err((
            certificate,
            format!("its first certificate makes no sense: {error}"),
        ));
    }
    let text = read(&key, true).map_err(|why| (key.clone(), why))?;
    let secret = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|error| (key.clone(), format!("no private key in PEM: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(chain, secret)
        });
    let mut config = config.map_err(|error| {
        (
            key,
            format!("it does not go with {}: {error}", certificate.display()),
        )
    })?;
    config.alpn_protocols = vec![SPOKEN.to_vec()];
    Ok(Shown {
        config: Arc::new(config),
        fingerprint: Fingerprint::of(&first),
        certificate: first,
    })
}

/// Who may vouch for others: those in that file, in PEM.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = read(path, false).map_err(wrong)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let mut store = RootCertStore::empty();
    let (good, _) =
        store.add_parsable_certificates(found.map_err(|error| wrong(error.to_string()))?);
    if good == 0 {
        return Err(wrong("there is no certificate in it, in PEM".to_owned()));
    }
    Ok(store)
}

/// Those that this machine knows.
pub(crate) fn known_authorities() -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    let (good, _) = store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if good == 0 {
        let text = "this machine knows no authorities of certificates: install ca-certificates, or name some with 'ca'";
        return Err(text.to_owned());
    }
    Ok(store)
}

/// A secret is nobody else's.
fn read(path: &Path, is_secret: bool) -> Result<Vec<u8>, String> {
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if is_secret && found.mode() & 0o077 != 0 {
        return Err("others may read this key: chmod 600 it".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Makes a certificate that signs itself, and its key.
fn make(certificate: &Path, key: &Path, address: SocketAddr) -> Result<(), String> {
    let mut names: Vec<_> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    // A name that is none for a certificate is left out: whoever uses it names another one.
    let own = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if !own.is_empty() && own.chars().all(is_plain) {
        names.push(own);
    }
    if !address.ip().is_unspecified() {
        names.push(address.ip().to_string());
    }
    names.sort();
    names.dedup();
    let pair = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
    let mut wanted = rcgen::CertificateParams::new(names).map_err(|error| error.to_string())?;
    wanted.distinguished_name = rcgen::DistinguishedName::new();
    wanted
        .distinguished_name
        .push(rcgen::DnType::CommonName, "howdah daemon");
    wanted.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let made = wanted
        .self_signed(&pair)
        .map_err(|error| error.to_string())?;
    let write = || {
        private::write_new(key, &pem("PRIVATE KEY", &pair.serialize_der()))?;
        private::write_new(certificate, &pem("CERTIFICATE", made.der()))
    };
    write().map_err(|error: io::Error| error.to_string())
}

fn pem(label: &str, der: &[u8]) -> String {
    const WIDTH: usize = 64;
    let body = BASE64_STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(WIDTH) {
        let _ = writeln!(text, "{}", String::from_utf8_lossy(line));
    }
    let _ = writeln!(text, "-----END {label}-----");
    text
}

/// An address as people and kernels write it: IPv4 is not hidden in IPv6.
pub(crate) fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn anywhere() -> SocketAddr {
        "192.0.2.7:8470".parse().unwrap()
    }

    #[test]
    fn a_certificate_is_made_once_for_the_names_of_the_machine() {
        let dir = tempfile::tempdir().unwrap();
        let shown = load(&Tls::Own, dir.path(), anywhere()).unwrap_or_else(|e| panic!("{e:?}"));
        let again = load(&Tls::Own, dir.path(), anywhere()).unwrap_or_else(|e| panic!("{e:?}"));
        assert_eq!(shown.fingerprint, again.fingerprint);
        for name in ["localhost", "127.0.0.1", "[::1]", "::1", "192.0.2.7"] {
            assert!(shown.is_for(name), "{name}");
        }
        for name in [
            "",
            "evil.example",
            "192.0.2.8",
            "[::2]",
            "localhost.evil.example",
            "*",
            "[localhost",
        ] {
            assert!(!shown.is_for(name), "{name}");
        }
        for name in [CERTIFICATE, KEY] {
            let mode = fs::metadata(dir.path().join(name)).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
    }

    #[test]
    fn files_that_make_no_sense_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let own = load(&Tls::Own, dir.path(), anywhere()).unwrap_or_else(|e| panic!("{e:?}"));
        let other = tempfile::tempdir().unwrap();
        let theirs = load(&Tls::Own, other.path(), anywhere()).unwrap_or_else(|e| panic!("{e:?}"));
        assert_ne!(own.fingerprint, theirs.fingerprint);
        let files = |certificate: PathBuf, key: PathBuf| {
            let tls = Tls::Files { certificate, key };
            load(&tls, dir.path(), anywhere())
                .err()
                .expect("they are refused")
        };
        let (certificate, key) = (dir.path().join(CERTIFICATE), dir.path().join(KEY));
        let (path, why) = files(certificate.clone(), other.path().join(KEY));
        assert!(
            path.ends_with(KEY) && why.contains("does not go with"),
            "{why}"
        );
        let (path, why) = files(key.clone(), key.clone());
        assert!(
            path.ends_with(KEY) && why.contains("no certificate"),
            "{why}"
        );
        let (_, why) = files(certificate.clone(), certificate.clone());
        assert!(why.contains("no private key"), "{why}");
        let (path, _) = files(dir.path().join("nothing"), key.clone());
        assert!(path.ends_with("nothing"));
        fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
        let (_, why) = files(certificate, key);
        assert!(why.contains("chmod 600"), "{why}");
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_shown_and_as_others_show_it() {
        let shown = Fingerprint([0xA5; 32]).to_string();
        assert_eq!(shown.len(), 95);
        for text in [
            shown.clone(),
            shown.to_lowercase(),
            shown.replace(':', ""),
            format!("SHA256:{shown}"),
        ] {
            assert_eq!(text.parse(), Ok(Fingerprint([0xA5; 32])), "{text}");
        }
        for text in [
            "",
            "A5",
            "sha256:",
            &shown[2..],
            &format!("{shown}:00"),
            &shown.replace('A', "G"),
        ] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
