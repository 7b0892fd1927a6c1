//! Why a file gives no names: said in the capture's notes, in words of ours alone.

use super::elf::ElfError;

/// Why a file gives no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it cannot be opened or read with the rights at hand")]
    Denied,
    #[error("it is not a regular file")]
    NotRegular,
    #[error(
        "another file has its name, or its file system shows another device number (to open mapped files \
         themselves takes CAP_CHECKPOINT_RESTORE)"
    )]
    OtherFile,
    #[error("its headers point beyond its end")]
    BeyondEnd,
    #[error("it was cut or failed while it was read")]
    Failed,
    #[error("its symbol tables are too large")]
    TooLarge,
    #[error("it is not a valid ELF file")]
    Malformed,
    #[error("reading it took too long")]
    Late,
    #[error("the process that read it died")]
    Died,
    #[error("the process that read it gave an invalid answer")]
    Nonsense,
    #[error("no process could be started to read it")]
    NoReader,
    #[error("the processes that read such files died too often")]
    Exhausted,
    #[error("the time for reading the files of all VMs was used up")]
    OverTime,
}

const ALL: [Refusal; 13] = [
    Refusal::Denied,
    Refusal::NotRegular,
    Refusal::OtherFile,
    Refusal::BeyondEnd,
    Refusal::Failed,
    Refusal::TooLarge,
    Refusal::Malformed,
    Refusal::Late,
    Refusal::Died,
    Refusal::Nonsense,
    Refusal::NoReader,
    Refusal::Exhausted,
    Refusal::OverTime,
];

impl Refusal {
    pub(super) fn code(self) -> u8 {
        let place = ALL.iter().position(|it| *it == self);
        place.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        ALL.get(usize::from(code)).copied()
    }
}

impl From<ElfError> for Refusal {
    fn from(error: ElfError) -> Self {
        match error {
            ElfError::BeyondEnd => Self::BeyondEnd,
            ElfError::Failed => Self::Failed,
            ElfError::TooLarge => Self::TooLarge,
            ElfError::NotElf | ElfError::Malformed => Self::Malformed,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_go_there_and_back() {
        for (code, refusal) in (0..).zip(ALL) {
            assert_eq!(refusal.code(), code);
            assert_eq!(Refusal::from_code(code), Some(refusal));
        }
        assert_eq!(Refusal::from_code(13), None);
    }
}
