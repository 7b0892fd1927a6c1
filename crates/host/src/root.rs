//! Where `/proc`, `/sys` and `/dev` are: at `/`, or below a directory made by a test.
//!
//! Every small file of the kernel that this crate reads is read through here, so that each error
//! names its path and is one of four kinds: absent, gone, denied, failed. This module knows no
//! particular file; its callers do.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Few files of the kernel that we read are longer; what is longer is cut here, but for those read by
/// [`Root::long_bytes`].
const LONGEST_FILE: u64 = 4 << 20;

/// The directory below which `/proc`, `/sys` and `/dev` lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root {
    base: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RootError {
    #[error("read {}: not there", path.display())]
    Absent { path: PathBuf },
    #[error("read {}: not permitted", path.display())]
    Denied { path: PathBuf },
    #[error("read {}", path.display())]
    Failed {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("read {}: `{text}` is not {expected}", path.display())]
    Malformed {
        path: PathBuf,
        text: String,
        expected: &'static str,
    },
}

impl RootError {
    pub(crate) fn new(path: PathBuf, source: io::Error) -> Self {
        // A process that ends while its files are read gives ESRCH.
        let gone = source.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error());
        match source.kind() {
            io::ErrorKind::NotFound => Self::Absent { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            _ if gone => Self::Absent { path },
            _ => Self::Failed { path, source },
        }
    }

    /// Whether the file, or the process that it told of, does not exist.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }

    pub fn path(&self) -> &Path {
        match self {
            Self::Absent { path }
            | Self::Denied { path }
            | Self::Failed { path, .. }
            | Self::Malformed { path, .. } => path,
        }
    }
}

impl Default for Root {
    fn default() -> Self {
        Self::host()
    }
}

impl Root {
    pub fn host() -> Self {
        Self::at("/")
    }

    pub fn at(base: impl Into<PathBuf>) -> Self {
        Self { base: base.into() }
    }

    /// Whether this is the machine itself and not a directory made by a test.
    pub fn is_host(&self) -> bool {
        self.base == Path::new("/")
    }

    /// Where a file of the kernel lies: `root.path("proc/stat")`.
    pub fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        let relative = relative.as_ref();
        self.base
            .join(relative.strip_prefix("/").unwrap_or(relative))
    }

    pub fn bytes(&self, relative: impl AsRef<Path>) -> Result<Vec<u8>, RootError> {
        self.long_bytes(relative, LONGEST_FILE)
    }

    pub fn long_bytes(&self, relative: impl AsRef<Path>, most: u64) -> Result<Vec<u8>, RootError> {
        let path = self.path(relative);
        let mut bytes = Vec::new();
        match File::open(&path).and_then(|file| file.take(most).read_to_end(&mut bytes)) {
            Ok(_) => Ok(bytes),
            Err(source) => Err(RootError::new(path, source)),
        }
    }

    pub fn text(&self, relative: impl AsRef<Path>) -> Result<String, RootError> {
        let bytes = self.bytes(relative)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub fn value(&self, relative: impl AsRef<Path>) -> Result<String, RootError> {
        Ok(self.text(relative)?.trim().to_owned())
    }

    pub fn number<N: std::str::FromStr>(&self, relative: impl AsRef<Path>) -> Result<N, RootError> {
        let relative = relative.as_ref();
        let value = self.value(relative)?;
        value
            .parse()
            .map_err(|_| self.malformed(relative, &value, "a number"))
    }

    pub fn malformed(
        &self,
        relative: impl AsRef<Path>,
        text: &str,
        expected: &'static str,
    ) -> RootError {
        RootError::Malformed {
            path: self.path(relative),
            text: text.chars().take(64).collect(),
            expected,
        }
    }

    pub fn link(&self, relative: impl AsRef<Path>) -> Result<PathBuf, RootError> {
        let path = self.path(relative);
        fs::read_link(&path).map_err(|source| RootError::new(path, source))
    }

    pub fn list(&self, relative: impl AsRef<Path>) -> Result<Vec<OsString>, RootError> {
        let path = self.path(relative);
        let names = fs::read_dir(&path).and_then(|entries| {
            entries
                .map(|entry| entry.map(|e| e.file_name()))
                .collect::<io::Result<Vec<_>>>()
        });
        match names {
            Ok(mut names) => {
                names.sort();
                Ok(names)
            }
            Err(source) => Err(RootError::new(path, source)),
        }
    }

    /// The names in a directory that are numbers, in order: processes, threads, descriptors.
    pub fn numbers(&self, relative: impl AsRef<Path>) -> Result<Vec<u32>, RootError> {
        let mut numbers: Vec<u32> = self
            .list(relative)?
            .iter()
            .filter_map(|name| name.to_str()?.parse().ok())
            .collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub fn exists(&self, relative: impl AsRef<Path>) -> bool {
        self.path(relative).exists()
    }
}

/// A made-up root that holds these files and nothing else.
#[cfg(test)]
pub(crate) fn made_up(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = Root::at(dir.path());
    (dir, root)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_kind_of_failure_is_told_apart_and_names_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        fs::write(dir.path().join("word"), "many\n").unwrap();
        fs::write(dir.path().join("bytes"), [0xff, b'a', b'\n']).unwrap();

        let absent = root.value("none").unwrap_err();
        assert!(absent.is_absent());
        assert_eq!(absent.path(), dir.path().join("none"));
        assert!(root.value("word/below").is_err());
        let malformed = root.number::<u32>("word").unwrap_err();
        assert!(
            malformed.to_string().ends_with("`many` is not a number"),
            "{malformed}"
        );
        assert_eq!(root.value("bytes").unwrap(), "\u{fffd}a");
    }

    #[test]
    fn error_numbers_become_kinds() {
        let kind = |errno: rustix::io::Errno| {
            RootError::new(
                PathBuf::from("x"),
                io::Error::from_raw_os_error(errno.raw_os_error()),
            )
        };
        assert!(kind(rustix::io::Errno::NOENT).is_absent());
        assert!(kind(rustix::io::Errno::SRCH).is_absent());
        assert!(kind(rustix::io::Errno::ACCESS).is_denied());
        assert!(kind(rustix::io::Errno::PERM).is_denied());
        assert!(matches!(
            kind(rustix::io::Errno::IO),
            RootError::Failed { .. }
        ));
    }

    #[test]
    fn only_numbers_count_as_processes() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["10", "9", "self", "99999999999"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        assert_eq!(Root::at(dir.path()).numbers("").unwrap(), [9, 10]);
    }
}
