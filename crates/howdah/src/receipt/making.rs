//! A receipt is made: asked for before a copy begins, and signed by both ends when everything is in place.

use crate::connect::Remote;
use crate::desk::Desk;
use crate::desk::FilesAnswer;
use crate::manifest::{Listed, Manifest};
use crate::remote::Files;
use crate::session::files::attest::entry_of;
use crate::statement::{Direction, End, PartSum, Receipt, Statement, root_of};
use crate::statement::{NUMBER_MAX, SCHEMA, parts_of};
use crate::trees::is_contents;
use crate::{
    Cancel, CopyConfig, Error, ErrorKind, Identity, KnownHosts, Location, PathBytes, PublicKey,
    Summary, TreeOptions, Trust,
};
use howdah_audit::now_utc;
use howdah_session::files::{AttestedFile, FilesRequest};
use std::io::Write as _;
use std::path::{Component, Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often it is looked whether the user has had enough.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A receipt of a copy that is about to begin, or under way.
#[derive(Debug)]
pub struct ReceiptMaker {
    manifest: Manifest,
    identity: Identity,
    far: Far,
    /// Copies of this kind make the whole destination what is copied.
    mirrors: bool,
    began_utc: String,
}

/// The other end.
#[derive(Debug)]
struct Far {
    remote: Remote,
    /// As the user calls it.
    address: String,
    direction: Direction,
    /// Its paths: of what is copied, or the destination.
    paths: Vec<PathBytes>,
    /// It is what is in the one directory that is copied.
    contents: bool,
    /// Which of its files are to be read for the receipt.
    reads: Vec<PathBytes>,
}

impl ReceiptMaker {
    /// For a copy with these options to the file `path`, before it begins: asks the other end whether it would sign. `identity` is the key that signs here; it
    /// must be that of the session, unless the other end is reached through ssh. Names with wildcards have been [expanded](crate::expand).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Usage`] if there can be no receipt of such a copy, [`ErrorKind::Refused`] if the other end does not sign,
    /// [`ErrorKind::Protocol`] if it is too old for that; and what keeps it from being reached.
    pub fn begin(
        path: &Path,
        identity: Identity,
        (sources, destination): (&[Location], &Location),
        options: &TreeOptions,
        config: &mut CopyConfig,
        cancel: &Cancel,
    ) -> Result<Self, Error> {
        let usage = |text: &str| Err(Error::new(ErrorKind::Usage, text));
        if options.remove_source || options.update || options.ignore_existing {
            return usage(
                "--receipt clashes with --remove-source-files, --update and --ignore-existing: what both ends have in the end is not \
                 the same, and only that can be signed",
            );
        }
        let manifest = Manifest::for_receipt(path, (sources, destination), options)?;
        let far = Far::of(sources, destination, options)?;
        let maker = Self {
            manifest,
            identity,
            far,
            mirrors: options.mirror,
            began_utc: now_utc(),
        };
        let files = maker.open(config, cancel)?;
        let place = maker.far.paths.first().cloned().unwrap_or_default();
        let asked = FilesRequest::Attest {
            place,
            part: 0,
            files: Vec::new(),
        };
        ask(&files, vec![asked], cancel)?;
        files.close();
        // Who was asked about a key is not asked again.
        if !config.known_hosts.path().as_os_str().is_empty() {
            config.known_hosts = KnownHosts::load(config.known_hosts.path())?;
        }
        Ok(maker)
    }

    /// What the copy is to be [told](CopyConfig::manifest).
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn open(&self, config: &CopyConfig, cancel: &Cancel) -> Result<Files, Error> {
        if cancel.is_cancelled() {
            return Err(interrupted());
        }
        let desk = Desk::for_receipt(self.far.reads.clone());
        Files::begin(self.far.remote.clone(), config.once(), desk)
    }

    /// Has both ends sign what they have, and writes it. The other end reads its files once more for that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Integrity`] if the other end has something else than what was copied; what keeps it from being reached, and the file from being written.
    pub fn finish(
        &self,
        summary: &Summary,
        config: &CopyConfig,
        cancel: &Cancel,
    ) -> Result<Receipt, Error> {
        let ended_utc = now_utc();
        let (listed, renamed) = self.manifest.listed(summary, cancel)?;
        let places: Vec<_> = listed
            .iter()
            .map(|file| self.far.path_of(file, renamed))
            .collect();
        let place = self.far.place(&listed, &places);
        let attested: Vec<_> = listed
            .iter()
            .zip(places)
            .map(|(file, at)| {
                let usual = place.as_path().join(&file.path);
                AttestedFile {
                    path: file.path.as_os_str().into(),
                    at: (usual.as_os_str() != at.as_os_str()).then(|| at.as_os_str().into()),
                    bytes: file.bytes,
                    blake3: file.hash.unwrap_or_default(),
                }
            })
            .collect();
        let entries: Vec<_> = attested.iter().map(entry_of).collect();
        let parts = parts_of(&entries);
        let sums: Vec<_> = parts
            .iter()
            .map(|part| PartSum::of(&entries[part.clone()]))
            .collect();
        let (root, files, bytes) = root_of(&sums);
        if bytes > NUMBER_MAX {
            let text = "more than 8 PiB have no receipt; copy in parts";
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let (client, nobody) = (self.identity.public_key().to_string(), String::new());
        let is_tree = listed.iter().any(|file| file.told.components().count() > 1);
        let stated = Statement {
            began_utc: self.began_utc.clone(),
            bytes,
            client: End::new(nobody.clone(), client, None),
            direction: self.far.direction,
            ended_utc,
            files,
            root,
            schema: SCHEMA,
            server: End::new(self.far.address.clone(), nobody.clone(), Some(&place)),
            signed_utc: nobody,
            whole: self.mirrors || (renamed && is_tree),
        };
        let session = self.open(config, cancel)?;
        let questions = (0..).zip(&parts).map(|(part, range)| FilesRequest::Attest {
            place: place.clone(),
            part,
            files: attested[range.clone()].to_vec(),
        });
        ask(&session, questions.collect(), cancel)?;
        let sign = FilesRequest::Sign {
            place,
            statement: stated.to_json(),
        };
        let answer = ask(&session, vec![sign], cancel)?.pop();
        session.close();
        let Some(FilesAnswer::Signed {
            statement,
            signature,
        }) = answer
        else {
            return Err(senseless("it does not sign"));
        };
        let statement = self.check(&stated, &statement, &signature, config)?;
        let own = self.identity.sign(&statement.to_be_signed())?;
        let receipt = Receipt::new(entries, statement, (&own, &signature));
        let text = receipt.to_json();
        self.manifest.write_with(|out| out.write_all(&text))?;
        Ok(receipt)
    }

    /// What the other end has signed, if that is what it was asked to, with the key that it is known by.
    fn check(
        &self,
        stated: &Statement,
        signed: &[u8],
        signature: &[u8],
        config: &CopyConfig,
    ) -> Result<Statement, Error> {
        let statement =
            Statement::from_json(signed).ok_or_else(|| senseless("it signs no statement"))?;
        let mut expected = stated.clone();
        expected
            .client
            .address
            .clone_from(&statement.client.address);
        expected.server.key.clone_from(&statement.server.key);
        expected.signed_utc.clone_from(&statement.signed_utc);
        if expected != statement {
            return Err(senseless(
                "it signs something else than what it was asked to",
            ));
        }
        let (_, server) = statement
            .keys()
            .ok_or_else(|| senseless("its key is none"))?;
        if !server.has_signed(&statement.to_be_signed(), signature) {
            return Err(senseless("its signature is wrong"));
        }
        if let Remote::Server { host, port } = &self.far.remote
            && known(config, host, *port)? != Some(server)
        {
            return Err(senseless("it signs with another key than its own"));
        }
        Ok(statement)
    }
}

/// The key by which that server is known, now that it was reached.
fn known(config: &CopyConfig, host: &str, port: u16) -> Result<Option<PublicKey>, Error> {
    if let Trust::Exactly(key) = &config.trust {
        return Ok(Some(*key));
    }
    let path = config.known_hosts.path();
    if path.as_os_str().is_empty() {
        return Ok(config.known_hosts.expected(host, port));
    }
    Ok(KnownHosts::load(path)?.expected(host, port))
}

impl Far {
    fn of(
        sources: &[Location],
        destination: &Location,
        options: &TreeOptions,
    ) -> Result<Self, Error> {
        let named: Vec<_> = sources.iter().filter_map(Remote::of).collect();
        let (direction, remote, paths) = match (Remote::of(destination), named.first()) {
            (Some((remote, path)), None) => (Direction::ToServer, remote, vec![path]),
            (None, Some((remote, _))) => {
                let paths = named.iter().map(|(_, path)| path.clone()).collect();
                (Direction::FromServer, remote.clone(), paths)
            }
            _ => {
                let text = "a receipt is of a copy from or to this machine";
                return Err(Error::new(ErrorKind::Usage, text));
            }
        };
        let address = match &remote {
            Remote::Server { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Remote::Server { host, port } => format!("{host}:{port}"),
            Remote::Ssh(target) => target.to_string(),
        };
        let one = paths.first().filter(|_| paths.len() == 1);
        let is_get = direction == Direction::FromServer;
        let contents = options.contents || (is_get && one.is_some_and(is_contents));
        let reads = if options.copy_links || options.keep_dirlinks {
            // Links may lead anywhere.
            vec!["/".into()]
        } else {
            paths.clone()
        };
        Ok(Self {
            remote,
            address,
            direction,
            paths,
            contents,
            reads,
        })
    }

    /// Where it has a file of the list.
    fn path_of(&self, file: &Listed, renamed: bool) -> PathBuf {
        let mut parts = file.told.components();
        let top = parts.next();
        let rest = parts.as_path();
        let below = |place: &Path| {
            if rest.as_os_str().is_empty() {
                // Without what a slash at the end says of it.
                place.components().collect()
            } else {
                place.join(rest)
            }
        };
        let place = self
            .paths
            .first()
            .map_or_else(|| Path::new(""), PathBytes::as_path);
        match self.direction {
            Direction::ToServer if renamed => below(place),
            Direction::ToServer => place.join(&file.told),
            Direction::FromServer if self.contents => place.join(&file.told),
            Direction::FromServer => {
                let top = top.map(Component::as_os_str);
                let is_it = |path: &&PathBytes| path.as_path().file_name() == top;
                let source = self.paths.iter().find(is_it);
                source.map_or_else(|| file.told.clone(), |path| below(path.as_path()))
            }
        }
    }

    /// The directory below which its files have the paths that the list has, as far as the first one tells.
    fn place(&self, listed: &[Listed], places: &[PathBuf]) -> PathBytes {
        let (Some(file), Some(at)) = (listed.first(), places.first()) else {
            return self.paths.first().cloned().unwrap_or_default();
        };
        let depth = if at.ends_with(&file.path) {
            file.path.components().count()
        } else {
            1
        };
        let place = at.ancestors().nth(depth).unwrap_or_else(|| Path::new(""));
        place.as_os_str().into()
    }
}

/// Asks all of it at once, and waits for the answers, in the order of the questions.
fn ask(
    files: &Files,
    questions: Vec<FilesRequest>,
    cancel: &Cancel,
) -> Result<Vec<FilesAnswer>, Error> {
    let (tell, heard) = channel();
    let mut answers = vec![None; questions.len()];
    for (at, question) in questions.into_iter().enumerate() {
        let tell = tell.clone();
        files.ask(question, move |answer| drop(tell.send((at, answer))));
    }
    drop(tell);
    loop {
        match heard.recv_timeout(LOOK_EVERY) {
            Ok((at, answer)) => answers[at] = Some(answer?),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Err(interrupted()),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let answers: Option<Vec<_>> = answers.into_iter().collect();
    answers.ok_or_else(|| senseless("it does not answer"))
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Cancelled, "interrupted")
}

fn senseless(why: &str) -> Error {
    let text = format!("the other end was asked to sign a receipt: {why}");
    Error::new(ErrorKind::Protocol, text)
}
