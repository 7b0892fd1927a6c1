//! `idle-poll`: a guest whose kernel was booted with `idle=poll`. It never executes HLT.
//!
//! Its idle loop looks for work until there is some (`cpu_idle_poll`, `kernel/sched/idle.c`), so that there is no exit on
//! HLT, no IPI (`TIF_POLLING_NRFLAG` is set), and no block in the host. Its host cannot tell an idle vCPU from a busy one: the
//! CPU is taken for all of the idle time, and a timer's interrupt is an exit. Wins where a vCPU has a CPU of its own and
//! answers count. Loses everywhere else: KVM ends no poll of a guest when another task wants the CPU. Source:
//! `Documentation/admin-guide/kernel-parameters.txt`.

use super::Entry;
use super::fixed::Fixed;

pub(super) const ENTRY: Entry = Entry {
    name: "idle-poll",
    form: "",
    summary: "a guest booted with idle=poll: polls all of its idle time",
    build: |_, _| Ok(Box::new(Fixed::of_guest(None))),
};
