//! Words that pages of several verbs share.

use haltwise_core::event::CeilingSource;

use crate::number::count;

/// Who set a ceiling.
pub(crate) fn ceiling_source(source: CeilingSource) -> &'static str {
    match source {
        CeilingSource::Param => "module parameter",
        CeilingSource::Cap => "the VM's own cap",
        CeilingSource::Snapshot => "fixed when the VM was made",
        CeilingSource::Unknown => "set by whom is not known",
    }
}

/// `3 vCPUs`, `1 vCPU`.
pub(crate) fn plural(n: u64, one: &str) -> String {
    let s = match n {
        1 => "",
        _ if one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {one}{s}", count(n))
}
