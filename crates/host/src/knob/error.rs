//! Why a knob was not turned.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::disk::DiskError;
use super::entry::Target;
use super::line::Damage;
use super::parameter::{Parameter, ValueError};
use super::state::Contradiction;
use crate::root::RootError;

/// Why a knob was not turned, or the journal not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// KVM is not loaded.
    #[error("find KVM's parameters: module kvm is not loaded")]
    NoKvm,
    /// This kernel lacks a parameter.
    #[error(
        "set {0}: this kernel has no such parameter (it came with Linux {since})",
        since = .0.since()
    )]
    Absent(Parameter),
    /// Nobody may write it, root included.
    #[error(
        "set {parameter}: {} is read-only on this host, for everybody (writable since Linux {since})",
        path.display(), since = parameter.since()
    )]
    ReadOnly {
        /// The parameter.
        parameter: Parameter,
        /// Its file.
        path: PathBuf,
    },
    /// A file of the kernel could not be read.
    #[error(transparent)]
    Read(#[from] RootError),
    /// A value cannot be.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Another haltwise holds the journal.
    #[error("lock {}: another haltwise is changing settings", path.display())]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// Somebody else can have written it, or can lock it.
    #[error("open {}: {why}", path.display())]
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// Why it is not believed.
        why: &'static str,
    },
    /// The journal tells of a boot file that haltwise cannot have written or found.
    #[error("restore {}: the journal has a text for it that haltwise never wrote", path.display())]
    Forged {
        /// The file.
        path: PathBuf,
    },
    /// The journal is damaged.
    #[error("read the journal {}", path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where, and how.
        #[source]
        source: Damage,
    },
    /// The journal's entries contradict each other.
    #[error("read the journal {}", path.display())]
    Contradicts {
        /// The journal.
        path: PathBuf,
        /// Where, and how.
        #[source]
        source: Contradiction,
    },
    /// An entry does not become text.
    #[error("write an entry of the journal")]
    Entry(#[source] serde_json::Error),
    /// Somebody else has turned what we had turned.
    #[error("{}", several(.0))]
    Theirs(Vec<Foreign>),
    /// Somebody turned it between our look and our hand.
    #[error("set {name}: it was modified externally at the same time")]
    Meanwhile {
        /// What.
        name: String,
    },
    /// Neither directory for boot files is there.
    #[error("persist: there is neither /etc/modprobe.d nor /etc/tmpfiles.d on this host")]
    NoPlace,
    /// A boot file of our name is somebody else's.
    #[error("persist: {} is there already, and is not ours", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
    },
    /// A file of our name is there, and cannot be kept for the undo.
    #[error("read {}: {why}, so it cannot be kept for the undo", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: &'static str,
    },
    /// A write was refused.
    #[error("{what} {}: not permitted", path.display())]
    Denied {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// A write failed.
    #[error("{what} {}", path.display())]
    Failed {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A write was taken and did nothing.
    #[error("set {name} to {wanted}: it was written, and reads {found}")]
    NotTaken {
        /// What.
        name: String,
        /// The value written.
        wanted: String,
        /// The value read.
        found: String,
    },
    /// No step is in force.
    #[error("undo: no step is in force")]
    Nothing,
    /// That step is not in force.
    #[error("undo step {wanted}: it is not in force (in force: {in_force})")]
    NoStep {
        /// The step.
        wanted: u64,
        /// Those that are.
        in_force: String,
    },
    /// A later step turned the same.
    #[error("undo step {wanted}: step {later} has turned {name} since; undo that first")]
    Later {
        /// The step.
        wanted: u64,
        /// The later one.
        later: u64,
        /// What both turned.
        name: String,
    },
}

/// Something that we had turned and somebody else has turned since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// What.
    pub target: Target,
    /// What it is.
    pub found: Option<String>,
    /// What we had written.
    pub ours: Option<String>,
    /// The step that did.
    pub step: u64,
    /// Who.
    pub who: String,
}

impl KnobError {
    /// Another haltwise holds the journal of this host.
    pub fn busy(root: &crate::root::Root) -> Self {
        let path = root.path(super::JOURNAL);
        Self::Busy { path }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.target.name();
        let (step, who) = (self.step, &self.who);
        if self.target.parameter().is_none() {
            return write!(f, "{name} is not as step {step} (`{who}`) left it");
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        let (found, ours) = (text(&self.found), text(&self.ours));
        write!(
            f,
            "{name} is {found}, and step {step} (`{who}`) wrote {ours}"
        )
    }
}

fn several(all: &[Foreign]) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!(
        "{}: modified externally, or module kvm was reloaded",
        all.join("; ")
    )
}

impl From<DiskError> for KnobError {
    fn from(error: DiskError) -> Self {
        let DiskError { what, path, source } = error;
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { what, path }
            }
            _ => Self::Failed { what, path, source },
        }
    }
}
