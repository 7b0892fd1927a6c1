//! State that the pilot keeps: a file of ours beside the baseline, replaced as a whole.
//!
//! It sets nothing and nothing is undone from it; what was set stands in the baseline.

use std::io;

use super::disk;
use super::error::{KnobError, failed};
use super::own;
use crate::root::Root;

/// Where it lies, below a [`Root`].
pub const PILOT: &str = "var/lib/haltwise/pilot.json";

/// It is not read further than this, in bytes: some ten thousand VMs.
const LONGEST: u64 = 16 << 20;

/// State that was kept last; `None` if there is none.
///
/// # Errors
/// If it cannot be read, or others than root and us may have written it.
pub fn kept(root: &Root) -> Result<Option<String>, KnobError> {
    let path = root.path(PILOT);
    let Some(bytes) = own::read(&path, LONGEST)? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes)
        .map_err(|error| failed("read", &path)(io::Error::new(io::ErrorKind::InvalidData, error)));
    text.map(Some)
}

/// Makes the directory of this and of the baseline, where it is not there yet.
///
/// # Errors
/// If it cannot be made, or others than root and us may write in it.
pub fn make_place(root: &Root) -> Result<(), KnobError> {
    own::make_directory_of(&root.path(PILOT))
}

/// Keeps this instead: it is on the disk when this returns.
///
/// # Errors
/// If it cannot be written.
pub fn keep(root: &Root, text: &str) -> Result<(), KnobError> {
    make_place(root)?;
    disk::replace(&root.path(PILOT), text, 0o600)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_kept_is_read_and_a_link_is_not_followed() {
        let (directory, root) = crate::root::made_up(&[]);
        assert_eq!(kept(&root).unwrap(), None);
        for text in ["one", "another"] {
            keep(&root, text).unwrap();
            assert_eq!(kept(&root).unwrap().as_deref(), Some(text));
        }
        let elsewhere = directory.path().join("elsewhere");
        std::fs::write(&elsewhere, "theirs").unwrap();
        let path = root.path(PILOT);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(matches!(kept(&root), Err(KnobError::Untrusted { .. })));
        keep(&root, "ours").unwrap();
        assert_eq!(kept(&root).unwrap().as_deref(), Some("ours"));
        assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "theirs");
    }
}
