//! The VMMs we know: how each is recognised, how it names its VM and its threads. `qemu` has what only QEMU has.

use haltwise_core::ids::{VcpuId, VmmKind};

use super::arguments::{Arguments, stem};
use super::qemu;

#[derive(Debug)]
pub(super) struct Vmm {
    pub(super) kind: VmmKind,
    is: fn(&str) -> bool,
    pub(super) name: fn(&Arguments) -> Option<String>,
    pub(super) uuid: fn(&Arguments) -> Option<String>,
    pub(super) vmid: fn(&Arguments) -> Option<String>,
    /// Whether libvirt may have started it.
    pub(super) is_managed: bool,
    pub(super) vcpu: fn(&str) -> Option<VcpuId>,
}

const KNOWN: [Vmm; 5] = [
    Vmm {
        kind: VmmKind::Qemu,
        is: qemu::is,
        name: qemu::name,
        uuid: qemu::uuid,
        vmid: qemu::vmid,
        is_managed: true,
        vcpu: qemu::vcpu,
    },
    Vmm {
        kind: VmmKind::Crosvm,
        is: |program| program == "crosvm",
        name: of_crosvm,
        ..OTHER
    },
    Vmm {
        kind: VmmKind::Firecracker,
        is: |program| program == "firecracker" || program.starts_with("firecracker-v"),
        name: of_firecracker,
        ..OTHER
    },
    Vmm {
        kind: VmmKind::CloudHypervisor,
        // The kernel cuts names at 15 bytes.
        is: |program| program.starts_with("cloud-hyperviso"),
        name: of_cloud_hypervisor,
        ..OTHER
    },
    Vmm {
        kind: VmmKind::HaltwiseLab,
        is: |program| matches!(program, "haltwise-lab" | "haltwise-experiments"),
        name: |arguments| arguments.option("--name").map(str::to_owned),
        ..OTHER
    },
];

const OTHER: Vmm = Vmm {
    kind: VmmKind::Other,
    is: |_| true,
    name: nothing,
    uuid: nothing,
    vmid: nothing,
    is_managed: false,
    vcpu: vcpu_by_number,
};

/// Which VMM a process is, by the names of its program, the best source first.
pub(super) fn recognise<'a>(programs: impl IntoIterator<Item = &'a str>) -> &'static Vmm {
    programs
        .into_iter()
        .find_map(|program| KNOWN.iter().find(|vmm| (vmm.is)(program)))
        .unwrap_or(&OTHER)
}

/// `--name`, else the stem of its socket, else `cid-N`.
fn of_crosvm(arguments: &Arguments) -> Option<String> {
    let either = |long, short| arguments.option(long).or_else(|| arguments.option(short));
    let named = arguments.option("--name");
    let named = named.or_else(|| stem(either("--socket", "-s")?));
    let cid = || {
        let cid: u32 = either("--cid", "-c")?.parse().ok()?;
        Some(format!("cid-{cid}"))
    };
    named.map(str::to_owned).or_else(cid)
}

/// `--id`, which its jailer always gives; else the stem of `--api-sock`.
fn of_firecracker(arguments: &Arguments) -> Option<String> {
    let socket = || stem(arguments.option("--api-sock")?);
    let named = arguments.option("--id").or_else(socket);
    named.map(str::to_owned)
}

/// `--name`, else the stem of `--api-socket` (`PATH`, `path=PATH`).
fn of_cloud_hypervisor(arguments: &Arguments) -> Option<String> {
    let socket = || {
        let value = arguments.option("--api-socket")?;
        let named = value.split(',').find_map(|part| part.strip_prefix("path="));
        match named {
            Some(path) => stem(path),
            None if value.contains('=') => None,
            None => stem(value),
        }
    };
    let named = arguments.option("--name").or_else(socket);
    named.map(str::to_owned)
}

fn nothing(_: &Arguments) -> Option<String> {
    None
}

/// The number at the end of a name that says `vcpu`: `fc_vcpu 0`, `crosvm_vcpu0`, `kvm-vcpu-0`.
fn vcpu_by_number(comm: &str) -> Option<VcpuId> {
    let lower = comm.to_ascii_lowercase();
    let (_, rest) = lower.rsplit_once("vcpu")?;
    let number = rest.trim_start_matches([' ', '-', '_', '#', ':', '/']);
    number.parse().ok().map(VcpuId)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn threads_are_numbered() {
        for (comm, id) in [
            ("fc_vcpu 0", Some(0)),
            ("vcpu12", Some(12)),
            ("crosvm_vcpu3", Some(3)),
            ("vcpu-1", Some(1)),
            ("kvm-vcpu-7", Some(7)),
            ("vm1-vcpu-2", Some(2)),
            ("vcpu", None),
            ("vcpu1-io", None),
            ("vcpu99999999999", None),
            ("api", None),
            ("", None),
        ] {
            assert_eq!(vcpu_by_number(comm), id.map(VcpuId), "{comm}");
        }
    }
}
