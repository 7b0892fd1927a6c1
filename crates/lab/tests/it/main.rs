//! The lab on real KVM: what it prints must be exact.
//!
//! Each test says `skipped: reason` and passes where there is no usable /dev/kvm. None of them
//! asserts how long anything takes: the host may be busy.

mod consistency;
mod counts;
mod ends;
mod errors;
mod halt_loop;
mod lab;
mod poller;
mod rounds;
