//! The grid of settings that the page shows, with what it needs to say their figures.

use haltwise_core::kvm::Knobs;
use haltwise_core::replay::Cost;
use haltwise_core::replay::Sums;
use haltwise_core::tune::candidates::Reach;
use haltwise_core::tune::wall::Wall;
use haltwise_core::tune::whatif::{self, Shape};

use super::candidates::Candidates;
use super::say;
use super::threads::Threads;

const VMS: usize = 12;

#[derive(Debug)]
pub(crate) struct WhatIf {
    pub(crate) grid: whatif::WhatIf,
    pub(crate) reach: Reach,
    /// Cost of a halt, by the requested goal.
    pub(crate) cost: Cost,
    pub(crate) wall: Wall,
    pub(crate) in_force: (Knobs, Sums),
    pub(crate) default: Knobs,
    pub(crate) choice: Option<Knobs>,
    pub(crate) vcpus: (usize, usize),
}

impl WhatIf {
    pub(crate) fn of(candidates: &Candidates) -> Self {
        let inputs = &candidates.inputs;
        let choice = candidates.advice.choice.as_ref().map(|choice| choice.knobs);
        let own = |of: &&haltwise_core::tune::inputs::VcpuInput| of.own_ceiling_ns.is_some();
        Self {
            grid: whatif::play(inputs, &candidates.of, choice, VMS, &Threads::new()),
            reach: Reach::of(inputs.terms.rule()),
            cost: candidates.advice.goal.aim.cost,
            wall: inputs.judged_wall,
            in_force: (
                candidates.of.in_force.knobs,
                candidates.of.in_force.judged(),
            ),
            default: candidates.of.default.knobs,
            choice,
            vcpus: (inputs.seats.len(), inputs.seats.iter().filter(own).count()),
        }
    }

    pub(crate) fn shape(&self, shape: &Shape) -> String {
        let Shape {
            grow,
            grow_start,
            shrink,
        } = *shape;
        match grow_start {
            _ if !self.reach.adapts => "as this kernel has it".to_owned(),
            None if shrink == 1 => "one length: the ceiling".to_owned(),
            None => format!("the ceiling or nothing, by the last halt (shrink {shrink})"),
            Some(ns) if self.reach.grow_start => {
                format!("grow {grow} from {}, shrink {shrink}", say::time(ns))
            }
            Some(_) => format!("grow {grow}, shrink {shrink}"),
        }
    }
}
