//! Targets that can be set, and a change of a target.

use std::fmt::Write as _;

use haltwise_core::ids::VmKey;
use haltwise_core::parameter::{Parameter, Values};
use serde::{Deserialize, Serialize};

use super::origin;
use crate::guest_agent::Seen;
use crate::root::Root;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    Parameter(Parameter),
    File(BootFile),
    /// The ceiling of a VM (`KVM_CAP_HALT_POLL`), as long as the VM lives.
    Ceiling(VmKey),
    /// A parameter of the governor haltpoll in the guest of a VM, as long as the VM lives.
    Guest(InGuest),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InGuest {
    pub vm: VmKey,
    pub parameter: Parameter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootFile {
    Modprobe,
    /// Written through sysfs at boot: for a `kvm` built in, or of an initramfs without the other file.
    Tmpfiles,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// A number, the text of a file, or `None` if the target does not exist.
    pub value: Option<String>,
    /// The target is a VM without a ceiling of its own: the value is that of `halt_poll_ns`, which the VM follows.
    pub follows: bool,
    pub(super) guest_boot: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub target: Target,
    pub old: Found,
    /// `None` removes a file.
    pub new: Option<String>,
}

impl Change {
    pub(super) fn of(target: Target, old: Found, new: Option<String>) -> Self {
        Self { target, old, new }
    }

    pub fn is_made(&self) -> bool {
        self.old.value == self.new && !self.old.follows
    }
}

impl From<Option<String>> for Found {
    fn from(value: Option<String>) -> Self {
        Self {
            value,
            ..Self::default()
        }
    }
}

impl From<Option<Seen>> for Found {
    fn from(seen: Option<Seen>) -> Self {
        let seen = seen.map(|seen| (seen.value, seen.boot));
        let (value, guest_boot) = seen.unzip();
        Self {
            value,
            follows: false,
            guest_boot: guest_boot.flatten(),
        }
    }
}

impl Found {
    pub(super) fn text(&self) -> Option<&str> {
        self.value.as_deref()
    }
}

impl Target {
    pub const fn is_ceiling(self) -> bool {
        self.ceiling().is_some()
    }

    pub const fn ceiling(self) -> Option<VmKey> {
        match self {
            Self::Ceiling(vm) => Some(vm),
            _ => None,
        }
    }

    pub const fn is_of_vm(self) -> bool {
        self.vm().is_some()
    }

    pub const fn vm(self) -> Option<VmKey> {
        match self {
            Self::Ceiling(vm) | Self::Guest(InGuest { vm, .. }) => Some(vm),
            Self::Parameter(_) | Self::File(_) => None,
        }
    }

    pub const fn parameter(self) -> Option<Parameter> {
        match self {
            Self::Parameter(parameter) => Some(parameter),
            Self::File(_) | Self::Ceiling(_) | Self::Guest(_) => None,
        }
    }

    pub fn written(self, value: u32) -> String {
        match self {
            Self::Parameter(parameter) | Self::Guest(InGuest { parameter, .. }) => {
                parameter.written(value)
            }
            Self::File(_) | Self::Ceiling(_) => value.to_string(),
        }
    }

    /// The number that a text is; `None` if the file does not have it so: as decimal digits, or Y or N.
    pub fn number(self, text: &str) -> Option<u32> {
        let number = match self {
            Self::Guest(it) if !it.parameter.is_of_guest() => None,
            Self::Parameter(parameter) | Self::Guest(InGuest { parameter, .. }) => {
                parameter.value(text).ok()
            }
            Self::File(_) | Self::Ceiling(_) => text.parse().ok(),
        };
        number.filter(|number| self.written(*number) == text)
    }

    pub const fn file(self) -> Option<BootFile> {
        match self {
            Self::Parameter(_) | Self::Ceiling(_) | Self::Guest(_) => None,
            Self::File(file) => Some(file),
        }
    }

    /// Human-readable name: a parameter's name, the path of a file, or the process whose ceiling it is.
    pub fn name(self) -> String {
        match self {
            Self::Parameter(parameter) => parameter.name().to_owned(),
            Self::File(file) => format!("/{}", file.path()),
            Self::Ceiling(vm) => format!("ceiling of pid {}", vm.pid),
            Self::Guest(it) => format!("{} in the guest of pid {}", it.parameter, it.vm.pid),
        }
    }
}

/// `modprobe.d` gives modules their options when they are loaded, and does nothing where `kvm` is built into the kernel, or
/// is loaded from an initramfs that was made before. `tmpfiles.d` writes through sysfs during boot, and skips a line
/// without its file. So both are written, and both say the same.
const MODULES: [&str; 2] = ["kvm", "haltpoll"];

const HEAD: &str = "# Written by haltwise; see `haltwise status` and `haltwise undo`.\n";

impl BootFile {
    pub const ALL: [Self; 2] = [Self::Modprobe, Self::Tmpfiles];

    /// Its path, below a [`Root`].
    pub const fn path(self) -> &'static str {
        match self {
            Self::Modprobe => "etc/modprobe.d/haltwise.conf",
            Self::Tmpfiles => "etc/tmpfiles.d/haltwise.conf",
        }
    }

    pub(super) fn text(self, values: &Values) -> String {
        let mut text = HEAD.to_owned();
        // Formatting into a String cannot fail.
        match self {
            Self::Modprobe => {
                for module in MODULES {
                    let of_module = |it: &(Parameter, u32)| it.0.module() == module;
                    let mut own = values.iter().filter(of_module).peekable();
                    if own.peek().is_none() {
                        continue;
                    }
                    let _ = write!(text, "options {module}");
                    for (parameter, value) in own {
                        let _ = write!(text, " {parameter}={}", parameter.written(value));
                    }
                    text.push('\n');
                }
            }
            Self::Tmpfiles => {
                for (parameter, value) in values.iter() {
                    let value = parameter.written(value);
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
        let text = text.strip_prefix(HEAD).unwrap_or_default();
        let options = origin::options(self, text).into_iter();
        let values = options.filter_map(|(module, name, value)| {
            let parameter: Parameter = name.parse().ok()?;
            let value = parameter.value(value).ok()?;
            (parameter.module() == module).then_some((parameter, value))
        });
        values.collect()
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
