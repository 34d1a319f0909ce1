//! The file in which the administrator says who is told what. No job and no client of the API reads or changes it.

use super::Named;
use super::command::Hook;
use super::mail::{self, Mail};
use super::notice::Kind;
use super::webhook::{Wanted, Webhook};
use crate::{Error, private};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Its name in the daemon's directory.
pub const FILE: &str = "notify.toml";
/// Receivers in it.
const MOST: usize = 32;
/// Bytes of a name.
const NAME: RangeInclusive<usize> = 1..=32;
/// What a receiver may take, in seconds.
const PATIENCE: RangeInclusive<u64> = 1..=600;

/// Something that must not be seen in a log.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // What is there instead is perhaps the secret.
        let text = String::deserialize(deserializer);
        text.map(Self)
            .map_err(|_| D::Error::custom("an address or a secret is text, in quotes"))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSection {
    name: String,
    url: Secret,
    secret: Secret,
    authorization: Option<Secret>,
    ca: Option<PathBuf>,
    #[serde(default)]
    plain: bool,
    #[serde(default = "ends")]
    events: Vec<Kind>,
    #[serde(default = "webhook_patience")]
    timeout_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandSection {
    name: String,
    program: PathBuf,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default = "ends")]
    events: Vec<Kind>,
    #[serde(default = "command_patience")]
    timeout_seconds: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MailSection {
    name: String,
    server: String,
    port: Option<u16>,
    #[serde(default)]
    tls: mail::Security,
    ca: Option<PathBuf>,
    #[serde(default)]
    plain: bool,
    user: Option<String>,
    password: Option<Secret>,
    from: String,
    to: Vec<String>,
    #[serde(default = "troubles")]
    events: Vec<Kind>,
    #[serde(default = "command_patience")]
    timeout_seconds: u64,
}

/// What somebody has to see to.
fn troubles() -> Vec<Kind> {
    vec![Kind::Failed, Kind::Behind]
}

fn ends() -> Vec<Kind> {
    vec![Kind::Done, Kind::Failed, Kind::Cancelled, Kind::Behind]
}

fn webhook_patience() -> u64 {
    15
}

fn command_patience() -> u64 {
    60
}

/// Whom the file names: that one, or the one in the daemon's directory if there is one.
pub(crate) fn load(directory: &Path, named: Option<&Path>) -> Result<Vec<Named>, Error> {
    let path = named.map_or_else(|| directory.join(FILE), Path::to_owned);
    let text = match private::read(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(Vec::new());
        }
        text => text.map_err(|error| error.to_string()),
    };
    let found = text.and_then(|text| parse(&text));
    found.map_err(|why| Error::Directory { path, why })
}

fn parse(text: &str) -> Result<Vec<Named>, String> {
    let line = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    // The parser's own words show the line with all that is in it.
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line(at), error.message())
    })?;
    let turn = Arc::default();
    let mut found: Vec<Named> = Vec::new();
    for (key, value) in table.get_ref() {
        let (kind, at) = (key.get_ref().as_ref(), line(key.span().start));
        let make: fn(Value, &Arc<Mutex<()>>) -> Result<Named, String> = match kind {
            "webhook" => webhook,
            "command" => command,
            "mail" => mail,
            _ => {
                return Err(format!(
                    "line {at}: there are [[webhook]], [[command]] and [[mail]], and no '{kind}'"
                ));
            }
        };
        let DeValue::Array(sections) = value.get_ref() else {
            return Err(format!("line {at}: write [[{kind}]]"));
        };
        for section in sections {
            let in_line =
                |why: String| format!("the {kind} of line {}: {why}", line(section.span().start));
            let named = make(json(section), &turn).map_err(in_line)?;
            if found.iter().any(|known| known.name == named.name) {
                return Err(in_line(format!("'{}' is there already", named.name)));
            }
            found.push(named);
        }
    }
    if found.len() > MOST {
        return Err(format!("there are more than {MOST} receivers in it"));
    }
    Ok(found)
}

/// The same in the words of JSON; what these lack is text.
fn json(value: &Spanned<DeValue<'_>>) -> Value {
    match value.get_ref() {
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| Value::from(number.as_str()), Value::from),
        DeValue::Array(all) => all.iter().map(json).collect(),
        DeValue::Table(table) => table
            .iter()
            .map(|(key, value)| (key.get_ref().to_string(), json(value)))
            .collect(),
        DeValue::String(text) => Value::from(text.as_ref()),
        other => Value::from(other.type_str()),
    }
}

fn section<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn webhook(value: Value, _: &Arc<Mutex<()>>) -> Result<Named, String> {
    let said: WebhookSection = section(value)?;
    let receiver = Webhook::new(&Wanted {
        url: &said.url.0,
        secret: &said.secret.0,
        authorization: said.authorization.as_ref().map(|secret| secret.0.as_str()),
        ca: said.ca.as_deref(),
        plain: said.plain,
        patience: patience(said.timeout_seconds)?,
    })?;
    named("webhook", said.name, said.events, Box::new(receiver))
}

fn command(value: Value, turn: &Arc<Mutex<()>>) -> Result<Named, String> {
    let said: CommandSection = section(value)?;
    let patience = patience(said.timeout_seconds)?;
    let receiver = Hook::new(&said.program, &said.arguments, patience, turn)?;
    named("command", said.name, said.events, Box::new(receiver))
}

fn mail(value: Value, _: &Arc<Mutex<()>>) -> Result<Named, String> {
    let said: MailSection = section(value)?;
    let login = match (&said.user, &said.password) {
        (Some(user), Some(password)) => Some((user.as_str(), password.0.as_str())),
        (None, None) => None,
        _ => return Err("'user' and 'password' go together".to_owned()),
    };
    let receiver = Mail::new(&mail::Wanted {
        server: &said.server,
        port: said.port,
        security: said.tls,
        ca: said.ca.as_deref(),
        plain: said.plain,
        login,
        from: &said.from,
        to: &said.to,
        patience: patience(said.timeout_seconds)?,
    })?;
    named("mail", said.name, said.events, Box::new(receiver))
}

fn patience(seconds: u64) -> Result<Duration, String> {
    if !PATIENCE.contains(&seconds) {
        let (least, most) = PATIENCE.into_inner();
        return Err(format!("'timeout_seconds' is between {least} and {most}"));
    }
    Ok(Duration::from_secs(seconds))
}

fn named(
    kind: &str,
    name: String,
    kinds: Vec<Kind>,
    receiver: Box<dyn super::Receiver>,
) -> Result<Named, String> {
    let is_plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    // It is the name of a file, too.
    if !NAME.contains(&name.len()) || !name.bytes().all(is_plain) {
        let (_, most) = NAME.into_inner();
        return Err(format!(
            "'name' is of 1 to {most} small letters, digits and '-'"
        ));
    }
    let once: BTreeSet<_> = kinds.iter().map(|kind| kind.name()).collect();
    if once.is_empty() || once.len() < kinds.len() {
        return Err("'events' names at least one event, and each once".to_owned());
    }
    Ok(Named {
        shown: format!("{kind} '{name}'"),
        name,
        kinds,
        receiver,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    const WEBHOOK: &str = r#"
        [[webhook]]
        name = "ops"
        url = "http://127.0.0.1:9/hunter2"
        secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    "#;

    const MAIL: &str = r#"
        [[mail]]
        name = "team"
        server = "localhost"
        tls = "none"
        from = "Howdah <howdah@example.org>"
        to = ["ops@example.org"]
    "#;

    fn refused(text: &str) -> String {
        parse(text).err().unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn whom_it_names_is_told_what_it_says() {
        assert!(parse("").unwrap_or_else(|why| panic!("{why}")).is_empty());
        let text = format!(
            r#"{WEBHOOK}
            authorization = "Bearer hunter2"
            timeout_seconds = 0x10
            [[command]]
            name = "page"
            program = "/bin/sh"
            arguments = ["-c", "cat"]
            events = ["failed", "on_time"]
            [[command]]
            name = "page-2"
            program = "/bin/sh"
            {MAIL}"#
        );
        let found = parse(&text).unwrap_or_else(|why| panic!("{why}"));
        let shown: Vec<_> = found.iter().map(|each| each.shown.as_str()).collect();
        assert!(
            shown.contains(&"webhook 'ops'") && shown.contains(&"command 'page'"),
            "{shown:?}"
        );
        assert_eq!(shown.len(), 4);
        let team = found.iter().find(|each| each.name == "team").unwrap();
        assert_eq!(team.kinds, [Kind::Failed, Kind::Behind]);
        let page = found.iter().find(|each| each.name == "page").unwrap();
        assert_eq!(page.kinds, [Kind::Failed, Kind::OnTime]);
    }

    #[test]
    fn what_makes_no_sense_is_named_and_no_secret_is() {
        let with = |line: &str| format!("{WEBHOOK}\n{line}\n");
        let change = |from: &str, to: &str| WEBHOOK.replace(from, to);
        for (text, word) in [
            ("webhook = 3".to_owned(), "[[webhook]]"),
            ("[webhook]\nname = \"x\"".to_owned(), "[[webhook]]"),
            ("[[mial]]".to_owned(), "line 1: there are"),
            ("\n[[webhook]\nsecret = \"hunter2".to_owned(), "line 2"),
            (with("secret = \"hunter2\""), "line 7"),
            (with("sercet = \"hunter2\""), "sercet"),
            (with("events = []"), "events"),
            (with("events = [\"failed\", \"failed\"]"), "each once"),
            (with("events = [\"faild\"]"), "on_time"),
            (with("timeout_seconds = 0"), "between 1 and 600"),
            (with("timeout_seconds = -1"), "u64"),
            (with("timeout_seconds = 1979-05-27"), "u64"),
            (
                change("http:", "https:") + "ca = \"/no/such/file\"",
                "/no/such/file",
            ),
            (with("authorization = [\"hunter2\"]"), "in quotes"),
            (change("\"ops\"", "\"../ops\""), "'name'"),
            (change("\"ops\"", "\"\""), "'name'"),
            (change("\"ops\"", "\"a.b\""), "'name'"),
            (
                change("http://127.0.0.1:9", "http://192.0.2.1"),
                "plain = true",
            ),
            (change("http://127", "http://hunter2@127"), "authorization"),
            (change("whsec_", "whsec_hunter2"), "openssl"),
            (
                change("\"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"", "1234567"),
                "in quotes",
            ),
            (format!("{WEBHOOK}{WEBHOOK}"), "there already"),
            (
                format!("{WEBHOOK}{}", MAIL.replace("team", "ops")),
                "there already",
            ),
            (format!("{MAIL}\npassword = \"hunter2\""), "go together"),
            (format!("{MAIL}\npassword = 1234567"), "in quotes"),
            (MAIL.replace("localhost", "mail.example.org"), "starttls"),
            (MAIL.replace("localhost", "localhost:25"), "without a port"),
            (MAIL.replace("\"none\"", "\"ssl\""), "starttls"),
            (MAIL.replace("ops@example.org", "ops"), "'to'"),
            (
                MAIL.replace("ops@example.org", "a@b.org\\r\\nBcc: c@d.org"),
                "'to'",
            ),
            (MAIL.replace("howdah@example.org", "howdah"), "'from'"),
            (MAIL.replace("[\"ops@example.org\"]", "[]"), "1 to 32"),
            (
                "[[command]]\nname = \"x\"\nprogram = \"sh\"".to_owned(),
                "whole path",
            ),
            ("[[command]]\nname = \"x\"".to_owned(), "program"),
        ] {
            let why = refused(&text);
            assert!(why.contains(word), "{text}: {why}");
            assert!(why.contains("line "), "{why}");
            assert!(
                !why.contains("hunter2") && !why.contains("1234567"),
                "{why}"
            );
        }
        let many: Vec<_> = (0..=MOST)
            .map(|n| format!("[[command]]\nname = \"c{n}\"\nprogram = \"/bin/sh\"\n"))
            .collect();
        let many = many.concat();
        assert!(refused(&many).contains("more than"));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused_and_one_that_is_named_must_be_there() {
        let dir = tempfile::tempdir().unwrap();
        let load = |named: Option<&Path>| load(dir.path(), named).map(|found| found.len());
        assert_eq!(load(None).unwrap(), 0);
        let path = dir.path().join("mine.toml");
        assert!(load(Some(&path)).is_err());
        for path in [&path, &dir.path().join(FILE)] {
            fs::write(path, WEBHOOK).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
        }
        for named in [None, Some(path.as_path())] {
            let error = load(named).unwrap_err().to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(load(Some(&path)).unwrap(), 1);
    }
}
