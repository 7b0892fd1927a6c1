//! What makes a setting outlast a boot: the text of two small files.
//!
//! `modprobe.d` gives module `kvm` its options when it is loaded. It does nothing where `kvm` is built
//! into the kernel, or is loaded from an initramfs that was made before. `tmpfiles.d` writes through
//! sysfs during boot (a `w` line, which is skipped where there is no such file). So both are written,
//! and both say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::entry::{BootFile, Target};
use super::parameter::Parameter;
use super::state::State;
use crate::root::Root;

/// Values by parameter.
pub(super) type Values = BTreeMap<Parameter, u32>;

const HEAD: &str = "# Written by haltwise; see `haltwise status` and `haltwise undo`.\n";

impl BootFile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Modprobe, Self::Tmpfiles];

    /// What the file says for these values.
    pub(super) fn text(self, values: &Values) -> String {
        let mut text = HEAD.to_owned();
        // Formatting into a String cannot fail.
        match self {
            Self::Modprobe => {
                text.push_str("options kvm");
                for (parameter, value) in values {
                    let _ = write!(text, " {parameter}={value}");
                }
                text.push('\n');
            }
            Self::Tmpfiles => {
                for (parameter, value) in values {
                    let _ = writeln!(text, "w /{} - - - - {value}", parameter.path());
                }
            }
        }
        text
    }

    /// The values in a text of ours; none in one that is not.
    pub(super) fn values(self, text: &str) -> Values {
        let lines = text.strip_prefix(HEAD).unwrap_or_default().lines();
        let read = |name: &str, value: &str| Some((name.parse().ok()?, value.parse().ok()?));
        match self {
            Self::Modprobe => lines
                .filter_map(|line| line.strip_prefix("options kvm "))
                .flat_map(str::split_whitespace)
                .filter_map(|pair| pair.split_once('='))
                .filter_map(|(name, value)| read(name, value))
                .collect(),
            Self::Tmpfiles => lines
                .filter_map(|line| line.strip_prefix("w /sys/module/kvm/parameters/"))
                .filter_map(|rest| rest.split_once(" - - - - "))
                .filter_map(|(name, value)| read(name, value))
                .collect(),
        }
    }
}

/// The files that this host has a place for.
pub(super) fn here(root: &Root) -> Vec<BootFile> {
    let has_place = |file: &BootFile| {
        let path = root.path(Target::File(*file).path());
        path.parent().is_some_and(std::path::Path::is_dir)
    };
    BootFile::ALL.into_iter().filter(has_place).collect()
}

/// The values that our files set at boot, as the journal has them.
pub fn persisted(state: &State) -> BTreeMap<Parameter, u32> {
    let texts = BootFile::ALL.into_iter().filter_map(|file| {
        let (_, turn) = state.last_turn(Target::File(file))?;
        Some(file.values(turn.new.as_deref()?))
    });
    texts.fold(Values::new(), |mut all, values| {
        all.extend(values);
        all
    })
}
