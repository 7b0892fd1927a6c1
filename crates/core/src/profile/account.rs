//! Samples added up: by event, by thread, by exit, by what was hit, by stack.

use std::collections::BTreeMap;

use super::area::{self, Area};
use super::sample::{Book, Event, Hit, Phase, Sample, Space};
use crate::account::sums::folds;
use crate::exit::Isa;
use crate::exit::names::Names;
use crate::ids::{Tid, VcpuId, VmIndex};
use crate::stats::{Fold, Share, Z};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Vcpu(VcpuId),
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
    pub exit: ExitOf,
    pub hit: Hit,
    pub area: Area,
    /// The stack; 0 where there is none.
    pub stack: u64,
}

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
    (area, area::exit_of_stack(&symbols))
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    pub samples: u64,
    /// Their weights: ns, or events.
    pub weight: u64,
    /// Squares of their weights: how unequal these are.
    pub squares: u128,
}

folds! {
    Sum { samples, weight, squares }
}

impl Sum {
    pub fn one(weight: u64) -> Self {
        Self {
            samples: 1,
            weight,
            squares: u128::from(weight) * u128::from(weight),
        }
    }

    /// As how many samples of equal weight these count (Kish 1965): the square of the sum over the
    /// sum of the squares.
    pub fn effective(&self) -> f64 {
        let weight = self.weight as f64;
        if self.squares == 0 {
            return 0.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let squares = self.squares as f64;
        weight * weight / squares
    }

    /// The share that a part of these is: by weight, with the interval of Wilson (1927), which holds
    /// for few samples and for shares near 0 and 1 too. `None` where there is nothing to share.
    ///
    /// It takes samples for independent of each other. Those of one long stretch are not: where a
    /// recording holds few such stretches, the truth may lie outside more often.
    pub fn share_of(&self, part: &Self) -> Option<Share> {
        if self.weight == 0 {
            return None;
        }
        let share = part.weight as f64 / self.weight as f64;
        Some(Share::wilson(share.min(1.0), self.effective()))
    }

    /// How far the sum itself may be off, of 1, in 95 of 100 recordings: samples come by chance, so
    /// that their number scatters by no more than its root.
    pub fn scatter(&self) -> f64 {
        let n = self.effective();
        if n > 0.0 { Z / n.sqrt() } else { 1.0 }
    }
}
