//! Vocabulary of the rules: the evidence, the answer, and numbers in words.

pub(super) use super::contention::Contention;
pub(super) use super::cost::Cost;
pub(super) use super::evidence::{
    Evidence, Guest, VcpuEvidence, about, exits_of, gaps_within, grouped, part_of_time, tally,
    wake_share,
};
pub(super) use super::remedy::{Does, Lever, Remedy};
pub(super) use super::say::{nanos, percent, rate, took};
pub(super) use super::terms::Terms;
pub(super) use super::{Found, HABIT, Judgement, Rule, Sure, Who};
pub(super) use crate::account::Account;
pub(super) use crate::event::{CeilingSource, Observable, WakeSource};
pub(super) use crate::exit::account::{Account as ExitAccount, Tally};
pub(super) use crate::exit::{Cause, Isa, Kind, SubKey};
pub(super) use crate::ids::{VcpuId, VmmKind};
pub(super) use crate::parameter::Parameter;
pub(super) use crate::stats::{ENOUGH_EVENTS, Fold, Share, total};
