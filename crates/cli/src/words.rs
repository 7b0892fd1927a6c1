//! Words that pages of several verbs share.

use std::collections::BTreeMap;

use haltwise_core::event::CeilingSource;

use crate::number::{count, nanos, share};

pub(crate) fn ceiling_source(source: CeilingSource) -> &'static str {
    match source {
        CeilingSource::Param => "module parameter",
        CeilingSource::Cap => "the VM's own cap",
        CeilingSource::Snapshot => "fixed when the VM was created",
        CeilingSource::Unknown => "source unknown",
    }
}

pub(crate) fn of_recording(lost: u64, is_cut: bool) -> impl Iterator<Item = String> {
    let cut = "the recording was not finished; everything written is included";
    let lost = (lost > 0).then(|| format!("{} events were lost", count(lost)));
    let cut = is_cut.then(|| cut.to_owned());
    lost.into_iter().chain(cut)
}

pub(crate) fn some(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned().collect::<Vec<_>>();
    match names.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// Remarks on VMs, each text once, after the first names of the VMs concerned.
pub(crate) fn each_once<'a>(
    said: impl Iterator<Item = (&'a str, String)>,
) -> impl Iterator<Item = (String, String)> {
    const NAMED: usize = 3;
    let said = grouped(said.map(|(name, text)| (text, name.to_owned())));
    let named = |(text, names): (String, Vec<String>)| (some(&names, NAMED), text);
    said.into_iter().map(named)
}

/// Values by their keys, in the order in which the keys come first.
pub(crate) fn grouped<K: Ord + Clone, T>(all: impl Iterator<Item = (K, T)>) -> Vec<(K, Vec<T>)> {
    let mut places: BTreeMap<K, usize> = BTreeMap::new();
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for (key, one) in all {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        if place == groups.len() {
            groups.push((key, Vec::new()));
        }
        groups[place].1.push(one);
    }
    groups
}

/// Accuracy of a sum of polls, as text before its figure: empty where the sum is exact.
pub(crate) fn bound(bound: &str) -> String {
    match bound {
        "exact" => String::new(),
        bound => format!("{bound} "),
    }
}

/// The same as a sign, for tables.
pub(crate) fn bound_sign(bound: &str) -> &'static str {
    match bound {
        "at least" => ">",
        "at most" => "<",
        "about" => "~",
        _ => "",
    }
}

/// A part of a CPU, given in percent; a dash where it is not known.
pub(crate) fn of_cpu(percent: Option<f64>) -> String {
    percent.map_or_else(|| "-".to_owned(), |percent| share(percent / 100.0))
}

pub(crate) fn capitalised(phrase: &str) -> String {
    let mut chars = phrase.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

/// A parameter's value, and as people read it where that is a time.
pub(crate) fn setting(name: &str, value: &str) -> String {
    match value.parse() {
        Ok(ns) if is_time(name) => format!("{value} ({})", nanos(ns)),
        _ => value.to_owned(),
    }
}

/// Whether a setting of a capture is a time; not all of them are parameters that haltwise sets.
pub(crate) fn is_time(name: &str) -> bool {
    name.ends_with("_ns") || name.ends_with("_start")
}

pub(crate) fn plural(n: u64, one: &str) -> String {
    let s = match n {
        1 => "",
        _ if one.ends_with('s') => "es",
        _ => "s",
    };
    format!("{} {one}{s}", count(n))
}
