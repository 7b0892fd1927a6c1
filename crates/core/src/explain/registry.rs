//! All rules there are: a line each. Those for a guest that recorded itself are [`in_guest::RULES`].

use super::evidence::Evidence;
use super::{Rule, in_guest};

/// Every rule, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[
    super::break_even::RULE,
    super::lock_out::RULE,
    super::high_ceiling::RULE,
    super::shrink_zero::RULE,
    super::over_commitment::RULE,
    super::busy_sibling::RULE,
    super::deep_idle::RULE,
    super::guest_veto::RULE,
    super::not_observable::RULE,
    super::tick_storm::RULE,
    super::ipi_storm::RULE,
    super::hyperv_timers::RULE,
    super::apic_writes::RULE,
    super::pause_loop::RULE,
    super::port_polling::RULE,
    super::framebuffer::RULE,
    super::unseen_polling::RULE,
    super::never_halts::RULE,
    super::hpet::RULE,
    super::devices::RULE,
    super::vmm_threads::RULE,
    super::timer_exits::RULE,
    super::page_faults::RULE,
    super::unknown_exits::RULE,
    super::sched_ext::RULE,
    super::idle_hlt::RULE,
];

/// The rules that are asked of a recording.
pub fn of(evidence: &Evidence<'_>) -> &'static [Rule] {
    if evidence.in_guest.is_some() {
        in_guest::RULES
    } else {
        RULES
    }
}
