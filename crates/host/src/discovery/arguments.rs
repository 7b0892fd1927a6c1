//! The command line of a process, as `/proc/PID/cmdline` gives it.

use std::borrow::Cow;

use haltwise_core::ids::Pid;

use crate::root::{Root, RootError};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Arguments(Vec<String>);

impl Arguments {
    pub(super) fn of(root: &Root, pid: Pid) -> Result<Self, RootError> {
        Ok(Self::parse(&root.bytes(format!("proc/{pid}/cmdline"))?))
    }

    /// Splits the bytes of `/proc/PID/cmdline`. Bytes that are no UTF-8 become U+FFFD.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        if bytes.is_empty() {
            return Self::default();
        }
        let text = bytes.split(|&b| b == 0).map(String::from_utf8_lossy);
        Self(text.map(Cow::into_owned).collect())
    }

    pub(super) fn program(&self) -> Option<&str> {
        let first = self.0.first()?;
        first.rsplit('/').next().filter(|name| !name.is_empty())
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.0.iter().skip(1).any(|it| it == word)
    }

    /// The values of an option that comes several times, each in the word after it.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.windows(2).skip(1);
        pairs
            .filter(move |pair| pair[0] == name)
            .map(|pair| pair[1].as_str())
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.windows(2).skip(1);
        pairs.map(|pair| (pair[0].as_str(), pair[1].as_str()))
    }

    /// The value of an option in either form, `--name VALUE` or `--name=VALUE`; the last one counts.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let mut found = None;
        let mut rest = self.0.iter().skip(1);
        while let Some(argument) = rest.next() {
            if argument == name {
                found = rest.next().map(String::as_str).or(found);
            } else if let Some(value) = argument
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='))
            {
                found = Some(value);
            }
        }
        found
    }
}

/// The name of a socket's file without its ending: `/run/vm/web.sock` is `web`.
pub(super) fn stem(path: &str) -> Option<&str> {
    let file = path.rsplit('/').next()?;
    let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
    (!stem.is_empty()).then_some(stem)
}
