//! The file system resctrl, wherever it is; the only place that writes to it.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::schemata::{Bandwidth, Cache, Found, Schemata};

const MAGIC: u64 = 0x0765_5821;
/// Folders of a root that are no classes.
const NO_CLASSES: [&str; 3] = ["info", "mon_groups", "mon_data"];

#[derive(Debug, Clone)]
pub struct Root {
    path: PathBuf,
    kernels: bool,
}

impl Root {
    /// Looks whether there is one, and whether it is the kernel's.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        if !path.join("schemata").is_file() {
            anyhow::bail!(
                "`{}` is no resctrl: it has no `schemata` (mount -t resctrl resctrl DIR)",
                path.display()
            );
        }
        let stat = rustix::fs::statfs(path).with_context(failed("look at", path))?;
        Ok(Self {
            path: path.to_owned(),
            kernels: u64::try_from(stat.f_type) == Ok(MAGIC),
        })
    }

    /// Fills an empty folder with what a machine of 12 ways, one cache and 16 classes shows.
    pub fn fake(path: &Path) -> anyhow::Result<Self> {
        for (file, text) in [
            ("info/L3/cbm_mask", "fff\n"),
            ("info/L3/min_cbm_bits", "1\n"),
            ("info/L3/num_closids", "16\n"),
            ("info/MB/min_bandwidth", "10\n"),
            ("info/MB/bandwidth_gran", "10\n"),
            ("info/MB/num_closids", "16\n"),
            ("schemata", "    L3:0=fff\n    MB:0=100\n"),
            ("tasks", ""),
        ] {
            let file = path.join(file);
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder).with_context(failed("create", folder))?;
            }
            fs::write(&file, text).with_context(failed("write", &file))?;
        }
        Self::open(path)
    }

    /// Whether the kernel stands behind it: else it isolates nothing.
    pub fn is_kernels(&self) -> bool {
        self.kernels
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn discover(&self) -> anyhow::Result<Found> {
        let number = |file: &str, radix: u32| {
            let text = fs::read_to_string(self.path.join("info").join(file)).ok()?;
            u64::from_str_radix(text.trim(), radix).ok()
        };
        let small = |file: &str| number(file, 10).and_then(|n| u32::try_from(n).ok());
        let cache = || {
            Some(Cache {
                cbm_mask: number("L3/cbm_mask", 16)?,
                min_cbm_bits: small("L3/min_cbm_bits")?,
                num_closids: small("L3/num_closids")?,
            })
        };
        let bandwidth = || {
            Some(Bandwidth {
                min_bandwidth: small("MB/min_bandwidth")?,
                bandwidth_gran: small("MB/bandwidth_gran")?,
                num_closids: small("MB/num_closids")?,
            })
        };
        Ok(Found {
            cache: cache(),
            bandwidth: bandwidth(),
            schemata: self.schemata(None)?,
        })
    }

    /// Resources that a class may use; the default class if `class` is `None`.
    pub fn schemata(&self, class: Option<&str>) -> anyhow::Result<Schemata> {
        let path = self.folder(class).join("schemata");
        let text = fs::read_to_string(&path).with_context(failed("read", &path))?;
        text.parse().with_context(failed("read", &path))
    }

    pub fn classes(&self) -> anyhow::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path).with_context(failed("list", &self.path))?;
        let names = entries
            .flatten()
            .filter(|entry| entry.path().join("tasks").is_file());
        let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names
            .filter(|name| !NO_CLASSES.contains(&name.as_str()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    pub fn tasks(&self, class: Option<&str>) -> anyhow::Result<Vec<u32>> {
        let path = self.folder(class).join("tasks");
        let text = fs::read_to_string(&path).with_context(failed("read", &path))?;
        Ok(text
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect())
    }

    /// The class of a thread; `None` for the default one.
    pub fn class_of(&self, tid: u32) -> anyhow::Result<Option<String>> {
        for class in self.classes()? {
            if self.tasks(Some(&class))?.contains(&tid) {
                return Ok(Some(class));
            }
        }
        Ok(None)
    }

    /// Usage of a class, by the names of the kernel's files, over all domains; empty if the kernel reports none.
    pub fn monitor(&self, class: &str) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        let domains = fs::read_dir(self.folder(Some(class)).join("mon_data"));
        let files = domains
            .into_iter()
            .flatten()
            .flatten()
            .map(|domain| fs::read_dir(domain.path()));
        for file in files.flatten().flatten().flatten() {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            // The kernel writes `Unavailable` or `Error` where it has no number.
            if let Ok(number) = text.trim().parse::<u64>() {
                let name = file.file_name().to_string_lossy().into_owned();
                *sums.entry(name).or_insert(0) += number;
            }
        }
        sums
    }

    fn folder(&self, class: Option<&str>) -> PathBuf {
        class.map_or_else(|| self.path.clone(), |class| self.path.join(class))
    }
}

impl Root {
    /// Makes a class. It must not be there yet.
    pub(super) fn make(&self, class: &str) -> anyhow::Result<()> {
        let folder = self.folder(Some(class));
        fs::create_dir(&folder).with_context(failed("make class", &folder))?;
        if !self.kernels {
            // As the kernel does: a new class may use what the default one may.
            let all = self.schemata(None)?.to_string();
            for (file, text) in [("tasks", ""), ("schemata", all.as_str())] {
                let file = folder.join(file);
                fs::write(&file, text).with_context(failed("write", &file))?;
            }
        }
        Ok(())
    }

    pub(super) fn limit(&self, class: &str, schemata: &Schemata) -> anyhow::Result<()> {
        let path = self.folder(Some(class)).join("schemata");
        let mut whole = self.schemata(Some(class))?;
        whole.overlay(schemata);
        fs::write(&path, whole.to_string()).with_context(failed("write", &path))
    }

    /// Puts a thread into a class, out of that where it was; false if the thread has ended.
    pub(super) fn place(&self, class: Option<&str>, tid: u32) -> anyhow::Result<bool> {
        let path = self.folder(class).join("tasks");
        if !self.kernels {
            for other in self.classes()? {
                let tasks = self.tasks(Some(&other))?;
                if tasks.contains(&tid) {
                    let left = tasks.iter().filter(|other| **other != tid);
                    let lines: Vec<_> = left.map(|tid| format!("{tid}\n")).collect();
                    let path = self.folder(Some(&other)).join("tasks");
                    fs::write(&path, lines.concat()).with_context(failed("write", &path))?;
                }
            }
            if class.is_none() {
                // A task in no other class is in this one.
                return Ok(true);
            }
        }
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(failed("open", &path))?;
        match file.write_all(format!("{tid}\n").as_bytes()) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) => {
                Ok(false)
            }
            written => written.map(|()| true).with_context(failed("write", &path)),
        }
    }

    /// Removes a class; threads that are in it are in the default class from then on.
    pub(super) fn remove(&self, class: &str) -> anyhow::Result<()> {
        let folder = self.folder(Some(class));
        let removed = if self.kernels {
            fs::remove_dir(&folder)
        } else {
            fs::remove_dir_all(&folder)
        };
        removed.with_context(failed("remove class", &folder))
    }
}

fn failed<'a>(step: &'a str, path: &'a Path) -> impl Fn() -> String + 'a {
    move || format!("{step} `{}`", path.display())
}
