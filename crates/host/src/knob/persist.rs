//! What makes a setting outlast a boot: the text of two small files.
//!
//! `modprobe.d` gives module `kvm` its options when it is loaded. It does nothing where `kvm` is built
//! into the kernel, or is loaded from an initramfs that was made before. `tmpfiles.d` writes through
//! sysfs during boot (a `w` line, which is skipped where there is no such file). So both are written,
//! and both say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parameter::Parameter;
use super::target::BootFile;
use crate::root::Root;

/// Values by parameter.
pub(super) type Values = BTreeMap<Parameter, u32>;

const HEAD: &str = "# Written by haltwise; see `haltwise status` and `haltwise undo`.\n";

impl BootFile {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Modprobe, Self::Tmpfiles];

    /// Its path, below a [`Root`].
    pub const fn path(self) -> &'static str {
        match self {
            Self::Modprobe => "etc/modprobe.d/haltwise.conf",
            Self::Tmpfiles => "etc/tmpfiles.d/haltwise.conf",
        }
    }

    /// What the file says for these values.
    pub(super) fn text(self, values: &Values) -> String {
        let mut text = HEAD.to_owned();
        // Formatting into a String cannot fail.
        match self {
            Self::Modprobe => {
                text.push_str("options kvm");
                for (parameter, value) in values {
                    let _ = write!(text, " {parameter}={value}");
                }
                text.push('\n');
            }
            Self::Tmpfiles => {
                for (parameter, value) in values {
                    let _ = writeln!(text, "w /{} - - - - {value}", parameter.path());
                }
            }
        }
        text
    }

    /// Whether haltwise can have written this: the text of the values that are in it.
    pub(super) fn is_ours(self, text: &str) -> bool {
        self.text(&self.values(text)) == text
    }

    /// The values in a text of ours; none in one that is not.
    pub(super) fn values(self, text: &str) -> Values {
        let lines = text.strip_prefix(HEAD).unwrap_or_default().lines();
        let read = |name: &str, value: &str| Some((name.parse().ok()?, value.parse().ok()?));
        match self {
            Self::Modprobe => lines
                .filter_map(|line| line.strip_prefix("options kvm "))
                .flat_map(str::split_whitespace)
                .filter_map(|pair| pair.split_once('='))
                .filter_map(|(name, value)| read(name, value))
                .collect(),
            Self::Tmpfiles => lines
                .filter_map(|line| line.strip_prefix("w /sys/module/kvm/parameters/"))
                .filter_map(|rest| rest.split_once(" - - - - "))
                .filter_map(|(name, value)| read(name, value))
                .collect(),
        }
    }
}

/// The files that this host has a place for.
pub(super) fn here(root: &Root) -> Vec<BootFile> {
    let has_place = |file: &BootFile| {
        let path = root.path(file.path());
        path.parent().is_some_and(std::path::Path::is_dir)
    };
    BootFile::ALL.into_iter().filter(has_place).collect()
}

/// Something else that sets one of our parameters when the host boots, and is read after ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Where it says so.
    pub place: String,
    /// Which parameter.
    pub parameter: Parameter,
    /// To what.
    pub value: String,
}

/// Where `modprobe.d` lies: a file in one hides those of its name in the next; all others are read in the
/// order of their names (modprobe.d(5)).
const MODPROBE: [&str; 4] = [
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
];
/// The same of `tmpfiles.d` (tmpfiles.d(5)).
const TMPFILES: [&str; 3] = ["etc/tmpfiles.d", "run/tmpfiles.d", "usr/lib/tmpfiles.d"];

/// Who sets the same parameters to something else at boot, and wins: options of files that are read after
/// ours, and the kernel's command line, which modprobe puts behind all options.
pub fn rivals(root: &Root, values: &BTreeMap<Parameter, u32>) -> Vec<Rival> {
    let mut found = Vec::new();
    let mut note = |place: &str, name: &str, value: &str| {
        let name = name.replace('-', "_");
        let Ok(parameter) = name.parse::<Parameter>() else {
            return;
        };
        let ours = values.get(&parameter).map(u32::to_string);
        if ours.is_some_and(|ours| ours != value) {
            found.push(Rival {
                place: place.to_owned(),
                parameter,
                value: value.to_owned(),
            });
        }
    };
    for (place, text) in later(root, &MODPROBE) {
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if (words.next(), words.next()) == (Some("options"), Some("kvm")) {
                for (name, value) in words.filter_map(|word| word.split_once('=')) {
                    note(&place, name, value);
                }
            }
        }
    }
    for (place, text) in later(root, &TMPFILES) {
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let name = words
                .get(1)
                .and_then(|path| path.strip_prefix("/sys/module/kvm/parameters/"));
            if let (Some(name), Some(value)) = (name, words.get(6))
                && words[0].starts_with('w')
            {
                note(&place, name, value);
            }
        }
    }
    let line = std::fs::read_to_string(root.path("proc/cmdline")).unwrap_or_default();
    for word in line.split_whitespace() {
        if let Some((name, value)) = word.strip_prefix("kvm.").and_then(|it| it.split_once('=')) {
            note("the kernel's command line", name, value);
        }
    }
    found
}

/// Files of these directories that are read after ours, by name and text.
fn later(root: &Root, directories: &[&str]) -> Vec<(String, String)> {
    let mut by_name = BTreeMap::new();
    for directory in directories {
        let Ok(entries) = std::fs::read_dir(root.path(directory)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            let is_read = path.is_file() && path.extension().is_some_and(|it| it == "conf");
            if is_read && name.as_str() > "haltwise.conf" {
                let place = format!("/{directory}/{name}");
                by_name.entry(name).or_insert((place, path));
            }
        }
    }
    let texts = by_name.into_values();
    texts
        .filter_map(|(place, path)| Some((place, std::fs::read_to_string(path).ok()?)))
        .collect()
}
