//! Threads as VMMs make them, and what is made of them.

use proptest::prelude::*;

use super::*;

fn thread(tid: u32, process: Option<u32>, comm: &str, told: Option<u32>) -> Known {
    Known {
        tid: Tid(tid),
        process: process.map(Pid),
        name: name_of(comm),
        told: told.map(VcpuId),
        moves: false,
    }
}

/// VMs as lists of thread and vCPU.
fn vms(threads: &[Known]) -> Vec<Vec<(u32, Option<u32>)>> {
    let vm = |group: Group| {
        let members = group.threads.iter().zip(&group.vcpus);
        members
            .map(|(&at, vcpu)| (threads[at].tid.0, vcpu.map(|vcpu| vcpu.0)))
            .collect()
    };
    groups(threads).into_iter().map(vm).collect()
}

#[test]
fn names_tell_numbers_where_vmms_put_them() {
    for (comm, name, number) in [
        ("CPU 3/KVM", "CPU /KVM", Some(3)),
        ("CPU 12/KVM", "CPU /KVM", Some(12)),
        ("fc_vcpu 7", "fc_vcpu", Some(7)),
        ("crosvm_vcpu10", "crosvm_vcpu", Some(10)),
        ("vcpu0", "vcpu", Some(0)),
        ("vm1-vcpu2", "vm1-vcpu", Some(2)),
        ("vm1-vcpu", "vm1-vcpu", None),
        ("qemu-system-x86", "qemu-system-x86", None),
        ("CPU", "CPU", None),
        ("", "", None),
    ] {
        assert_eq!(name_of(comm), (name.to_owned(), number), "{comm}");
    }
}

#[test]
fn a_number_that_comes_twice_in_a_process_is_of_another_vm() {
    // By their names, whatever the order.
    let named = [
        thread(11, Some(10), "vm0-vcpu0", Some(0)),
        thread(12, Some(10), "vm1-vcpu1", Some(1)),
        thread(13, Some(10), "vm1-vcpu0", Some(0)),
    ];
    let expected = [vec![(11, Some(0))], vec![(12, Some(1)), (13, Some(0))]];
    assert_eq!(vms(&named), expected);
    // By their order.
    let nameless: Vec<Known> = [0, 0, 1, 0]
        .into_iter()
        .zip(11..)
        .map(|(vcpu, tid)| thread(tid, Some(10), "vmm", Some(vcpu)))
        .collect();
    let expected = [
        vec![(11, Some(0))],
        vec![(12, Some(0)), (13, Some(1))],
        vec![(14, Some(0))],
    ];
    assert_eq!(vms(&nameless), expected);
    let split = groups(&nameless).into_iter();
    let split = split.map(|group| (group.ordinal, group.split));
    assert!(split.eq([(0, true), (1, true), (2, true)]));
}

#[test]
fn vcpus_that_change_threads_are_told_by_each_event() {
    let mut all = vec![
        thread(11, Some(10), "vmm", Some(0)),
        thread(12, Some(10), "vmm", Some(0)),
    ];
    all[0].moves = true;
    assert_eq!(vms(&all), [vec![(11, None), (12, None)]]);
}

#[test]
fn without_processes_neighbours_of_one_name_are_one_vm() {
    let all = [
        thread(4_201, None, "CPU 0/KVM", None),
        thread(4_203, None, "CPU 1/KVM", None),
        thread(4_207, None, "CPU 0/KVM", None),
        thread(9_000, None, "CPU 1/KVM", None),
        thread(4_202, None, "qemu-system-x86", Some(0)),
        thread(4_205, None, "qemu-system-x86", Some(1)),
        thread(4_206, None, "", None),
        thread(4_208, None, "", None),
    ];
    let expected = [
        vec![(4_201, Some(0)), (4_203, Some(1))],
        vec![(4_207, Some(0))],
        vec![(9_000, Some(1))],
        vec![(4_202, Some(0)), (4_205, Some(1))],
        vec![(4_206, Some(0))],
        vec![(4_208, Some(0))],
    ];
    assert_eq!(vms(&all), expected);
}

/// QEMU names threads by index and KVM tells APIC identifiers, which may have holes.
#[test]
fn a_name_counts_only_where_names_and_events_agree() {
    let all = [
        thread(11, Some(10), "CPU 0/KVM", Some(0)),
        thread(12, Some(10), "CPU 3/KVM", Some(4)),
        thread(13, Some(10), "CPU 5/KVM", None),
    ];
    let expected = vec![(11, Some(0)), (12, Some(4)), (13, Some(1))];
    assert_eq!(vms(&all), [expected]);
}

proptest! {
    /// Every thread is in one VM, and no VM has two threads for one vCPU.
    #[test]
    fn a_vcpu_has_one_thread(
        raw in prop::collection::vec((prop::option::of(0..3_u32), 0..4_usize, prop::option::of(0..4_u32)), 0..40),
    ) {
        let names = ["CPU 0/KVM", "CPU 1/KVM", "vcpu2", "vmm"];
        let threads: Vec<Known> = raw
            .iter()
            .zip(100..)
            .map(|(&(process, name, told), tid)| thread(tid, process, names[name], told))
            .collect();
        let groups = groups(&threads);
        let mut members: Vec<usize> = groups.iter().flat_map(|it| it.threads.clone()).collect();
        members.sort_unstable();
        prop_assert_eq!(members, (0..threads.len()).collect::<Vec<_>>());
        for group in &groups {
            let vcpus: BTreeSet<_> = group.vcpus.iter().collect();
            prop_assert!(vcpus.len() == group.threads.len() && !vcpus.contains(&None));
        }
    }
}

/// Firecracker's threads have the number of their vCPU in their names; VMs that start together mix them.
#[test]
fn vms_that_start_together_mix_the_numbers_of_their_threads() {
    let all = [
        thread(10, None, "fc_vcpu 0", Some(0)),
        thread(12, None, "fc_vcpu 0", Some(0)),
        thread(15, None, "fc_vcpu 1", Some(1)),
        thread(17, None, "fc_vcpu 1", Some(1)),
        // The second vCPU first.
        thread(31, None, "fc_vcpu 1", Some(1)),
        thread(32, None, "fc_vcpu 0", Some(0)),
        thread(50, None, "fc_vcpu 0", Some(0)),
        // One vCPU, then two that follow each other.
        thread(200, None, "fc_vcpu 0", Some(0)),
        thread(202, None, "fc_vcpu 0", Some(0)),
        thread(203, None, "fc_vcpu 1", Some(1)),
    ];
    let pair = |one, other| vec![(one, Some(0)), (other, Some(1))];
    let expected = [
        pair(10, 15),
        pair(12, 17),
        vec![(31, Some(1)), (32, Some(0))],
        vec![(50, Some(0))],
        vec![(200, Some(0))],
        pair(202, 203),
    ];
    assert_eq!(vms(&all), expected);
}
