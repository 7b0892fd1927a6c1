//! Text of other tools as captures: kept samples, laws on made-up recordings, damage.
#![allow(clippy::unwrap_used, reason = "a test that fails may panic")]

mod damage;
mod kvm;
mod laws;
mod samples;

use std::io::BufRead;
use std::ops::ControlFlow;
use std::path::Path;

use haltwise_capture::capture::Capture;
use haltwise_capture::import::{self, GivenSettings, ImportError, Imported};
use haltwise_capture::info::Tool;
use haltwise_core::event::Halt;
use tempfile::TempDir;

pub(crate) struct Made {
    pub(crate) imported: Imported,
    pub(crate) capture: Capture,
    pub(crate) halts: Vec<Halt>,
    _dir: TempDir,
}

pub(crate) fn capture_of(text: &[u8], told: GivenSettings) -> Result<Made, ImportError> {
    let dir = tempfile::tempdir().unwrap();
    let output = dir.path().join("cap");
    let result = import_to(text, told, &output, ControlFlow::Continue(()));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    if result.is_err() {
        assert!(left.is_empty(), "{left:?} is left of an import that failed");
    }
    let imported = result?;
    assert_eq!((left.len(), &imported.directory), (1, &output));
    let capture = Capture::open(&output).unwrap();
    assert!(capture.notes().is_empty(), "{:?}", capture.notes());
    let halts: Result<Vec<Halt>, _> = capture.halts().unwrap().collect();
    let halts = halts.unwrap();
    assert_eq!(halts.len() as u64, imported.halts);
    Ok(Made {
        imported,
        capture,
        halts,
        _dir: dir,
    })
}

pub(crate) fn import_to(
    text: impl BufRead,
    told: GivenSettings,
    output: &Path,
    go_on: ControlFlow<()>,
) -> Result<Imported, ImportError> {
    let tool = Tool {
        name: "test".into(),
        version: "0".into(),
    };
    import::import(text, output, told, (tool, Vec::new()), |_| go_on)
}
