//! The sources' effects, each reproduced: what is compared, how it is measured, how it is judged.
//!
//! An experiment is one file of this folder and one line of [`registry`]. It says, as data, which
//! document it stands for and what that reports ([`Source`]), which [`Variant`]s are compared, which
//! [`Figure`]s a variant gives, and which comparisons of two variants show the source's [`Effect`]. Its
//! `run` measures one variant once, and a figure's row has its value. All else is the same for all and done by [`conduct`]: variants take
//! turns in a newly drawn order for each round, from a seed that is printed; rounds are repeated until
//! all effects are decided or the time is used up; an effect is the change between two variants *within* a round, so what drifts on
//! the host meets both; [`judge`] says whether the direction is the source's. Meanwhile [`witness`] has
//! `haltwise` record this very process, and its counts are compared with the lab's own.
//!
//! Three kinds of statements are told apart and counted apart. A *claim* has its direction from the source
//! and may fail. A *construction* ([`Kind::Construction`]) follows from how the variants are made: it shows that
//! they are what they are said to be, and nothing about the source. An *integrity* check ([`Integrity`])
//! demands a value of every block, whatever the variant; that `haltwise` counted the same is one, for every
//! experiment.
//!
//! # How another is added
//!
//! 1. A file `experiment/my_name.rs` with `pub(super) const EXPERIMENT: Experiment`, its header saying what
//!    the source claims and what stands for it here. `variants` and `effects` are functions, so that a
//!    sweep can be written as loops; the index of a variant is all that `run` is told of it. Effects that
//!    cannot fail are constructions; what has to be so in every block is an integrity check. `limits` says
//!    where load or variants are not the source's, and in whose favour that is. Two tests go over the registry
//!    (`test/registry.rs`): every effect has to be refuted by swapping its variants, and every check by one
//!    broken value.
//! 2. `run(&Trial)` boots the VM of `trial.variant`, loads it for `trial.length` with draws from
//!    `trial.seed` (the same for all variants of a round), ends it, and returns a [`Block`]: its figures
//!    by name, and a [`haltwise_lab::outcome::VcpuOutcome`] for *every* vCPU that ran, which the cross-check
//!    needs. Guests of [`haltwise_lab::run`] come ready with [`Block::of`]; a VMM of your own fills in what it
//!    counted. The table `figures!` makes the figures and the function that adds them to a block.
//! 3. `differs` says in a line why the size differs from the source's, `on_your_host` what of haltwise answers the
//!    effect; `conclude(&Results)` may add notes, tables
//!    and charts.
//! 4. One line in [`registry::EXPERIMENTS`], in the order of the sources.
//!
//! A block that cannot be measured here is not a failure: leave its figures out and say why in
//! [`Block::note`]. A figure must be a plain number in the unit that it names. A direction is judged from
//! six rounds on ([`haltwise_core::stats::FEWEST`]), so with the default budget a block lasts
//! what [`conduct::block_length`] makes of the number of variants.

#[macro_use]
mod rows;

pub mod block;
pub mod conduct;
pub mod found;
pub mod judge;
pub mod recorder;
pub mod registry;
pub mod results;
pub mod schedule;
pub mod verdicts;
pub mod witness;

mod account;
mod async_block;
mod dynamic;
mod event_nic;
mod exitless_timer;
mod guest_halt_poll;
mod guest_poll_shared;
mod pic_in_kernel;
mod poll_sweep;
mod poll_time;
mod shared_framebuffer;
mod smart_idle_poll;
mod tuned;

use std::borrow::Cow;
use std::os::fd::BorrowedFd;

use haltwise_core::units::Nanos;
use serde::{Deserialize, Serialize};

use crate::device::machine::{Ended, Machine};
pub use block::Block;
pub use results::{Chart, Conclusion, Results, Table};

#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    pub name: &'static str,
    pub title: &'static str,
    pub source: Source,
    /// Times of the source that mean nothing without its wake-up latency; `None` if none does.
    pub scaled: Option<Scaled>,
    /// The figures of a variant, in the order in which they are shown.
    pub figures: &'static [Figure],
    pub variants: fn() -> Vec<Variant>,
    /// Effects that the source reports, as comparisons of two variants.
    pub effects: fn() -> Vec<Effect>,
    /// Conditions that must hold in every block.
    pub integrity: fn() -> Vec<Integrity>,
    /// Where load or variants differ from the source's so that verdicts are weaker than they look.
    pub limits: &'static [&'static str],
    /// Finding or setting of haltwise that answers the effect on a real host.
    pub on_your_host: &'static str,
    /// Why the sizes differ from the source's.
    pub differs: &'static str,
    pub run: fn(&Trial<'_>) -> anyhow::Result<Block>,
    /// Says what else the blocks show.
    pub conclude: fn(&Results<'_>) -> Conclusion,
}

#[derive(Debug, Clone, Copy)]
pub struct Source {
    pub document: &'static str,
    pub reports: &'static [&'static str],
}

/// Times that are to this host's wake-up latency what they were to the source's.
#[derive(Debug, Clone, Copy)]
pub struct Scaled {
    pub wake_latency: Nanos,
    /// Groups and variants that are named after such a time.
    pub times: &'static [(&'static str, Nanos)],
}

impl Scaled {
    /// The factor of all times, so that a wake-up here is to them what it was to the source's: at least 1, rounded.
    pub fn factor(&self, here: Option<Nanos>) -> u64 {
        let source_ns = self.wake_latency.0;
        here.map_or(1, |here| ((here.0 + source_ns / 2) / source_ns).max(1))
    }
}

/// Which direction of a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    Less,
    More,
    /// It is an account, not a goal.
    Neither,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figure {
    pub name: Cow<'static, str>,
    /// Unit of the figure: `us`, `%`, `1/s`; empty for a plain number.
    pub unit: Cow<'static, str>,
    pub better: Better,
    pub what: Cow<'static, str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// The load or setting that it shares with those it may be compared with.
    pub group: String,
    pub name: String,
    pub what: String,
}

impl Variant {
    pub fn new(group: impl Into<String>, name: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            group: group.into(),
            name: name.into(),
            what: what.into(),
        }
    }
}

/// Value of `to` relative to `from` that the source leads us to expect.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", content = "within")]
pub enum Expected {
    Less,
    More,
    /// It is larger by at most this share of `from`'s: any decrease meets it.
    NoMoreThan(f64),
    /// It is smaller by at most this share of `from`'s: any increase meets it.
    NoLessThan(f64),
}

/// Whether an effect may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Its direction is the source's, and it may fail.
    Claim,
    /// It follows from how the variants are made.
    Construction,
}

/// A comparison that shows a source's effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub kind: Kind,
    pub what: String,
    /// By [`Figure::name`].
    pub figure: Cow<'static, str>,
    pub group: String,
    /// The variant that it is seen from.
    pub from: String,
    pub to: String,
    /// The direction that the source's words lead to.
    pub expected: Expected,
    pub reported: String,
}

/// A value that a figure has to have in every block of a group's variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Integrity {
    pub what: &'static str,
    /// By [`Figure::name`].
    pub figure: &'static str,
    pub group: &'static str,
    /// The variants of the group that it is demanded of; all of them if there is none.
    pub variants: &'static [&'static str],
    pub demanded: f64,
}

impl Integrity {
    pub(crate) fn of(
        what: &'static str,
        figure: &'static str,
        group: &'static str,
        demanded: f64,
    ) -> Self {
        Self {
            what,
            figure,
            group,
            variants: &[],
            demanded,
        }
    }

    /// Whether it is demanded of a variant.
    pub fn concerns(&self, variant: &Variant) -> bool {
        let named = self.variants.is_empty() || self.variants.contains(&variant.name.as_str());
        variant.group == self.group && named
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    pub variant: usize,
    pub round: u32,
    pub length: Nanos,
    pub seed: u64,
    /// [`Scaled::factor`]; 1 if nothing is scaled.
    pub factor: u64,
    /// CPUs that may be used, in order; at least one.
    pub cpus: &'a [u32],
    /// Readable once the run shall end.
    pub interrupt: BorrowedFd<'a>,
}

impl Trial<'_> {
    fn here(&self, source: Nanos) -> Nanos {
        Nanos(source.0 * self.factor)
    }

    /// The CPU for vCPUs: the last.
    pub fn vcpu_cpu(&self) -> u32 {
        self.cpus.last().copied().unwrap_or(0)
    }

    /// Runs a VM for the trial's time, or so many rounds.
    fn run(
        &self,
        machine: Machine,
        cpu: Option<u32>,
        rounds: Option<u32>,
    ) -> anyhow::Result<Ended> {
        let running = machine.start(cpu, rounds)?;
        let until_ns = running.start_ns.saturating_add(self.length.0);
        running.wait_until(until_ns, self.interrupt)?;
        running.end()
    }

    /// The CPU for the host's side: the first.
    pub fn host_cpu(&self) -> u32 {
        self.cpus.first().copied().unwrap_or(0)
    }

    /// The CPU that a vCPU is pinned to: none where the host's side has no other.
    fn own_vcpu_cpu(&self) -> Option<u32> {
        (self.cpus.len() > 1).then(|| self.vcpu_cpu())
    }

    fn own_host_cpu(&self) -> Option<u32> {
        (self.cpus.len() > 1).then(|| self.host_cpu())
    }
}

#[cfg(test)]
mod test;
