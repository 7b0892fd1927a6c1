//! A scheduler of `sched_ext` runs: what preempted polls say is not what they say elsewhere.
//!
//! KVM ends a poll when its CPU's own run queue has another task (`single_task_running`). A scheduler that
//! keeps tasks in a queue of its own hands them to a CPU one by one, so that this queue is empty while tasks
//! wait: polls go on, and few are counted as preempted. [`super::contention`] then asks CPU pressure alone.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "sched-ext",
    title: "a sched_ext scheduler decides who runs",
    source: "Documentation/scheduler/sched-ext.rst; kvm_vcpu_can_poll in include/linux/kvm_host.h",
    look,
};

const BY_PRESSURE: Remedy = Remedy::new(
    Does::Nothing,
    "Nothing, if CPU pressure (PSI) is low. Where tasks wait, judge by that and not by preempted \
     polls; a lower halt_poll_ns gives CPUs back sooner.",
    "None, where nothing is done; with a lower halt_poll_ns wake-ups that polls met take a sleep and its wake-up.",
    "Leaving it as it is does harm where CPU pressure is high: tasks then wait for as long as vCPUs poll.",
);

/// The setting that says so, as `/sys/kernel/sched_ext/state` has it.
const STATE: &str = "sched_ext.state";

pub(super) fn is_active(evidence: &Evidence<'_>) -> bool {
    evidence.setting(STATE) == Some("enabled")
}

fn look(evidence: &Evidence<'_>) -> Judgement {
    if !is_active(evidence) || evidence.guests.is_empty() {
        return Judgement::default();
    }
    let preempted = match evidence.total.preempted() {
        Some(share) => format!("{} of the polls were preempted", percent(share.share)),
        None => "too few polls have a known outcome".to_owned(),
    };
    let name = evidence.setting("sched_ext.ops").unwrap_or("not known");
    Judgement::from(vec![Found {
        who: Who::HOST,
        signature: format!("sched_ext is enabled, scheduler: {name}; {preempted}."),
        cause: "KVM stops a poll when its CPU's run queue has another task. A scheduler with queues of its \
                own fills that queue late, so that vCPUs poll on while tasks wait."
            .to_owned(),
        remedies: vec![BY_PRESSURE],
        cost: None,
        sure: Sure::Certain,
    }])
}
