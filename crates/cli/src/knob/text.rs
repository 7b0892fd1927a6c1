//! Changes and running VMs on a screen, as `apply`, `undo` and `status` show them.

use haltwise_host::knob::Outcome;
use haltwise_host::knob::effect::{Effect, Watched};

use super::{ChangeView, CutOffView};
use crate::number::nanos;
use crate::page::{Page, Stands, harmless};
use crate::pilot_state::text::name;
use crate::words::{each_once, is_time, plural};

pub(crate) fn changes(page: &mut Page, changes: &[ChangeView]) {
    let is_file = |change: &&ChangeView| change.name.starts_with('/');
    let mut rows = Vec::new();
    for change in changes.iter().filter(|change| !is_file(change)) {
        let text = |value: &Option<String>| value.as_deref().unwrap_or("-").to_owned();
        // For a parameter in a guest, take the first word.
        let first = change.name.split(' ').next().unwrap_or_default();
        let is_time = is_time(first) || change.name.starts_with("ceiling of ");
        let time = |value: &Option<String>| {
            let ns = value.as_ref()?.parse().ok().filter(|_| is_time)?;
            Some(nanos(ns))
        };
        let times = time(&change.old).zip(time(&change.new));
        let times = times.map_or_else(String::new, |(old, new)| {
            let old = if change.follows {
                "halt_poll_ns"
            } else {
                &*old
            };
            format!("({old} -> {new})")
        });
        let values = format!("{} -> {}", text(&change.old), text(&change.new));
        rows.push(vec![harmless(&change.name), values, times]);
    }
    page.table(2, &[Stands::Left; 3], &rows);
    for change in changes.iter().filter(is_file) {
        match &change.new {
            None => page.line(&format!("  {} removed", change.name)),
            Some(text) => {
                page.line(&format!("  {}:", change.name));
                for line in text.lines() {
                    page.line(&format!("    | {}", harmless(line)));
                }
            }
        }
    }
}

pub(crate) fn page_cut_off(page: &mut Page, cut_off: &CutOffView) {
    let changes = cut_off.turns.iter().map(|change| {
        let result = match change.result {
            Outcome::Done => "done",
            Outcome::NotDone => "not done",
            Outcome::Theirs => "modified externally",
        };
        format!("{} {result}", harmless(&change.name))
    });
    let what = match cut_off.undoes {
        None => "Apply",
        Some(_) => "The undo of apply",
    };
    let text = format!(
        "{what} {} (`{}`) was cut off: {}.",
        cut_off.step,
        harmless(&cut_off.who),
        changes.collect::<Vec<_>>().join(", ")
    );
    page.wrapped("", &text, 2);
}

/// That KVM polls for none of these vCPUs.
pub(crate) fn disabled(vcpus: &[u32]) -> String {
    let ids: Vec<String> = vcpus.iter().map(ToString::to_string).collect();
    format!(
        "the guest disabled host polling on {} {}: their halts are not polled.",
        if ids.len() == 1 { "vCPU" } else { "vCPUs" },
        ids.join(", ")
    )
}

pub(crate) fn window(ns: Option<(u32, u32)>, vetoed_vcpus: &[u32]) -> Option<String> {
    match ns {
        None if !vetoed_vcpus.is_empty() => Some("not polled".to_owned()),
        None => None,
        Some((low, high)) if low == high => Some(nanos(low.into())),
        Some((low, high)) => Some(format!("{} to {}", nanos(low.into()), nanos(high.into()))),
    }
}

/// Remark on a VM that KVM's counters do not distinguish from an idle VM.
pub(crate) const NOT_RUNNING: &str = "not running: none of its vCPUs is in KVM_RUN (paused, not \
                                      started, or stopped after an error). This does not mean idle.";

/// A table with a row for each VM, the first as far as the page lists rows.
pub(crate) fn vm_table(
    page: &mut Page,
    stands: &[Stands],
    header: &[&str],
    rows: Vec<Vec<String>>,
) {
    let more = rows.len().saturating_sub(page.rows());
    let header = header.iter().map(|&word| word.to_owned()).collect();
    let shown = rows.into_iter().take(page.rows());
    page.table(
        2,
        stands,
        &std::iter::once(header).chain(shown).collect::<Vec<_>>(),
    );
    if more > 0 {
        let more = plural(more as u64, "more VM");
        page.line(&format!("  and {more} (--json has all)"));
    }
}

pub(crate) fn of_vms<'a>(page: &mut Page, said: impl Iterator<Item = (&'a str, String)>) {
    for (names, text) in each_once(said) {
        page.wrapped(&name(&names, page.width()), &text, 4);
    }
}

pub(crate) fn vms(page: &mut Page, vms: &[Watched], unwatched: Option<&str>) {
    if let Some(why) = unwatched {
        let text = format!("unknown which VMs it applies to: {}.", harmless(why));
        page.wrapped("Running VMs: ", &text, 2);
    }
    if vms.is_empty() {
        return;
    }
    let rows = vms.iter().map(|vm| {
        let ceiling = vm.ceiling_ns.map(|ns| nanos(ns.into()));
        let window = window(vm.window_ns, &vm.vetoed_vcpus);
        let follows = match (vm.effect, vm.step) {
            (Effect::Follows, _) => "yes".to_owned(),
            (Effect::OwnCap, Some(step)) => format!("no: own cap, apply {step}"),
            (Effect::OwnCap, None) => "no: own cap".to_owned(),
            (Effect::Keeps, _) => "no: until restart".to_owned(),
            (Effect::GuestDisabled, _) => "no: guest disabled it".to_owned(),
            (Effect::NotTold, _) => "not known".to_owned(),
        };
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        vec![
            harmless(&vm.name),
            vm.pid.to_string(),
            vm.vcpus.to_string(),
            or_dash(ceiling),
            or_dash(window),
            follows,
        ]
    });
    let right = Stands::Right;
    let stands = [
        Stands::Left,
        right,
        right,
        right,
        Stands::Left,
        Stands::Left,
    ];
    let header = ["VM", "pid", "vCPUs", "ceiling", "window", "applies"];
    vm_table(page, &stands, &header, rows.collect());
    let vetoed = vms.iter().filter(|vm| !vm.vetoed_vcpus.is_empty());
    of_vms(
        page,
        vetoed.map(|vm| (&*vm.name, disabled(&vm.vetoed_vcpus))),
    );
    let stopped = vms.iter().filter(|vm| vm.running == Some(false));
    of_vms(page, stopped.map(|vm| (&*vm.name, NOT_RUNNING.to_owned())));
    let whys = vms.iter().filter_map(|vm| Some((vm, vm.why.as_deref()?)));
    of_vms(
        page,
        whys.map(|(vm, why)| (&*vm.name, format!("{}.", harmless(why)))),
    );
    for (effect, text) in [(Effect::Keeps, KEEPS), (Effect::OwnCap, OWN_CAP)] {
        if vms.iter().any(|vm| vm.effect == effect) {
            page.wrapped("  ", text, 4);
        }
    }
}

const KEEPS: &str = "A VM that keeps its ceiling copied the parameter when it was created (Linux 5.8 to 6.0), \
                     or has its own: restart or migrate it, or set the cap in its VMM.";

const OWN_CAP: &str = "A VM with its own cap (KVM_CAP_HALT_POLL) does not follow halt_poll_ns: its VMM sets the \
                       cap, or `haltwise apply --vm VM --ceiling TIME` where the VMM allows it.";

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn of_many_vms_the_first_are_listed_and_each_text_stands_once() {
        let names: Vec<_> = (0..2_500).map(|n| format!("vm-{n}")).collect();
        let mut page = Page::new(80);
        let rows = names.iter().map(|name| vec![name.clone()]);
        vm_table(&mut page, &[Stands::Left], &["VM"], rows.collect());
        let text = |n: usize| if n == 1 { "stopped" } else { "runs" }.to_owned();
        of_vms(
            &mut page,
            (0..).zip(&names).map(|(n, name)| (&**name, text(n))),
        );
        let said = page.finish();
        let last: Vec<_> = said.lines().skip(21).map(str::trim).collect();
        let more = "and 2480 more VMs (--json has all)";
        assert_eq!(
            last,
            [
                more,
                "vm-0, vm-2, vm-3 and 2496 more: runs",
                "vm-1: stopped"
            ]
        );
    }
}
