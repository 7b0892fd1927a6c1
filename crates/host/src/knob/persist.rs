//! Text of two small files that make a setting outlast a boot.
//!
//! `modprobe.d` gives the modules `kvm` and `haltpoll` their options when they are loaded. It does nothing where `kvm` is built
//! into the kernel, or is loaded from an initramfs that was made before. `tmpfiles.d` writes through
//! sysfs during boot (a `w` line, which is skipped where there is no such file). So both are written,
//! and both say the same.

use std::fmt::Write as _;

use haltwise_core::parameter::{Parameter, Values};

use super::origin;
use super::target::BootFile;
use crate::root::Root;

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
