//! All rules there are: a line each.

use super::Rule;
use super::{
    apic_writes, break_even, framebuffer, guest_veto, high_ceiling, hyperv_timers, ipi_storm,
    lock_out, not_observable, over_commitment, pause_loop, port_polling, shrink_zero, tick_storm,
};

/// Every rule, in the order in which those that could not judge are listed.
pub const RULES: &[Rule] = &[
    break_even::RULE,
    lock_out::RULE,
    high_ceiling::RULE,
    shrink_zero::RULE,
    over_commitment::RULE,
    guest_veto::RULE,
    not_observable::RULE,
    tick_storm::RULE,
    ipi_storm::RULE,
    hyperv_timers::RULE,
    apic_writes::RULE,
    pause_loop::RULE,
    port_polling::RULE,
    framebuffer::RULE,
];
