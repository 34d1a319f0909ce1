//! Private keys.

use super::files::{self, Exposure, io_error};
use super::{KeyError, KeyLine, ParseKeyError, PublicKey};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use howdah_core::text::without_byte_order_mark;
use rustls::crypto::aws_lc_rs::sign::any_eddsa_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use zeroize::{Zeroize as _, Zeroizing};

/// Largest private key file that is read, in bytes. A PEM of Ed25519 is about 120.
const MAX_FILE: u64 = 16 << 10;

/// An Ed25519 key pair. Clones share it.
#[derive(Clone)]
pub struct Identity(Arc<Inner>);

struct Inner {
    private: PrivatePkcs8KeyDer<'static>,
    public: PublicKey,
    /// In the file it stands before the key: text there is for people (RFC 7468, section 2).
    comment: String,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.private.zeroize();
    }
}

/// What the line of the comment in a private key file begins with.
const COMMENT: &str = "Comment: ";

impl Identity {
    /// Makes a new key from the operating system's random source.
    pub fn generate() -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::generate().map_err(|_| KeyError::RandomSource)?;
        // Version 1 (without the public key) is what OpenSSL and others read.
        let private = pair.to_pkcs8v1().map_err(|_| KeyError::RandomSource)?;
        Self::from_pkcs8(private.as_ref().to_vec().into()).ok_or(KeyError::RandomSource)
    }

    /// The same key with a comment, which goes into its file; an empty one is none.
    pub fn commented(self, comment: &str) -> Result<Self, ParseKeyError> {
        // Whatever a line of a key takes, and gives back as it was.
        let line: KeyLine = format!("{} {comment}", self.0.public).parse()?;
        Ok(Self(Arc::new(Inner {
            private: self.0.private.clone_key(),
            public: self.0.public,
            comment: line.comment,
        })))
    }

    /// What [`commented`](Self::commented) gave it; empty if nothing did.
    pub fn comment(&self) -> &str {
        &self.0.comment
    }

    /// Reads a PEM file that only its owner can read.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        let bytes = Zeroizing::new(files::read(path, MAX_FILE, Exposure::Secret)?);
        let wrong = |reason: String| KeyError::NotAPrivateKey {
            path: path.to_owned(),
            reason,
        };
        let private = PrivateKeyDer::from_pem_slice(without_byte_order_mark(&bytes))
            .map_err(|e| wrong(e.to_string()))?;
        let PrivateKeyDer::Pkcs8(private) = private else {
            return Err(wrong("it is not in PKCS#8 form".to_owned()));
        };
        let identity =
            Self::from_pkcs8(private).ok_or_else(|| wrong("another kind of key".to_owned()))?;
        let first = bytes.split(|&byte| byte == b'\n').next();
        let comment = first
            .and_then(|line| std::str::from_utf8(line).ok())
            .and_then(|line| line.strip_prefix(COMMENT));
        identity
            .commented(comment.unwrap_or_default())
            .map_err(|e| wrong(e.to_string()))
    }

    /// Writes the key to a new file that only its owner can read; its directory is made if absent.
    ///
    /// An existing file is never overwritten.
    pub fn save_new(&self, path: &Path) -> Result<(), KeyError> {
        files::create_parent(path)?;
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::AlreadyExists => KeyError::AlreadyExists {
                    path: path.to_owned(),
                },
                _ => io_error("create", path)(error),
            })?;
        let written = file
            .write_all(self.to_pem().as_bytes())
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            // Half a key would block the next attempt.
            let _ = std::fs::remove_file(path);
            return Err(io_error("write", path)(error));
        }
        files::sync_parent(path)
    }

    /// Loads the key at `path`, or makes one there; `true` if it was made now.
    pub fn load_or_create(path: &Path) -> Result<(Self, bool), KeyError> {
        match Self::load(path) {
            Err(error) if error.is_not_found() => {}
            other => return other.map(|identity| (identity, false)),
        }
        let identity = Self::generate()?;
        match identity.save_new(path) {
            Ok(()) => Ok((identity, true)),
            // Another process was faster: use its key.
            Err(KeyError::AlreadyExists { .. }) => Self::load(path).map(|i| (i, false)),
            Err(error) => Err(error),
        }
    }

    /// The public half.
    pub fn public_key(&self) -> &PublicKey {
        &self.0.public
    }

    /// A signature (RFC 8032) of these bytes, which must begin with what they are for: handshakes are signed by the same key.
    pub(crate) fn sign(&self, bytes: &[u8]) -> Result<[u8; 64], KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8(self.0.private.secret_pkcs8_der());
        let signed = pair.ok().map(|pair| pair.sign(bytes));
        let signed = signed.and_then(|signed| signed.as_ref().try_into().ok());
        signed.ok_or(KeyError::RandomSource)
    }

    /// What rustls needs to act under this key with raw public keys: the "certificate" is the
    /// [`PublicKey::spki_der`]. Not part of the stable interface.
    ///
    /// # Panics
    /// Never: the key was checked when it was made or read.
    #[doc(hidden)]
    pub fn rustls_certified_key(&self) -> Arc<CertifiedKey> {
        let spki = CertificateDer::from(self.0.public.spki_der().to_vec());
        let key = any_eddsa_type(&self.0.private).expect("checked by the constructor");
        Arc::new(CertifiedKey::new(vec![spki], key))
    }

    fn from_pkcs8(private: PrivatePkcs8KeyDer<'static>) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(private.secret_pkcs8_der()).ok()?;
        any_eddsa_type(&private).ok()?;
        let public = PublicKey::from_raw(pair.public_key().as_ref().try_into().ok()?);
        let comment = String::new();
        Some(Self(Arc::new(Inner {
            private,
            public,
            comment,
        })))
    }

    fn to_pem(&self) -> Zeroizing<String> {
        let der = Zeroizing::new(STANDARD.encode(self.0.private.secret_pkcs8_der()));
        // As much as it will need: a text that grows leaves copies behind.
        let mut pem = Zeroizing::new(String::with_capacity(
            2 * der.len() + self.comment().len() + 128,
        ));
        if !self.comment().is_empty() {
            pem.push_str(COMMENT);
            pem.push_str(self.comment());
            pem.push('\n');
        }
        pem.push_str("-----BEGIN PRIVATE KEY-----\n");
        for at in (0..der.len()).step_by(64) {
            pem.push_str(&der[at..der.len().min(at + 64)]);
            pem.push('\n');
        }
        pem.push_str("-----END PRIVATE KEY-----\n");
        pem
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({}, private key not shown)", self.0.public)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
    use proptest::prelude::*;
    use rustls::SignatureScheme;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    fn write(path: &Path, bytes: &[u8], mode: u32) {
        fs::write(path, bytes).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_saved_key_is_private_and_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/er/id.pem");
        let (made, created) = Identity::load_or_create(&path).unwrap();
        assert!(created);
        assert_eq!(mode(&path), 0o600);
        assert_eq!(mode(path.parent().unwrap()), 0o700);
        let (again, created) = Identity::load_or_create(&path).unwrap();
        assert!(!created);
        assert_eq!(made.public_key(), again.public_key());
        assert!(matches!(
            again.save_new(&path),
            Err(KeyError::AlreadyExists { .. })
        ));
        assert!(!format!("{made:?}").contains(&made.to_pem()[30..60]));
    }

    /// How often those bytes, each of them changed with `MASK`, stand in the memory of this process that can be written.
    #[cfg(target_os = "linux")]
    fn places_in_memory(masked: &[u8]) -> usize {
        use std::os::unix::fs::FileExt as _;
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let memory = fs::File::open("/proc/self/mem").unwrap();
        let mut found = 0;
        let mut chunk = vec![0u8; 1 << 16];
        let own = chunk.as_ptr() as u64;
        for line in maps.lines().filter(|line| line.contains(" rw-p ")) {
            let (range, _) = line.split_once(' ').unwrap();
            let (start, end) = range.split_once('-').unwrap();
            let number = |text| u64::from_str_radix(text, 16).unwrap();
            let (mut at, end) = (number(start), number(end));
            while at < end {
                let want = (end - at).min(chunk.len() as u64) as usize;
                let Ok(got) = memory.read_at(&mut chunk[..want], at) else {
                    break;
                };
                if got < masked.len() {
                    break;
                }
                let is_it = |window: &[u8]| window.iter().zip(masked).all(|(a, b)| a ^ MASK == *b);
                let places = chunk[..got].windows(masked.len()).enumerate();
                // What was read a moment ago stands in the buffer.
                let others = places.filter(|(n, window)| {
                    let place = at + *n as u64;
                    !(own..own + (1 << 16)).contains(&place) && is_it(window)
                });
                found += others.count();
                at += (got - masked.len() + 1) as u64;
            }
        }
        chunk.fill(0);
        found
    }

    #[cfg(target_os = "linux")]
    const MASK: u8 = 0x5a;

    /// H13: nothing of a private key stays in memory when nobody needs it any more.
    #[cfg(target_os = "linux")]
    #[test]
    fn h13_private_keys_are_wiped_from_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id.pem");
        let (identity, _) = Identity::load_or_create(&path).unwrap();
        let masked: Vec<u8> = {
            let der = identity.0.private.secret_pkcs8_der();
            // The 32 bytes of the key are the last ones of version 1.
            der[der.len() - 32..]
                .iter()
                .map(|byte| byte ^ MASK)
                .collect()
        };
        let again = Identity::load(&path).unwrap();
        assert!(
            places_in_memory(&masked) >= 2,
            "the search finds what is there"
        );
        drop((identity, again));
        assert_eq!(places_in_memory(&masked), 0);
    }

    #[test]
    fn a_key_that_others_can_read_is_refused_with_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id.pem");
        let pem = Identity::generate().unwrap().to_pem();
        for bad in [0o640, 0o604, 0o660, 0o620, 0o777] {
            write(&path, pem.as_bytes(), bad);
            let error = Identity::load(&path).unwrap_err();
            assert!(matches!(error, KeyError::ReadableByOthers { mode, .. } if mode == bad));
            assert!(error.to_string().contains("chmod 600 "), "{error}");
        }
        write(&path, pem.as_bytes(), 0o400);
        Identity::load(&path).unwrap();
    }

    #[test]
    fn other_files_are_not_keys() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("id.pem");
        let identity = Identity::generate().unwrap();
        let pem = identity.to_pem();
        let cut = &pem[..60];
        let broken = pem.replace("MC4C", "MC5C");
        let rsa = pem.replace("PRIVATE", "RSA PRIVATE");
        for text in [
            "",
            "hello",
            cut,
            &broken,
            &rsa,
            &pem.replace("PRIVATE", "PUBLIC"),
        ] {
            write(&path, text.as_bytes(), 0o600);
            let error = Identity::load(&path).unwrap_err();
            assert!(
                matches!(error, KeyError::NotAPrivateKey { .. }),
                "{text}: {error}"
            );
        }
        let windows = format!("\u{feff}{}", pem.replace('\n', "\r\n"));
        write(&path, windows.as_bytes(), 0o600);
        assert_eq!(
            Identity::load(&path).unwrap().public_key(),
            identity.public_key()
        );
        write(&path, &vec![b'-'; 20_000], 0o600);
        assert!(matches!(
            Identity::load(&path).unwrap_err(),
            KeyError::TooLarge { .. }
        ));
        assert!(matches!(
            Identity::load(dir.path()).unwrap_err(),
            KeyError::NotAFile { .. }
        ));
        assert!(
            Identity::load(&dir.path().join("none"))
                .unwrap_err()
                .is_not_found()
        );
    }

    #[test]
    fn rustls_signs_with_it_and_shows_the_same_public_key() {
        let identity = Identity::generate().unwrap();
        let certified = identity.rustls_certified_key();
        assert_eq!(&*certified.cert[0], identity.public_key().spki_der());
        let spki = certified.key.public_key().unwrap();
        assert_eq!(&*spki, identity.public_key().spki_der());
        let signer = certified
            .key
            .choose_scheme(&[SignatureScheme::ED25519])
            .unwrap();
        let signature = signer.sign(b"message").unwrap();
        UnparsedPublicKey::new(&ED25519, identity.public_key().raw())
            .verify(b"message", &signature)
            .unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_damaged_file_never_panics(at in 0usize..119, byte: u8) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("id.pem");
            let mut pem = Identity::generate().unwrap().to_pem().as_bytes().to_vec();
            let at = at % pem.len();
            pem[at] = byte;
            write(&path, &pem, 0o600);
            let _ = Identity::load(&path);
        }
    }
}
