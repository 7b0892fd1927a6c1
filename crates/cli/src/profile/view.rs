//! The result: each figure with its name, unit and meaning. JSON, its schema and documentation, and tables
//! come of these declarations.

use std::collections::BTreeMap;

use haltwise_core::profile::account::{ExitOf, Site, Sum, Who, sums};
use haltwise_core::profile::area::Side;
use haltwise_core::profile::tree::{self, Heat, Symbol};
use haltwise_core::profile::{Event, Hit, Space};
use haltwise_core::stats::folded;
use haltwise_document::figures;

use super::load::Loaded;
use crate::figures::Source;
use crate::profile::SCHEMA;

pub(crate) const ABOUT: &[&str] = &[
    "Weights are counted in `unit`: nanoseconds of the CPU clock, or events.",
    "Shares are 0 to 1, by weight. `low` and `high` are the interval of Wilson (1927), in which the share lies in \
     95 of 100 recordings if samples are independent of each other.",
    "Where KVM virtualises in software, it emulates much of what a guest does: that time is `emulation` and no \
     guest's.",
    "The CPU clock's timer is an interrupt. The scheduler books more CPU time than it hits: waking up and switching, \
     with interrupts off.",
    "`null` means not recorded. It never means zero.",
];

figures! {
    /// Everything that is said of samples.
    pub(crate) struct ProfileResult {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: ProfileRecording = Record(ProfileRecording::FIGURES),
        /// Event that the figures are samples of: the first event recorded, or that of `--event`.
        pub(crate) event: Event = Word,
        /// Unit that weights are counted in: `ns`, `cycles`, `instructions`, `misses`, `faults`.
        pub(crate) unit: &'static str = Word,
        /// All samples that the page is about: of `--vm` and `--exit`.
        pub(crate) total: ProfileTotal = Record(ProfileTotal::FIGURES),
        /// Parts of the total: guest, kernel, VMM.
        pub(crate) sides: Vec<Part> = List(Part::FIGURES),
        /// Parts of the total: what the guest, KVM, the kernel or the VMM was busy with, by names of functions.
        pub(crate) areas: Vec<Part> = List(Part::FIGURES),
        /// Parts of the total, by the exit that was being handled.
        pub(crate) exits: Vec<ProfiledExit> = List(ProfiledExit::FIGURES),
        /// Functions, those first that were hit most.
        pub(crate) symbols: Vec<ProfiledSymbol> = List(ProfiledSymbol::FIGURES),
        /// Parts of the total: by VM, or by what `--by` asks for (`vm`, `vcpu`, `thread`, `module`).
        pub(crate) groups: Vec<ProfileGroup> = List(ProfileGroup::FIGURES),
        /// The other events that were sampled, of the same threads.
        pub(crate) beside: Vec<OtherEvent> = List(OtherEvent::FIGURES),
        /// VMs some of whose stacks of user space have no callers.
        pub(crate) shallow: Vec<ShallowStacks> = List(ShallowStacks::FIGURES),
    }

    pub(crate) struct ProfileRecording {
        #[serde(flatten)]
        pub(crate) source: Source = Flat(Source::FIGURES),
        /// Sampling frequency that was asked for, of each CPU.
        pub(crate) hz: u32 = Number,
        /// Events that were sampled.
        pub(crate) events: Vec<Event> = Words,
        /// Whether samples were recorded with the exit being handled (`--exits`).
        pub(crate) exits_told: bool = Flag,
    }

    pub(crate) struct ProfileTotal {
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
        /// Half width of the 95 % confidence interval of the weight, as a part of it.
        pub(crate) scatter: f64 = Share,
    }

    #[derive(Clone)]
    pub(crate) struct Part {
        /// Name of the part.
        pub(crate) name: String = Name,
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
        /// Its share of the whole; `null` where the whole has no samples.
        pub(crate) share: Option<f64> = Share,
        /// The lower end of that share's interval.
        pub(crate) low: Option<f64> = Share,
        /// The upper end.
        pub(crate) high: Option<f64> = Share,
    }

    pub(crate) struct ProfiledExit {
        #[serde(flatten)]
        pub(crate) part: Part = Flat(Part::FIGURES),
        /// How it is known: `kvm_exit` reported it, or a function on the `stack` handles it; `null` where there is no
        /// exit: the guest ran, the thread runs no vCPU, it was on the way in or out, or it is not known.
        pub(crate) by: Option<&'static str> = Word,
        /// Its samples by area; shares of its own.
        pub(crate) areas: Vec<Part> = List(Part::FIGURES),
        /// The functions that its samples hit most; shares of its own.
        pub(crate) symbols: Vec<Part> = List(Part::FIGURES),
    }

    pub(crate) struct ProfiledSymbol {
        /// `kernel`, a kernel module, a program or library, `guest`.
        pub(crate) module: String = Name,
        /// `kernel`, `user`; `null` of a guest.
        pub(crate) space: Option<Space> = Word,
        /// Samples that hit it, as a part.
        pub(crate) own: Part = Record(Part::FIGURES),
        /// Samples that hit it or what it called, as a part.
        pub(crate) all: Part = Record(Part::FIGURES),
    }

    /// One VM, vCPU, thread or module.
    pub(crate) struct ProfileGroup {
        /// The VM's name; `null` by module.
        pub(crate) vm: Option<String> = Name "VM",
        /// The vCPU, by vCPU or thread.
        pub(crate) vcpu: Option<u32> = Number "vCPU",
        /// The thread, of threads that run no vCPU.
        pub(crate) tid: Option<u32> = Number,
        #[serde(flatten)]
        pub(crate) part: Part = Flat(Part::FIGURES),
        /// The part of its weight in the guest.
        pub(crate) guest: u64 = Amount,
        /// The part of its weight in the host's kernel.
        pub(crate) in_kernel: u64 = Amount,
        /// The part of its weight in the VMM.
        pub(crate) in_vmm: u64 = Amount,
    }

    pub(crate) struct OtherEvent {
        /// Event that was sampled.
        pub(crate) event: Event = Word,
        /// Unit that its weight is counted in.
        pub(crate) unit: &'static str = Word,
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
    }

    /// A VM whose VMM's stacks say little.
    pub(crate) struct ShallowStacks {
        /// The VM.
        pub(crate) vm: String = Name,
        /// Samples that hit its VMM.
        pub(crate) samples: u64 = Count,
        /// Those of them whose stack ends after one frame, or at an address where no code lies.
        pub(crate) shallow: u64 = Count,
    }
}

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
        let hot = tree::symbols(mine.iter().copied(), &loaded.book);
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
    let hot = tree::symbols(sites.iter().copied(), &loaded.book);
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
        None => tree::hit_symbol(site.hit).name,
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
