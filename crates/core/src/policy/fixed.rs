//! Policies whose window never changes, and the oracle.
//!
//! `off` never polls, as KVM before 4.0 and at `halt_poll_ns` 0. Wins where gaps are longer than a block is worth, and where the
//! CPU is wanted elsewhere. Loses a wake-up latency on every halt.
//!
//! `fixed:50us` polls every halt for up to the same time; `fixed:always` until it is woken. Wins where most gaps lie below
//! the threshold and the rest far above it are few. Loses on gaps just above it: each pays the threshold and the block too.
//! Source: KVM 4.0 to 4.2 (commit f7819512996361); since 5.1 reachable through the parameters, by grow 1, `grow_start` and
//! ceiling at the threshold, shrink 1.
//!
//! `idle-poll` is a guest whose kernel was booted with `idle=poll`. It never executes HLT: its idle loop looks for work until
//! there is some (`cpu_idle_poll`, `kernel/sched/idle.c`), so that there is no exit on HLT, no IPI (`TIF_POLLING_NRFLAG` is
//! set), and no block in the host. Its host cannot tell an idle vCPU from a busy one: the CPU is taken for all of the idle
//! time, and a timer's interrupt is an exit. Wins where a vCPU has a CPU of its own and answers count. Loses everywhere
//! else: KVM ends no poll of a guest when another task wants the CPU.
//!
//! `cpu-pm:exit_latency=2us`: MWAIT and HLT are the guest's own (`-overcommit cpu-pm=on` of QEMU,
//! `KVM_CAP_X86_DISABLE_EXITS`). An idle vCPU neither exits nor halts as KVM counts it: its CPU sleeps in a C-state and stays
//! the guest's. A guest that waits by MWAIT is woken by a store (`mwait_idle`, `intel_idle`), so that no IPI is sent; a
//! timer's interrupt is an exit. `exit_latency` is what the C-state takes to leave, by default that of C1 in
//! `drivers/idle/intel_idle.c`; deeper states of a guest that sees them take longer.
//!
//! `clairvoyant` polls exactly those halts whose gap is shorter than a block is worth. Its cost is the lower bound of every
//! other policy. Source: the offline optimum of ski rental (Karlin, Manasse, `McGeoch`, Owicki, SODA 1990).

use super::{Entry, Policy, Seen, Side};

pub(super) const OFF: Entry = Entry {
    name: "off",
    form: "",
    summary: "never polls",
    build: |_, _| Ok(Box::new(Fixed::of_host(0))),
};

pub(super) const FIXED: Entry = Entry {
    name: "fixed",
    form: "TIME, or fixed:always",
    summary: "polls up to the same time at every halt",
    build: |args, _| {
        let always = args.word("", &[("always", u64::MAX)], "a time");
        let threshold_ns = match always {
            Ok(threshold) => threshold,
            Err(_) => args.time("")?,
        };
        match threshold_ns {
            Some(threshold_ns) => Ok(Box::new(Fixed::of_host(threshold_ns))),
            None => Err(args.missing("a time")),
        }
    },
};

pub(super) const IDLE_POLL: Entry = Entry {
    name: "idle-poll",
    form: "",
    summary: "a guest booted with idle=poll: polls all of its idle time",
    build: |_, _| Ok(Box::new(Fixed::of_guest(None))),
};

pub(super) const CPU_PM: Entry = Entry {
    name: "cpu-pm",
    form: "exit_latency=TIME, optional",
    summary: "HLT and MWAIT without exits: an idle vCPU keeps its CPU",
    build: |args, _| {
        let exit_latency_ns = args.time("exit_latency")?.unwrap_or(C1_NS);
        Ok(Box::new(Fixed::of_guest(Some(exit_latency_ns))))
    },
};

const C1_NS: u64 = 2_000;

pub(super) const CLAIRVOYANT: Entry = Entry {
    name: "clairvoyant",
    form: "",
    summary: "the oracle: knows each gap in advance; a lower bound",
    build: |_, _| Ok(Box::new(Clairvoyant)),
};

#[derive(Debug)]
struct Fixed {
    window_ns: u64,
    side: Side,
    exit_latency_ns: Option<u64>,
}

impl Fixed {
    fn of_host(window_ns: u64) -> Self {
        Self {
            window_ns,
            side: Side::Host,
            exit_latency_ns: None,
        }
    }

    /// A guest that keeps its CPU: it polls, or it sleeps in a C-state of this exit latency.
    fn of_guest(exit_latency_ns: Option<u64>) -> Self {
        Self {
            window_ns: u64::MAX,
            side: Side::Guest,
            exit_latency_ns,
        }
    }
}

impl Policy for Fixed {
    fn window(&mut self, _: Option<u64>) -> u64 {
        self.window_ns
    }

    fn learn(&mut self, _: &Seen) {}

    fn side(&self) -> Side {
        self.side
    }

    fn sleeps_in_guest(&self) -> Option<u64> {
        self.exit_latency_ns
    }
}

#[derive(Debug)]
struct Clairvoyant;

impl Policy for Clairvoyant {
    fn window(&mut self, best_ns: Option<u64>) -> u64 {
        best_ns.unwrap_or(0)
    }

    fn learn(&mut self, _: &Seen) {}

    fn sees_the_future(&self) -> bool {
        true
    }
}
