//! All policies there are: a line each.

use super::spec::{Args, SpecError};
use super::{Policy, Setting};
use super::{
    clairvoyant, cpu_pm, fixed, guest_haltpoll, idle_poll, kvm, learned, learned_by_class, list_v3,
    list_v4, menu, off, ski_rental, smart_idle_poll, teo, toggle,
};

/// Makes a policy for one vCPU out of its arguments.
pub type Build = fn(&mut Args<'_>, &Setting) -> Result<Box<dyn Policy>, SpecError>;

/// A policy by name: what it is called, what it takes, how it is made.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The word before the colon.
    pub name: &'static str,
    /// What may stand after it, as the help prints it; empty if nothing may.
    pub form: &'static str,
    /// Its rule in half a line.
    pub summary: &'static str,
    /// Makes one, for one vCPU.
    pub build: Build,
}

/// Every policy, in the order in which the help lists them.
pub const POLICIES: &[Entry] = &[
    off::ENTRY,
    fixed::ENTRY,
    kvm::ENTRY,
    toggle::ENTRY,
    list_v3::ENTRY,
    list_v4::ENTRY,
    guest_haltpoll::ENTRY,
    menu::ENTRY,
    teo::ENTRY,
    idle_poll::ENTRY,
    cpu_pm::ENTRY,
    smart_idle_poll::ENTRY,
    ski_rental::ENTRY,
    learned::ENTRY,
    learned_by_class::ENTRY,
    clairvoyant::ENTRY,
];
