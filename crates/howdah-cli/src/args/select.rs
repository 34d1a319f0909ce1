//! Which files of a tree take part.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use howdah::Rule;
use howdah_core::{Span, units};
use std::path::PathBuf;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SelectArgs {
    #[command(flatten)]
    pub(crate) rules: Rules,

    /// Only the paths below the top that FILE lists, a line each ('-': standard input), with what is in them
    #[arg(long, value_name = "FILE")]
    pub(crate) files_from: Option<PathBuf>,

    /// The paths of --files-from end with NUL, not with the line
    #[arg(long, short = '0', requires = "files_from")]
    pub(crate) from0: bool,

    /// Leave smaller files out
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) min_size: Option<u64>,

    /// Leave larger files out
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub(crate) max_size: Option<u64>,

    /// Leave files out that were modified less than TIME ago
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) min_age: Option<Span>,

    /// Leave files out that were modified more than TIME ago
    #[arg(long, value_name = "TIME", value_parser = units::parse_span)]
    pub(crate) max_age: Option<Span>,
}

impl SelectArgs {
    /// Whether something is left out.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.0.is_empty()
            && self.files_from.is_none()
            && self.min_size.is_none()
            && self.max_size.is_none()
            && self.min_age.is_none()
            && self.max_age.is_none()
    }
}

/// `--include` and `--exclude` in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Rule>);

const NAMES: [(&str, bool); 2] = [("include", true), ("exclude", false)];

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (name, include) in NAMES {
            let indices = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<String>(name).into_iter().flatten();
            found.extend(indices.zip(patterns).map(|(index, pattern)| {
                let pattern = pattern.clone();
                (index, Rule { include, pattern })
            }));
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(Self(found.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for Rules {
    fn augment_args(command: Command) -> Command {
        let rule = |name: &'static str, help: &'static str, long: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                .help(help)
                .long_help(long)
        };
        command
            .arg(rule(
                "exclude",
                "Leave out what matches (may be repeated)",
                "Leave out what matches (may be repeated)\n\n\
                 The first of --include and --exclude that matches a name counts; what none matches takes \
                 part. '*' and '?' match within a name, '**' also slashes, '[a-z]' and '{a,b}' as usual. \
                 A pattern that begins with a slash is matched against the whole path below the top of the \
                 copy, any other against its end; one that ends with a slash matches directories only.",
            ))
            .arg(rule(
                "include",
                "Take what matches although a later --exclude matches it, too (may be repeated)",
                "Take what matches although a later --exclude matches it, too (may be repeated)\n\n\
                 What lies in an excluded directory is not looked at.",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        rules: Rules,
    }

    #[test]
    fn rules_keep_their_order() {
        let only = Only::parse_from([
            "x",
            "--exclude",
            "a",
            "--include=b",
            "--exclude=c",
            "--include",
            "d",
        ]);
        let rules: Vec<_> = only
            .rules
            .0
            .iter()
            .map(|r| (r.include, &*r.pattern))
            .collect();
        assert_eq!(
            rules,
            [(false, "a"), (true, "b"), (false, "c"), (true, "d")]
        );
    }
}
