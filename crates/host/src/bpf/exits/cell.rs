//! One count of the kernel's table, decoded, and what came since it was last looked at.

use std::mem::{offset_of, size_of};

use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::{KERNEL_BUCKETS, LogHist, bucket_high};
use haltwise_core::ids::Tid;

use super::super::record::Place;
use crate::bpf::skel::exits::types::{exit_cell, exit_key};
use crate::bytes::{u32_at, u32s_at, u64_at};

pub(super) const SIZE: usize = size_of::<exit_cell>();
const _: () = assert!(
    SIZE == 40 + 2 * 4 + 4 * 8 + KERNEL_BUCKETS * 4,
    "exit_cell in exits_intf.h changed: look at this decoder"
);

const NO_REASON: u32 = u32::MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bpf) struct Who {
    /// Address of `struct kvm`, as identity only; 0 where the vCPU is not known.
    pub(in crate::bpf) kvm: u64,
    /// Address of `struct kvm_vcpu`; 0 where it is not known.
    pub(in crate::bpf) vcpu: u64,
    pub(in crate::bpf) vcpu_id: u32,
    pub(in crate::bpf) tid: u32,
    pub(in crate::bpf) tgid: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) who: Who,
    cause: Cause,
    max_ns: u64,
    counted: Counted,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    count: u64,
    sum_ns: u64,
    user_ns: u64,
    hist: Vec<u32>,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            count: 0,
            sum_ns: 0,
            user_ns: 0,
            hist: vec![0; KERNEL_BUCKETS],
        }
    }
}

impl Cell {
    /// `None` of bytes that are no cell. `is_other`: the one that takes what finds no room.
    pub(super) fn decode(bytes: &[u8], is_other: bool) -> Option<Self> {
        const KEY: usize = offset_of!(exit_cell, key);
        let word = |offset| u32_at(bytes, offset);
        let long = |offset| u64_at(bytes, offset);
        let kind = match word(KEY + offset_of!(exit_key, kind))? {
            _ if is_other => Kind::Other,
            code => Kind::from_code(code)?,
        };
        let isa = Isa::from_code(word(KEY + offset_of!(exit_key, isa))?);
        let reason = word(KEY + offset_of!(exit_key, reason))?;
        let sub = long(KEY + offset_of!(exit_key, sub))?;
        // SVM's own invalid_guest_state is the same number, and is a reason.
        let has_reason = match kind {
            Kind::Entry | Kind::LoneEntry | Kind::InjVirq | Kind::Other => false,
            _ => reason != NO_REASON || isa == Isa::Svm,
        };
        Some(Self {
            who: Who {
                kvm: long(KEY + offset_of!(exit_key, kvm))?,
                vcpu: long(KEY + offset_of!(exit_key, vcpu))?,
                vcpu_id: word(offset_of!(exit_cell, vcpu_id))?,
                tid: word(KEY + offset_of!(exit_key, tid))?,
                tgid: word(offset_of!(exit_cell, tgid))?,
            },
            cause: Cause {
                kind,
                isa,
                reason: has_reason.then_some(reason),
                sub: kind.is_sub().then_some(sub),
            },
            max_ns: long(offset_of!(exit_cell, max_ns))?,
            counted: Counted {
                count: long(offset_of!(exit_cell, count))?,
                sum_ns: long(offset_of!(exit_cell, sum_ns))?,
                user_ns: long(offset_of!(exit_cell, user_ns))?,
                hist: u32s_at(bytes, offset_of!(exit_cell, hist), KERNEL_BUCKETS)?,
            },
        })
    }

    /// Counts since `told`, which is then brought up to date; `None` if there are none. Only new counts are placed: the
    /// kernel keeps the cells of a VM that ended, and to place one makes a row of its VM.
    ///
    /// The kernel's 32-bit counts may have wrapped once.
    pub(super) fn since(
        &self,
        told: &mut Counted,
        time_ns: u64,
        interval_ns: u64,
        place: impl FnOnce() -> Place,
    ) -> Option<Exits> {
        let now = &self.counted;
        let count = now.count.wrapping_sub(told.count);
        let sum_ns = now.sum_ns.wrapping_sub(told.sum_ns);
        let grown = now.hist.iter().zip(&told.hist);
        let grown: Vec<u64> = grown
            .map(|(now, then)| u64::from(now.wrapping_sub(*then)))
            .collect();
        let last = grown.iter().rposition(|count| *count > 0);
        if count == 0 && last.is_none() {
            return None;
        }
        // The cell's own largest is of all time: the bucket bounds that of this interval, but for the
        // last bucket, which has no end.
        let max_ns = match last {
            Some(bucket) if bucket + 1 < KERNEL_BUCKETS => bucket_high(bucket).min(self.max_ns),
            Some(_) => self.max_ns,
            None => 0,
        };
        let user_ns = now.user_ns.wrapping_sub(told.user_ns);
        let place = place();
        *told = now.clone();
        Some(Exits {
            time_ns,
            interval_ns,
            vm: place.vm,
            vcpu: place.vcpu,
            tid: Tid(self.who.tid),
            cause: self.cause,
            count,
            user_ns,
            handling_ns: LogHist::from_parts(grown, sum_ns, max_ns).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod test;
