//! QEMU, started by hand, by libvirt or by Proxmox.
//!
//! Names come from `-name guest=NAME,…` or `-name NAME,…`, where `,,` stands for a comma. Threads are
//! named `CPU 0/KVM`, but only under `-name …,debug-threads=on` (libvirt sets it).

use std::collections::BTreeMap;
use std::path::PathBuf;

use haltwise_core::ids::{Pid, VcpuId, VmmKind};
use haltwise_core::vmm::Machine;

use super::arguments::Arguments;
use super::{managers, program, vmm};
use crate::process_files;
use crate::root::{Root, RootError};

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

pub(super) fn vmid(arguments: &Arguments) -> Option<String> {
    option(arguments, "id").map(str::to_owned)
}

const AGENT: &str = "org.qemu.guest_agent.0";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentPort {
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

/// Machine settings in the command line. libvirt writes options as JSON, users as `NAME=VALUE,…`.
pub(super) fn machine(arguments: &Arguments) -> Machine {
    let values = |names: &'static [&'static str]| names.iter().flat_map(|name| arguments.all(name));
    let any = |names: &'static [&'static str], texts: &[&str]| {
        values(names).any(|value| texts.iter().any(|text| value.contains(text)))
    };
    let machines = values(&["-machine", "-M", "--machine"]).flat_map(|it| it.split(','));
    let hpet = machines
        .filter_map(|part| match part.strip_prefix("hpet=")? {
            "on" => Some(true),
            "off" => Some(false),
            _ => None,
        })
        .last();
    let without = arguments.has("-no-hpet").then_some(false);
    let iothreads = values(&["-object"])
        .filter(|it| it.starts_with("iothread,") || it.contains("\"qom-type\":\"iothread\""));
    Machine {
        hpet: hpet.or(without),
        no_ioeventfd: any(&["-device"], &["ioeventfd=off", "\"ioeventfd\":false"]),
        iothreads: u32::try_from(iothreads.count()).unwrap_or(u32::MAX),
        vhost: any(
            &["-netdev"],
            &["vhost=on", "\"vhost\":true", "vhost-user", "vhost-vdpa"],
        ),
        huge_pages: any(
            &["-object", "-mem-path"],
            &["hugetlb=on", "\"hugetlb\":true", "hugepages", "hugetlbfs"],
        ),
        cpu_pm: any(&["-overcommit"], &["cpu-pm=on"]),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentChannel {
    /// A socket of QEMU's, by its path as QEMU sees it.
    Socket(PathBuf),
    /// libvirt, which holds the socket; the domain's UUID.
    Libvirt(String),
    /// There is none, and why.
    None(&'static str),
}

pub(crate) fn agent_channel(root: &Root, pid: Pid) -> Result<AgentChannel, RootError> {
    process_files::look(root, pid, move |root| found(root, pid))?
}

fn found(root: &Root, pid: Pid) -> Result<AgentChannel, RootError> {
    let arguments = Arguments::of(root, pid)?;
    let exe = program(root, pid);
    let names = exe.as_deref().into_iter().chain(arguments.program());
    if vmm::recognise(names).kind != VmmKind::Qemu {
        return Ok(AgentChannel::None("its VMM is not QEMU"));
    }
    let Some(port) = agent_port(&arguments) else {
        let why = "its QEMU has no port org.qemu.guest_agent.0";
        return Ok(AgentChannel::None(why));
    };
    let domain = name(&arguments).map(|name| managers::domain(root, pid, &name));
    if let Some(uuid) = domain.and_then(|domain| domain.uuid) {
        return Ok(AgentChannel::Libvirt(uuid));
    }
    let Some(path) = port.path else {
        let why = "its port is not a socket with a path, and libvirt does not list the VM";
        return Ok(AgentChannel::None(why));
    };
    let below = match path.strip_prefix('/') {
        Some(path) => format!("proc/{pid}/root/{path}"),
        None => format!("proc/{pid}/cwd/{path}"),
    };
    Ok(AgentChannel::Socket(root.path(below)))
}

#[cfg(test)]
mod test {
    use super::*;

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

    fn said(words: &str) -> Machine {
        let bytes: Vec<u8> = words
            .split(' ')
            .flat_map(|word| word.bytes().chain([0]))
            .collect();
        machine(&Arguments::parse(&bytes))
    }

    #[test]
    fn both_ways_to_write_options_are_read() {
        let all = Machine {
            hpet: Some(false),
            no_ioeventfd: true,
            iothreads: 1,
            vhost: true,
            huge_pages: true,
            cpu_pm: true,
        };
        let by_hand = "qemu -machine q35,accel=kvm,hpet=off -device virtio-blk-pci,drive=d,ioeventfd=off \
                       -object iothread,id=io1 -netdev tap,id=n,vhost=on \
                       -object memory-backend-file,id=m,size=1G,mem-path=/dev/hugepages -overcommit cpu-pm=on";
        let by_libvirt = "qemu -machine pc-q35-8.2,usb=off,hpet=off \
                          -device {\"driver\":\"virtio-blk-pci\",\"ioeventfd\":false} \
                          -object {\"qom-type\":\"iothread\",\"id\":\"iothread1\"} \
                          -netdev {\"type\":\"tap\",\"vhost\":true,\"id\":\"hostnet0\"} \
                          -object {\"qom-type\":\"memory-backend-memfd\",\"hugetlb\":true} \
                          -overcommit mem-lock=off,cpu-pm=on";
        assert_eq!(said(by_hand), all);
        assert_eq!(said(by_libvirt), all);
    }

    #[test]
    fn what_is_not_said_is_the_default() {
        assert_eq!(
            said("qemu -m 512 -machine q35 -device virtio-net-pci"),
            Machine::default()
        );
        assert_eq!(said("qemu -no-hpet").hpet, Some(false));
        assert_eq!(said("qemu -M pc,hpet=off -M pc,hpet=on").hpet, Some(true));
        assert_eq!(said("qemu -machine pc,hpet=maybe").hpet, None);
    }
}
