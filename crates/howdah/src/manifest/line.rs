//! A line of such a list: `HEX  PATH` as of `b3sum` and `sha256sum`, or `BLAKE3 (PATH) = HEX` as of their `--tag`. A backslash
//! before it says that backslashes and ends of lines in the path are escaped (coreutils, "md5sum invocation").

use super::ManifestHash;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

/// No path that could be opened makes a longer one.
pub(super) const LINE_MAX: usize = 16 << 10;

const HEX_DIGITS: usize = 64;

/// A file and what it is to hold.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Line {
    pub(super) path: PathBuf,
    pub(super) hash: [u8; 32],
    pub(super) kind: ManifestHash,
}

/// Appends the line of a file, with its end. Carriage returns are escaped as each program does it: `b3sum` does not.
pub(super) fn put(out: &mut Vec<u8>, kind: ManifestHash, hash: &[u8; 32], path: &[u8]) {
    let is_special = |byte: &u8| match byte {
        b'\\' | b'\n' => true,
        b'\r' => kind == ManifestHash::Sha256,
        _ => false,
    };
    let special = path.iter().any(is_special);
    if special {
        out.push(b'\\');
    }
    for byte in hash {
        out.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    out.extend(b"  ");
    if path == b"-" {
        // Alone it would mean standard input.
        out.extend(b"./");
    }
    for byte in path {
        match byte {
            b'\\' => out.extend(b"\\\\"),
            b'\n' => out.extend(b"\\n"),
            b'\r' if kind == ManifestHash::Sha256 => out.extend(b"\\r"),
            other => out.push(*other),
        }
    }
    out.push(b'\n');
}

/// What a line without its end says; `Ok(None)`: nothing. `default`: what a line has that does not say it itself. `below`: its
/// path is one below a directory.
pub(super) fn read(
    line: &[u8],
    default: ManifestHash,
    below: bool,
) -> Result<Option<Line>, &'static str> {
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let (is_escaped, rest) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (kind, hex, name) = split(rest, default)?;
    let hash = hash_of(hex).ok_or("the hash is not of 64 hexadecimal digits")?;
    let name = if is_escaped {
        unescape(name).ok_or("there is a backslash that escapes nothing")?
    } else {
        name.to_vec()
    };
    if name.contains(&0) {
        return Err("the path has a NUL byte");
    }
    let path = PathBuf::from(OsString::from_vec(name));
    let path = plain(&path, below)?;
    Ok(Some(Line { path, hash, kind }))
}

/// Kind, hash and name.
fn split(line: &[u8], default: ManifestHash) -> Result<(ManifestHash, &[u8], &[u8]), &'static str> {
    for (tag, kind) in [
        (&b"BLAKE3 ("[..], ManifestHash::Blake3),
        (b"SHA256 (", ManifestHash::Sha256),
    ] {
        if let Some(rest) = line.strip_prefix(tag) {
            // A name may have brackets, too.
            let at = rest.len().checked_sub(HEX_DIGITS);
            let (name, hex) = at.map(|at| rest.split_at(at)).unwrap_or_default();
            let name = name.strip_suffix(b") = ");
            return Ok((kind, hex, name.ok_or("it ends before ') = ' and a hash")?));
        }
    }
    let (hex, rest) = line
        .split_at_checked(HEX_DIGITS)
        .ok_or("it is neither HEX  PATH nor SHA256 (PATH) = HEX")?;
    let name = rest
        .strip_prefix(b"  ")
        .or_else(|| rest.strip_prefix(b" *"));
    match name {
        Some(name) => Ok((default, hex, name)),
        None => Err("there is no hash of 64 digits with two blanks and a path behind it"),
    }
}

fn hash_of(hex: &[u8]) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    if hex.len() != HEX_DIGITS {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(hex.chunks_exact(2)) {
        let digit = |at: usize| char::from(*pair.get(at)?).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(hash)
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            other => *other,
        });
    }
    Some(plain)
}

/// Without dots and slashes that mean nothing. `below`: what could lead out is refused.
fn plain(path: &Path, below: bool) -> Result<PathBuf, &'static str> {
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err("the path ends with a slash, and only files have hashes");
    }
    let parts: PathBuf = path
        .components()
        .filter(|part| *part != Component::CurDir)
        .collect();
    if parts.as_os_str().is_empty() {
        return Err("there is no path");
    }
    let leads_out = |part: Component<'_>| !matches!(part, Component::Normal(_));
    if below && parts.components().any(leads_out) {
        return Err("the path is absolute or has '..': below DIR neither is taken");
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::ffi::OsStr;

    const HEX: &str = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

    fn read_text(text: &str, below: bool) -> Result<Option<(String, &'static str)>, &'static str> {
        let text = text.replace("HEX", HEX);
        let line = read(text.as_bytes(), ManifestHash::Blake3, below)?;
        Ok(line.map(|line| {
            assert_eq!((line.hash[1], line.hash[16]), (0x11, 0xff));
            (line.path.to_str().unwrap().to_owned(), line.kind.name())
        }))
    }

    #[test]
    fn both_forms_of_both_programs_are_read() {
        for (text, path, kind) in [
            ("HEX  a/b c", "a/b c", "blake3"),
            ("HEX *a", "a", "blake3"),
            ("HEX   a", " a", "blake3"),
            ("HEX  ./a//b/./c", "a/b/c", "blake3"),
            ("HEX  a\\nb", "a\\nb", "blake3"),
            ("\\HEX  a\\nb\\\\n\\r", "a\nb\\n\r", "blake3"),
            ("SHA256 (a) = HEX", "a", "sha256"),
            ("BLAKE3 (a (b) = c) = HEX", "a (b) = c", "blake3"),
            ("\\SHA256 (a\\nb) = HEX", "a\nb", "sha256"),
        ] {
            assert_eq!(
                read_text(text, true),
                Ok(Some((path.to_owned(), kind))),
                "{text}"
            );
        }
        for nothing in ["", "# a comment"] {
            assert_eq!(read_text(nothing, true), Ok(None));
        }
    }

    #[test]
    fn what_is_no_line_is_an_error() {
        for text in [
            "a",
            "HEX",
            "HEX ",
            "HEX  ",
            "HEX  .",
            "HEX a",
            "HEX  a/",
            "HEX0  a",
            "0HEX  a",
            "gHEX  a",
            "\\HEX  a\\",
            "\\HEX  a\\t",
            "SHA256 (a) = ",
            "SHA256 (a)= HEX",
            "SHA256 () = HEX",
            "MD5 (a) = HEX",
            "HEX  a\0b",
            "\u{feff}HEX  a",
        ] {
            assert!(read_text(text, false).is_err(), "{text:?}");
        }
        let almost = HEX.replacen('0', "g", 1);
        assert!(read_text(&format!("{almost}  a"), false).is_err());
    }

    #[test]
    fn below_a_directory_nothing_leads_out() {
        for path in [
            "/etc/passwd",
            "..",
            "../a",
            "a/../../b",
            "a/..",
            "./../a",
            "//a",
        ] {
            let text = format!("HEX  {path}");
            assert!(read_text(&text, true).is_err(), "{path}");
            assert!(read_text(&text, false).is_ok(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            hash in any::<[u8; 32]>(),
            name in proptest::collection::vec(
                prop_oneof![Just(b'\\'), Just(b'\n'), Just(b'\r'), Just(b' '), Just(b'-'), 1..=255u8],
                1..40,
            ),
        ) {
            let kind = if hash[0] < 128 { ManifestHash::Blake3 } else { ManifestHash::Sha256 };
            let name: Vec<u8> = name.into_iter().filter(|byte| *byte != b'/').collect();
            prop_assume!(!name.is_empty() && name != b"." && name != b"..");
            let mut text = Vec::new();
            put(&mut text, kind, &hash, &name);
            prop_assert_eq!(text.pop(), Some(b'\n'));
            prop_assert!(!text.contains(&b'\n'));
            let line = read(&text, kind, true).unwrap().unwrap();
            prop_assert_eq!(line.path.as_os_str(), OsStr::from_bytes(&name));
            prop_assert_eq!(line.hash, hash);
            prop_assert_eq!(line.kind, kind);
        }

        #[test]
        fn no_line_makes_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), below: bool) {
            let _ = read(&bytes, ManifestHash::Blake3, below);
        }
    }
}
