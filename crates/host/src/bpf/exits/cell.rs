//! One count of the kernel's table, decoded, and what came since it was last looked at.

use std::mem::{offset_of, size_of};

use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::{KERNEL_BUCKETS, LogHist, bucket_high};
use haltwise_core::ids::Tid;

use super::super::record::Place;
use super::skel::types::{exit_cell, exit_key};

/// Size of a cell, in bytes.
pub(super) const SIZE: usize = size_of::<exit_cell>();
const _: () = assert!(
    SIZE == 40 + 2 * 4 + 4 * 8 + KERNEL_BUCKETS * 4,
    "exit_cell in exits_intf.h changed: look at this decoder"
);

const NO_REASON: u32 = u32::MAX;

/// Who and what a cell counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    /// Address of `struct kvm`, as identity only.
    pub(super) kvm: u64,
    /// Address of `struct kvm_vcpu`; 0 if it was not known.
    pub(super) vcpu: u64,
    pub(super) vcpu_id: u32,
    pub(super) tid: u32,
    pub(super) tgid: u32,
    pub(super) cause: Cause,
}

/// All that a cell counted so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) key: Key,
    pub(super) count: u64,
    sum_ns: u64,
    user_ns: u64,
    max_ns: u64,
    hist: Vec<u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReportedCell {
    count: u64,
    sum_ns: u64,
    user_ns: u64,
    hist: Vec<u32>,
}

impl Default for ReportedCell {
    fn default() -> Self {
        Self {
            count: 0,
            sum_ns: 0,
            user_ns: 0,
            hist: vec![0; KERNEL_BUCKETS],
        }
    }
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    let bytes = bytes.get(offset..offset + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    let bytes = bytes.get(offset..offset + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

impl Cell {
    /// `None` of bytes that are no cell. `is_other`: the one that takes what finds no room.
    pub(super) fn decode(bytes: &[u8], is_other: bool) -> Option<Self> {
        const KEY: usize = offset_of!(exit_cell, key);
        let kind = match word(bytes, KEY + offset_of!(exit_key, kind))? {
            _ if is_other => Kind::Other,
            code => Kind::from_code(code)?,
        };
        let isa = Isa::from_code(word(bytes, KEY + offset_of!(exit_key, isa))?);
        let reason = word(bytes, KEY + offset_of!(exit_key, reason))?;
        let sub = long(bytes, KEY + offset_of!(exit_key, sub))?;
        // SVM's own invalid_guest_state is the same number, and is a reason.
        let has_reason = match kind {
            Kind::Entry | Kind::LoneEntry | Kind::InjVirq | Kind::Other => false,
            _ => reason != NO_REASON || isa == Isa::Svm,
        };
        let (hist, _) = bytes
            .get(offset_of!(exit_cell, hist)..)?
            .get(..KERNEL_BUCKETS * 4)?
            .as_chunks::<4>();
        Some(Self {
            key: Key {
                kvm: long(bytes, KEY + offset_of!(exit_key, kvm))?,
                vcpu: long(bytes, KEY + offset_of!(exit_key, vcpu))?,
                vcpu_id: word(bytes, offset_of!(exit_cell, vcpu_id))?,
                tid: word(bytes, KEY + offset_of!(exit_key, tid))?,
                tgid: word(bytes, offset_of!(exit_cell, tgid))?,
                cause: Cause {
                    kind,
                    isa,
                    reason: has_reason.then_some(reason),
                    sub: kind.is_sub().then_some(sub),
                },
            },
            count: long(bytes, offset_of!(exit_cell, count))?,
            sum_ns: long(bytes, offset_of!(exit_cell, sum_ns))?,
            user_ns: long(bytes, offset_of!(exit_cell, user_ns))?,
            max_ns: long(bytes, offset_of!(exit_cell, max_ns))?,
            hist: hist.iter().map(|word| u32::from_ne_bytes(*word)).collect(),
        })
    }

    /// What came since `told`, which is then brought up to date; `None` if nothing did. Only what came is placed: the
    /// kernel keeps the cells of a VM that ended, and to place one makes a row of its VM.
    ///
    /// The kernel's 32-bit counts may have wrapped once.
    pub(super) fn since(
        &self,
        told: &mut ReportedCell,
        time_ns: u64,
        interval_ns: u64,
        place: impl FnOnce() -> Place,
    ) -> Option<Exits> {
        let count = self.count.wrapping_sub(told.count);
        let sum_ns = self.sum_ns.wrapping_sub(told.sum_ns);
        let grown = self.hist.iter().zip(&told.hist);
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
        let user_ns = self.user_ns.wrapping_sub(told.user_ns);
        let place = place();
        *told = ReportedCell {
            count: self.count,
            sum_ns: self.sum_ns,
            user_ns: self.user_ns,
            hist: self.hist.clone(),
        };
        Some(Exits {
            time_ns,
            interval_ns,
            vm: place.vm,
            vcpu: place.vcpu,
            tid: Tid(self.key.tid),
            cause: self.key.cause,
            count,
            user_ns,
            handling_ns: LogHist::from_parts(grown, sum_ns, max_ns).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod test;
