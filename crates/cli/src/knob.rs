//! KVM's parameters on this host, as the verbs that set them or show them share it.

pub(crate) mod ceilings;
pub(crate) mod explain;
pub(crate) mod text;
pub(crate) mod view;
pub(crate) mod watching;

use haltwise_core::parameter::Parameter;
use haltwise_host::root::Root;

use crate::page;

/// Version of the JSON of `apply`, `undo` and `status`.
pub(crate) const SCHEMA: u32 = 1;

pub(crate) fn value(root: &Root, parameter: Parameter) -> Option<u32> {
    parameter.value(&root.value(parameter.path()).ok()?).ok()
}

pub(crate) fn who() -> String {
    let words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let program = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
    let mut line = words.first().map(program).unwrap_or_default();
    for word in words.iter().skip(1) {
        line.push(' ');
        line.push_str(word);
    }
    page::harmless(&line).chars().take(300).collect()
}
