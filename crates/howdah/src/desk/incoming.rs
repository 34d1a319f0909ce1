//! Reads the answers to questions about files.

use super::{Desk, FilesAnswer, Open};
use crate::Error;
use crate::session::dialogue;
use crate::session::files::protocol;
use howdah_session::Misbehaved;
use howdah_session::files::{FilesRequest, Header, Part};
use howdah_session::plans::PlanAnswer;
use std::io::{self, Read};

/// Names of one directory; more are refused, since they are held in memory.
const ENTRIES_MAX: usize = 4_000_000;

/// The longest name of one, in bytes: some file systems have longer ones than Linux's 255.
const NAME_MAX: usize = 1_023;

/// Of what a lease has, or of the list of a tree's hashes, in bytes: of some million files.
const TEXT_MAX: usize = 512 << 20;

/// Bytes for which there is room before they are there.
const AT_ONCE: usize = 1 << 20;

/// Reads until the connection is over.
pub(super) fn read(desk: &Desk, mut from: impl Read) {
    let mut next = || -> io::Result<Option<Result<(), Error>>> {
        let header = match read_header(&mut from)? {
            None => return Ok(None),
            Some(Err(error)) => return Ok(Some(Err(error.into()))),
            Some(Ok(header)) => header,
        };
        let Some(mut open) = desk.take(header.id) else {
            return Ok(Some(Err(protocol("the server answers what was not asked"))));
        };
        let answer = match hear(&mut open, header.part, &mut from) {
            Ok(answer) => answer,
            Err(trouble) => {
                // The question is asked again, or hears how the connection ended.
                desk.put_back(header.id, open);
                return trouble.map(|error| Some(Err(error)));
            }
        };
        match answer {
            None => desk.put_back(header.id, open),
            Some(result) => desk.answer(open, result),
        }
        Ok(Some(Ok(())))
    };
    // An answer that is cut off ends with its connection.
    while let Ok(Some(result)) = next() {
        if let Err(error) = result {
            return desk.fail(error);
        }
    }
}

/// The next header; `None` at the end.
fn read_header(from: &mut impl Read) -> io::Result<Option<Result<Header, Misbehaved>>> {
    let mut len = [0; 4];
    match from.read(&mut len[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut len[1..])?,
    }
    let mut bytes = match Header::length(len) {
        Ok(len) => vec![0; len],
        Err(error) => return Ok(Some(Err(error))),
    };
    from.read_exact(&mut bytes)?;
    Ok(Some(Header::decode(&bytes)))
}

/// Whether that is the name of something in a directory: whoever copies what is listed makes paths of it (H1).
fn is_name(name: &[u8]) -> bool {
    let is_long = name.len() > NAME_MAX;
    !is_long
        && !matches!(name, b"" | b"." | b"..")
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Takes a part of an answer; returns the answer if it was the last one. An error is how the connection ended (`Err`), or
/// what makes no sense (`Ok`).
fn hear(
    open: &mut Open,
    part: Part,
    from: &mut impl Read,
) -> Result<Option<Result<FilesAnswer, Error>>, io::Result<Error>> {
    let senseless = || {
        Ok(protocol(
            "the server answers another question than the one asked",
        ))
    };
    let answer = match (part, &open.request) {
        (Part::Failed { kind, message }, _) => {
            return Ok(Some(Err(dialogue::failure(kind, &message, "the server"))));
        }
        (Part::Bytes { range, len }, FilesRequest::Read { ranges, .. }) => {
            let at = range as usize;
            let Some(&(_, wanted)) = ranges.get(at) else {
                return Err(senseless());
            };
            if open.parts.len() <= at {
                open.parts.resize(ranges.len(), Vec::new());
            }
            let bytes = &mut open.parts[at];
            let had = bytes.len();
            let has = had + len as usize;
            if has as u64 > wanted {
                return Err(Ok(protocol(
                    "the server sends more of a file than was asked for",
                )));
            }
            if had == 0 {
                // What a range holds is known to the server; this much is believed.
                bytes.reserve_exact(wanted.min(1 << 20) as usize);
            }
            // What is announced takes memory when it comes, and not before.
            while bytes.len() < has {
                let start = bytes.len();
                bytes.resize(has.min(start + AT_ONCE), 0);
                from.read_exact(&mut bytes[start..]).map_err(Err)?;
            }
            return Ok(None);
        }
        (Part::Read { version }, FilesRequest::Read { ranges, .. }) => {
            let mut parts = std::mem::take(&mut open.parts);
            parts.resize(ranges.len(), Vec::new());
            FilesAnswer::Bytes { parts, version }
        }
        (Part::Entries(entries), FilesRequest::List { .. }) => {
            if !entries.iter().all(|entry| is_name(entry.name.as_bytes())) {
                return Err(Ok(protocol(
                    "the server tells of a name that leads out of its directory, or is none",
                )));
            }
            open.entries.extend(entries);
            if open.entries.len() > ENTRIES_MAX {
                return Err(Ok(protocol(
                    "the server tells of more names than one directory may have",
                )));
            }
            return Ok(None);
        }
        (Part::Done, FilesRequest::List { .. }) => {
            FilesAnswer::Entries(std::mem::take(&mut open.entries))
        }
        (Part::Plan(PlanAnswer::Records(records)), FilesRequest::Plan(_)) => {
            open.records.extend(records);
            if open.records.len() > ENTRIES_MAX {
                return Err(Ok(protocol(
                    "the server tells of more leases than a plan may have",
                )));
            }
            return Ok(None);
        }
        (
            Part::Plan(answer @ (PlanAnswer::SheetPart(_) | PlanAnswer::Sums(_))),
            FilesRequest::Plan(_),
        ) => {
            match answer {
                PlanAnswer::SheetPart(text) => open.text.extend(text.into_bytes()),
                PlanAnswer::Sums(text) => open.text.extend(text),
                _ => {}
            }
            if open.text.len() > TEXT_MAX {
                return Err(Ok(protocol(
                    "the server tells of more than 512 MiB of names and hashes of a plan; finish it without --manifest, or plan the directories below by themselves",
                )));
            }
            return Ok(None);
        }
        (Part::Plan(answer), FilesRequest::Plan(_)) => FilesAnswer::Plan(match answer {
            PlanAnswer::Sheet(rest) => {
                open.text.extend(rest.into_bytes());
                let text = String::from_utf8(std::mem::take(&mut open.text));
                PlanAnswer::Sheet(text.map_err(|_| senseless())?)
            }
            PlanAnswer::FinishedTree {
                blake3,
                files,
                bytes,
                lacking,
                notes,
                sums,
            } => {
                open.text.extend(sums);
                PlanAnswer::FinishedTree {
                    blake3,
                    files,
                    bytes,
                    lacking,
                    notes,
                    sums: std::mem::take(&mut open.text),
                }
            }
            PlanAnswer::Looked {
                records,
                highest,
                has_plan,
            } => {
                open.records.extend(records);
                PlanAnswer::Looked {
                    records: std::mem::take(&mut open.records),
                    highest,
                    has_plan,
                }
            }
            answer => answer,
        }),
        (Part::Info(info), FilesRequest::Stat { .. }) => FilesAnswer::Info(info),
        (Part::Hash { blake3, version }, FilesRequest::Hash { .. }) => {
            FilesAnswer::Hash { blake3, version }
        }
        (
            Part::Signed {
                statement,
                signature,
            },
            FilesRequest::Sign { .. },
        ) => FilesAnswer::Signed {
            statement,
            signature,
        },
        (Part::Done, FilesRequest::Sign { .. }) => return Err(senseless()),
        (Part::Done, request) if request.changes() => FilesAnswer::Done,
        _ => return Err(senseless()),
    };
    Ok(Some(Ok(answer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use std::sync::mpsc::{Receiver, channel};

    /// A desk with a question asked as number 0.
    fn asked(request: FilesRequest) -> (Desk, Receiver<Result<FilesAnswer, Error>>) {
        let (tell, heard) = channel();
        let desk = Desk::default();
        desk.ask(request, Box::new(move |answer| drop(tell.send(answer))));
        assert_eq!(desk.take_questions().len(), 1);
        (desk, heard)
    }

    fn ranges(ranges: &[(u64, u64)]) -> FilesRequest {
        FilesRequest::Read {
            path: "x".into(),
            version: None,
            ranges: ranges.to_vec(),
        }
    }

    fn said(id: u64, part: Part, bytes: &[u8]) -> Vec<u8> {
        [&Header { id, part }.encode()[..], bytes].concat()
    }

    fn piece(range: u32, bytes: &[u8]) -> Vec<u8> {
        let len = bytes.len() as u32;
        said(0, Part::Bytes { range, len }, bytes)
    }

    #[test]
    fn pieces_are_put_together() {
        let (desk, heard) = asked(ranges(&[(0, 4), (9, 4), (5, 0)]));
        let version = crate::FileVersion {
            size: 10,
            modified: (0, 0),
            changed: (0, 0),
            inode: 1,
        };
        let all = [
            piece(0, b"ab"),
            piece(1, b"j"),
            piece(0, b"cd"),
            said(0, Part::Read { version }, b""),
        ];
        read(&desk, &all.concat()[..]);
        let Ok(FilesAnswer::Bytes { parts, .. }) = heard.recv().expect("an answer") else {
            panic!("no bytes");
        };
        assert_eq!(parts, [&b"abcd"[..], b"j", b""]);
        assert!(desk.broken().is_none() && !desk.is_waiting());
    }

    #[test]
    fn a75_a_server_that_answers_otherwise_than_asked_ends_the_session() {
        let info = Part::Done;
        for wrong in [
            piece(0, b"abcde"),
            piece(7, b"a"),
            said(0, info, b""),
            said(1, Part::Done, b""),
            said(0, Part::Entries(Vec::new()), b""),
            vec![0xff; 8],
        ] {
            let (desk, heard) = asked(ranges(&[(0, 4)]));
            read(&desk, &wrong[..]);
            let error = desk.broken().expect("it makes no sense");
            assert_eq!(error.kind(), ErrorKind::Protocol);
            desk.on_open_for_test();
            desk.on_end(None);
            let answer = heard.recv().expect("whoever asked hears of it");
            assert_eq!(answer.expect_err("no answer").kind(), ErrorKind::Protocol);
        }
    }

    /// Ends after what it has, and remembers for how much there was room.
    struct Short<'a> {
        has: &'a [u8],
        most: usize,
    }

    impl Read for Short<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.most = self.most.max(buffer.len());
            self.has.read(buffer)
        }
    }

    #[test]
    fn a75_what_a_server_announces_takes_memory_when_it_comes() {
        let (desk, _heard) = asked(ranges(&[(0, u64::MAX)]));
        let (range, len) = (0, u32::MAX);
        let has = said(0, Part::Bytes { range, len }, b"abc");
        let mut short = Short { has: &has, most: 0 };
        read(&desk, &mut short);
        assert!(short.most <= AT_ONCE, "{}", short.most);
        // More than that comes all the same.
        let long = vec![7; 2 * AT_ONCE + 3];
        let (desk, heard) = asked(ranges(&[(0, long.len() as u64)]));
        let version = crate::FileVersion {
            size: long.len() as u64,
            modified: (0, 0),
            changed: (0, 0),
            inode: 1,
        };
        let all = [piece(0, &long), said(0, Part::Read { version }, b"")];
        read(&desk, &all.concat()[..]);
        let Ok(FilesAnswer::Bytes { parts, .. }) = heard.recv().expect("an answer") else {
            panic!("no bytes");
        };
        assert!(parts == [long]);
    }

    #[test]
    fn h1_a_list_has_names_of_one_directory_and_no_ways_out() {
        let entry = |name: &[u8]| crate::DirEntry {
            name: crate::PathBytes::from(name),
            info: howdah_session::files::info(
                crate::FileKind::File,
                false,
                crate::FileVersion {
                    size: 1,
                    modified: (0, 0),
                    changed: (0, 0),
                    inode: 1,
                },
                None,
                None,
            ),
        };
        let list = || FilesRequest::List { path: "d".into() };
        for (name, good) in [
            (&b"a"[..], true),
            (b"..a", true),
            (b"...", true),
            (b"-rf\x1b[2J", true),
            (b"", false),
            (b".", false),
            (b"..", false),
            (b"../a", false),
            (b"/etc/passwd", false),
            (b"a/b", false),
            (b"a/", false),
            (b"a\0", false),
            (&[b'x'; NAME_MAX], true),
            (&[b'x'; NAME_MAX + 1], false),
        ] {
            let (desk, heard) = asked(list());
            let told = said(0, Part::Entries(vec![entry(b"first"), entry(name)]), b"");
            read(&desk, &[told, said(0, Part::Done, b"")].concat()[..]);
            assert_eq!(desk.broken().is_none(), good, "{name:?}");
            assert_eq!(heard.try_recv().is_ok(), good, "{name:?}");
        }
    }

    #[test]
    fn what_was_asked_is_asked_again_on_a_new_connection_unless_it_changes_something() {
        let lost = || Some(Error::new(ErrorKind::Network, "gone"));
        let (desk, heard) = asked(ranges(&[(0, 4)]));
        for _ in 0..2 {
            desk.on_open_for_test();
            read(&desk, &piece(0, b"ab")[..]);
            desk.on_end(lost());
            assert!(heard.try_recv().is_err());
            assert_eq!(desk.take_questions().len(), 1);
        }
        desk.on_open_for_test();
        desk.on_end(lost());
        assert!(heard.recv().expect("an end").is_err(), "not for ever");

        let remove = FilesRequest::Remove {
            path: "x".into(),
            is_dir: false,
        };
        let (desk, heard) = asked(remove);
        desk.on_open_for_test();
        desk.on_end(lost());
        assert!(heard.recv().expect("an end").is_err());
    }
}
