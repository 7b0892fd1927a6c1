//! All policies there are: a line each.

use super::spec::{Args, SpecError};
use super::{Policy, Setting, clairvoyant, fixed, kvm, off};

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
pub const POLICIES: &[Entry] = &[off::ENTRY, fixed::ENTRY, kvm::ENTRY, clairvoyant::ENTRY];
