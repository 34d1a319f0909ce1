//! `howdah config`.

use crate::args::{ConfigCommand, ConfigShowArgs};
use crate::settings::{self, COMMANDS, ConfigFile, effective, keys};
use crate::ui;
use anyhow::Context as _;
use howdah::{Error, ErrorKind};

pub(super) fn run(command: &ConfigCommand) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Show(args) => show(args),
        ConfigCommand::Path => {
            let path = settings::path(|name| std::env::var_os(name)).context(
                "there is no place for a config file: none of HOWDAH_CONFIG_DIR, XDG_CONFIG_HOME and HOME is set",
            )?;
            ui::print(&ui::printable(&path.display().to_string()))?;
            Ok(())
        }
    }
}

fn show(args: &ConfigShowArgs) -> anyhow::Result<()> {
    let cli = settings::commands();
    let known = COMMANDS.contains(&args.command.as_str());
    let Some(command) = cli.find_subcommand(&args.command).filter(|_| known) else {
        let all: Vec<&str> = COMMANDS
            .into_iter()
            .filter(|name| cli.find_subcommand(name).is_some())
            .collect();
        let text = format!(
            "'{}' has no settings; these have: {}",
            args.command,
            all.join(", ")
        );
        return Err(Error::new(ErrorKind::Usage, text).into());
    };
    let var = |name: &str| std::env::var_os(name);
    let file = ConfigFile::load(&cli, var)?;
    let host = args.host.as_deref().map(str::to_ascii_lowercase);
    let set = effective(command, file.as_ref(), host.as_deref(), var);
    for setting in &set {
        setting.check(command)?;
    }
    for arg in keys(command) {
        let Some(key) = arg.get_long() else { continue };
        let setting = set.iter().find(|setting| setting.key == key);
        let (value, source) = match setting {
            Some(setting) => (setting.text(), setting.source.to_string()),
            None => (default(arg), "default".to_owned()),
        };
        if args.json {
            let object = serde_json::json!({
                "key": key,
                "value": ui::printable(&value),
                "source": ui::printable(&source),
                "is_set": setting.is_some(),
            });
            ui::print(&object.to_string())?;
        } else {
            let line = format!("{:32} # {source}", format!("{key} = {value}"));
            ui::print(&ui::printable(&line))?;
        }
    }
    Ok(())
}

/// What holds if nothing is said.
fn default(arg: &clap::Arg) -> String {
    let values: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if values.is_empty() {
        if matches!(arg.get_action(), clap::ArgAction::SetTrue) {
            return "false".to_owned();
        }
        return "(not set)".to_owned();
    }
    values.join(", ")
}
