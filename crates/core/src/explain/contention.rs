//! Whether other tasks want the CPUs that a vCPU runs on.
//!
//! KVM stops a poll as soon as another task is runnable on its CPU (`kvm_vcpu_can_poll`:
//! `single_task_running`), so that preempted polls are counted evidence of more work than CPUs; and the
//! kernel tells how long some task waited for a CPU (`/proc/pressure/cpu`). A share of polls counts with its
//! interval, never as a point: 1 preempted poll of 1 says nothing.

use super::HABIT;
use super::cpus::is_sched_ext_active;
use super::evidence::Evidence;
use super::prelude::percent;
use crate::account::Account;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contention {
    /// They do: how that is known.
    Wanted(String),
    Free,
    Unknown,
}

impl Contention {
    /// As seen by these vCPUs. Their own polls tell of the CPUs that they ran on; where those are too few,
    /// all polls and the time for which tasks waited tell of the host.
    ///
    /// A guest that recorded itself sees its host by steal alone: its own tasks end its polls.
    pub fn of(evidence: &Evidence<'_>, account: &Account) -> Self {
        if let Some(inside) = &evidence.in_guest {
            return inside.contention();
        }
        if let Some(own) = account.preempted() {
            if own.is_from(HABIT) {
                return Self::Wanted(preempted(own.share, "these vCPUs"));
            }
            // Polls go on beside tasks that such a scheduler holds back.
            if own.is_below(HABIT) && !is_sched_ext_active(evidence) {
                return Self::Free;
            }
        }
        let all = evidence.total.preempted();
        let pressure = evidence.ledger.host.cpu_pressure();
        match (all, pressure) {
            (Some(all), _) if all.is_from(HABIT) => Self::Wanted(preempted(all.share, "the host")),
            (_, Some(share)) if share >= HABIT => {
                Self::Wanted(format!("CPU pressure {} (PSI)", percent(share)))
            }
            (_, Some(_)) => Self::Free,
            (Some(all), None) if all.is_below(HABIT) && !is_sched_ext_active(evidence) => {
                Self::Free
            }
            _ => Self::Unknown,
        }
    }

    pub fn is_wanted(&self) -> bool {
        matches!(self, Self::Wanted(_))
    }
}

fn preempted(share: f64, whose: &str) -> String {
    format!(
        "{} of the polls of {whose} were preempted by another task",
        percent(share)
    )
}
