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

/// What the end of every page says of the recording, if there is something to say.
pub(crate) fn of_recording(lost: u64, is_cut: bool) -> impl Iterator<Item = String> {
    let cut = "the recording did not end by itself; everything written is here";
    let lost = (lost > 0).then(|| format!("{} events were lost", count(lost)));
    let cut = is_cut.then(|| cut.to_owned());
    lost.into_iter().chain(cut)
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
