//! All policies there are: a line each.

use super::spec::{Args, SpecError};
use super::{Policy, Setting};
use super::{
    clairvoyant, cpu_pm, fixed, guest_haltpoll, idle_poll, kvm, leader, menu, off, payback,
    smart_idle_poll, teo,
};

/// Makes a policy for one vCPU out of its arguments.
pub type Build = fn(&mut Args<'_>, &Setting) -> Result<Box<dyn Policy>, SpecError>;

/// A policy by name: what it is called, what it takes, how it is made.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The word before the colon.
    pub name: &'static str,
    /// Form of the arguments after the colon, as the help prints it; empty if there are none.
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
    guest_haltpoll::ENTRY,
    menu::ENTRY,
    teo::ENTRY,
    idle_poll::ENTRY,
    cpu_pm::ENTRY,
    smart_idle_poll::ENTRY,
    payback::ENTRY,
    leader::ENTRY,
    clairvoyant::ENTRY,
];
