//! `KVM_RUN` that returns with `KVM_EXIT_UNKNOWN`, again and again.
//!
//! KVM has met an exit that it does not handle, or a vCPU that cannot run yet, and the VMM calls `KVM_RUN` anew
//! at once: a vCPU that does nothing takes a whole CPU.

use super::prelude::*;

pub(super) const RULE: Rule = Rule {
    id: "unknown-exits",
    title: "KVM_RUN returns without a reason that the VMM handles",
    source: "KVM_EXIT_UNKNOWN in Documentation/virt/kvm/api.rst",
    look: |evidence| evidence.each_exits(of_guest),
};

/// `KVM_EXIT_UNKNOWN`.
const UNKNOWN: u32 = 0;

const UPDATE: Remedy = Remedy::new(
    Does::SparesVmm,
    "Look for the exit in the VMM's log and in `dmesg`, and update the VMM or the kernel that does not know \
     it.",
    "The VM has to stop, or to move to another host, while VMM or kernel are replaced.",
    "Where the VM must not stop before a log has told which exit it is.",
);

fn of_guest(_: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    let returns = tally(exits, |cause: &Cause| {
        cause.kind == Kind::UserspaceExit && cause.reason == Some(UNKNOWN)
    });
    let per_s = guest.storm(returns.count)?;
    Some(Found {
        who: guest.whole(),
        signature: format!(
            "KVM_RUN returned with KVM_EXIT_UNKNOWN {} times, {}; the VMM {}.",
            returns.count,
            rate(per_s),
            took(returns.time_ns()),
        ),
        cause: "KVM does not handle an exit of this guest, or the vCPU cannot run yet, and the VMM runs it again at \
                once."
            .to_owned(),
        remedies: vec![UPDATE],
        cost: Some(Cost::cpu(guest.per_s(returns.time_ns()))),
        sure: Sure::Likely,
    })
}
