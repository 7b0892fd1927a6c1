//! VMs of real KVM that come, get a ceiling, and are replaced.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use std::os::fd::AsRawFd;

use kvm_ioctls::Kvm;

use super::*;

#[test]
fn a_vm_that_replaces_another_has_its_ceiling() {
    let Ok(kvm) = Kvm::new() else {
        println!("skipped: no use of /dev/kvm");
        return;
    };
    let vms = Vms::new();
    let ceilings = || {
        vms.list()
            .map(|vm| (vm.fd, vm.ceiling_ns))
            .collect::<Vec<_>>()
    };
    let first = kvm.create_vm().unwrap();
    vms.announce(first.as_raw_fd(), None);
    assert_eq!(ceilings(), [(first.as_raw_fd(), None)]);
    vms.set_ceiling(first.as_raw_fd(), 70_000).unwrap();
    assert_eq!(ceilings(), [(first.as_raw_fd(), Some(70_000))]);
    // Another beside it follows halt_poll_ns.
    let other = kvm.create_vm().unwrap();
    vms.announce(other.as_raw_fd(), None);
    assert_eq!(ceilings()[1], (other.as_raw_fd(), None));
    let closed = first.as_raw_fd();
    drop(first);
    assert_eq!(ceilings(), [(other.as_raw_fd(), None)], "its fd is closed");
    assert!(vms.set_ceiling(closed, 1).is_err());
    // The environment's ceiling is for VMs that replace none.
    let second = kvm.create_vm().unwrap();
    vms.announce(second.as_raw_fd(), Some(5));
    assert_eq!(ceilings()[0], (second.as_raw_fd(), Some(70_000)));
    vms.forget();
    assert_eq!(ceilings(), []);
    // One test, since a closed number is soon another VM's. More than there is room for are left out.
    let made: Vec<_> = (0..=MAX_VMS).map(|_| kvm.create_vm().unwrap()).collect();
    let announced = made.iter();
    let announced = announced.filter(|vm| vms.announce(vm.as_raw_fd(), Some(1_000)));
    assert_eq!(announced.count(), MAX_VMS);
    assert_eq!(vms.list().count(), MAX_VMS);
}
