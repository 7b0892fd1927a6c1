//! VMs that follow, VMs that do not, and those that cannot be told: the trap of 5.8 to 6.0 among them.

use haltwise_core::ids::VcpuId;

use super::*;

fn found(pid: u32, ceiling: Option<(u32, CeilingSource)>) -> FoundVcpu {
    FoundVcpu {
        pid: Pid(pid),
        vm: u64::from(pid),
        window_ns: 20_000,
        vm_ceiling: ceiling,
        ..FoundVcpu::default()
    }
}

#[test]
fn a_ceiling_that_was_read_tells_who_follows() {
    use CeilingSource::{Cap, Snapshot};
    for (ceiling, effect) in [
        (None, Effect::Follows),
        (Some((70_000, Cap)), Effect::OwnCap),
        (Some((80_000, Cap)), Effect::OwnCap),
        // 5.8 to 6.0: copied when the VM was made.
        (Some((200_000, Snapshot)), Effect::Keeps),
        (Some((80_000, Snapshot)), Effect::Follows),
    ] {
        let watched = by_ceiling(&[found(7, ceiling)], &[], 80_000);
        let in_force = ceiling.map_or(80_000, |(ns, _)| ns);
        let expected = (effect, Some(in_force));
        assert_eq!((watched[0].effect, watched[0].ceiling_ns), expected);
        assert_eq!(watched[0].name, "process 7");
        assert_eq!(watched[0].window_ns, Some((20_000, 20_000)));
    }
    // A guest that disabled host polling: KVM keeps the window of before, and polls none of it.
    let disabled = |id, is: bool| FoundVcpu {
        id: VcpuId(id),
        window_ns: 5_000_000 * u32::from(is),
        guest_veto: Some(is),
        ..found(7, Some((5_000_000, Cap)))
    };
    let watched = by_ceiling(&[disabled(0, true)], &[], 80_000);
    assert_eq!(watched[0].effect, Effect::GuestDisabled);
    assert_eq!((watched[0].ceiling_ns, watched[0].window_ns), (None, None));
    let watched = by_ceiling(&[disabled(0, true), disabled(1, false)], &[], 80_000);
    assert_eq!(watched[0].effect, Effect::OwnCap);
    assert_eq!(watched[0].window_ns, Some((0, 0)));
    assert_eq!(watched[0].vetoed_vcpus, [0]);
    let mut blind = found(7, None);
    blind.hlt_in_guest = true;
    let watched = by_ceiling(&[found(3, None), blind], &[], 80_000);
    assert_eq!(watched[1].effect, Effect::NotTold);
}
