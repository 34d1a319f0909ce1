//! Which files of a tree take part.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use howdah::{Rule, RuleList, RuleRef};
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

    /// Leave out what the .gitignore files in SRC say, each for the directory that it lies in
    #[arg(long)]
    pub(crate) gitignore: bool,

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
            && !self.gitignore
            && self.min_size.is_none()
            && self.max_size.is_none()
            && self.min_age.is_none()
            && self.max_age.is_none()
    }
}

/// Rules and files of rules in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules(pub(crate) Vec<Written>);

/// What stands on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Written {
    One(Rule),
    /// `--include-from` or `--exclude-from`.
    File {
        include: bool,
        path: PathBuf,
    },
}

/// Takes in lines of a file of rules as rsync does: a line each, `#` and `;` begin a comment, `+ ` and `- ` say what a rule
/// does whatever the option says, `!` forgets all rules before it.
pub(crate) fn add_lines(rules: &mut RuleList, include: bool, text: &str) {
    for line in text.split(['\n', '\r']) {
        let (include, pattern) = match line {
            "" => continue,
            "!" => {
                *rules = RuleList::default();
                continue;
            }
            line if line.starts_with(['#', ';']) => continue,
            line => match (line.strip_prefix("+ "), line.strip_prefix("- ")) {
                (Some(pattern), _) => (true, pattern),
                (_, Some(pattern)) => (false, pattern),
                _ => (include, line),
            },
        };
        rules.push(RuleRef {
            include,
            pattern,
            listed: true,
        });
    }
}

const NAMES: [(&str, bool); 2] = [("include", true), ("exclude", false)];
const FILES: [(&str, bool); 2] = [("include-from", true), ("exclude-from", false)];

impl FromArgMatches for Rules {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Vec::new();
        for (name, include) in NAMES {
            let indices = matches.indices_of(name).into_iter().flatten();
            let patterns = matches.get_many::<String>(name).into_iter().flatten();
            found.extend(indices.zip(patterns).map(|(index, pattern)| {
                let pattern = pattern.clone();
                let rule = Rule {
                    include,
                    pattern,
                    listed: false,
                };
                (index, Written::One(rule))
            }));
        }
        for (name, include) in FILES {
            let indices = matches.indices_of(name).into_iter().flatten();
            let paths = matches.get_many::<PathBuf>(name).into_iter().flatten();
            found.extend(indices.zip(paths).map(|(index, path)| {
                let path = path.clone();
                (index, Written::File { include, path })
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
        let rules_in = |name: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("FILE")
                .value_parser(value_parser!(PathBuf))
                .action(ArgAction::Append)
                .help(help)
                .long_help(format!(
                    "{help}\n\nThe rules stand where the option stands among --include and --exclude. Empty lines \
                     and those that begin with '#' or ';' are none; '+ ' or '- ' before a pattern says what it does; \
                     a '!' alone forgets all rules before it."
                ))
        };
        let rule = |name: &'static str, help: &'static str, long: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name("PATTERN")
                .action(ArgAction::Append)
                // Names begin with '-', too, and scripts take patterns from elsewhere.
                .allow_hyphen_values(true)
                .help(help)
                .long_help(long)
        };
        command
            .arg(rule(
                "exclude",
                "Leave out what matches (may be repeated)",
                "Leave out what matches (may be repeated)\n\n\
                 The first of --include and --exclude that matches a name counts; what none matches takes \
                 part. '*' and '?' match within a name, '**' also slashes, '[a-z]' and '{a,b}' as usual; \
                 'dir/***' is dir and all that is in it. \
                 A pattern that begins with a slash is matched against the whole path below the top of the \
                 copy, any other against its end; one that ends with a slash matches directories only.",
            ))
            .arg(rule(
                "include",
                "Take what matches although a later --exclude matches it, too (may be repeated)",
                "Take what matches although a later --exclude matches it, too (may be repeated)\n\n\
                 What lies in an excluded directory is not looked at.",
            ))
            .arg(rules_in(
                "exclude-from",
                "Leave out what matches a pattern in FILE, a line each ('-': standard input)",
            ))
            .arg(rules_in(
                "include-from",
                "Take what matches a pattern in FILE, a line each ('-': standard input)",
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
            "--include-from=e",
            "--exclude-from=f",
            "--exclude=g",
            "--exclude",
            "-h",
        ]);
        let rules: Vec<_> = only
            .rules
            .0
            .iter()
            .map(|written| match written {
                Written::One(rule) => (rule.include, rule.pattern.clone()),
                Written::File { include, path } => (*include, path.display().to_string()),
            })
            .collect();
        assert_eq!(
            rules,
            [
                (false, "a"),
                (true, "b"),
                (false, "c"),
                (true, "d"),
                (true, "e"),
                (false, "f"),
                (false, "g"),
                (false, "-h")
            ]
            .map(|(include, text)| (include, text.to_owned()))
        );
    }

    #[test]
    fn files_of_rules_are_read_as_rsync_reads_them() {
        let mut rules = RuleList::default();
        add_lines(&mut rules, true, "gone\n!\na\r\n# x\n\n;y\n- b\n+ c d\n+e");
        let rules: Vec<_> = rules.iter().map(|r| (r.include, r.pattern)).collect();
        assert_eq!(
            rules,
            [(true, "a"), (false, "b"), (true, "c d"), (true, "+e")]
        );
    }
}
