//! Words that pages of several verbs share.

use std::collections::BTreeMap;

use haltwise_core::event::CeilingSource;

use crate::number::count;

pub(crate) fn ceiling_source(source: CeilingSource) -> &'static str {
    match source {
        CeilingSource::Param => "module parameter",
        CeilingSource::Cap => "the VM's own cap",
        CeilingSource::Snapshot => "fixed when the VM was created",
        CeilingSource::Unknown => "source unknown",
    }
}

/// What the end of every page says of the recording, if there is something to say.
pub(crate) fn of_recording(lost: u64, is_cut: bool) -> impl Iterator<Item = String> {
    let cut = "the recording was not finished; everything written is included";
    let lost = (lost > 0).then(|| format!("{} events were lost", count(lost)));
    let cut = is_cut.then(|| cut.to_owned());
    lost.into_iter().chain(cut)
}

/// The first of many names, and how many more there are.
pub(crate) fn some(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// What is said of VMs, each text once, behind the first names of those of which it is said.
pub(crate) fn each_once<'a>(
    said: impl Iterator<Item = (&'a str, String)>,
) -> impl Iterator<Item = (String, String)> {
    const NAMED: usize = 3;
    let mut by_text: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    for (place, (name, text)) in said.enumerate() {
        let of = by_text.entry(text).or_insert_with(|| (place, Vec::new()));
        of.1.push(name.to_owned());
    }
    let mut in_order: Vec<_> = by_text.into_iter().collect();
    in_order.sort_by_key(|(_, (place, _))| *place);
    let named = |(text, (_, names)): (String, (usize, Vec<String>))| (some(&names, NAMED), text);
    in_order.into_iter().map(named)
}

/// What a sum of polls is, before its figure: nothing where it is exact.
pub(crate) fn bound(bound: &str) -> String {
    match bound {
        "exact" => String::new(),
        bound => format!("{bound} "),
    }
}

/// A phrase as the beginning of a sentence.
pub(crate) fn capitalised(phrase: &str) -> String {
    let mut chars = phrase.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

pub(crate) fn plural(n: u64, one: &str) -> String {
    let s = match n {
        1 => "",
        _ if one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {one}{s}", count(n))
}
