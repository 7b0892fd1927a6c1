//! The BPF source: BPF programs on raw tracepoints, with every vCPU of the host in view.
//!
//! `kvm_vcpu_wakeup` carries neither VM nor vCPU. So the vCPUs are found first, by a walk over open
//! files (`walk`); the programs then read each halt's window, ceiling and polled time from
//! `struct kvm_vcpu` itself, in the vCPU's own thread. The programs report facts. What they mean is
//! decided here: `wake` says what ended a halt, `record` makes a [`haltwise_core::event::Halt`].
//!
//! No program runs on `sched_switch`: the time polled, and which polls were preempted, come from the growth of KVM's own
//! counters, which is exact and costs three reads. The tracepoint source cannot read counters and uses `sched_switch`.
//!
//! | file | holds |
//! |---|---|
//! | `bpf/*.bpf.c, *.h` | the programs; `intf.h` is the one border to Rust |
//! | `skel` | generated from them |
//! | `attach` | load and attach, and what is missing if a part cannot be |
//! | `links` | the order in which programs are detached |
//! | `walk` | the vCPUs of the host |
//! | `record` | the bytes of a halt, decoded |
//! | `wake` | what ended it |
//! | `ring` | the ring buffers, and the thread that empties them |
//! | `places` | whose halt, counts or exits these are |
//! | `counts` | counts mode |
//! | `program` | the programs as a whole, and what the kernel says of each |
//! | `cost` | what the programs themselves cost |
//! | `missed` | runs of theirs that the kernel left out |
//! | `exits` | exits: programs of their own (`exits*.bpf.[ch]`), loaded only when asked for |
//! | `sample` | samples of VMMs, kept in the kernel (`sample*.[ch]`): for [`crate::profile`] |
//! | `idle` | this machine's own idle CPUs: programs of their own (`idle*.[ch]`), a [`crate::collector::Collector`] by itself |
//! | `on_request` | a program run without its event, in tests |
//! | `collector` | all of it, as a [`crate::collector::Collector`] |

mod attach;
mod collector;
mod cost;
mod counts;
mod exits;
mod idle;
mod labels;
mod links;
mod missed;
#[cfg(test)]
mod on_request;
mod places;
mod program;
mod record;
mod ring;
pub(crate) mod sample;
mod skel;
mod stats;
mod timer;
mod wake;
mod walk;

pub use self::collector::BpfCollector;
#[doc(hidden)]
pub use self::exits::fuzz_cell;
pub use self::idle::{IdleCollector, fuzz_idle};
pub use self::record::fuzz_record;
pub(crate) use self::timer::serve_timing;
pub use self::walk::{FoundVcpu, vcpus};
