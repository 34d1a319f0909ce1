//! Changes of permissions as chmod(1) and rsync write them.

use std::fmt;

const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2000;
const STICKY: u32 = 0o1000;
const SPECIAL: u32 = SET_USER | SET_GROUP | STICKY;

/// Changes of permissions, one after the other: `D755,F644`, `g+w,o=`, `Fu=rw,go-x`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ModeChanges(Vec<Clause>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Clause {
    /// Directories only, or files only.
    only: Option<Only>,
    what: Change,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Only {
    Dirs,
    Files,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Change {
    /// Exactly that; of up to three digits a directory keeps its special bits.
    Number {
        mode: u32,
        with_special: bool,
    },
    Symbols(Vec<Symbols>),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Symbols {
    /// As user 4, group 2, others 1; 0: all, through the umask.
    who: u32,
    operator: char,
    /// `rwx`.
    bits: u32,
    /// `X`: search and what anybody may execute already.
    if_executable: bool,
    set_id: bool,
    sticky: bool,
    /// The bits that the user, the group or others have.
    copied_from: Option<u32>,
}

/// Why a text is no change of permissions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadModes(String);

impl fmt::Display for BadModes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; write it as for chmod, as in D755,F644 or g+w,o-rwx",
            self.0
        )
    }
}

impl std::error::Error for BadModes {}

impl std::str::FromStr for ModeChanges {
    type Err = BadModes;

    fn from_str(text: &str) -> Result<Self, BadModes> {
        text.split(',')
            .map(clause)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

fn clause(text: &str) -> Result<Clause, BadModes> {
    let (only, rest) = match text.split_at_checked(1) {
        Some(("D", rest)) => (Some(Only::Dirs), rest),
        Some(("F", rest)) => (Some(Only::Files), rest),
        _ => (None, text),
    };
    let bad = || BadModes(format!("{text:?} is no change of permissions"));
    if rest.starts_with(|c: char| c.is_ascii_digit()) {
        let mode = u32::from_str_radix(rest, 8).map_err(|_| bad())?;
        if mode > 0o7777 {
            return Err(bad());
        }
        let with_special = rest.len() > 3;
        let what = Change::Number { mode, with_special };
        return Ok(Clause { only, what });
    }
    let start = rest.find(['+', '-', '=']).ok_or_else(bad)?;
    let (who, mut rest) = rest.split_at(start);
    let mut whose = 0;
    for letter in who.chars() {
        whose |= match letter {
            'u' => 4,
            'g' => 2,
            'o' => 1,
            'a' => 7,
            _ => return Err(bad()),
        };
    }
    let mut all = Vec::new();
    while let Some(operator) = rest.chars().next() {
        rest = &rest[1..];
        let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
        let (what, next) = rest.split_at(end);
        rest = next;
        let mut symbols = Symbols {
            who: whose,
            operator,
            bits: 0,
            if_executable: false,
            set_id: false,
            sticky: false,
            copied_from: None,
        };
        match what {
            "u" => symbols.copied_from = Some(6),
            "g" => symbols.copied_from = Some(3),
            "o" => symbols.copied_from = Some(0),
            letters => {
                for letter in letters.chars() {
                    match letter {
                        'r' => symbols.bits |= 4,
                        'w' => symbols.bits |= 2,
                        'x' => symbols.bits |= 1,
                        'X' => symbols.if_executable = true,
                        's' => symbols.set_id = true,
                        't' => symbols.sticky = true,
                        _ => return Err(bad()),
                    }
                }
            }
        }
        all.push(symbols);
    }
    let what = Change::Symbols(all);
    Ok(Clause { only, what })
}

impl ModeChanges {
    /// The mode of a file or directory that has that one.
    pub fn apply(&self, mut mode: u32, is_dir: bool, umask: u32) -> u32 {
        for Clause { only, what } in &self.0 {
            if only.is_some_and(|only| (only == Only::Dirs) != is_dir) {
                continue;
            }
            match what {
                Change::Number {
                    mode: new,
                    with_special,
                } if is_dir && !with_special => {
                    mode = mode & SPECIAL | new;
                }
                Change::Number { mode: new, .. } => mode = *new,
                Change::Symbols(all) => {
                    for symbols in all {
                        mode = symbols.apply(mode, is_dir, umask);
                    }
                }
            }
        }
        mode
    }
}

impl Symbols {
    fn apply(self, mode: u32, is_dir: bool, umask: u32) -> u32 {
        let mut bits = self.bits;
        if let Some(shift) = self.copied_from {
            bits = mode >> shift & 7;
        }
        if self.if_executable && (is_dir || mode & 0o111 != 0) {
            bits |= 1;
        }
        let who = if self.who == 0 { 7 } else { self.who };
        let mut change = 0;
        let mut whole = 0;
        for (one, shift, special) in [(4, 6, SET_USER), (2, 3, SET_GROUP), (1, 0, STICKY)] {
            if who & one == 0 {
                continue;
            }
            change |= bits << shift;
            whole |= 7 << shift;
            whole |= special;
            if self.set_id && one != 1 {
                change |= special;
            }
        }
        if self.sticky && who & 1 != 0 {
            change |= STICKY;
        }
        if self.who == 0 {
            change &= !(umask & 0o777);
        }
        match self.operator {
            '+' => mode | change,
            '-' => mode & !change,
            _ => {
                // As with chmod, those of directories stay.
                let kept = if is_dir { SET_USER | SET_GROUP } else { 0 };
                mode & !(whole & !kept) | change
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn changed(text: &str, mode: u32, is_dir: bool) -> u32 {
        let changes: ModeChanges = text.parse().unwrap();
        changes.apply(mode, is_dir, 0o022)
    }

    #[test]
    fn files_and_directories_have_their_own() {
        assert_eq!(changed("D755,F644", 0o700, true), 0o755);
        assert_eq!(changed("D755,F644", 0o700, false), 0o644);
        assert_eq!(changed("Dg+s,Fg-s", 0o2755, false), 0o755);
        assert_eq!(changed("Dg+s,ug=rwX,o=", 0o755, true), 0o2770);
        assert_eq!(changed("750", 0o2777, true), 0o2750);
        assert_eq!(changed("0750", 0o2777, true), 0o750);
    }

    #[test]
    fn a_file_gets_what_chmod_gives_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        for text in [
            "u+x",
            "+x",
            "+w",
            "-w",
            "=r",
            "=",
            "a=",
            "go-rwx",
            "g=u",
            "o=g-w",
            "u=rwx,g=rx,o=",
            "a+X",
            "+X",
            "ug+s",
            "u-s",
            "+t",
            "o+t",
            "go+rw,a-x",
            "4711",
            "0",
            "600",
            "u+x-r",
            "g=o+w",
            "a=rwx,o-wx",
        ] {
            for mode in [0o644, 0o755, 0o6751, 0o600, 0o1777, 0o070] {
                let permissions = std::fs::Permissions::from_mode(mode);
                std::fs::set_permissions(&file, permissions).unwrap();
                let script = format!("umask 022; chmod -- {text} \"$0\" 2>/dev/null || :");
                let done = Command::new("sh").args(["-c", &script]).arg(&file).status();
                assert!(done.unwrap().success());
                let now = std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777;
                assert_eq!(changed(text, mode, false), now, "{text} of {mode:o}");
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            ",",
            "u",
            "8",
            "17777",
            "u+rwz",
            "D",
            "Dd755",
            "x+r",
            "u=rwx,",
            "77777777777",
            "F+Ö",
        ] {
            let error = text.parse::<ModeChanges>().unwrap_err().to_string();
            assert!(error.contains("chmod"), "{text}: {error}");
        }
    }
}
