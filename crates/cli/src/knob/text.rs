//! Turns, steps and running VMs on a screen, as `apply`, `undo`, `status` and `doctor` show them.

use super::view::{SettledView, TurnView};
use super::watching::VmView;
use crate::number::nanos;
use crate::page::{Page, Stands, harmless};

/// What is turned: parameters in a table, files with their text.
pub(crate) fn turns(page: &mut Page, turns: &[TurnView]) {
    let is_file = |turn: &&TurnView| turn.name.starts_with('/');
    let mut rows = Vec::new();
    for turn in turns.iter().filter(|turn| !is_file(turn)) {
        let text = |value: &Option<String>| value.as_deref().unwrap_or("-").to_owned();
        let is_time = turn.name.ends_with("_ns") || turn.name.ends_with("_start");
        let time = |value: &Option<String>| {
            let ns = value.as_ref()?.parse().ok().filter(|_| is_time)?;
            Some(nanos(ns))
        };
        let times = time(&turn.old).zip(time(&turn.new));
        let times = times.map_or_else(String::new, |(old, new)| format!("({old} -> {new})"));
        let change = format!("{} -> {}", text(&turn.old), text(&turn.new));
        rows.push(vec![turn.name.clone(), change, times]);
    }
    page.table(2, &[Stands::Left; 3], &rows);
    for turn in turns.iter().filter(is_file) {
        match &turn.new {
            None => page.line(&format!("  {} removed", turn.name)),
            Some(text) => {
                page.line(&format!("  {}:", turn.name));
                for line in text.lines() {
                    page.line(&format!("    | {}", harmless(line)));
                }
            }
        }
    }
}

/// A step that had no end.
pub(crate) fn page_settled(page: &mut Page, settled: &SettledView) {
    let turns: Vec<String> = settled
        .turns
        .iter()
        .map(|turn| {
            let result = match turn.result {
                "done" => "done",
                "not-done" => "not done",
                "mended" => "put right",
                _ => "modified externally",
            };
            format!("{} {result}", turn.name)
        })
        .collect();
    let text = format!(
        "Step {} (`{}`) was cut off: {}.",
        settled.step,
        harmless(&settled.who),
        turns.join(", ")
    );
    page.wrapped("", &text, 2);
}

/// That KVM polls for none of these vCPUs.
pub(crate) fn disabled(vm: &str, vcpus: &[u32]) -> String {
    let ids: Vec<String> = vcpus.iter().map(ToString::to_string).collect();
    format!(
        "{}: the guest disabled host polling on {} {}: their halts are not polled.",
        harmless(vm),
        if ids.len() == 1 { "vCPU" } else { "vCPUs" },
        ids.join(", ")
    )
}

/// Of a VM that KVM's counters do not tell from an idle one.
pub(crate) const NOT_RUNNING: &str = "not running: none of its vCPUs is in KVM_RUN (paused, not \
                                      started, or stopped after an error). This does not mean idle.";

/// Whether VMs follow.
pub(crate) fn vms(page: &mut Page, vms: &[VmView], unwatched: Option<&str>) {
    if let Some(why) = unwatched {
        let text = format!("unknown which VMs it applies to: {}.", harmless(why));
        page.wrapped("Running VMs: ", &text, 2);
    }
    if vms.is_empty() {
        return;
    }
    let header = ["VM", "pid", "vCPUs", "ceiling", "window", "applies"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(vms.iter().map(|vm| {
        let ceiling = vm.ceiling_ns.map(|ns| nanos(ns.into()));
        let window = match vm.window_ns {
            None if !vm.vetoed_vcpus.is_empty() => Some("not polled".to_owned()),
            None => None,
            Some((low, high)) if low == high => Some(nanos(low.into())),
            Some((low, high)) => Some(format!("{} to {}", nanos(low.into()), nanos(high.into()))),
        };
        let follows = match vm.effect {
            "follows" => "yes",
            "own-cap" => "no: own cap",
            "keeps" => "no: until restart",
            "guest-disabled" => "no: guest disabled it",
            _ => "not known",
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            harmless(&vm.name),
            vm.pid.to_string(),
            vm.vcpus.to_string(),
            or_dash(ceiling),
            or_dash(window),
            follows.to_owned(),
        ]
    }));
    let right = Stands::Right;
    let stands = [
        Stands::Left,
        right,
        right,
        right,
        Stands::Left,
        Stands::Left,
    ];
    page.table(2, &stands, &rows);
    for vm in vms.iter().filter(|vm| !vm.vetoed_vcpus.is_empty()) {
        page.wrapped("  ", &disabled(&vm.name, &vm.vetoed_vcpus), 4);
    }
    for vm in vms.iter().filter(|vm| vm.running == Some(false)) {
        let name = harmless(&vm.name);
        page.wrapped("  ", &format!("{name}: {NOT_RUNNING}"), 4);
    }
    for vm in vms.iter().filter(|vm| vm.why.is_some()) {
        let why = vm.why.as_deref().unwrap_or_default();
        page.wrapped(
            "  ",
            &format!("{}: {}.", harmless(&vm.name), harmless(why)),
            4,
        );
    }
    if vms.iter().any(|vm| vm.effect == "keeps") {
        page.wrapped(
            "  ",
            "A VM that keeps its ceiling copied the parameter when it was created (Linux 5.8 to 6.0), \
             or has its own: restart or migrate it, or set the cap in its VMM.",
            4,
        );
    }
}
