//! What ssh makes of its settings for a host, as `ssh -G` prints it.

use super::process::Wordy;

/// A line for each setting. Empty where ssh does not say them all, or is no OpenSSH.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings(String);

impl Settings {
    /// Of the whole output.
    pub(super) fn of(printed: String) -> Self {
        Self(printed)
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    fn value(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| {
            let (key, value) = line.trim().split_once(' ')?;
            (key == name).then(|| value.trim())
        })
    }

    /// The host's real name.
    pub(super) fn host_name(&self) -> Option<&str> {
        self.value("hostname").filter(|name| !name.is_empty())
    }

    /// Options that put right what would keep the far end from being started, or keep silent about it. Not all versions
    /// know all of them; one that prints a setting takes it.
    pub(super) fn corrections(&self) -> Vec<&'static str> {
        let mut options = Vec::new();
        for (name, right, option) in [
            ("stdinnull", "no", "-oStdinNull=no"),
            ("sessiontype", "default", "-oSessionType=default"),
            (
                "forkafterauthentication",
                "no",
                "-oForkAfterAuthentication=no",
            ),
        ] {
            if self.value(name).is_some_and(|value| value != right) {
                options.push(option);
            }
        }
        if self.wordy() != Wordy::AsIs {
            // At this level ssh says when it has logged in, and hardly more than by default.
            options.push("-oLogLevel=VERBOSE");
        }
        options
    }

    /// What of the words of an ssh with these [`corrections`](Self::corrections) is for its user.
    pub(super) fn wordy(&self) -> Wordy {
        match self.value("loglevel") {
            Some("INFO") => Wordy::MoreThanWanted,
            Some("SILENT" | "QUIET" | "FATAL" | "ERROR") => Wordy::MuchMoreThanWanted,
            _ => Wordy::AsIs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::of(text.to_owned())
    }

    #[test]
    fn the_real_name_is_what_ssh_says() {
        let said = settings("host site\nuser anna\nhostname site.example.org\nport 22\n");
        assert_eq!(said.host_name(), Some("site.example.org"));
        assert_eq!(settings("usage: ssh").host_name(), None);
    }

    #[test]
    fn t02_what_would_keep_the_far_end_away_is_put_right_and_nothing_else() {
        let plain = "hostname h\nsessiontype default\nstdinnull no\nforkafterauthentication no\n";
        let verbose = "-oLogLevel=VERBOSE";
        for (more, options, wordy) in [
            ("loglevel INFO\n", &[verbose][..], Wordy::MoreThanWanted),
            (
                "loglevel SILENT\n",
                &[verbose][..],
                Wordy::MuchMoreThanWanted,
            ),
            ("loglevel DEBUG3\n", &[], Wordy::AsIs),
            ("", &[], Wordy::AsIs),
        ] {
            let said = settings(&format!("{plain}{more}"));
            assert_eq!(said.corrections(), options, "{more}");
            assert_eq!(said.wordy(), wordy, "{more}");
        }
        let odd = settings("stdinnull yes\nsessiontype none\nforkafterauthentication yes\n");
        assert_eq!(odd.corrections().len(), 3);
        assert!(
            settings("hostname of-an-old-one\n")
                .corrections()
                .is_empty()
        );
    }
}
