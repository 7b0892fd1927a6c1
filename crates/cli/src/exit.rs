//! How the program ends: one table of exit codes, and errors that know theirs.

use std::process::ExitCode;

/// Every way in which haltwise ends. The numbers are a promise to scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    Usage,
    /// This host lacks what the verb needs.
    Unsupported,
    Denied,
    /// Data was lost, is damaged or incomplete. There is a result, unless the damage leaves nothing to say.
    Partial,
    /// As the recorded command ended: its own exit status, which scripts ask for.
    Command(u8),
}

impl Exit {
    /// With a result, from which something may be missing.
    pub(crate) fn of_partial(is_partial: bool) -> Self {
        if is_partial {
            Self::Partial
        } else {
            Self::Done
        }
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unsupported => 3,
            Self::Denied => 4,
            Self::Partial => 5,
            Self::Command(status) => status,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) error: anyhow::Error,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self {
            exit,
            error: error.into(),
            hint: None,
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(Exit::Failed, error)
    }
}

pub(crate) type Outcome = Result<Exit, Failure>;
