//! Which kernel runs here, as far as the rules of halting depend on it.

use std::fmt;

use haltwise_core::kvm::Distributor;

use crate::root::{Root, RootError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRelease {
    /// `(6, 18, 44)` of `6.18.44-1-amd64`; a number that is not there is 0.
    pub version: (u32, u32, u32),
    pub text: String,
}

impl KernelRelease {
    pub fn read(root: &Root) -> Result<Self, RootError> {
        const PATH: &str = "proc/sys/kernel/osrelease";
        let text = root.value(PATH)?;
        Self::parse(&text).ok_or_else(|| root.malformed(PATH, &text, "a kernel's release"))
    }

    /// Reads a release as `uname -r` prints it.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .unwrap_or(text.len());
        let mut numbers = text.get(..end)?.split('.');
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        let patch = numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
        Some(Self {
            version: (major, minor, patch),
            text: crate::discovery::printable(text)?,
        })
    }

    /// Whether it is of this version or a later one.
    pub fn is_from(&self, major: u32, minor: u32) -> bool {
        self.version >= (major, minor, 0)
    }

    /// Whether a distributor keeps an old number and carries newer code under it.
    pub fn has_backports(&self) -> bool {
        Distributor::of(&self.text).is_some_and(|it| it.keeps_number)
    }
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn releases_as_distributions_write_them() {
        for (text, version) in [
            ("6.18.44-1-amd64", (6, 18, 44)),
            ("5.15.0-91-generic", (5, 15, 0)),
            ("7.2.13+", (7, 2, 13)),
            ("6.19-rc3", (6, 19, 0)),
            ("4.18.0-513.el8.x86_64", (4, 18, 0)),
            ("6.1", (6, 1, 0)),
        ] {
            assert_eq!(
                KernelRelease::parse(text).map(|k| k.version),
                Some(version),
                "{text}"
            );
        }
        for bad in ["", "six", "6", "6.", ".1", "99999999999.1", "ü6.1"] {
            assert_eq!(KernelRelease::parse(bad), None, "{bad}");
        }
    }
}
