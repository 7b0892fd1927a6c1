//! Every manager's VMs. `fixtures/instance-00000a1b.*` are of libvirt 9.0 with QEMU 7.2 (Debian 12), as they ran with
//! Nova's metadata; command lines and cgroups of the others have the forms that their documentation shows, with names
//! and numbers of our own.

use super::super::vmm;
use super::*;
use crate::root::made_up;

const UUID: &str = "6f1d2c3a-0b4e-4c5d-8e7f-a1b2c3d4e5f6";
const POD: &str = "0d9c8b7a-6f5e-4d3c-8b2a-190807060504";

/// Names of a process with this command line (a word per argument) and cgroup.
fn named(words: &str, cgroup: &str, files: &[(&str, &str)]) -> Named {
    let cgroup = format!("0::{cgroup}\n");
    let mut all = vec![("proc/110/cgroup", cgroup.as_str())];
    all.extend_from_slice(files);
    let (_dir, root) = made_up(&all);
    let bytes: Vec<u8> = words
        .split_whitespace()
        .flat_map(|word| word.bytes().chain([0]))
        .collect();
    let arguments = Arguments::parse(&bytes);
    let vmm = vmm::recognise(arguments.program());
    of(&root, Pid(110), vmm, &arguments)
}

fn libvirt_line(name: &str) -> String {
    format!(
        "/usr/bin/qemu-system-x86_64 -name guest={name},debug-threads=on -S \
         -object {{\"qom-type\":\"secret\",\"id\":\"masterKey0\",\"format\":\"raw\"}} \
         -machine pc-q35-8.2,usb=off,dump-guest-core=off,hpet=off -accel kvm -cpu host,migratable=on \
         -m size=2097152k -overcommit mem-lock=off -smp 2,sockets=2,cores=1,threads=1 -uuid {UUID} \
         -no-user-config -nodefaults -rtc base=utc,driftfix=slew -no-shutdown -boot strict=on"
    )
}

#[test]
fn libvirt() {
    let scope = r"/machine.slice/machine-qemu\x2d3\x2dweb.scope";
    let found = named(
        &libvirt_line("web"),
        &format!("{scope}/libvirt/emulator"),
        &[],
    );
    assert_eq!(found.name.as_deref(), Some("web"));
    let expected = Identity {
        uuid: Some(UUID.into()),
        cgroup: Some(scope.into()),
        ..Identity::default()
    };
    assert_eq!(found.identity, expected);
}

#[test]
fn proxmox() {
    let line = format!(
        "/usr/bin/kvm -id 104 -name web,debug-threads=on -no-shutdown \
         -chardev socket,id=qmp,path=/var/run/qemu-server/104.qmp,server=on,wait=off \
         -mon chardev=qmp,mode=control -pidfile /var/run/qemu-server/104.pid -daemonize \
         -smbios type=1,uuid={UUID} -smp 2,sockets=1,cores=2,maxcpus=2 -nodefaults \
         -cpu host,+kvm_pv_eoi,+kvm_pv_unhalt -m 2048 -machine type=pc-i440fx-8.1+pve0"
    );
    let found = named(&line, "/qemu.slice/104.scope", &[]);
    assert_eq!(found.name.as_deref(), Some("104 (web)"));
    assert_eq!(found.identity.vmid.as_deref(), Some("104"));
    assert_eq!(found.identity.domain.as_deref(), Some("web"));
    assert_eq!(found.identity.uuid.as_deref(), Some(UUID));
    // Started by hand with `qm showcmd`: no scope, and perhaps no name.
    let found = named(
        "/usr/bin/kvm -id 105 -nodefaults",
        "/user.slice/session-2.scope",
        &[],
    );
    assert_eq!(found.name.as_deref(), Some("105"));
}

#[test]
fn kubevirt() {
    let cgroup = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{}.scope",
        POD.replace('-', "_"),
        "3f".repeat(32)
    );
    let line =
        libvirt_line("shop_web-1").replace("/usr/bin/qemu-system-x86_64", "/usr/libexec/qemu-kvm");
    let log = format!("var/log/pods/shop_virt-launcher-web-1-x7k2p_{POD}/compute/0.log");
    let other = "var/log/pods/shop_other_11111111-6f5e-4d3c-8b2a-190807060504/0.log";
    let found = named(&line, &cgroup, &[(other, ""), (&log, "")]);
    assert_eq!(found.name.as_deref(), Some("shop/web-1"));
    let names = found.identity.names().map(|(_, name)| name);
    let expected = [
        Some("shop_web-1"),
        Some(UUID),
        None,
        Some("virt-launcher-web-1-x7k2p"),
        Some(POD),
        Some(cgroup.as_str()),
    ];
    assert_eq!(names, expected);
    // The same name outside a pod is a libvirt domain of that name.
    let found = named(&line, "/machine.slice/x.scope", &[]);
    assert_eq!(found.name.as_deref(), Some("shop_web-1"));
}

#[test]
fn started_by_hand_and_by_other_vmms() {
    for (line, name) in [
        ("qemu-system-x86_64 -name web -m 512", Some("web")),
        ("qemu-system-x86_64 -m 512", None),
        (
            "crosvm run --name arcvm --cid 33 --mem 4096 /opt/vm/vmlinux",
            Some("arcvm"),
        ),
        (
            "/firecracker --id fn-17 --start-time-us 1 --api-sock /run/firecracker.socket",
            Some("fn-17"),
        ),
        (
            "cloud-hypervisor --api-socket path=/run/ch/db.sock --cpus boot=2 --memory size=1G",
            Some("db"),
        ),
    ] {
        let found = named(line, "/system.slice/vm.service", &[]);
        assert_eq!(found.name.as_deref(), name, "{line}");
        let expected = Identity {
            cgroup: Some("/system.slice/vm.service".into()),
            ..Identity::default()
        };
        assert_eq!(found.identity, expected, "{line}");
    }
}

#[test]
fn hostile_values_are_names_and_short_or_nothing() {
    let line = format!(
        "/usr/bin/kvm -id ../../etc -uuid {} -name guest=../secret\x1b[2J",
        "f".repeat(10_000)
    );
    let found = named(
        &line,
        "/qemu.slice/\x1b[31m.scope",
        &[("run/libvirt/secret.xml", "<x/>")],
    );
    assert_eq!(found.name.as_deref(), Some("../secret?[2J"));
    let expected = Identity {
        cgroup: Some("/qemu.slice/?[31m.scope".into()),
        ..Identity::default()
    };
    assert_eq!(found.identity, expected);
}
