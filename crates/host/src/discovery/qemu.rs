//! QEMU, started by hand, by libvirt or by Proxmox.
//!
//! Names come from `-name guest=NAME,…` or `-name NAME,…`, where `,,` stands for a comma. Threads are
//! named `CPU 0/KVM`, but only under `-name …,debug-threads=on` (libvirt sets it).

use haltwise_core::ids::VcpuId;

use super::arguments::Arguments;

/// Whether a program of this name is QEMU.
pub(super) fn is(program: &str) -> bool {
    program.starts_with("qemu-system-") || matches!(program, "qemu-kvm" | "qemu" | "kvm")
}

/// The name of the VM.
pub(super) fn name(arguments: &Arguments) -> Option<String> {
    let given = option(arguments, "name")?;
    let parts = split_at_commas(given);
    let named = parts.iter().find_map(|part| part.strip_prefix("guest="));
    match named {
        Some(name) => Some(name.to_owned()),
        None => parts.into_iter().next().filter(|part| !part.contains('=')),
    }
}

/// The UUID of the VM: `-uuid`, else that of the firmware's tables, which Proxmox VE sets.
pub(super) fn uuid(arguments: &Arguments) -> Option<String> {
    let of_tables = || {
        let system = arguments
            .all("-smbios")
            .find(|table| table.starts_with("type=1,"))?;
        let parts = split_at_commas(system);
        Some(
            parts
                .iter()
                .find_map(|part| part.strip_prefix("uuid="))?
                .to_owned(),
        )
    };
    option(arguments, "uuid")
        .map(str::to_owned)
        .or_else(of_tables)
}

/// Proxmox VE's number of the VM, for which its QEMU has an option.
pub(super) fn vmid(arguments: &Arguments) -> Option<String> {
    option(arguments, "id").map(str::to_owned)
}

/// The vCPU that a thread of this name runs.
pub(super) fn vcpu(comm: &str) -> Option<VcpuId> {
    let number = comm.strip_prefix("CPU ")?.strip_suffix("/KVM")?;
    number.parse().ok().map(VcpuId)
}

/// QEMU takes `-name` and `--name` alike.
fn option<'a>(arguments: &'a Arguments, name: &str) -> Option<&'a str> {
    arguments
        .option(&format!("-{name}"))
        .or_else(|| arguments.option(&format!("--{name}")))
}

/// Splits at single commas; two commas are one comma of the text.
fn split_at_commas(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if c == ',' && characters.next_if_eq(&',').is_none() {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(c);
        }
    }
    parts
}

#[cfg(test)]
mod test {
    use super::*;

    fn named(value: &str) -> Option<String> {
        name(&Arguments::parse(
            format!("qemu-system-x86_64\0-name\0{value}\0").as_bytes(),
        ))
    }

    #[test]
    fn all_forms_of_name() {
        assert_eq!(named("guest=web,debug-threads=on").as_deref(), Some("web"));
        assert_eq!(named("web").as_deref(), Some("web"));
        assert_eq!(named("web,process=vm").as_deref(), Some("web"));
        assert_eq!(named("debug-threads=on,guest=web").as_deref(), Some("web"));
        assert_eq!(named("guest=a,,b,debug-threads=on").as_deref(), Some("a,b"));
        assert_eq!(named("debug-threads=on"), None);
        assert_eq!(
            name(&Arguments::parse(b"qemu-system-x86_64\0-m\x00512\0")),
            None
        );
    }

    #[test]
    fn uuid_is_kept() {
        for line in [
            &b"/usr/bin/kvm\0-uuid\0c0ffee\0-smbios\0type=1,uuid=other\0"[..],
            b"/usr/bin/kvm\0-smbios\0type=0,vendor=x\0-smbios\0type=1,product=y,uuid=c0ffee\0",
        ] {
            let arguments = Arguments::parse(line);
            assert_eq!(uuid(&arguments).as_deref(), Some("c0ffee"));
        }
    }

    #[test]
    fn threads_of_vcpus() {
        assert_eq!(vcpu("CPU 0/KVM"), Some(VcpuId(0)));
        assert_eq!(vcpu("CPU 127/KVM"), Some(VcpuId(127)));
        for other in ["CPU 0/TCG", "CPU x/KVM", "IO iothread1", "", "CPU /KVM"] {
            assert_eq!(vcpu(other), None, "{other}");
        }
    }
}
