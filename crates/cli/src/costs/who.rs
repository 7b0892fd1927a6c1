//! Identity of a table's rows: the host as its capture knows it, and its VMs with what the command line says of them.

use std::collections::BTreeMap;

use haltwise_capture::info::{CaptureInfo, rfc3339};
use haltwise_core::costs::VmCosts;
use haltwise_core::costs::table::{Host, VmOf};
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::replay::GoalName;

use super::play::PlayedCapture;
use crate::reading::select;
use crate::recommend::goal::named;

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct GivenNames {
    /// Name of the host in the table [default: recorded]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Label of the host, for `fleet show --by label:KEY`; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    labels: Vec<(String, String)>,
    /// Class of the VMs whose name is like a pattern with * and ?, as in
    /// 'web-*=web'; may be repeated, the first that fits counts
    #[arg(long = "class", value_name = "VM=CLASS", value_parser = pair)]
    classes: Vec<(String, String)>,
    /// Goal of such VMs: density, balanced or latency; likewise
    #[arg(long = "goal", value_name = "VM=GOAL", value_parser = goal)]
    goals: Vec<(String, GoalName)>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.rsplit_once('=').ok_or("expected NAME=VALUE")?;
    let is_text = |text: &str| !text.is_empty() && !text.contains([',', '\n']);
    if !is_text(key) || !is_text(value) {
        return Err("expected NAME=VALUE, neither empty nor with a comma".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn goal(text: &str) -> Result<(String, GoalName), String> {
    let (vm, goal) = pair(text)?;
    Ok((vm, named(&goal)?))
}

/// The host of a capture by name and time alone: where its table lies in a lake.
pub(crate) fn host_named(info: &CaptureInfo, given: &GivenNames) -> Host {
    let start_unix_ns = info.clock.start_unix_ns;
    let recorded = info.host.hostname.clone();
    Host {
        name: given.host.clone().or(recorded).unwrap_or_default(),
        date: (start_unix_ns > 0).then(|| rfc3339(start_unix_ns).chars().take(10).collect()),
        start_unix_ns,
        ..Host::default()
    }
}

pub(crate) fn host(info: &CaptureInfo, given: &GivenNames, played: &PlayedCapture) -> Host {
    let named = host_named(info, given);
    let start_unix_ns = named.start_unix_ns;
    let ended = info.ended.as_ref();
    let end = ended.and_then(|ended| info.clock.unix_ns(ended.time_ns));
    let lasted = start_unix_ns.saturating_add(played.span_ns);
    Host {
        end_unix_ns: end.unwrap_or(lasted).max(start_unix_ns),
        kernel: played.version.to_string(),
        kernel_release: info.host.kernel_release.clone(),
        arch: played.arch.to_string(),
        cpu_model: info.host.cpu_model.clone(),
        cpus: info.host.cpus,
        switch_cpu_ns: played.known.switch_cpu_ns,
        switch_cpu_source: played.known.source.as_str().to_owned(),
        labels: given.labels.iter().cloned().collect(),
        ..named
    }
}

pub(crate) fn vms(
    info: &CaptureInfo,
    given: &GivenNames,
    costs: Vec<VmCosts>,
) -> Vec<(VmOf, VmCosts)> {
    let roster = &info.roster;
    let of = |pattern: &str| select::like(roster, pattern);
    let (mut classes, mut goals) = (BTreeMap::new(), BTreeMap::new());
    for (pattern, class) in &given.classes {
        for vm in of(pattern) {
            classes.entry(vm).or_insert(class.as_str());
        }
    }
    for (pattern, goal) in &given.goals {
        for vm in of(pattern) {
            goals.entry(vm).or_insert(*goal);
        }
    }
    let known: BTreeMap<VmIndex, &Vm> = roster.vms.iter().map(|vm| (vm.index, vm)).collect();
    let named = |costs: VmCosts| {
        let index = costs.vm;
        let vm = index.and_then(|index| known.get(&index).copied());
        let of = VmOf {
            name: vm.map(|vm| vm.name.clone()),
            vmm: vm.map(|vm| vm.vmm.as_str().to_owned()),
            identity: vm.map(|vm| vm.identity.clone()).unwrap_or_default(),
            vcpus: costs.vcpus,
            class: index
                .and_then(|vm| classes.get(&vm))
                .map(|&class| class.to_owned()),
            goal: index
                .and_then(|vm| goals.get(&vm))
                .map(|goal| goal.as_str().to_owned()),
            own_ceiling_ns: costs.own_ceiling_ns,
        };
        (of, costs)
    };
    costs.into_iter().map(named).collect()
}
