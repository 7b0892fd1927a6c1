//! The result, computed from the account.

use std::collections::BTreeMap;

use haltwise_core::profile::account::{ExitOf, Site, Who, sums};
use haltwise_core::profile::area::Side;
use haltwise_core::profile::hot::{self, Heat, Symbol};
use haltwise_core::profile::share::Sum;
use haltwise_core::profile::{Event, Hit, Space};
use haltwise_core::stats::folded;

use super::load::Loaded;
use super::view::{
    OtherEvent, Part, ProfileGroup, ProfileRecording, ProfileResult, ProfileTotal, ProfiledExit,
    ProfiledSymbol, ShallowStacks,
};
use crate::figures::Source;
use crate::profile::SCHEMA;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    Vm,
    Vcpu,
    Thread,
    Area,
    Exit,
    Symbol,
    Module,
}

/// Symbols of an exit that the page tells.
const OF_EXIT: usize = 5;

/// Computes it. `exit`: only samples of the exit of this name; none if there are none of it.
pub(crate) fn build(
    loaded: &Loaded,
    event: Event,
    by: By,
    exit: Option<&str>,
) -> Option<ProfileResult> {
    let named = |site: &Site| site.exit.name(&loaded.reasons);
    let wanted = |site: &Site| exit.is_none_or(|exit| named(site).eq_ignore_ascii_case(exit));
    let sites: Vec<(&Site, &Sum)> = loaded
        .account
        .sites(event)
        .filter(|(site, _)| wanted(site))
        .collect();
    if exit.is_some() && sites.is_empty() {
        return None;
    }
    let total: Sum = folded(sites.iter().map(|(_, sum)| *sum));
    let beside = loaded.recorded.events.iter().filter(|it| **it != event);
    let beside = beside.map(|event| {
        let sites = loaded.account.sites(*event);
        let sum: Sum = folded(sites.filter(|(site, _)| wanted(site)).map(|(_, sum)| sum));
        OtherEvent {
            event: *event,
            unit: event.unit(),
            samples: sum.samples,
            weight: sum.weight,
        }
    });
    Some(ProfileResult {
        schema: SCHEMA,
        recording: ProfileRecording {
            source: Source::of(&loaded.recording),
            hz: loaded.recorded.hz,
            events: loaded.recorded.events.clone(),
            exits_told: loaded.recorded.exits_told,
        },
        event,
        unit: event.unit(),
        total: ProfileTotal {
            samples: total.samples,
            weight: total.weight,
            scatter: total.scatter(),
        },
        sides: sides(&sites, &total),
        areas: areas(&sites, &total),
        exits: exits(loaded, &sites, &total),
        symbols: symbols(loaded, &sites, &total),
        groups: groups(loaded, &sites, &total, by),
        beside: beside.collect(),
        shallow: shallow(loaded, &sites),
    })
}

type Sites<'a> = [(&'a Site, &'a Sum)];

fn ranked<K: Ord>(sites: &Sites<'_>, key: impl Fn(&Site) -> K) -> Vec<(K, Sum)> {
    let mut sums: Vec<(K, Sum)> = sums(sites.iter().copied(), key).into_iter().collect();
    // Stable: what is equal stays in the order of its key.
    sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.weight));
    sums
}

fn part(name: String, sum: &Sum, whole: &Sum) -> Part {
    let share = whole.share_of(sum);
    Part {
        name,
        samples: sum.samples,
        weight: sum.weight,
        share: share.map(|it| it.share),
        low: share.map(|it| it.low),
        high: share.map(|it| it.high),
    }
}

fn sides(sites: &Sites<'_>, total: &Sum) -> Vec<Part> {
    let by_side = sums(sites.iter().copied(), |site| site.area.side());
    by_side
        .iter()
        .map(|(of, sum)| part(of.to_string(), sum, total))
        .collect()
}

fn areas(sites: &Sites<'_>, total: &Sum) -> Vec<Part> {
    ranked(sites, |site| site.area)
        .iter()
        .map(|(area, sum)| part(area.to_string(), sum, total))
        .collect()
}

fn exits(loaded: &Loaded, sites: &Sites<'_>, total: &Sum) -> Vec<ProfiledExit> {
    let view = |(exit, sum): (ExitOf, Sum)| {
        let mine = sites.iter().copied().filter(|(site, _)| site.exit == exit);
        let mine: Vec<(&Site, &Sum)> = mine.collect();
        let hot = hot::symbols(mine.iter().copied(), &loaded.book);
        let hot = hot.iter().filter(|(_, heat)| heat.own.samples > 0);
        ProfiledExit {
            part: part(exit.name(&loaded.reasons), &sum, total),
            by: match exit {
                ExitOf::Told(..) => Some("kvm_exit"),
                ExitOf::Stack(_) => Some("stack"),
                _ => None,
            },
            areas: areas(&mine, &sum),
            symbols: hot
                .take(OF_EXIT)
                .map(|(symbol, heat)| part(symbol.name.clone(), &heat.own, &sum))
                .collect(),
        }
    };
    ranked(sites, |site| site.exit)
        .into_iter()
        .map(view)
        .collect()
}

fn symbols(loaded: &Loaded, sites: &Sites<'_>, total: &Sum) -> Vec<ProfiledSymbol> {
    let view = |(symbol, heat): (Symbol, Heat)| ProfiledSymbol {
        own: part(symbol.name.clone(), &heat.own, total),
        all: part(symbol.name, &heat.all, total),
        module: symbol.module,
        space: symbol.space,
    };
    let hot = hot::symbols(sites.iter().copied(), &loaded.book);
    hot.into_iter().map(view).collect()
}

/// Owner of a sample: VM, vCPU, thread, and a name where these are not enough.
type Group = (Option<String>, Option<u32>, Option<u32>, String);

fn groups(loaded: &Loaded, sites: &Sites<'_>, total: &Sum, by: By) -> Vec<ProfileGroup> {
    let naming = loaded.naming();
    let key = |site: &Site| -> Group {
        let name = naming.vm(site.vm);
        let vm = Some(name.clone());
        match (by, site.who) {
            (By::Module, _) => (None, None, None, module(loaded, site)),
            (By::Vm | By::Area | By::Exit | By::Symbol, _) => (vm, None, None, name),
            (_, Who::Vcpu(vcpu)) => (vm, Some(vcpu.0), None, naming.thread(site)),
            (By::Vcpu, Who::Thread(_)) => (vm, None, None, "other threads".to_owned()),
            (By::Thread, Who::Thread(tid)) => (vm, None, Some(tid.0), naming.thread(site)),
        }
    };
    let by_side = sums(sites.iter().copied(), |site| (key(site), site.area.side()));
    ranked(sites, key)
        .into_iter()
        .map(|(group, sum)| {
            let on = |side| {
                by_side
                    .get(&(group.clone(), side))
                    .map_or(0, |sum| sum.weight)
            };
            let (guest, in_kernel, in_vmm) = (on(Side::Guest), on(Side::Kernel), on(Side::Vmm));
            let (vm, vcpu, tid, name) = group.clone();
            ProfileGroup {
                vm,
                vcpu,
                tid,
                part: part(name, &sum, total),
                guest,
                in_kernel,
                in_vmm,
            }
        })
        .collect()
}

fn module(loaded: &Loaded, site: &Site) -> String {
    let first = loaded.book.frames(site.stack).next();
    match first.filter(|_| !site.hit.is_guest()) {
        Some(frame) if frame.module.is_empty() => "[unknown]".to_owned(),
        Some(frame) => frame.module_name().to_owned(),
        None => hot::hit_symbol(site.hit).name,
    }
}

/// VMs of which most stacks of user space end at once. Samples that hit the kernel count too: the way
/// there leads through the VMM.
fn shallow(loaded: &Loaded, sites: &Sites<'_>) -> Vec<ShallowStacks> {
    let naming = loaded.naming();
    let mut vms = BTreeMap::<String, (u64, u64)>::new();
    for (site, sum) in sites.iter().filter(|(site, _)| site.hit == Hit::User) {
        let frames = loaded.book.frames(site.stack);
        let user = frames.filter(|frame| frame.space == Space::User).count();
        let (samples, shallow) = vms.entry(naming.vm(site.vm)).or_default();
        *samples += sum.samples;
        if user <= 1 || loaded.book.is_cut(site.stack) {
            *shallow += sum.samples;
        }
    }
    let told = vms.into_iter().filter(|(_, (_, shallow))| *shallow > 0);
    told.map(|(vm, (samples, shallow))| ShallowStacks {
        vm,
        samples,
        shallow,
    })
    .collect()
}
