//! QEMU, started by hand, by libvirt or by Proxmox.
//!
//! Names come from `-name guest=NAME,…` or `-name NAME,…`, where `,,` stands for a comma. Threads are
//! named `CPU 0/KVM`, but only under `-name …,debug-threads=on` (libvirt sets it).

use std::collections::BTreeMap;

use haltwise_core::ids::VcpuId;

use super::arguments::Arguments;

pub(super) fn is(program: &str) -> bool {
    program.starts_with("qemu-system-") || matches!(program, "qemu-kvm" | "qemu" | "kvm")
}

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

const AGENT: &str = "org.qemu.guest_agent.0";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentPort {
    /// The path of the socket that it leads to, if that has one.
    pub(super) path: Option<String>,
}

/// The port of the guest's agent, where there is one: `-device virtserialport,chardev=ID,name=…` with its `-chardev`.
pub(super) fn agent_port(arguments: &Arguments) -> Option<AgentPort> {
    let mut devices = every(arguments, "device").filter_map(properties);
    let id = devices.find_map(|device| {
        let of = |name: &str| device.get(name).map(String::as_str);
        let is_it = of("driver") == Some("virtserialport") && of("name") == Some(AGENT);
        is_it.then(|| of("chardev").map(str::to_owned))?
    })?;
    let mut chardevs = every(arguments, "chardev").filter_map(properties);
    let chardev = chardevs.find(|chardev| chardev.get("id") == Some(&id));
    let is_socket = |it: &Properties| it.get("driver").is_some_and(|kind| kind == "socket");
    let chardev = chardev.filter(is_socket);
    Some(AgentPort {
        path: chardev.and_then(|mut it| it.remove("path")),
    })
}

type Properties = BTreeMap<String, String>;

/// Properties of an option, written as `KIND,NAME=VALUE,…` or as JSON; the kind is `driver`.
fn properties(text: &str) -> Option<Properties> {
    if text.starts_with('{') {
        let object: BTreeMap<String, serde_json::Value> = serde_json::from_str(text).ok()?;
        let texts = object.into_iter().filter_map(|(name, value)| match value {
            serde_json::Value::String(value) => Some((name, value)),
            _ => None,
        });
        return Some(texts.collect());
    }
    let mut found = Properties::new();
    for (at, part) in split_at_commas(text).into_iter().enumerate() {
        match part.split_once('=') {
            Some((name, value)) => found.insert(name.to_owned(), value.to_owned()),
            None if at == 0 => found.insert("driver".to_owned(), part),
            None => None,
        };
    }
    Some(found)
}

fn every<'a>(arguments: &'a Arguments, name: &str) -> impl Iterator<Item = &'a str> {
    let spelled = [format!("-{name}"), format!("--{name}")];
    arguments.pairs().filter_map(move |(option, value)| {
        let is_it = spelled.iter().any(|it| it == option);
        is_it.then_some(value)
    })
}

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

    #[test]
    fn threads_of_vcpus() {
        assert_eq!(vcpu("CPU 0/KVM"), Some(VcpuId(0)));
        assert_eq!(vcpu("CPU 127/KVM"), Some(VcpuId(127)));
        for other in ["CPU 0/TCG", "CPU x/KVM", "IO iothread1", "", "CPU /KVM"] {
            assert_eq!(vcpu(other), None, "{other}");
        }
    }

    #[test]
    fn ports_of_agents() {
        let port = |words: &[&str]| {
            let line = format!("/usr/bin/kvm\0{}\0", words.join("\0"));
            agent_port(&Arguments::parse(line.as_bytes())).map(|port| port.path)
        };
        let chardev = "socket,path=/run/qemu-server/100.qga,server=on,wait=off,id=qga0";
        let device = "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0";
        let path = Some(Some("/run/qemu-server/100.qga".to_owned()));
        assert_eq!(port(&["-chardev", chardev, "-device", device]), path);
        assert_eq!(port(&["--device", device, "--chardev", chardev]), path);
        let json = r#"{"driver":"virtserialport","bus":"b.0","nr":1,"chardev":"qga0","name":"org.qemu.guest_agent.0"}"#;
        assert_eq!(port(&["-chardev", chardev, "-device", json]), path);
        // As libvirt hands it over.
        let fd = "socket,id=qga0,fd=35,server=on,wait=off";
        assert_eq!(port(&["-chardev", fd, "-device", device]), Some(None));
        assert_eq!(port(&["-device", device]), Some(None));
        let comma = "socket,id=qga0,path=/run/a,,b=c";
        let path = Some(Some("/run/a,b=c".to_owned()));
        assert_eq!(port(&["-chardev", comma, "-device", device]), path);
        let other = "virtserialport,chardev=qga0,name=com.redhat.spice.0";
        for words in [
            &["-chardev", chardev][..],
            &["-device", other],
            &["-device"],
            &["-device", "{"],
        ] {
            assert_eq!(port(words), None, "{words:?}");
        }
    }
}
