//! Why a setting was not changed.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use haltwise_core::parameter::{Parameter, ValueError};

use super::target::Target;
use crate::ceiling::CeilingError;
use crate::guest_agent::AgentError;
use crate::root::RootError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    #[error("find KVM's parameters: module kvm is not loaded")]
    NoKvm,
    #[error(
        "set {0}: this kernel has no such parameter (it came with Linux {since})",
        since = .0.since()
    )]
    Absent(Parameter),
    #[error(
        "set {parameter}: {} is read-only on this host, for root too{}",
        path.display(),
        if *.is_older { format!(" (writable since Linux {})", parameter.since()) } else { String::new() }
    )]
    ReadOnly {
        parameter: Parameter,
        path: PathBuf,
        /// Whether this kernel is older than the first in which the parameter is writable.
        is_older: bool,
    },
    #[error(transparent)]
    Read(#[from] RootError),
    #[error(transparent)]
    Value(#[from] ValueError),
    #[error("lock {}: another haltwise is changing settings", path.display())]
    Busy { path: PathBuf },
    #[error("open {}: {why}", path.display())]
    Untrusted { path: PathBuf, why: &'static str },
    #[error("restore {}: the baseline has a text for it that haltwise never wrote", path.display())]
    Forged { path: PathBuf },
    #[error("read {}: it is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: String },
    #[error("write the baseline")]
    Encode(#[source] serde_json::Error),
    #[error("record what undo has restored; everything was restored")]
    Unrecorded(#[source] Box<KnobError>),
    #[error("{}", several(.0))]
    Theirs(Vec<Foreign>),
    #[error("set {name}: it was modified externally at the same time")]
    Meanwhile { name: String },
    #[error("set {}: it is {} and was {}: it was modified externally", .0.name, .0.found, .0.expected)]
    Otherwise(Differs),
    #[error("set {}: it follows halt_poll_ns, which is {}; {} was expected", .0.name, .0.found, .0.expected)]
    Follows(Differs),
    #[error("persist: there is neither /etc/modprobe.d nor /etc/tmpfiles.d on this host")]
    NoPlace,
    #[error("persist: {} is there already, and the baseline does not list it", path.display())]
    Occupied { path: PathBuf },
    #[error("read {}: {why}", path.display())]
    NotText { path: PathBuf, why: &'static str },
    #[error("{what} {}: not permitted", path.display())]
    Denied { what: &'static str, path: PathBuf },
    #[error("{what} {}", path.display())]
    Failed {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("set {} to {}: it was written, and reads {}", .0.name, .0.expected, .0.found)]
    NotTaken(Differs),
    #[error(transparent)]
    Ceiling(#[from] CeilingError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error("undo: haltwise has set nothing that is in force")]
    Nothing,
}

/// A target whose value is another than expected.
#[derive(Debug)]
pub struct Differs {
    pub name: String,
    pub expected: String,
    pub found: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    pub target: Target,
    pub found: Option<String>,
    pub ours: Option<String>,
    pub step: u64,
    pub who: String,
}

impl KnobError {
    /// Whether the VM that was to be changed is not there any more.
    pub fn is_of_ended(&self) -> bool {
        let gone = |error: &CeilingError| {
            matches!(error, CeilingError::Gone(_) | CeilingError::NoVm { .. })
        };
        match self {
            Self::Ceiling(error) => gone(error),
            Self::Agent(error) => matches!(error, AgentError::Gone(_)),
            _ => false,
        }
    }

    /// Whether a VMM, or the agent in a guest, does not answer.
    pub(super) fn is_no_answer(&self) -> bool {
        matches!(self, Self::Ceiling(_) | Self::Agent(_))
    }

    pub(super) fn with_sources(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            // A transparent error has said it.
            let said = error.to_string();
            if !text.ends_with(&said) {
                text = format!("{text}: {said}");
            }
            source = error.source();
        }
        text
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.target.name();
        let (step, who) = (self.step, &self.who);
        if self.target.file().is_some() || self.target.is_ceiling() {
            return write!(f, "{name} is not as apply {step} (`{who}`) left it");
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        let (found, ours) = (text(&self.found), text(&self.ours));
        write!(
            f,
            "{name} is {found}, and apply {step} (`{who}`) wrote {ours}"
        )
    }
}

fn several(all: &[Foreign]) -> String {
    // Another module's parameters, and those in a guest, have nothing to do with kvm.
    let is_of_kvm = |it: &Foreign| matches!(it.target, Target::Parameter(it) if !it.is_of_guest());
    let reloaded = if all.iter().any(is_of_kvm) {
        ", or module kvm was reloaded"
    } else {
        ""
    };
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("{}: modified externally{reloaded}", all.join("; "))
}

pub(super) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> KnobError {
    let path = path.to_owned();
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            KnobError::Denied { what, path }
        }
        _ => KnobError::Failed { what, path, source },
    }
}
