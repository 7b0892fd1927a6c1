//! A timer that a guest arms without an exit: a page that it shares with an agent of the host.
//!
//! The mechanism is Alibaba's (KVM Forum 2017). The guest writes its next deadline into the page; a thread
//! of the host, on a CPU of its own where there is one, scans the pages of many vCPUs, raises an
//! interrupt when a deadline is due, and says in the page when it will look again. Nothing here knows the
//! lab: [`page`] and [`slot`] can be lifted out into any VMM that can load and store guest memory; [`agent`]
//! needs a way to interrupt a vCPU, and [`thread`] is the lab's use of them.
//!
//! # The page
//!
//! It holds 128 bytes on a 64-byte boundary, little-endian: one line that only the guest writes, one that only the
//! agent does, so that neither takes the other's line away by writing its own.
//!
//! | offset | bits | written by | what |
//! |---|---|---|---|
//! | 0 | 32 | guest | `SEQUENCE`: even when `DEADLINE` may be read, odd while it is written |
//! | 8 | 64 | guest | `DEADLINE`: a value of the guest's TSC; 0 for none |
//! | 64 | 64 | agent | `NEXT_SYNC`: the guest's TSC at which the agent looks again, or earlier |
//! | 72 | 32 | agent | `FIRED`: the `SEQUENCE` of the deadline that was fired last |
//!
//! `NEXT_SYNC` is 0 while the agent looks all the time, and all ones while there is none.
//!
//! # The guest's side
//!
//! 1. Add 1 to `SEQUENCE`, write `DEADLINE`, add 1 to `SEQUENCE` by an instruction that is a full barrier (on
//!    x86, a locked one). x86 keeps the order of plain stores; others need a release.
//! 2. Read `NEXT_SYNC` (in two halves: high, low, high again until the high halves agree). If the
//!    deadline is earlier, the agent may sleep over it: write 0 by the same rule, and arm a timer of
//!    one's own, at the price of an exit. So a guest without an agent works as it always did.
//! 3. When the interrupt comes, the deadline has passed, or the interrupt was for one that has since been
//!    replaced: then wait on. A deadline that has passed is replaced only after its interrupt.
//!
//! # Why nothing is lost and nothing comes twice
//!
//! *Torn.* The agent reads `SEQUENCE`, `DEADLINE`, `SEQUENCE`, each an acquire. If both are the same and even,
//! the deadline lay there whole in between, as every store to it lies between two of `SEQUENCE`. Else it
//! looks again at its next pass: one page never holds up the others. (A sequence that goes round all 2^32
//! values within one read would deceive it: to this guest's harm alone.)
//!
//! *Lost.* The agent stores `NEXT_SYNC`, then a full barrier, then looks once more before it sleeps; the guest stores
//! the deadline, then a full barrier, then reads `NEXT_SYNC`. One of them sees the other's store: either
//! the agent knows of the deadline, or the guest knows how long the agent sleeps.
//!
//! *Twice.* The agent keeps which sequence it has fired in memory of its own, and fires each once. It never
//! reads what it wrote into the page, so a guest that writes there deceives itself only.
//!
//! *Together.* A vector is pending once, however often it is raised (the local APIC's IRR). A guest that waits for
//! the interrupt of each deadline before it writes the next, as step 3 asks, never has two pending; one that does
//! not gets one interrupt for both.
//!
//! The law that the tests hold it to: **a deadline that is in the page when the agent first looks at or
//! after its time fires exactly once; one that was replaced before never fires.**
//!
//! # A guest that does not keep to it
//!
//! A page holds a number and nothing else: the number is compared with the time, never used as an
//! address, an index or a length. Everything has a meaning, and is counted ([`Counts`]):
//!
//! | the guest writes | then |
//! |---|---|
//! | an odd sequence, or moves it all the time | `torn`: nothing fires until it is even and stays |
//! | a deadline that has passed | it fires at once (`due_when_seen`), but not within `least_gap` of the one before (`held`) |
//! | an earlier deadline than the one before | it replaces that (`backwards`) |
//! | a deadline years ahead | it is kept (`far`), and costs nothing |
//! | a deadline under the same sequence | nothing: it is not looked at |
//! | into the agent's line | nothing: the agent does not read it |

pub mod agent;
pub mod page;
pub mod slot;
pub mod thread;

pub use agent::{Agent, Client};
pub use page::{Page, Snapshot};
pub use slot::{Counts, Look, Slot};
pub use thread::{AgentReport, Pace};

#[cfg(test)]
mod test;
