//! What this source cannot know, in words for the last lines of a result.

use haltwise_core::recording::Missing;

use crate::support::Rights;

/// What no kernel lets this source see.
pub(super) fn of_every_kernel() -> Vec<Missing> {
    [
        (
            "ceiling_ns",
            "without BPF a VM's ceiling shows itself only when a window is clamped to it",
        ),
        (
            "ceiling_source",
            "the origin of a ceiling cannot be read without BPF",
        ),
        (
            "window_ns",
            "a vCPU's window is known from its first kvm_halt_poll_ns on; until a clamp shows its \
             ceiling, that is taken to be the module's",
        ),
        (
            "wake",
            "a halt that ended while it polled had nobody woken; a signal looks like a device",
        ),
        (
            "poll_ns",
            "KVM's own count is not visible: a preempted poll is counted until the vCPU left its CPU, \
             about 1 us too long",
        ),
        (
            "guest_veto",
            "whether a guest disabled host polling cannot be read without BPF",
        ),
    ]
    .into_iter()
    .map(|(field, reason)| Missing::new(field, reason))
    .collect()
}

pub(super) fn of_namespace(rights: Rights) -> Option<Missing> {
    (!rights.initial_pid_namespace).then(|| {
        Missing::new(
            "tid",
            "we run in a PID namespace of our own: threads have the numbers of the host's, \
                 and wake-ups are seen only of threads that halted before",
        )
    })
}
