//! Samples added up: by event, by thread, by exit, by what was hit, by stack.

use std::collections::BTreeMap;

use super::area::{self, Area};
use super::book::Book;
use super::handler;
use super::sample::{Event, Hit, Phase, Sample};
use super::share::Sum;
use super::stack::Space;
use crate::exit::Isa;
use crate::exit::names::Names;
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::stats::Fold;

/// A thread of a VMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// It runs this vCPU.
    Vcpu(VcpuId),
    /// It runs none.
    Thread(Tid),
}

/// Which exit sampled time belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitOf {
    /// None: the guest ran.
    Guest,
    /// `kvm_exit` told this reason.
    Told(Isa, u32),
    /// A function on the stack handles this reason.
    Stack(&'static str),
    /// Told as in the guest, and yet in the host: on the way in or out, or interrupted.
    Between,
    NotKnown,
    /// None: the thread runs no vCPU.
    NoVcpu,
}

impl ExitOf {
    /// Name of the exit.
    pub fn name(self, names: &Names) -> String {
        match self {
            Self::Guest => "guest".to_owned(),
            Self::Told(isa, reason) => names.reason(isa, reason),
            Self::Stack(name) => name.to_owned(),
            Self::Between => "entry or exit".to_owned(),
            Self::NotKnown => "not known".to_owned(),
            Self::NoVcpu => "no vCPU".to_owned(),
        }
    }
}

/// Samples that are alike in everything that is told of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub vm: Option<VmIndex>,
    pub who: Who,
    /// The exit being handled.
    pub exit: ExitOf,
    pub hit: Hit,
    /// Area of the code that was hit.
    pub area: Area,
    /// The stack; 0 where there is none.
    pub stack: u64,
}

/// Samples added up.
#[derive(Debug, Clone, Default)]
pub struct Account {
    pub events: BTreeMap<Event, BTreeMap<Site, Sum>>,
    /// Threads that run a vCPU, from the roster.
    vcpus: BTreeMap<(VmIndex, Tid), VcpuId>,
    /// Areas and handled exits of the stacks sorted so far.
    sorted: BTreeMap<(u64, Hit), (Area, Option<&'static str>)>,
}

impl Account {
    /// An empty account. `vcpus`: who runs which vCPU, for samples that came before that was known.
    pub fn new(vcpus: impl IntoIterator<Item = (VmIndex, Tid, VcpuId)>) -> Self {
        let vcpus = vcpus.into_iter().map(|(vm, tid, id)| ((vm, tid), id));
        Self {
            vcpus: vcpus.collect(),
            ..Self::default()
        }
    }

    /// Takes a sample in.
    pub fn book(&mut self, sample: &Sample, book: &Book) {
        let known = || self.vcpus.get(&(sample.vm?, sample.tid)).copied();
        let vcpu = sample.vcpu.or_else(known);
        let sorted = self.sorted.entry((sample.stack, sample.hit));
        let (area, handler) = *sorted.or_insert_with(|| sort(sample, book));
        let site = Site {
            vm: sample.vm,
            who: vcpu.map_or(Who::Thread(sample.tid), Who::Vcpu),
            exit: vcpu.map_or(ExitOf::NoVcpu, |_| exit_of(sample, handler)),
            hit: sample.hit,
            area,
            stack: sample.stack,
        };
        let sites = self.events.entry(sample.event).or_default();
        let sum = sites.entry(site).or_default();
        sum.fold(&Sum::one(sample.weight));
    }

    /// Everything that was sampled of an event.
    pub fn sites(&self, event: Event) -> impl Iterator<Item = (&Site, &Sum)> + Clone {
        self.events.get(&event).into_iter().flatten()
    }
}

/// Sums of sites by what `key` makes of each.
pub fn sums<'a, K: Ord>(
    sites: impl IntoIterator<Item = (&'a Site, &'a Sum)>,
    key: impl Fn(&Site) -> K,
) -> BTreeMap<K, Sum> {
    let mut sums = BTreeMap::<K, Sum>::new();
    for (site, sum) in sites {
        sums.entry(key(site)).or_default().fold(sum);
    }
    sums
}

fn sort(sample: &Sample, book: &Book) -> (Area, Option<&'static str>) {
    let kernel = book.frames(sample.stack);
    let symbols = kernel
        .filter(|frame| frame.space == Space::Kernel)
        .map(|frame| frame.symbol.as_deref().unwrap_or_default());
    let symbols: Vec<&str> = symbols.collect();
    let area = match sample.hit {
        Hit::GuestKernel => Area::GuestKernel,
        Hit::GuestUser => Area::GuestUser,
        Hit::User => Area::Vmm,
        Hit::Kernel => area::of_stack(&symbols),
        Hit::Hypervisor | Hit::Unknown => Area::Unknown,
    };
    (area, handler::of_stack(&symbols))
}

fn exit_of(sample: &Sample, handler: Option<&'static str>) -> ExitOf {
    if sample.hit.is_guest() {
        return ExitOf::Guest;
    }
    match (sample.phase, sample.reason, handler) {
        (Phase::Exit, Some(reason), _) => ExitOf::Told(sample.isa, reason),
        (_, _, Some(name)) => ExitOf::Stack(name),
        (Phase::Entered, _, None) => ExitOf::Between,
        (Phase::Exit | Phase::Unknown, _, None) => ExitOf::NotKnown,
    }
}
