//! Results of other settings: a grid of ceilings and of ways in which windows grow and shrink, each played on
//! all halts, so that a page can show any of them without playing a halt itself.

use std::collections::BTreeMap;

use super::candidates::{CEILINGS_NS, Reach};
use super::final_round::FinalRound;
use super::inputs::{Inputs, VcpuInput};
use super::pool::Pool;
use super::stage::{self, Entry, Part};
use crate::ids::VmIndex;
use crate::kvm::Knobs;
use crate::replay::Sums;

/// How windows grow and shrink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    pub grow: u32,
    /// The first window in nanoseconds; `None`: it is the ceiling.
    pub grow_start: Option<u32>,
    pub shrink: u32,
}

impl Shape {
    pub(super) const fn new(grow: u32, grow_start: Option<u32>, shrink: u32) -> Self {
        Self {
            grow,
            grow_start,
            shrink,
        }
    }

    fn of(knobs: &Knobs) -> Self {
        let is_ceiling = knobs.halt_poll_ns > 0 && knobs.grow_start == knobs.halt_poll_ns;
        let grow_start = (!is_ceiling).then_some(knobs.grow_start);
        Self::new(knobs.grow, grow_start, knobs.shrink)
    }

    pub fn with(&self, ceiling_ns: u32) -> Knobs {
        let grow_start = self.grow_start.unwrap_or(ceiling_ns);
        Knobs::of([ceiling_ns, self.grow, grow_start, self.shrink])
    }
}

/// Shapes of every kernel whose windows adapt: the kernel's default since 6.11, windows that are thrown away,
/// and a window of one length. [`Shape::grow_start`] stays what it is where a kernel does not have it.
const SHAPES: [Shape; 3] = [
    Shape::new(2, Some(10_000), 2),
    Shape::new(2, Some(10_000), 0),
    Shape::new(1, None, 1),
];

/// Result of a setting on the validation half.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    pub knobs: Knobs,
    /// From the start that counts.
    pub own: Sums,
    /// From the other start.
    pub other: Sums,
    /// From the start that counts, group by group of [`WhatIf::vms`].
    pub vms: Vec<Sums>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhatIf {
    /// Rising.
    pub ceilings_ns: Vec<u32>,
    /// Shapes that go with each ceiling.
    pub shapes: Vec<Shape>,
    /// Ceiling by ceiling, shape by shape.
    pub cells: Vec<Cell>,
    /// VMs that are told apart: those that halt most.
    pub vms: Vec<VmIndex>,
    /// Totals of the setting in force, group by group of [`Self::vms`].
    pub in_force: Vec<Sums>,
}

impl WhatIf {
    /// The cell of a setting, by its place.
    pub fn place(&self, knobs: &Knobs) -> Option<usize> {
        self.cells.iter().position(|cell| cell.knobs == *knobs)
    }
}

/// Plays the grid, which has what is in force, the default and `choice` in it. At most `vms` VMs are told apart.
pub fn play(
    inputs: &Inputs,
    of: &FinalRound,
    choice: Option<Knobs>,
    vms: usize,
    pool: &impl Pool,
) -> WhatIf {
    let named = [Some(of.in_force.knobs), Some(of.default.knobs), choice];
    let named: Vec<Knobs> = named.into_iter().flatten().collect();
    let shapes = shapes(inputs, &named);
    let mut ceilings_ns: Vec<u32> = named.iter().map(|knobs| knobs.halt_poll_ns).collect();
    if Reach::of(inputs.terms.rule()).polls {
        ceilings_ns.extend(CEILINGS_NS);
    }
    ceilings_ns.sort_unstable();
    ceilings_ns.dedup();
    let in_force = of.in_force.entry().recorded();
    let mut entries = in_force.from_both().to_vec();
    for ceiling_ns in &ceilings_ns {
        for shape in &shapes {
            let mut entry = Entry::new(shape.with(*ceiling_ns));
            if entry.does_the_same(&in_force, inputs) {
                entry.start = in_force.start;
            }
            entries.extend(entry.from_both());
        }
    }
    let (vms, groups) = groups(inputs, vms);
    let played = stage::play_each(inputs, &groups, &entries, Part::Whole, "what if", pool);
    let judged = |entry: usize| -> Vec<Sums> {
        let parts = played.iter().map(|group| &group[entry]);
        parts
            .map(|parts| Sums::total(parts.get(1..).unwrap_or_default()))
            .collect()
    };
    let cell = |number: usize| {
        let own = judged(number);
        Cell {
            knobs: entries[number].knobs,
            own: Sums::total(&own),
            other: Sums::total(&judged(number + 1)),
            vms: own.into_iter().take(vms.len()).collect(),
        }
    };
    WhatIf {
        in_force: cell(0).vms,
        cells: (2..entries.len()).step_by(2).map(cell).collect(),
        ceilings_ns,
        shapes,
        vms,
    }
}

fn shapes(inputs: &Inputs, named: &[Knobs]) -> Vec<Shape> {
    let reach = Reach::of(inputs.terms.rule());
    let in_force = named.first().map(Shape::of);
    let mut wanted: Vec<Shape> = named.iter().map(Shape::of).collect();
    if reach.adapts && !inputs.terms.ceiling_only {
        wanted.extend(SHAPES.map(|shape| match in_force {
            Some(in_force) if !reach.grow_start => Shape {
                grow_start: in_force.grow_start,
                ..shape
            },
            _ => shape,
        }));
    }
    let mut shapes: Vec<Shape> = Vec::new();
    for shape in wanted {
        if !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

/// vCPUs VM by VM, those VMs that halt most first, then all others together.
fn groups(inputs: &Inputs, most: usize) -> (Vec<VmIndex>, Vec<Vec<&VcpuInput>>) {
    let mut halts = BTreeMap::<VmIndex, usize>::new();
    for seated in &inputs.seats {
        if let Some(vm) = seated.seat.vm {
            *halts.entry(vm).or_default() += seated.samples.len();
        }
    }
    let mut vms: Vec<(VmIndex, usize)> = halts.into_iter().collect();
    vms.sort_by_key(|(vm, halts)| (std::cmp::Reverse(*halts), *vm));
    let vms: Vec<VmIndex> = vms.into_iter().take(most).map(|(vm, _)| vm).collect();
    let of = |vm: Option<VmIndex>| {
        let seats = inputs.seats.iter();
        seats
            .filter(|seated| seated.seat.vm.filter(|vm| vms.contains(vm)) == vm)
            .collect()
    };
    let mut groups: Vec<Vec<&VcpuInput>> = vms.iter().map(|&vm| of(Some(vm))).collect();
    groups.push(of(None));
    (vms, groups)
}
