//! The vCPUs of the host, found by a walk over every open file (`walk.bpf.h`).

use std::collections::BTreeSet;
use std::io::Read;
use std::mem::{MaybeUninit, offset_of, size_of};

use haltwise_core::event::CeilingSource;
use haltwise_core::ids::{Pid, Tid, VcpuId};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link};

use super::attach::{explain, hush_libbpf};
use super::skel::collector::CollectorSkelBuilder;
use super::skel::collector::types::{last_record, vcpu_record};
use super::stats::{self, VcpuStats};
use crate::bytes::{u32_at, u64_at};
use crate::collector::CollectError;

const SIZE: usize = size_of::<vcpu_record>();
const _: () = assert!(
    SIZE == 48,
    "vcpu_record in intf.h changed: look at this decoder"
);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FoundVcpu {
    pub pid: Pid,
    /// Its VM: an address in the kernel, good for telling VMs apart and nothing else.
    pub vm: u64,
    /// Itself: an address in the kernel, as above.
    pub address: u64,
    pub id: VcpuId,
    /// The thread that last ran it; `None` if it never ran.
    pub tid: Option<Tid>,
    pub window_ns: u32,
    /// The VM's own ceiling, where it is in force (a cap), or may be (a snapshot).
    pub vm_ceiling: Option<(u32, CeilingSource)>,
    pub guest_veto: Option<bool>,
    /// Exits on HLT are disabled: no halt ever reaches KVM.
    pub hlt_in_guest: bool,
    /// No LAPIC in the kernel: HLT goes to the VMM.
    pub no_lapic: bool,
}

impl FoundVcpu {
    pub fn is_disabled(&self) -> bool {
        self.guest_veto == Some(true)
    }
}

fn decode(bytes: &[u8]) -> Option<FoundVcpu> {
    let u32_of = |offset| u32_at(bytes, offset);
    let u64_of = |offset| u64_at(bytes, offset);
    let flag = |offset: usize| bytes.get(offset).map(|byte| *byte != 0);
    let tid = u32_of(offset_of!(vcpu_record, tid))?;
    let max = u32_of(offset_of!(vcpu_record, max_halt_poll_ns))?;
    let has_override = flag(offset_of!(vcpu_record, has_override))?;
    let overridden = flag(offset_of!(vcpu_record, r#override))?;
    let vm_ceiling = if has_override {
        overridden.then_some((max, CeilingSource::Cap))
    } else {
        flag(offset_of!(vcpu_record, has_max))?.then_some((max, CeilingSource::Snapshot))
    };
    let may_veto = flag(offset_of!(vcpu_record, has_poll_control))?;
    let polls = flag(offset_of!(vcpu_record, poll_control))?;
    Some(FoundVcpu {
        pid: Pid(u32_of(offset_of!(vcpu_record, tgid))?),
        vm: u64_of(offset_of!(vcpu_record, kvm))?,
        address: u64_of(offset_of!(vcpu_record, vcpu))?,
        id: VcpuId(u32_of(offset_of!(vcpu_record, vcpu_id))?),
        tid: (tid != 0).then_some(Tid(tid)),
        window_ns: u32_of(offset_of!(vcpu_record, window_ns))?,
        vm_ceiling,
        guest_veto: may_veto.then_some(!polls),
        hlt_in_guest: flag(offset_of!(vcpu_record, hlt_in_guest))?,
        no_lapic: flag(offset_of!(vcpu_record, no_lapic))?,
    })
}

/// One walk, through the link of the walk program. A file copied to several descriptors comes once.
pub(super) fn walk(link: &Link) -> Result<Vec<FoundVcpu>, CollectError> {
    let found = records(link, SIZE, |bytes| Some((decode(bytes)?, ())))?;
    Ok(found.into_iter().map(|(vcpu, ())| vcpu).collect())
}

pub(super) fn walk_with_stats(link: &Link) -> Result<Vec<(FoundVcpu, VcpuStats)>, CollectError> {
    records(link, SIZE_WITH_STATS, decode_with_stats)
}

pub(super) const SIZE_WITH_STATS: usize = SIZE + stats::SIZE;
const _: () = assert!(
    size_of::<last_record>() == SIZE_WITH_STATS,
    "last_record in intf.h changed: look at this decoder"
);

pub(super) fn decode_with_stats(bytes: &[u8]) -> Option<(FoundVcpu, VcpuStats)> {
    let (vcpu, stats) = bytes.split_at_checked(SIZE)?;
    decode(vcpu).zip(VcpuStats::decode(stats))
}

/// Records that a walk wrote, each of `size` bytes; each vCPU once.
fn records<S>(
    link: &Link,
    size: usize,
    decode: impl Fn(&[u8]) -> Option<(FoundVcpu, S)>,
) -> Result<Vec<(FoundVcpu, S)>, CollectError> {
    let mut bytes = Vec::new();
    let mut walk = Iter::new(link).map_err(explain("walk over open files"))?;
    let read = walk.read_to_end(&mut bytes);
    read.map_err(CollectError::failed("walk over open files"))?;
    let refused = |record: &[u8]| CollectError::Record {
        got: record.len(),
        expected: size,
    };
    let records = bytes.chunks(size);
    let found = records.map(|record| decode(record).ok_or_else(|| refused(record)));
    let mut found = found.collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    found.retain(|(vcpu, _)| seen.insert(vcpu.address));
    Ok(found)
}

pub fn vcpus() -> Result<Vec<FoundVcpu>, CollectError> {
    hush_libbpf();
    let mut object = MaybeUninit::uninit();
    let mut open = CollectorSkelBuilder::default()
        .open(&mut object)
        .map_err(explain("open the BPF programs"))?;
    for mut program in open.open_object_mut().progs_mut() {
        let wanted = program.name() == "walk_vcpus";
        program.set_autoload(wanted);
    }
    // Only this walk's maps are filled, and they end with it: keep them small.
    let sized = open.maps.halts.set_max_entries(4096);
    sized.map_err(explain("size the ring"))?;
    let skel = open.load().map_err(explain("load the walk program"))?;
    let link = skel.progs.walk_vcpus.attach();
    let link = link.map_err(explain("attach the walk program"))?;
    walk(&link)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::bytes::made_of;

    #[test]
    fn a_cap_is_told_from_a_snapshot_and_from_neither() {
        let with = |has_max, has_override, overridden| {
            let ceiling = (offset_of!(vcpu_record, max_halt_poll_ns), 50_000);
            let mut bytes = made_of(SIZE, &[], &[ceiling]);
            bytes[offset_of!(vcpu_record, has_max)] = has_max;
            bytes[offset_of!(vcpu_record, has_override)] = has_override;
            bytes[offset_of!(vcpu_record, r#override)] = overridden;
            decode(&bytes).unwrap().vm_ceiling
        };
        assert_eq!(with(1, 1, 1), Some((50_000, CeilingSource::Cap)));
        assert_eq!(with(1, 1, 0), None);
        assert_eq!(with(1, 0, 0), Some((50_000, CeilingSource::Snapshot)));
        assert_eq!(with(0, 0, 0), None);
    }

    #[test]
    fn a_short_record_is_refused() {
        for cut in 0..=offset_of!(vcpu_record, no_lapic) {
            assert_eq!(decode(&vec![0; cut]), None, "{cut} bytes");
        }
    }

    #[test]
    fn a_vcpu_that_never_ran_has_no_thread_and_a_kernel_without_the_msr_no_veto() {
        let found = decode(&[0; SIZE]).unwrap();
        assert_eq!((found.tid, found.guest_veto), (None, None));
    }
}
