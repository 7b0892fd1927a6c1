//! Room on the disk that is kept for the last word: that the disk was full, and what was lost by it.
//!
//! A copy of `capture.json`, with blanks behind it, is written when a recording begins. Where nothing else fits any
//! more, it is overwritten with the last `capture.json` and takes its place: no byte more is needed. Where a loss of
//! power took `capture.json` itself, the copy is read.

use std::io;

use crate::files::Directory;
use crate::files::disk::Sink;
use crate::info::FILE;

pub(crate) const NAME: &str = "capture.json.spare";

/// The least that is kept: as much as a hundred VMs need.
const LEAST: u64 = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Spare {
    file: Option<Sink>,
    pub(crate) bytes: u64,
}

impl Spare {
    /// Keeps a copy of `capture.json`, and room for twice as much. Where that grows, room is added behind the first
    /// copy, which is durable and stays as it is: whatever a loss of power takes, it is not both.
    pub(crate) fn keep(&mut self, directory: &Directory, text: &[u8]) -> io::Result<()> {
        let wanted = (text.len() as u64).saturating_mul(2).max(LEAST);
        if wanted <= self.bytes {
            return Ok(());
        }
        let first = if self.bytes == 0 { text } else { &[] };
        let more = usize::try_from(wanted - self.bytes).unwrap_or(usize::MAX);
        let mut more_bytes = first.to_vec();
        more_bytes.resize(more, b' ');
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(directory.create(NAME)?),
        };
        file.write_all_at(&more_bytes, self.bytes)?;
        if self.bytes == 0 {
            file.sync()?;
        }
        self.bytes = wanted;
        Ok(())
    }

    /// Replaces `capture.json` by this text, in the room that was kept, whose copy goes: what `capture.json` is now must be
    /// durable before.
    pub(crate) fn spend(&mut self, directory: &Directory, text: &[u8]) -> io::Result<()> {
        let nothing = || io::Error::from(io::ErrorKind::StorageFull);
        let file = self.file.take().ok_or_else(nothing)?;
        self.bytes = 0;
        // Best effort: a disk that cannot do this may take the last word.
        drop(directory.sync_file(FILE));
        file.write_all_at(text, 0)?;
        file.set_len(text.len() as u64)?;
        directory.replace_by(&file, NAME, FILE)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn room_grows_and_is_spent_on_the_last_word() {
        let dir = tempfile::tempdir().unwrap();
        let ours = Directory::open(dir.path()).unwrap();
        let read = |name| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let mut spare = Spare::default();
        assert!(spare.spend(&ours, b"{}").is_err(), "nothing was kept");
        spare.keep(&ours, b"{\"first\": 1}").unwrap();
        assert_eq!(read(NAME).len() as u64, LEAST);
        spare.keep(&ours, &vec![b' '; 100_000]).unwrap();
        spare.keep(&ours, b"{}").unwrap();
        assert_eq!(read(NAME).len(), 200_000, "room does not shrink");
        assert_eq!(
            read(NAME).trim_end(),
            "{\"first\": 1}",
            "the first copy stays"
        );
        spare.spend(&ours, b"{\"last\": 1}").unwrap();
        assert!(!dir.path().join(NAME).exists());
        assert_eq!(read(FILE), "{\"last\": 1}");
    }
}
