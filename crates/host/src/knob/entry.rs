//! What the journal holds: intents, their ends, and that it was mended.
//!
//! `docs/journal.md` describes it for readers outside.

use serde::{Deserialize, Serialize};

use super::parameter::Parameter;

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// 1 for the first, then one more for each.
    pub seq: u64,
    /// When, in nanoseconds since 1970 (UTC), by the host's clock.
    pub unix_ns: u64,
    /// The kernel's own name for this boot (`/proc/sys/kernel/random/boot_id`).
    pub boot: String,
    /// Who: the command line.
    pub who: String,
    /// What.
    pub act: Act,
}

/// What a line tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Act {
    /// These turns are about to be made. Written, and on the disk, before the first of them is.
    Intend(Intent),
    /// What became of the turns of the last intent, which somebody had left without an end. Only where
    /// its boot files contradict each other: written before they are put right.
    Found(End),
    /// The turns of the last intent were made, or not.
    End(End),
    /// A last line that a crash had cut was taken away.
    Mended {
        /// Its length.
        bytes: u64,
    },
}

/// Turns that belong together: made together, undone together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// Number of the step: 1 for the first, then one more for each.
    pub step: u64,
    /// The step that this one undoes; `null` for one that applies.
    pub undoes: Option<u64>,
    /// What somebody else has turned since we did, and is turned nevertheless.
    pub takes_over: Vec<Target>,
    /// What is turned, in order.
    pub turns: Vec<Turn>,
    /// What an undo leaves as it is.
    pub leaves: Vec<Left>,
}

/// A change of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// What.
    pub target: Target,
    /// What it was: a number, the text of a file, or `null` for a file that was not there.
    pub old: Option<String>,
    /// What it is to be.
    pub new: Option<String>,
    /// How a file lay there that was not ours: what an undo gives back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_form: Option<Form>,
    /// How a file is to lie there that is not ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_form: Option<Form>,
}

/// What a file is besides its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Permissions, as `chmod` takes them.
    pub mode: u32,
    /// Number of the owner.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
    /// Where it leads, if it is a symbolic link.
    pub link: Option<String>,
}

/// Something that we turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A module parameter.
    Parameter(Parameter),
    /// A file that sets parameters at boot.
    File(BootFile),
}

/// The files that make a setting outlast a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootFile {
    /// Options for module `kvm` when it is loaded.
    Modprobe,
    /// Written through sysfs at boot: for a `kvm` that is built in, or loaded from an initramfs that
    /// does not have the other file.
    Tmpfiles,
}

/// Something that an undo leaves as it is, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Left {
    /// What.
    pub target: Target,
    /// What it is.
    pub found: Option<String>,
    /// Why.
    pub why: Why,
}

/// Why something is left as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// Somebody else has turned it since, and it is theirs from then on.
    Theirs,
    /// The host was booted since, which undid the turn.
    Rebooted,
}

/// How an intent ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// The step.
    pub step: u64,
    /// What became of each turn.
    pub results: Vec<Outcome>,
    /// It was not known to whoever began: a later command found out.
    pub found_later: bool,
}

/// What became of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was made.
    Done,
    /// It was not.
    NotDone,
    /// It has neither the old value nor the new: somebody else turned it meanwhile.
    Theirs,
    /// A boot file that contradicted the other when the step was settled, and was put right then:
    /// taken back if the step applied, brought to its end if it undid.
    Mended,
}

impl Turn {
    /// Between two values, with nothing else to keep.
    pub(super) fn plain(target: Target, old: Option<String>, new: Option<String>) -> Self {
        Self {
            target,
            old,
            new,
            old_form: None,
            new_form: None,
        }
    }

    /// The way back.
    pub(super) fn reversed(&self) -> Self {
        Self {
            target: self.target,
            old: self.new.clone(),
            new: self.old.clone(),
            old_form: self.new_form.clone(),
            new_form: self.old_form.clone(),
        }
    }
}

impl Target {
    /// Its file, below a [`crate::root::Root`].
    pub const fn path(self) -> &'static str {
        match self {
            Self::Parameter(parameter) => parameter.path(),
            Self::File(BootFile::Modprobe) => "etc/modprobe.d/haltwise.conf",
            Self::File(BootFile::Tmpfiles) => "etc/tmpfiles.d/haltwise.conf",
        }
    }

    /// The parameter, if it is one.
    pub const fn parameter(self) -> Option<Parameter> {
        match self {
            Self::Parameter(parameter) => Some(parameter),
            Self::File(_) => None,
        }
    }

    /// What people call it: a parameter's name, or where a file lies.
    pub fn name(self) -> String {
        match self {
            Self::Parameter(parameter) => parameter.name().to_owned(),
            Self::File(_) => format!("/{}", self.path()),
        }
    }
}
