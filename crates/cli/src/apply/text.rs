//! What apply says, on a screen; the parts that undo and status say too.

use super::view::{Applied, SettledView, TurnView};
use super::watching::VmView;
use crate::number::nanos;
use crate::page::{Page, Stands, harmless};

/// Lays it out.
pub(crate) fn render(view: &Applied, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(settled) = &view.settled {
        page_settled(&mut page, settled);
    }
    if let Some(plan) = &view.plan {
        let text = format!("{}: {}", harmless(&plan.goal), harmless(&plan.reason));
        page.wrapped("Plan: ", &text, 6);
    }
    for already in &view.already {
        page.line(&format!("{} is {} already.", already.name, already.value));
    }
    if view.turns.is_empty() {
        page.line("There is nothing to do.");
    } else {
        let what = if view.done { "Set" } else { "Would set" };
        page.wrapped(
            "",
            &format!("{what}, for the whole host (every VM without a cap of its own):"),
            2,
        );
        turns(&mut page, &view.turns);
        for text in &view.taken_over {
            page.wrapped("Taken over: ", &harmless(text), 2);
        }
    }
    for warning in &view.warnings {
        page.wrapped("Warning: ", &harmless(warning), 9);
    }
    if view.done {
        vms(&mut page, &view.vms, view.vms_unwatched.as_deref());
    } else if !view.turns.is_empty() {
        page.line("Nothing was changed; --yes does it, `haltwise undo` takes it back.");
    }
    if let Some(undo) = &view.undo {
        page.line(&format!("Undo: {undo}"));
    }
    page.finish()
}

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
                _ => "somebody else's",
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

/// Whether VMs follow.
pub(crate) fn vms(page: &mut Page, vms: &[VmView], unwatched: Option<&str>) {
    if let Some(why) = unwatched {
        let text = format!("it cannot be told whether they follow: {}.", harmless(why));
        page.wrapped("Running VMs: ", &text, 2);
    }
    if vms.is_empty() {
        return;
    }
    let header = ["VM", "pid", "vCPUs", "ceiling", "window", "follows"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    rows.extend(vms.iter().map(|vm| {
        let ceiling = vm.ceiling_ns.map(|ns| nanos(ns.into()));
        let window = vm.window_ns.map(|(low, high)| {
            if low == high {
                nanos(low.into())
            } else {
                format!("{} to {}", nanos(low.into()), nanos(high.into()))
            }
        });
        let follows = match vm.effect {
            "follows" => "yes",
            "own-cap" => "no: own cap",
            "keeps" => "no: until restart",
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
            "A VM that keeps its ceiling took it over when it was made (Linux 5.8 to 6.0), or has \
             its own: restart or migrate it, or set the cap in its VMM.",
            4,
        );
    }
}
