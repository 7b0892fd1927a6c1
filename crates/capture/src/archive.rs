//! A capture as one stream: a tar archive of its files, for pipes between hosts.
//!
//! An archive comes from anywhere. Its files are regular ones with plain names, below at most one
//! directory; anything else is refused before it is written.

use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};

use tar::{Archive, Builder, EntryType, Header};

use crate::files::{self, Directory};

/// Longer names are no names of a capture's files.
const LONGEST_NAME: usize = 64;

const MOST_FILES: usize = 256;

/// Why an archive is not unpacked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    #[error("the archive cannot be read")]
    Read(#[source] io::Error),
    #[error("the archive holds {0:?}, which is no file of a capture")]
    Foreign(PathBuf),
    #[error("the archive holds more than {MOST_FILES} files")]
    TooMany,
    #[error("the archive is empty")]
    Empty,
    #[error("unpack {name}")]
    Write { name: String, source: io::Error },
}

/// Writes the files of a capture as an archive, `capture.json` first.
///
/// # Errors
/// If a file cannot be read, or the archive cannot be written.
pub fn pack(directory: &Path, out: impl Write) -> io::Result<()> {
    let entries = files::entries(directory)?.into_iter();
    let files = entries.filter(|(_, is_directory)| !is_directory);
    let names = files.filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    names.sort_by_key(|name| (name != "capture.json", name.clone()));
    let mut archive = Builder::new(out);
    for name in names {
        let file = files::open_member(&directory.join(&name))?;
        let bytes = file.metadata()?.len();
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::Regular);
        header.set_size(bytes);
        header.set_mode(0o600);
        header.set_mtime(0);
        archive.append_data(&mut header, name, file.take(bytes))?;
    }
    archive.into_inner()?.flush()
}

/// Writes the files of an archive into a directory of ours that holds nothing.
///
/// # Errors
/// If the archive is damaged, was cut, holds anything but a capture's files, or cannot be written.
pub fn unpack(input: impl Read, directory: &Directory) -> Result<(), ArchiveError> {
    let mut archive = Archive::new(input);
    let mut files = 0;
    for entry in archive.entries().map_err(ArchiveError::Read)? {
        let mut entry = entry.map_err(ArchiveError::Read)?;
        let path = entry.path().map_err(ArchiveError::Read)?.into_owned();
        match entry.header().entry_type() {
            EntryType::Directory if path.components().count() <= 1 => continue,
            EntryType::Regular | EntryType::Continuous => {}
            _ => return Err(ArchiveError::Foreign(path)),
        }
        let name = plain(&path).ok_or_else(|| ArchiveError::Foreign(path.clone()))?;
        files += 1;
        if files > MOST_FILES {
            return Err(ArchiveError::TooMany);
        }
        copy(&mut entry, directory, name)?;
    }
    if files == 0 {
        return Err(ArchiveError::Empty);
    }
    Ok(())
}

fn copy(
    entry: &mut tar::Entry<'_, impl Read>,
    directory: &Directory,
    name: &str,
) -> Result<(), ArchiveError> {
    let failed = |source| ArchiveError::Write {
        name: name.to_owned(),
        source,
    };
    let mut file = directory.create(name).map_err(failed)?;
    let bytes = io::copy(entry, &mut file).map_err(failed)?;
    if bytes != entry.size() {
        return Err(ArchiveError::Read(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

/// The name of a file that lies at the top of the archive, or in its one directory.
fn plain(path: &Path) -> Option<&str> {
    let above = path.parent()?.components();
    if above.filter(|it| *it != Component::CurDir).count() > 1 {
        return None;
    }
    let is_down = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let name = path.file_name()?.to_str()?;
    let is_ours = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let good = path.components().all(is_down)
        && name.len() <= LONGEST_NAME
        && !name.starts_with('.')
        && name.chars().all(is_ours);
    good.then_some(name)
}

#[cfg(test)]
mod test;
