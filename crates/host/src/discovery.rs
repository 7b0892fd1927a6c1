//! Which VMs run on this host, found without BPF: processes that hold KVM's descriptors.
//!
//! KVM names its descriptors `anon_inode:kvm-vm` and `anon_inode:kvm-vcpu:N`; who holds one runs a VM.
//! The names of the VM come from the VMM's command line, its cgroup and its manager's files, the thread of each vCPU from thread names,
//! as far as the VMM gives them. Which thread really runs which vCPU only the kernel knows; the sources
//! correct what is read here.
//!
//! A process that ends while it is read is skipped: that is normal. One that we may not look into is
//! counted in [`Scan::denied`]: there may be VMs that the scan does not see.

mod arguments;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod managers;
mod name;
mod outside;
mod presence;
mod qemu;
mod roster;
mod running;
mod selector;
mod vmm;
mod work;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use haltwise_core::ids::{Pid, Tid, VcpuId, VmKey, VmmKind};

use self::arguments::Arguments;
pub(crate) use self::qemu::{AgentChannel, agent_channel};
use crate::ceiling;
use crate::process_files;
use crate::root::{Root, RootError};

pub(crate) use self::name::printable_within;
pub use self::name::{LONGEST_NAME, printable};
pub use self::outside::{OutsideTime, OutsideVmm, outside};
pub(crate) use self::presence::{Known, Presence};
pub use self::roster::{RosterBuilder, VmLabel};
pub use self::running::{VcpuThreads, are_running};
pub use self::selector::{SelectError, VmSelector};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VmProcess {
    /// The process, as the first VM in it.
    pub key: VmKey,
    pub label: VmLabel,
    pub vm_descriptors: usize,
    /// The vCPUs it holds descriptors of, in order; a number that comes twice belongs to two VMs,
    /// or its descriptor was copied.
    pub vcpus: Vec<VcpuId>,
    /// Threads that run vCPUs, as far as their names say so.
    pub threads: Vec<VcpuThread>,
    /// It holds devices of the host (VFIO), whose interrupts may wake a vCPU from a hard interrupt.
    pub vfio: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VcpuThread {
    pub tid: Tid,
    pub id: VcpuId,
    pub comm: String,
}

impl VmProcess {
    /// Name of one of the process's VMs, by the VM's number where there are several.
    pub fn name_of(&self, number: Option<u32>) -> String {
        match number {
            Some(number) => self.label.clone().of_one(number, true).name,
            None => self.label.name.clone(),
        }
    }

    pub fn pid(&self) -> Pid {
        self.key.pid
    }

    /// Whether it runs several VMs: which vCPU is whose, descriptors do not tell.
    pub fn has_several(&self) -> bool {
        self.vm_descriptors > 1 && self.vcpus.windows(2).any(|pair| pair[0] == pair[1])
    }
}

#[derive(Debug, Default)]
pub struct Scan {
    pub vms: Vec<VmProcess>,
    pub denied: usize,
    pub failed: Vec<RootError>,
}

pub fn scan(root: &Root) -> Result<Scan, RootError> {
    let mut scan = Scan::default();
    for pid in root.numbers("proc")? {
        match look(root, Pid(pid)) {
            Ok(Some(vm)) => scan.vms.push(vm),
            Ok(None) => {}
            Err(error) if error.is_absent() => {}
            Err(error) if error.is_denied() => scan.denied += 1,
            Err(error) => scan.failed.push(error),
        }
    }
    Ok(scan)
}

/// Looks at one process: `None` if it runs no VM, has ended, or may not be looked into.
pub fn identify(root: &Root, pid: Pid) -> Option<VmProcess> {
    look(root, pid).ok().flatten()
}

/// Name of a process that runs a VM according to another source, where the process cannot be inspected.
pub(crate) fn unidentified(root: &Root, pid: Pid) -> String {
    let name = comm_of(root, Tid(pid.0)).map(|comm| fallback_name(&comm, pid));
    match (name, look(root, pid)) {
        (Ok(name), Err(error)) if error.is_denied() => format!("{name} (not accessible)"),
        (Ok(name), _) => name,
        (Err(_), _) => format!("pid {pid} (gone)"),
    }
}

/// The identity of the VM in a process, whether or not its descriptors can be seen.
pub fn key_of(root: &Root, pid: Pid) -> Result<VmKey, RootError> {
    process_files::look(root, pid, move |root| {
        let file = format!("proc/{pid}/stat");
        let stat = root.text(&file)?;
        let start_ticks = start_ticks(&stat);
        let malformed = || root.malformed(&file, &stat, "a process's stat");
        Ok(VmKey::first(pid, start_ticks.ok_or_else(malformed)?))
    })?
}

/// Whether a process is still the one that it was, and not another with its number.
pub(crate) fn is_alive(root: &Root, process: VmKey) -> Result<bool, RootError> {
    match key_of(root, process.pid) {
        Ok(now) => Ok(now.start_ticks == process.start_ticks),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error),
    }
}

pub fn comm_of(root: &Root, tid: Tid) -> Result<String, RootError> {
    let comm = root.value(format!("proc/{tid}/comm"))?;
    Ok(printable(&comm).unwrap_or_default())
}

fn look(root: &Root, pid: Pid) -> Result<Option<VmProcess>, RootError> {
    process_files::look(root, pid, move |root| found(root, pid))?
}

fn found(root: &Root, pid: Pid) -> Result<Option<VmProcess>, RootError> {
    let held = Held::by(root, pid)?;
    if held.vms == 0 && held.vcpus.is_empty() {
        return Ok(None);
    }
    let key = key_of(root, pid)?;
    let comm = comm_of(root, Tid(pid.0))?;
    // Command line and program may be hidden from us although the descriptors are not.
    let arguments = Arguments::of(root, pid).unwrap_or_default();
    let exe = program(root, pid);
    let programs = exe.as_deref().into_iter().chain(arguments.program());
    let vmm = vmm::recognise(programs.chain([comm.as_str()]));
    let named = identity::of(root, pid, vmm, &arguments);
    Ok(Some(VmProcess {
        key,
        label: VmLabel {
            name: named.name.unwrap_or_else(|| fallback_name(&comm, pid)),
            identity: named.identity,
            machine: (vmm.kind == VmmKind::Qemu).then(|| qemu::machine(&arguments)),
            vmm: vmm.kind,
            ceiling_settable: Some(held.is_governed),
        },
        vm_descriptors: held.vms,
        vcpus: held.vcpus,
        threads: threads(root, pid, vmm.vcpu)?,
        vfio: held.vfio,
    }))
}

#[derive(Debug, Default)]
struct Held {
    vms: usize,
    vcpus: Vec<VcpuId>,
    vfio: bool,
    /// Its VMM shows that the ceilings of its VMs can be set from outside ([`crate::ceiling`]).
    is_governed: bool,
}

impl Held {
    fn by(root: &Root, pid: Pid) -> Result<Self, RootError> {
        let mut held = Self::default();
        let folder = format!("proc/{pid}/fd");
        for fd in root.list(&folder)? {
            let target = match root.link(PathBuf::from(&folder).join(fd)) {
                Ok(target) => target,
                Err(error) if error.is_absent() => continue,
                Err(error) => return Err(error),
            };
            held.is_governed |= ceiling::shows_sign(&target);
            let target = target.as_os_str().as_bytes();
            if target == b"anon_inode:kvm-vm" {
                held.vms += 1;
            } else if let Some(number) = target.strip_prefix(b"anon_inode:kvm-vcpu:") {
                let number = str::from_utf8(number).ok().and_then(|n| n.parse().ok());
                held.vcpus.extend(number.map(VcpuId));
            } else if target.starts_with(b"/dev/vfio/") || target == b"anon_inode:[vfio-device]" {
                held.vfio = true;
            }
        }
        held.vcpus.sort_unstable();
        Ok(held)
    }
}

fn threads(
    root: &Root,
    pid: Pid,
    vcpu: fn(&str) -> Option<VcpuId>,
) -> Result<Vec<VcpuThread>, RootError> {
    let folder = format!("proc/{pid}/task");
    let mut threads = Vec::new();
    for tid in root.numbers(&folder)? {
        let Ok(comm) = root.text(format!("{folder}/{tid}/comm")) else {
            continue;
        };
        let comm = comm.trim_end_matches('\n');
        if let Some(id) = vcpu(comm) {
            threads.push(VcpuThread {
                tid: Tid(tid),
                id,
                comm: comm.to_owned(),
            });
        }
    }
    Ok(threads)
}

fn fallback_name(comm: &str, pid: Pid) -> String {
    if comm.is_empty() {
        format!("process-{pid}")
    } else {
        format!("{comm}-{pid}")
    }
}

fn program(root: &Root, pid: Pid) -> Option<String> {
    program_name(&root.link(format!("proc/{pid}/exe")).ok()?)
}

/// The file name of `/proc/PID/exe`, without the note that the file was replaced.
fn program_name(exe: &Path) -> Option<String> {
    let name = exe.file_name()?.to_str()?;
    Some(name.strip_suffix(" (deleted)").unwrap_or(name).to_owned())
}

fn start_ticks(stat: &str) -> Option<u64> {
    outside::field(stat, 22)
}

#[cfg(test)]
pub(crate) mod test;
