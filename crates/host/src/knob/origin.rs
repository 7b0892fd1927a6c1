//! Lines in this machine's files that set our parameters: at boot, in a script, or without effect.

use std::collections::BTreeMap;
use std::path::Path;

use haltwise_core::parameter::{Parameter, Values};

use super::target::BootFile;
use crate::root::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub place: String,
    pub parameter: Parameter,
    pub value: String,
    pub reach: Reach,
}

impl Line {
    fn new(place: &str, parameter: Parameter, value: &str, reach: Reach) -> Self {
        Self {
            place: place.to_owned(),
            parameter,
            value: value.to_owned(),
            reach,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// It sets the parameter at boot; whether it is read after what `--persist` writes.
    Boot {
        after_ours: bool,
    },
    /// A unit, hook or script sets it, at a time of its own.
    Script,
    Nothing(String),
}

/// Where `modprobe.d`, `tmpfiles.d` and `sysctl.d` lie, the last for `modprobe.d` alone: a file in one hides those of its
/// name in the next; all others are read in the order of their names (modprobe.d(5), tmpfiles.d(5), sysctl.d(5)).
const BASES: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];
/// Directories and files with units, hooks and scripts; profiles of tuned beside these.
const SCRIPTS: [&str; 13] = [
    "usr/lib/systemd/system",
    "etc/systemd/system",
    "etc/udev/rules.d",
    "etc/sysfs.conf",
    "etc/sysfs.d",
    "etc/libvirt/hooks",
    "etc/libvirt/hooks/qemu.d",
    "var/lib/vz/snippets",
    "etc/cron.d",
    "etc/local.d",
    "etc/rc.local",
    "etc/rc.d/rc.local",
    "usr/local/sbin",
];

const LONGEST: u64 = 64 << 10;

const COMMAND_LINE: &str = "the kernel's command line";

/// All such lines; lines of a boot in the order of reading.
pub fn lines(root: &Root) -> Vec<Line> {
    let mut found = Vec::new();
    let places = [
        (BootFile::Modprobe, &BASES[..], "modprobe.d"),
        (BootFile::Tmpfiles, &BASES[..4], "tmpfiles.d"),
    ];
    for (file, bases, name) in places {
        for (place, text) in texts(root, bases, name) {
            let after_ours = file_name(&place) > "haltwise.conf";
            let options = options(file, &text).into_iter();
            found.extend(options.filter_map(|it| option(&place, after_ours, it)));
        }
    }
    let text = text(root, "proc/cmdline").unwrap_or_default();
    found.extend(text.split_whitespace().filter_map(on_command_line));
    let mut files = texts(root, &BASES[..4], "sysctl.d");
    files.extend(text_of(root, "etc/sysctl.conf"));
    for (place, text) in files {
        found.extend(text.lines().filter_map(|line| sysctl(&place, line)));
    }
    for (place, text) in scripts(root) {
        found.extend(text.lines().flat_map(|line| script(&place, line)));
    }
    found
}

/// Lines that set the same parameters to something else at boot, and win.
pub fn rivals<'a>(lines: &'a [Line], values: &'a Values) -> impl Iterator<Item = &'a Line> {
    let wins = |line: &&Line| line.reach == Reach::Boot { after_ours: true };
    lines.iter().filter(wins).filter(|line| {
        let ours = values.get(line.parameter);
        ours.is_some() && taken(line.parameter, &line.value) != ours
    })
}

/// The line that holds a value in force: the last of a boot that has it, else one of a script.
pub fn holder(lines: &[Line], parameter: Parameter, value: u32) -> Option<&Line> {
    let has =
        |line: &&Line| line.parameter == parameter && taken(parameter, &line.value) == Some(value);
    let at_boot = |line: &&Line| matches!(line.reach, Reach::Boot { .. });
    let by_script = |line: &&Line| line.reach == Reach::Script;
    let mut boot = lines.iter().filter(at_boot).filter(has);
    boot.next_back()
        .or_else(|| lines.iter().filter(by_script).find(has))
}

/// The value that the kernel reads in a text; `None` if it refuses the text.
pub(super) fn taken(parameter: Parameter, text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if parameter.is_flag() => parameter.value(text).ok(),
        None => text.parse().ok(),
    }
}

/// A parameter by a name in which a hyphen stands for an underscore.
fn named(name: &str) -> Option<Parameter> {
    name.replace('-', "_").parse().ok()
}

/// The options in a file that sets parameters at boot: module, name and value.
pub(super) fn options(file: BootFile, text: &str) -> Vec<(&str, &str, &str)> {
    let mut found = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (file, &words[..]) {
            (BootFile::Modprobe, ["options", module, options @ ..]) => {
                let options = options.iter().filter_map(|word| word.split_once('='));
                found.extend(options.map(|(name, value)| (*module, name, value)));
            }
            (BootFile::Tmpfiles, [kind, path, _, _, _, _, value, ..]) if kind.starts_with('w') => {
                let path = path.strip_prefix("/sys/module/");
                let option = path.and_then(|path| path.split_once("/parameters/"));
                found.extend(option.map(|(module, name)| (module, name, *value)));
            }
            _ => {}
        }
    }
    found
}

fn option(
    place: &str,
    after_ours: bool,
    (module, name, value): (&str, &str, &str),
) -> Option<Line> {
    let parameter = named(name)?;
    let (module, value) = (module.replace('-', "_"), value.trim_matches('"'));
    let reach = if module != parameter.module() {
        let own = parameter.module();
        Reach::Nothing(format!(
            "it is a parameter of module {own}, not of {module}"
        ))
    } else if taken(parameter, value).is_none() {
        Reach::Nothing(format!(
            "the kernel takes no such value, and does not load module {module} with it"
        ))
    } else {
        Reach::Boot { after_ours }
    };
    Some(Line::new(place, parameter, value, reach))
}

/// modprobe puts the command line behind all options.
fn on_command_line(word: &str) -> Option<Line> {
    let (name, value) = word.split_once('=')?;
    if let Some((module, name)) = name.split_once('.') {
        return option(COMMAND_LINE, true, (module, name, value));
    }
    let parameter = named(name)?;
    let own = parameter.module();
    let reach = Reach::Nothing(format!("there it is called {own}.{parameter}"));
    Some(Line::new(COMMAND_LINE, parameter, value, reach))
}

fn sysctl(place: &str, line: &str) -> Option<Line> {
    let (name, value) = line.split_once('=')?;
    let name = name.trim().trim_start_matches('-');
    let name = name.rsplit(['.', '/']).next()?;
    let reach = Reach::Nothing("a module's parameter is no sysctl".to_owned());
    Some(Line::new(place, named(name)?, value.trim(), reach))
}

fn script(place: &str, line: &str) -> Vec<Line> {
    let line = line.trim_start();
    if line.starts_with(['#', ';']) || !line.contains("parameters/") {
        return Vec::new();
    }
    let is_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = || line.split(move |c| !is_of_word(c));
    let found = words().filter_map(|word| word.parse::<Parameter>().ok());
    let lines = found.flat_map(|parameter| {
        let values = words().filter(move |word| taken(parameter, word).is_some());
        values.map(move |value| Line::new(place, parameter, value, Reach::Script))
    });
    lines.collect()
}

fn scripts(root: &Root) -> Vec<(String, String)> {
    let mut places = SCRIPTS.map(str::to_owned).to_vec();
    let profile = text(root, "etc/tuned/active_profile").unwrap_or_default();
    let profiles = profile.split_whitespace().filter(|it| !it.contains('/'));
    places.extend(profiles.flat_map(|name| {
        let bases = [
            "etc/tuned",
            "etc/tuned/profiles",
            "usr/lib/tuned",
            "usr/lib/tuned/profiles",
        ];
        bases.map(|base| format!("{base}/{name}/tuned.conf"))
    }));
    let mut found = Vec::new();
    for place in places {
        found.extend(text_of(root, &place));
        let entries = std::fs::read_dir(root.path(&place)).into_iter().flatten();
        let names = entries.flatten().map(|entry| entry.file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        found.extend((names.iter()).filter_map(|name| text_of(root, &format!("{place}/{name}"))));
    }
    found
}

/// Files of such directories, by place and text, in the order in which they are read.
fn texts(root: &Root, bases: &[&str], name: &str) -> Vec<(String, String)> {
    let mut by_name = BTreeMap::new();
    for base in bases {
        let directory = format!("{base}/{name}");
        let entries = std::fs::read_dir(root.path(&directory))
            .into_iter()
            .flatten();
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if Path::new(&name).extension().is_some_and(|it| it == "conf") {
                let place = format!("{directory}/{name}");
                by_name.entry(name).or_insert(place);
            }
        }
    }
    let places = by_name.into_values();
    places.filter_map(|place| text_of(root, &place)).collect()
}

fn text_of(root: &Root, path: &str) -> Option<(String, String)> {
    Some((format!("/{path}"), text(root, path)?))
}

/// The text of a regular file: opening a FIFO would wait.
fn text(root: &Root, path: &str) -> Option<String> {
    let bytes = root
        .path(path)
        .is_file()
        .then(|| root.long_bytes(path, LONGEST))?;
    Some(String::from_utf8_lossy(&bytes.ok()?).into_owned())
}

fn file_name(place: &str) -> &str {
    place.rsplit('/').next().unwrap_or_default()
}

#[cfg(test)]
mod test;
