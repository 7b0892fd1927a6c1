//! Which kernel runs here, as far as the rules of halting depend on it.

use std::fmt;

use haltwise_core::kvm::{Distributor, Version};

use crate::root::{Root, RootError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelRelease {
    pub version: Version,
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
        Some(Self {
            version: text.parse().ok()?,
            text: crate::discovery::printable(text)?,
        })
    }

    /// Whether it is of this version or a later one.
    pub fn is_from(&self, major: u32, minor: u32) -> bool {
        self.version >= Version::new(major, minor)
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
