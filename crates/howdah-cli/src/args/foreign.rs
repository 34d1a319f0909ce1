//! What hands that are used to scp and rsync type, and how it is written here.

/// Flags of scp and rsync that mean nothing to `howdah cp` and `howdah sync`, each with what to do instead.
const FLAGS: [(&[&str], &str); 30] = [
    (
        &["-z", "-C", "--compress"],
        "nothing is compressed on the way; compress it before, as in 'tar cz data | howdah cp - site:data.tgz'",
    ),
    (
        &["-r", "-R", "--recursive"],
        "'howdah sync' always takes all that is in a directory",
    ),
    (
        &["-P"],
        "the port of sshd (scp's -P) is written ssh://USER@HOST:PORT/path; progress is shown and an interrupted copy goes on \
         (rsync's -P) without being asked to",
    ),
    (
        &[
            "--partial",
            "--partial-dir",
            "--append",
            "--append-verify",
            "--inplace",
        ],
        "an interrupted copy goes on with the same command; a file appears when it is complete",
    ),
    (
        &["-i"],
        "ssh's options go with ssh: -S 'ssh -i KEY'; what a copy would do is shown by --dry-run",
    ),
    (&["-J"], "ssh's options go with ssh: -S 'ssh -J GATE'"),
    (&["-F"], "ssh's options go with ssh: -S 'ssh -F FILE'"),
    (
        &["-o"],
        "ssh's options go with ssh: -S 'ssh -o OPTION'; owners are kept by -a",
    ),
    (
        &["-4", "-6", "--ipv4", "--ipv6"],
        "ssh's options go with ssh: -S 'ssh -4'; data takes the address that ssh reached",
    ),
    (
        &["-l"],
        "the rate (scp's -l) is --limit 500mbit, with its unit; symbolic links (rsync's -l) are kept anyway",
    ),
    (&["--bwlimit"], "the rate is --limit 500mbit, with its unit"),
    (
        &["-t", "--times", "--perms", "-p", "--links"],
        "times of modification and symbolic links of trees are always kept, permissions with 'howdah cp -p' and 'howdah sync'",
    ),
    (
        &[
            "-H",
            "-A",
            "-X",
            "-g",
            "-D",
            "--owner",
            "--group",
            "--acls",
            "--xattrs",
            "--hard-links",
        ],
        "owners, groups, hard links, ACLs and attributes are kept by -a",
    ),
    (
        &["-W", "--whole-file", "--no-whole-file"],
        "files of the same size and time of modification are left alone, all others are sent whole; --checksum compares content",
    ),
    (
        &["--filter", "-f"],
        "rules are --exclude, --include, --exclude-from and --include-from; for ':- .gitignore' there is --gitignore",
    ),
    (
        &["--existing", "--ignore-non-existing"],
        "there is no such option; --ignore-existing leaves alone what is there, --files-from lists what is to go",
    ),
    (
        &[
            "--copy-unsafe-links",
            "--safe-links",
            "-k",
            "--copy-dirlinks",
        ],
        "links are copied as links, or all are followed with -L",
    ),
    (
        &[
            "--no-p",
            "--no-o",
            "--no-g",
            "--no-t",
            "--no-owner",
            "--no-group",
            "--no-times",
        ],
        "permissions are left as they would be with --no-perms; owners and groups are kept by -a only",
    ),
    (
        &["--compare-dest", "--copy-dest"],
        "--link-dest DIR gives what is equal there a further name; nothing is compared with a DIR and left out",
    ),
    (
        &["--delete", "--del"],
        "deleting is for 'howdah sync --delete'",
    ),
    (
        &["--delete-excluded"],
        "what the rules leave out stays at DST; delete it there, or copy without the rules",
    ),
    (
        &[
            "--delete-before",
            "--delete-during",
            "--delete-delay",
            "--delete-after",
        ],
        "'howdah sync --delete' deletes when everything else is in place",
    ),
    (
        &["-b", "--backup", "--suffix"],
        "what is replaced or deleted is kept with --backup-dir DIR",
    ),
    (
        &["-T", "--temp-dir"],
        "a file is written beside its place, under a hidden name, and gets its own when it is complete",
    ),
    (&["--list-only"], "places are listed by 'howdah ls'"),
    (
        &[
            "--devices",
            "--specials",
            "--copy-devices",
            "--write-devices",
        ],
        "devices, fifos and sockets are left out and named; what comes out of one goes through '-'",
    ),
    (
        &["--rsync-path"],
        "where howdah lies on the other machine is said with --remote-howdah",
    ),
    (&["--sparse"], "holes of a file are kept anyway"),
    (
        &["--stats", "--info"],
        "the last line has totals, --progress shows how it goes, and --json has every figure",
    ),
    (
        &["-3"],
        "data between two other machines goes from one to the other, never by way of this one",
    ),
];

/// What to do instead of `flag`, as it was typed: `-z`, `--bwlimit`.
pub(crate) fn instead_of(flag: &str) -> Option<&'static str> {
    let flag = flag.split('=').next()?;
    FLAGS
        .iter()
        .find_map(|(flags, text)| flags.contains(&flag).then_some(*text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn what_the_command_knows_is_not_foreign() {
        let mut cli = Cli::command();
        cli.build();
        let cp = cli.find_subcommand("cp").unwrap();
        let known: Vec<String> = cp
            .get_arguments()
            .flat_map(|arg| {
                let shorts = arg.get_short_and_visible_aliases().unwrap_or_default();
                let longs = arg.get_long_and_visible_aliases().unwrap_or_default();
                let shorts = shorts.into_iter().map(|c| format!("-{c}"));
                shorts
                    .chain(longs.into_iter().map(|l| format!("--{l}")))
                    .collect::<Vec<_>>()
            })
            .collect();
        assert!(known.iter().any(|flag| flag == "-a"));
        // These are for cp only, and told of for sync.
        let cp_only = ["-p", "-r", "-R", "--recursive"];
        for flag in known
            .iter()
            .filter(|flag| !cp_only.contains(&flag.as_str()))
        {
            assert_eq!(instead_of(flag), None, "{flag}");
        }
        assert!(instead_of("--bwlimit=1000").unwrap().contains("--limit"));
    }
}
