//! A guest that polls while its host gives its CPU time to others.
//!
//! KVM ends a poll of its own when another task wants the CPU (`kvm_vcpu_can_poll`); of a guest's poll it knows
//! nothing, and the vCPU looks busy to the host's scheduler. The cost is the time polled, which another task
//! waited for.

use super::super::prelude::*;
use super::polling;

pub(super) const RULE: Rule = Rule {
    id: "guest-polls-stolen-time",
    title: "polling in a guest whose CPU time is stolen",
    source: "halt_poll_max_steal in arch/s390/kvm; kvm_vcpu_can_poll in include/linux/kvm_host.h",
    look: |evidence| match evidence.in_guest.map(|inside| inside.contention()) {
        Some(Contention::Unknown) => Judgement::blind("steal time was not recorded"),
        _ => evidence.each(of_guest).into(),
    },
};

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>) -> Option<Found> {
    let Contention::Wanted(why) = evidence.in_guest?.contention() else {
        return None;
    };
    let (who, account) = guest.gather(|_, account| account.polled > 0)?;
    let polled_ns = guest.per_s(account.poll_ns()?);
    Some(Found {
        signature: format!(
            "Polling took {} of a CPU, and {why}.",
            percent(polled_ns / 1e9)
        ),
        cause: "The host is overcommitted, and it cannot end a poll of the guest when another task wants \
                the CPU."
            .to_owned(),
        remedies: vec![polling(evidence, false)],
        cost: Some(Cost::cpu(polled_ns)),
        sure: Sure::Certain,
        who,
    })
}
