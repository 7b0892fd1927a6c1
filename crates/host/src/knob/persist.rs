//! What makes a setting outlast a boot: the text of two small files.
//!
//! `modprobe.d` gives the modules `kvm` and `haltpoll` their options when they are loaded. It does nothing where `kvm` is built
//! into the kernel, or is loaded from an initramfs that was made before. `tmpfiles.d` writes through
//! sysfs during boot (a `w` line, which is skipped where there is no such file). So both are written,
//! and both say the same.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parameter::Parameter;
use super::target::BootFile;
use crate::root::Root;

pub(super) type Values = BTreeMap<Parameter, u32>;

/// The modules whose options are written.
const MODULES: [&str; 2] = ["kvm", "haltpoll"];

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
                for module in MODULES {
                    let mut own = (values.iter())
                        .filter(|(parameter, _)| parameter.module() == module)
                        .peekable();
                    if own.peek().is_none() {
                        continue;
                    }
                    let _ = write!(text, "options {module}");
                    for (parameter, value) in own {
                        let _ = write!(text, " {parameter}={}", parameter.written(*value));
                    }
                    text.push('\n');
                }
            }
            Self::Tmpfiles => {
                for (parameter, value) in values {
                    let value = parameter.written(*value);
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

    /// Whether a text sets options alone, whoever wrote it: no command, alias or file of another kind.
    pub(super) fn sets_options_alone(self, text: &str) -> bool {
        text.lines().all(|line| {
            let mut words = line.split_whitespace();
            match (self, words.next()) {
                (_, None) => true,
                (_, Some(first)) if first.starts_with('#') => true,
                (Self::Modprobe, first) => first == Some("options"),
                (Self::Tmpfiles, first) => {
                    let path = words.next().unwrap_or_default();
                    first == Some("w") && path.starts_with("/sys/") && !path.contains("..")
                }
            }
        })
    }

    /// The values in a text of ours; none in one that is not.
    pub(super) fn values(self, text: &str) -> Values {
        let lines = text.strip_prefix(HEAD).unwrap_or_default().lines();
        let read = |module: &str, name: &str, value: &str| {
            let parameter: Parameter = name.parse().ok()?;
            let value = parameter.value(value).ok()?;
            (parameter.module() == module).then_some((parameter, value))
        };
        match self {
            Self::Modprobe => lines
                .filter_map(|line| line.strip_prefix("options ")?.split_once(' '))
                .flat_map(|(module, rest)| rest.split_whitespace().map(move |pair| (module, pair)))
                .filter_map(|(module, pair)| Some((module, pair.split_once('=')?)))
                .filter_map(|(module, (name, value))| read(module, name, value))
                .collect(),
            Self::Tmpfiles => lines
                .filter_map(|line| line.strip_prefix("w /sys/module/")?.split_once(" - - - - "))
                .filter_map(|(path, value)| Some((path.split_once("/parameters/")?, value)))
                .filter_map(|((module, name), value)| read(module, name, value))
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
const MODPROBE: [&str; 5] = [
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
];
/// The same of `tmpfiles.d` (tmpfiles.d(5)).
const TMPFILES: [&str; 4] = [
    "etc/tmpfiles.d",
    "run/tmpfiles.d",
    "usr/local/lib/tmpfiles.d",
    "usr/lib/tmpfiles.d",
];

/// Who sets the same parameters to something else at boot, and wins: options of files that are read after
/// ours, and the kernel's command line, which modprobe puts behind all options.
pub fn rivals(root: &Root, values: &BTreeMap<Parameter, u32>) -> Vec<Rival> {
    let mut found = Vec::new();
    let mut note = |place: &str, name: &str, value: &str| {
        let name = name.replace('-', "_");
        let Ok(parameter) = name.parse::<Parameter>() else {
            return;
        };
        let ours = values.get(&parameter).copied();
        if ours.is_some_and(|ours| parameter.value(value) != Ok(ours)) {
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
            let is_options = words.next() == Some("options");
            if is_options && words.next().is_some_and(|module| MODULES.contains(&module)) {
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
                .and_then(|path| {
                    path.strip_prefix("/sys/module/")?
                        .split_once("/parameters/")
                })
                .map(|(_, name)| name);
            if let (Some(name), Some(value)) = (name, words.get(6))
                && words[0].starts_with('w')
            {
                note(&place, name, value);
            }
        }
    }
    let line = std::fs::read_to_string(root.path("proc/cmdline")).unwrap_or_default();
    for word in line.split_whitespace() {
        let option = word.split_once('.');
        let option = option.filter(|(module, _)| MODULES.contains(module));
        if let Some((name, value)) = option.and_then(|(_, it)| it.split_once('=')) {
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
