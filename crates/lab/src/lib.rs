//! # haltwise-lab: a VMM small enough to read in an hour
//!
//! It boots guests of a few instructions on real KVM, wakes them in a known rhythm, counts what they
//! did, and says so exactly. It knows nothing of tracing: whoever watches a lab VM from outside
//! must come to the same numbers on its own.
//!
//! | module | holds |
//! |---|---|
//! | [`memory`] | where everything lies in a guest's one MiB |
//! | [`bell`] | interrupt lines for a vCPU whose halts the VMM handles |
//! | [`halt_loop`] | halts in user space, driven by any policy of the core |
//! | [`event`] | an eventfd that both KVM and `poll` take |
//! | [`interrupt`] | SIGINT and SIGTERM as a file |
//! | [`ioctl`] | the KVM ioctls that have no safe wrapper elsewhere |
//! | [`routing`] | which way interrupts go to a vCPU: as MSIs, or through the IOAPIC |
//! | [`vm`] | KVM's VM object: memory, irqchip, PIT, interrupt lines, cap |
//! | [`vcpu`] | KVM's vCPU object: CPUID, registers, local APIC; its thread and run loop |
//! | [`exit`] | what a vCPU comes out of `KVM_RUN` with, parsed once |
//! | [`stats_fd`] | KVM's binary statistics: a parser of bytes |
//! | [`thread_stats`] | CPU time and context switches of a thread |
//! | [`tsc`] | from a guest's TSC to the monotonic clock |
//! | [`clock`] | the monotonic clock, waiting for an instant, pinning |
//! | [`guest`] | the guests, one file each |
//! | [`guest_poll`] | how the guest `poller` polls before it halts |
//! | [`drive`] | the host's side of `pingpong` and `poller` |
//! | [`load`] | the description of a run |
//! | [`run`] | a load, from its description to its outcome |
//! | [`running`] | everything that is alive during a run |
//! | [`tally`] | turns what is left of a run into its outcome |
//! | [`outcome`] | what a run found, as JSON |
//! | [`calibrate`] | what halting costs on this host |
//! | [`render`] | outcomes as text of 80 columns |
//! | [`program`] | what a program prints, and by which code it ends |

pub mod bell;
pub mod calibrate;
pub mod clock;
pub mod drive;
pub mod event;
pub mod exit;
#[doc(hidden)]
pub mod fuzz;
pub mod guest;
pub mod guest_poll;
pub mod halt_loop;
pub mod interrupt;
pub mod ioctl;
pub mod load;
pub mod memory;
pub mod outcome;
pub mod program;
pub mod render;
pub mod routing;
pub mod run;
pub mod running;
pub mod stats_fd;
pub mod tally;
pub mod thread_stats;
pub mod tsc;
mod turns;
pub mod vcpu;
pub mod vm;
