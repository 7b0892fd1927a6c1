//! Why a file gives no names: said in the capture's notes, in words of ours alone.

use serde::{Deserialize, Serialize};

/// Why a file gives no names.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, thiserror::Error,
)]
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
    #[error("its symbol tables are too large")]
    TooLarge,
    #[error("it is not a valid ELF file, or was cut or failed while it was read")]
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
