//! The price of an exit: CPUID, less an empty loop.
//!
//! CPUID exits to the hypervisor whatever that has configured under VT-x ("Instructions That Cause VM Exits
//! Unconditionally", Intel SDM volume 3C), and under SVM wherever KVM runs (`INTERCEPT_CPUID` in `init_vmcb()`,
//! `arch/x86/kvm/svm/svm.c`). KVM answers it by itself, without its VMM. The price is the time in which the guest did
//! not run its own code, from the last instruction before to the first after; what CPUID takes on bare metal, some
//! tens of nanoseconds, is part of it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid_count;
use std::hint::black_box;
use std::path::Path;

use super::{Priced, difference, of_differences, repeated};
use crate::clock;

const BATCHES: usize = 16;
const BATCH: u32 = 32;

/// Devices of guests whose memory is encrypted: there CPUID is an exception of the guest's own, and what answers it
/// need not be the hypervisor.
const CONFIDENTIAL: [&str; 2] = [
    "/sys/devices/virtual/misc/sev-guest",
    "/sys/devices/virtual/misc/tdx_guest",
];

/// Whether this is a guest, by the bit that only hypervisors set (CPUID.1:ECX, bit 31); `None` on other architectures.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::unnecessary_wraps, reason = "others do not say")]
pub(super) fn is_guest() -> Option<bool> {
    Some(__cpuid_count(1, 0).ecx >> 31 == 1)
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn is_guest() -> Option<bool> {
    None
}

pub(super) fn price(cpu: u32) -> Priced {
    if CONFIDENTIAL.iter().any(|path| Path::new(path).exists()) {
        return Err("in a confidential guest CPUID need not exit".to_owned());
    }
    of_differences(&repeated(cpu, || Ok(repetition()))?)
}

fn repetition() -> Option<f64> {
    let (mut with, mut without) = (Vec::with_capacity(BATCHES), Vec::with_capacity(BATCHES));
    for _ in 0..BATCHES {
        with.push(timed(exit));
        without.push(timed(nothing));
    }
    difference(&with, &without, BATCH.into())
}

fn timed(of: fn(u32)) -> u64 {
    let before_ns = clock::monotonic_ns();
    for nth in 0..BATCH {
        black_box(of)(nth);
    }
    clock::monotonic_ns().saturating_sub(before_ns)
}

#[cfg(target_arch = "x86_64")]
fn exit(_: u32) {
    black_box(__cpuid_count(0, 0));
}

#[cfg(not(target_arch = "x86_64"))]
fn exit(_: u32) {}

fn nothing(nth: u32) {
    black_box(nth);
}
