//! Whatever there is no room for, how the recording ended is said.

use haltwise_core::event::{HaltCounts, Observable, Vcpu, Vm};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::recording::Rung;

use super::*;
use crate::info::{Clock, Ended, example};

fn vm(number: u32) -> Vm {
    Vm {
        index: VmIndex(number),
        key: VmKey::first(Pid(number), 7),
        name: format!("vm-{number}"),
        vmm: VmmKind::Qemu,
        observable: Observable::Yes,
        ..Vm::default()
    }
}

fn vcpu(number: u32) -> Vcpu {
    Vcpu {
        vm: VmIndex(number / 2),
        id: VcpuId(number % 2),
        tid: Tid(1_000 + number),
        ..Vcpu::default()
    }
}

/// A hundred VMs of two vCPUs, and a count of each vCPU.
fn info() -> CaptureInfo {
    let clock = Clock::new(1, 1_735_689_600_000_000_000);
    let mut info = example(clock, Rung::Bpf);
    info.roster.vms = (0..100).map(vm).collect();
    info.roster.vcpus = (0..200).map(vcpu).collect();
    let counts = info.roster.vcpus.iter().map(|vcpu| HaltCounts {
        vm: Some(vcpu.vm),
        vcpu: Some(vcpu.id),
        tid: vcpu.tid,
        halts: 1,
        ..HaltCounts::default()
    });
    info.unwritten = counts.collect();
    info.lost.insert("ring".to_owned(), 7);
    info.ended = Some(Ended {
        time_ns: 11,
        by: "duration".into(),
    });
    info
}

#[test]
fn what_is_kept_is_as_much_as_fits_and_the_rest_is_counted() {
    let whole = info();
    let length = info::text(&whole).unwrap().len() as u64;
    assert_eq!(
        fitted(whole.clone(), length).unwrap(),
        info::text(&whole).unwrap()
    );
    let (mut kept_before, mut rows_before) = (0, 0);
    for room in (5_000..length).step_by(5_000) {
        let text = fitted(whole.clone(), room).unwrap();
        assert!(text.len() as u64 <= room, "{} in {room}", text.len());
        let told: CaptureInfo = serde_json::from_slice(&text).unwrap();
        assert_eq!(told.ended, whole.ended);
        assert_eq!(told.lost["ring"], 7);
        let halts: u64 = told.unwritten.iter().map(|row| row.halts).sum();
        assert_eq!(halts, 200);
        assert!(told.unwritten.len() >= rows_before);
        rows_before = told.unwritten.len();
        let kept = told.roster.vms.len();
        assert!(kept >= kept_before);
        kept_before = kept;
        let lost = |table: Table| told.lost.get(&not_written(table)).map_or(0, |rows| *rows);
        assert_eq!(lost(Table::Vms), 100 - kept as u64);
        assert_eq!(lost(Table::Vcpus), 200 - 2 * kept as u64);
        assert_eq!(told.roster.vcpus.len(), 2 * kept);
        // Not one VM more would have fitted.
        if kept < 100 {
            let more = info::text(&with_first_vms(
                &CaptureInfo {
                    unwritten: told.unwritten,
                    ..whole.clone()
                },
                kept + 1,
            ));
            assert!(more.unwrap().len() as u64 > room);
        }
    }
    assert!(kept_before > 0);
}
