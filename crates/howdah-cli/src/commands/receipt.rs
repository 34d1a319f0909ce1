//! `--receipt` of cp and sync, and `howdah receipt`.

use super::connect::own_key;
use super::course::{finish_verification, reporter};
use crate::args::{ConnectArgs, ManifestArgs, ReceiptCheckArgs, ReceiptCommand};
use crate::exit;
use crate::own_file;
use crate::ui::{self, Reporter, Signals, Start};
use howdah::keys::{self, KeyLine};
use howdah::{
    Cancel, CopyConfig, Error, ErrorKind, Location, PublicKey, Receipt, ReceiptMaker, Summary,
    TreeOptions, Verification, Wanted, check_receipt,
};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Bytes of a receipt that are read.
const LARGEST: u64 = 4 << 30;

/// The receipt of a copy that is about to begin, if one is wanted: the other end is asked whether it signs.
pub(super) fn begin(
    args: &ManifestArgs,
    connect: &ConnectArgs,
    places: (&[Location], &Location),
    options: &TreeOptions,
    config: &mut CopyConfig,
    signals: &Signals,
) -> anyhow::Result<Option<ReceiptMaker>> {
    let Some(path) = &args.receipt else {
        return Ok(None);
    };
    own_file::check_there("--receipt", path, own_file::is_receipt)?;
    // Over ssh the session has a key of its own, which is nobody's.
    let identity = own_key(connect)?;
    let cancel = signals.cancel();
    let maker = ReceiptMaker::begin(path, identity, places, options, config, cancel)?;
    config.manifest = Some(maker.manifest().clone());
    Ok(Some(maker))
}

/// Has it signed and written when the copy has come to its end, and says so if there is none.
pub(super) fn end(
    maker: &ReceiptMaker,
    config: &CopyConfig,
    done: Result<Summary, Error>,
    reporter: &Reporter,
    cancel: &Cancel,
) -> Result<Summary, Error> {
    let shown = maker.manifest().path().display();
    let complete = done.as_ref().is_ok_and(|done| done.shortfall().is_none());
    if !complete {
        reporter.warn(&format!(
            "the copy is not complete, so there is no receipt: {shown} is as it was"
        ));
        return done;
    }
    let summary = done?;
    match maker.finish(&summary, config, cancel) {
        Ok(receipt) => reporter.receipt(maker.manifest().path(), &receipt),
        Err(error) => {
            let text = format!(
                "the copy is complete, and there is no receipt of it ({error}): given again, the command moves only what is missing, and \
                 asks for one"
            );
            return Err(Error::new(error.kind(), text));
        }
    }
    Ok(summary)
}

pub(super) fn run(command: &ReceiptCommand) -> anyhow::Result<()> {
    let ReceiptCommand::Check(args) = command;
    let reporter = reporter(&args.telling, false, false)?;
    let result = check(args, &reporter);
    finish_verification(&reporter, result, exit::RECEIPT)
}

fn check(args: &ReceiptCheckArgs, reporter: &Reporter) -> anyhow::Result<Verification> {
    let signals = Signals::install()?;
    let mut signers = Vec::new();
    for named in &args.signers {
        signers.extend(keys_of(named)?);
    }
    let receipt = Receipt::from_json(&read(&args.file)?)?;
    reporter.receipt(&args.file, &receipt);
    let wanted = Wanted {
        signers: &signers,
        allow_extra: args.allow_extra,
        file: Some(&args.file),
    };
    let place = Location::File(args.dir.clone());
    reporter.start(&Start::new(
        "verify",
        [&Location::File(args.file.clone())],
        &place,
    ));
    let checked = check_receipt(
        &receipt,
        &args.dir,
        wanted,
        signals.cancel(),
        &mut |difference| reporter.difference(difference),
        &mut |progress| reporter.progress(progress),
    )?;
    Ok(checked.verification)
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |e: io::Error| {
        let kind = match e.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Refused,
            _ => ErrorKind::Io,
        };
        let path = path.display();
        Error::new(kind, format!("cannot read the receipt {path}: {e}"))
    };
    if path == Path::new("-") {
        ui::check_input().map_err(|error| Error::new(ErrorKind::Usage, error.to_string()))?;
        return read_from(io::stdin().lock()).map_err(failed);
    }
    File::open(path).and_then(read_from).map_err(failed)
}

/// All of it, if it begins as one: what is none may be a device that has no end.
fn read_from(mut input: impl Read) -> io::Result<Vec<u8>> {
    const HEAD: u64 = 1 << 10;
    let mut text = Vec::new();
    input.by_ref().take(HEAD).read_to_end(&mut text)?;
    if text.trim_ascii_start().starts_with(b"{") {
        input.take(LARGEST).read_to_end(&mut text)?;
    }
    Ok(text)
}

/// The keys that a word of the command line names.
fn keys_of(named: &OsString) -> anyhow::Result<Vec<PublicKey>> {
    let usage = |text: String| Error::new(ErrorKind::Usage, text);
    let is_key = named
        .as_encoded_bytes()
        .starts_with(keys::KEY_WORD.as_bytes());
    if let (true, Some(text)) = (is_key, named.to_str()) {
        let line: KeyLine = text.parse().map_err(|e| usage(format!("--signer: {e}")))?;
        return Ok(vec![line.key]);
    }
    let lines = keys::read_public_lines(Path::new(named))?;
    if lines.is_empty() {
        let path = Path::new(named).display();
        return Err(usage(format!("--signer {path} holds no key")).into());
    }
    Ok(lines.into_iter().map(|line| line.key).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_not_read_to_it() {
        assert_eq!(read_from(io::repeat(0)).unwrap().len(), 1 << 10);
        let long = format!("{{{}}}", "x".repeat(5_000));
        assert_eq!(read_from(long.as_bytes()).unwrap(), long.as_bytes());
        assert_eq!(read_from(&b""[..]).unwrap(), b"");
    }
}
