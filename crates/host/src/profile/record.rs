//! Bytes of a perf ring as samples. Pure.
//!
//! The layout is that of [`SAMPLED`](super::open::SAMPLED), in the order of `perf_output_sample` in
//! `kernel/events/core.c`: identifier, address, process and thread, time, CPU, period, call chain, and
//! what the BPF program added.

use haltwise_core::exit::Isa;
use haltwise_core::profile::{Hit, Phase};

use crate::bytes::{u32_at, u64_at};

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
const CPUMODE: u16 = 7;

/// From here on, a number in a call chain says whose the next ones are (`PERF_CONTEXT_MAX`).
const CONTEXTS: u64 = 0u64.wrapping_sub(4095);
const CONTEXT_KERNEL: u64 = 0u64.wrapping_sub(128);
const CONTEXT_USER: u64 = 0u64.wrapping_sub(512);

/// Addresses of one side of a stack that are kept: more than the kernel walks, unless its
/// `perf_event_max_stack` was raised. Together they make a list of 8 KiB at most.
const CHAIN_MOST: usize = 512;

/// One sample, as the kernel told it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Raw {
    /// The identifier of the event that wrote it.
    pub(super) id: u64,
    pub(super) time_ns: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) cpu: u32,
    /// Count that the sample stands for, as the event that wrote the sample says.
    pub(super) period: u64,
    pub(super) hit: Hit,
    /// The kernel's addresses, the innermost first.
    pub(super) kernel: Vec<u64>,
    pub(super) user: Vec<u64>,
    pub(super) cut: bool,
    pub(super) tag: Option<Tag>,
}

/// Data that the BPF program adds to a sample: `struct sample_tag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) period: u64,
    pub(super) event: u8,
    pub(super) phase: Phase,
    pub(super) isa: Isa,
    pub(super) reason: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Sample(Raw),
    /// Number of samples that did not fit into the ring.
    Lost(u64),
    /// A record of a kind that is not used here.
    Other,
}

/// Reads the body of a record; `None` if it is too short for its kind.
pub(super) fn parse(kind: u32, misc: u16, body: &[u8], tagged: bool) -> Option<Record> {
    match kind {
        PERF_RECORD_SAMPLE => sample(misc, body, tagged).map(Record::Sample),
        // id, lost
        PERF_RECORD_LOST => u64_at(body, 8).map(Record::Lost),
        _ => Some(Record::Other),
    }
}

fn sample(misc: u16, body: &[u8], tagged: bool) -> Option<Raw> {
    let length = usize::try_from(u64_at(body, 48)?).ok()?;
    let chain = body.get(56..56_usize.checked_add(length.checked_mul(8)?)?)?;
    let mut raw = Raw {
        id: u64_at(body, 0)?,
        pid: u32_at(body, 16)?,
        tid: u32_at(body, 20)?,
        time_ns: u64_at(body, 24)?,
        cpu: u32_at(body, 32)?,
        period: u64_at(body, 40)?,
        hit: hit(misc & CPUMODE),
        kernel: Vec::new(),
        user: Vec::new(),
        cut: false,
        tag: None,
    };
    split(chain, &mut raw);
    if tagged {
        let after = 56 + 8 * length;
        let size = usize::try_from(u32_at(body, after)?).ok()?;
        let bytes = body.get(after + 4..(after + 4).checked_add(size)?)?;
        raw.tag = Some(tag(bytes)?);
    }
    // Without a chain, the address itself is all that is known; a guest's says nothing to the host.
    let ip = u64_at(body, 8)?;
    match raw.hit {
        Hit::Kernel if raw.kernel.is_empty() => raw.kernel.push(ip),
        Hit::User if raw.user.is_empty() => raw.user.push(ip),
        _ => {}
    }
    Some(raw)
}

fn split(chain: &[u8], raw: &mut Raw) {
    let mut context = 0;
    for bytes in chain.chunks_exact(8) {
        let Some(address) = u64_at(bytes, 0) else {
            return;
        };
        if address >= CONTEXTS {
            context = address;
            continue;
        }
        let side = match context {
            CONTEXT_KERNEL => &mut raw.kernel,
            CONTEXT_USER => &mut raw.user,
            _ => continue,
        };
        if side.len() < CHAIN_MOST {
            side.push(address);
        } else {
            raw.cut = true;
        }
    }
}

fn hit(cpumode: u16) -> Hit {
    match cpumode {
        1 => Hit::Kernel,
        2 => Hit::User,
        3 => Hit::Hypervisor,
        4 => Hit::GuestKernel,
        5 => Hit::GuestUser,
        _ => Hit::Unknown,
    }
}

/// `struct sample_tag` of `bpf/sample_intf.h`; a length that the kernel rounds up may follow.
fn tag(bytes: &[u8]) -> Option<Tag> {
    let [event, isa, phase] = *bytes.get(12..15)? else {
        return None;
    };
    Some(Tag {
        period: u64_at(bytes, 0)?,
        event,
        phase: Phase::ALL
            .get(usize::from(phase))
            .copied()
            .unwrap_or(Phase::Unknown),
        isa: Isa::from_code(u32::from(isa)),
        reason: u32_at(bytes, 8)?,
    })
}

#[cfg(test)]
mod test;
