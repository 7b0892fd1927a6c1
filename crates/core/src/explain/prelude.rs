//! Vocabulary of the rules: the evidence, the answer, and numbers within sentences.

pub(super) use super::contention::Contention;
pub(super) use super::cost::Cost;
pub(super) use super::evidence::{
    Evidence, Guest, VcpuEvidence, about, exits_of, gaps_within, grouped, part_of_time, tally,
    wake_share,
};
pub(super) use super::remedy::{Does, Lever, Remedy};
pub(super) use super::terms::Terms;
pub(super) use super::{Found, HABIT, Judgement, Rule, Sure, Who};
pub(super) use crate::account::Account;
pub(super) use crate::event::{CeilingSource, Observable, WakeSource};
pub(super) use crate::exit::account::{Account as ExitAccount, Tally};
pub(super) use crate::exit::{Cause, Isa, Kind, SubKey};
pub(super) use crate::ids::{VcpuId, VmmKind};
pub(super) use crate::parameter::Parameter;
pub(super) use crate::stats::{ENOUGH_EVENTS, Fold, Share, total};
use crate::units::Nanos;

/// `5.71 us`.
pub(super) fn nanos(ns: u64) -> String {
    Nanos(ns).to_string()
}

/// A share in percent: `42 %`, `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent > 0.0 && percent < 9.95 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

/// How often in a second: `1024/s`, `0.4/s`.
pub(super) fn rate(per_s: f64) -> String {
    if per_s < 9.95 {
        format!("{per_s:.1}/s")
    } else {
        format!("{per_s:.0}/s")
    }
}

/// How long something took: `took 5.71 us`.
pub(super) fn took(time_ns: u64) -> String {
    match time_ns {
        0 => "have no known time".to_owned(),
        ns => format!("took {}", nanos(ns)),
    }
}
