//! All experiments there are: a line each, in the order of the sources.

use super::{
    Experiment, async_block, dynamic, event_nic, exitless_timer, guest_halt_poll,
    guest_poll_shared, pic_in_kernel, poll_sweep, poll_time, shared_framebuffer, smart_idle_poll,
};

pub const EXPERIMENTS: &[Experiment] = &[
    poll_sweep::EXPERIMENT,
    dynamic::EXPERIMENT,
    poll_time::EXPERIMENT,
    guest_halt_poll::EXPERIMENT,
    guest_poll_shared::EXPERIMENT,
    smart_idle_poll::EXPERIMENT,
    exitless_timer::EXPERIMENT,
    pic_in_kernel::EXPERIMENT,
    async_block::EXPERIMENT,
    event_nic::EXPERIMENT,
    shared_framebuffer::EXPERIMENT,
];

pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
}
