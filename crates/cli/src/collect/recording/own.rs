//! Captures that a verb records for one question: where they lie, and how many of them stay.
//!
//! The user need not clean up: the oldest are removed before the next is recorded. Other people's directories may
//! have such names, so that only captures in directories of this user count.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use haltwise_capture::capture::Capture;
use haltwise_capture::files::directory::{list, remove_all};
use haltwise_capture::note::Note;
use haltwise_host::clock;

use crate::terminal;

/// How many stay, and how many bytes they have at most, the next not counted.
const KEPT: usize = 9;
const KEPT_BYTES: u64 = 1 << 30;

const NAME: &str = "haltwise-";

pub(super) fn next() -> PathBuf {
    let seconds = clock::wall_ns() / 1_000_000_000;
    let name = format!("{NAME}{seconds}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Makes room for the next, and says what that took.
pub(crate) fn make_room() {
    let place = std::env::temp_dir();
    let removed = remove_old(&place);
    if removed > 0 {
        terminal::say(&format!(
            "Removed {removed} of the captures of earlier answers in {}: the newest stay, 10 and 1 GiB at most.",
            place.display()
        ));
    }
}

/// Removes the oldest beyond what may stay; gives how many.
fn remove_old(place: &Path) -> usize {
    let entries = list(place).unwrap_or_default().into_iter();
    let mut captures: Vec<(u64, PathBuf)> = entries
        .filter_map(|(name, _)| Some((began(name.to_str()?)?, place.join(name))))
        .filter(|(_, path)| is_ours(path))
        .collect();
    captures.sort_by(|a, b| b.cmp(a));
    let mut bytes = 0_u64;
    let stays = |(nth, (_, path)): &(usize, (u64, PathBuf))| {
        let files = list(path).unwrap_or_default();
        bytes += files.iter().map(|(_, bytes)| bytes).sum::<u64>();
        *nth < KEPT && bytes <= KEPT_BYTES
    };
    let old = captures.into_iter().enumerate().skip_while(stays);
    old.filter(|(_, (_, path))| remove_all(path).is_ok())
        .count()
}

/// When a capture of this name began, in seconds since 1970.
fn began(name: &str) -> Option<u64> {
    let (seconds, pid) = name.strip_prefix(NAME)?.split_once('-')?;
    pid.parse::<u32>().ok()?;
    seconds.parse().ok()
}

/// Whether it is a whole directory of this user, a capture, and not being recorded.
fn is_ours(path: &Path) -> bool {
    let us = rustix::process::geteuid().as_raw();
    let is_owned =
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == us);
    let is_ended = |it: Capture| !it.notes().contains(&Note::StillRecording);
    is_owned && Capture::open(path).is_ok_and(is_ended)
}

#[cfg(test)]
mod test {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn capture(path: &Path) {
        let like = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recorded/polled");
        fs::create_dir(path).unwrap();
        for (name, _) in list(&like).unwrap() {
            fs::copy(like.join(&name), path.join(&name)).unwrap();
        }
    }

    #[test]
    fn the_newest_stay_and_nothing_else_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for second in 100..=111 {
            capture(&at(&format!("haltwise-{second}-7")));
        }
        for other in ["haltwise-9-x", "haltwise-mine", "capture"] {
            capture(&at(other));
        }
        symlink(at("capture"), at("haltwise-1-1")).unwrap();
        fs::create_dir(at("haltwise-2-2")).unwrap();
        // Only root can make a directory of another user.
        capture(&at("haltwise-3-3"));
        let is_other = chown(at("haltwise-3-3"), Some(12_345), None).is_ok();
        assert_eq!(remove_old(dir.path()), if is_other { 3 } else { 4 });
        let left = |name: &str| at(name).exists();
        let gone = ["haltwise-100-7", "haltwise-101-7", "haltwise-102-7"];
        assert!(!gone.into_iter().any(left));
        for stays in ["haltwise-103-7", "haltwise-111-7", "haltwise-9-x"] {
            assert!(left(stays), "{stays}");
        }
        for stays in ["haltwise-mine", "capture", "haltwise-1-1", "haltwise-2-2"] {
            assert!(left(stays), "{stays}");
        }
        assert_eq!(left("haltwise-3-3"), is_other);
        assert_eq!(remove_old(dir.path()), 0);
    }
}
