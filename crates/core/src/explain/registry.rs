//! All rules there are: a line each. Those for a guest that recorded itself are [`in_guest::RULES`].

use super::evidence::Evidence;
use super::{Rule, in_guest};
use super::{
    apic_writes, break_even, deep_idle, devices, framebuffer, guest_veto, high_ceiling, hpet,
    hyperv_timers, idle_hlt, ipi_storm, lock_out, never_halts, not_observable, over_commitment,
    page_faults, pause_loop, port_polling, sched_ext, shrink_zero, tick_storm, timer_exits,
    unknown_exits, unseen_polling, vmm_threads,
};

/// Every rule, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[
    break_even::RULE,
    lock_out::RULE,
    high_ceiling::RULE,
    shrink_zero::RULE,
    over_commitment::RULE,
    deep_idle::RULE,
    guest_veto::RULE,
    not_observable::RULE,
    tick_storm::RULE,
    ipi_storm::RULE,
    hyperv_timers::RULE,
    apic_writes::RULE,
    pause_loop::RULE,
    port_polling::RULE,
    framebuffer::RULE,
    unseen_polling::RULE,
    never_halts::RULE,
    hpet::RULE,
    devices::RULE,
    vmm_threads::RULE,
    timer_exits::RULE,
    page_faults::RULE,
    unknown_exits::RULE,
    sched_ext::RULE,
    idle_hlt::RULE,
];

/// The rules that are asked of a recording.
pub fn of(evidence: &Evidence<'_>) -> &'static [Rule] {
    if evidence.in_guest.is_some() {
        in_guest::RULES
    } else {
        RULES
    }
}
