//! Where the agent of a QEMU guest can be asked, as QEMU's command line and libvirt's files say.

use std::path::PathBuf;

use haltwise_core::ids::{Pid, VmmKind};

use super::arguments::Arguments;
use super::{libvirt, program, qemu, vmm};
use crate::process_files;
use crate::root::{Root, RootError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AgentChannel {
    /// A socket of QEMU's, by its path as QEMU sees it.
    Socket(PathBuf),
    /// libvirt, which holds the socket; the domain's UUID.
    Libvirt(String),
    /// A port that leads to nothing with a path.
    Closed,
    Absent,
    OtherVmm,
}

/// Where the agent in the guest of this process can be asked.
pub(crate) fn agent_channel(root: &Root, pid: Pid) -> Result<AgentChannel, RootError> {
    process_files::look(root, pid, move |root| found(root, pid))?
}

fn found(root: &Root, pid: Pid) -> Result<AgentChannel, RootError> {
    let arguments = Arguments::parse(&root.bytes(format!("proc/{pid}/cmdline"))?);
    let exe = root.link(format!("proc/{pid}/exe")).ok();
    let exe = exe.as_deref().and_then(program);
    let names = exe.as_deref().into_iter().chain(arguments.program());
    if vmm::recognise(names).kind != VmmKind::Qemu {
        return Ok(AgentChannel::OtherVmm);
    }
    let Some(port) = qemu::agent_port(&arguments) else {
        return Ok(AgentChannel::Absent);
    };
    let domain = qemu::name(&arguments).map(|name| libvirt::domain(root, pid, &name));
    if let Some(uuid) = domain.and_then(|domain| domain.uuid) {
        return Ok(AgentChannel::Libvirt(uuid));
    }
    let Some(path) = port.path else {
        return Ok(AgentChannel::Closed);
    };
    let below = match path.strip_prefix('/') {
        Some(path) => format!("proc/{pid}/root/{path}"),
        None => format!("proc/{pid}/cwd/{path}"),
    };
    Ok(AgentChannel::Socket(root.path(below)))
}
