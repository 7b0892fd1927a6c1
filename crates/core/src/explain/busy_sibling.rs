//! Polling beside a busy sibling: a vCPU polls on one thread of a core while the other has work.
//!
//! `PAUSE` leaves the sibling most of the core, not all of it. What is left of its speed is measurable on hardware with
//! SMT only, so the cost is not computed: how long vCPUs polled there is.

use super::cost::SHOWN_FROM_NS_PER_S;
use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "polling-beside-busy-sibling",
    title: "polling on a core whose sibling has work",
    source: "kvm_vcpu_halt in virt/kvm/kvm_main.c; Documentation/virt/kvm/halt-polling.rst, Further Notes",
    look,
};

fn look(evidence: &Evidence<'_>) -> Judgement {
    let length_ns = evidence.interval.length_ns().max(1) as f64;
    let busy = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / length_ns);
    let cpus = evidence.cpus;
    if cpus.iter().all(|cpu| cpu.busy_ns.is_none()) || evidence.ledger.cpus.is_empty() {
        return Judgement::blind("the CPUs on which vCPUs polled were not recorded");
    }
    let (mut polled_ns, mut busiest, mut on) = (0_u64, 0.0_f64, Vec::new());
    for cpu in cpus {
        let siblings = cpus.iter().filter(|other| cpu.is_sibling(other));
        let share = siblings.map(|it| busy(it.busy_ns)).fold(0.0, f64::max);
        let rows = evidence.ledger.cpus.rows();
        let polls = rows.filter(|((on, _), _)| *on == cpu.id);
        let polled = total(polls.map(|(_, of)| of.poll_ns));
        if share >= HABIT && polled > 0 {
            polled_ns.fold(&polled);
            busiest = busiest.max(share);
            on.push(cpu.id.to_string());
        }
    }
    let lever = Lever::of(&evidence.total);
    let less = Remedy::host_polling(evidence, Does::HostPollsLess, lever);
    let polled_per_s = evidence.interval.per_s(polled_ns);
    let found = (polled_per_s >= SHOWN_FROM_NS_PER_S).then(|| Found {
        who: Who::HOST,
        signature: format!(
            "Polling took {} of a CPU where the sibling was busy, for up to {} of the time: on CPU {}.",
            percent(polled_per_s / 1e9),
            percent(busiest.min(1.0)),
            on.join(", "),
        ),
        cause: "A poll takes execution resources of the core from the thread beside it. The price is measurable on \
                hardware with SMT only, and is not in a recording."
            .to_owned(),
        remedies: vec![less],
        cost: None,
        sure: Sure::Possible,
    });
    found.into()
}
