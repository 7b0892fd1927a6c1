//! Rights that a process gives up before it touches data that others may have written.

mod mounts;
mod syscalls;

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{DumpableBehavior, Resource, Rlimit, geteuid, setrlimit};
use rustix::thread::{CapabilitiesSecureBits, CapabilitySet, CapabilitySets};

use crate::process_files;
use crate::root::Root;

/// Memory of the process that reads files of VMMs: twice what it keeps of them at most.
const READER_BYTES: u64 = 1 << 30;

const READER_SECONDS: u64 = 60;

const READER_FILES: u64 = 512;

/// Above 2, Debian's kernels open no event without `CAP_SYS_ADMIN`, whatever else a process has.
const PARANOID: &str = "proc/sys/kernel/perf_event_paranoid";

/// Duties that a recorder still has once it is attached.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a duty of its own")]
pub struct Duties<'a> {
    pub writes: &'a [PathBuf],
    pub names_functions: bool,
    pub ends_command: bool,
    /// It opens perf events as VMs come: the source tracepoints does, and a profiler.
    pub opens_events: bool,
    pub sets_ceilings: bool,
    pub serves: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("give up {what}")]
pub struct SandboxError {
    what: &'static str,
    #[source]
    source: io::Error,
}

fn because<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> SandboxError {
    move |source| SandboxError {
        what,
        source: source.into(),
    }
}

/// Leaves a recorder what it needs from now on. To be called before there are other threads: they inherit it.
pub fn recorder(root: &Root, duties: Duties<'_>) -> Result<(), SandboxError> {
    let kept = needed(root, duties)?;
    // Only who may mount can have mounts of its own; before Linux 5.12 they cannot be made read-only at once.
    let mounted = match mounts::read_only_but(duties.writes) {
        Err(error) if is_refused(&error) => Ok(()),
        done => done.map_err(because("writing elsewhere than to the output")),
    };
    give_up_all_but(kept)?;
    rustix::thread::set_no_new_privs(true).map_err(because("new privileges"))?;
    syscalls::recorder(duties.names_functions, duties.sets_ceilings, duties.serves)
        .map_err(because("system calls"))?;
    mounted
}

/// Leaves a recorder that will start commands what it needs itself. The commands have what it was started with:
/// root gets its capabilities back with each program. Where it would not, nothing is given up.
pub fn starter(root: &Root, duties: Duties<'_>) -> Result<(), SandboxError> {
    let kept = needed(root, duties)?;
    if !gets_capabilities_back().map_err(because("capabilities"))? {
        return Ok(());
    }
    give_up_all_but(kept)
}

fn needed(root: &Root, duties: Duties<'_>) -> Result<CapabilitySet, SandboxError> {
    // A reader that hangs keeps its rights, and ends once it comes back.
    let readers = process_files::end();
    let threads = root.list("proc/self/task").map_or(1, |it| it.len());
    let threads = threads.saturating_sub(readers);
    if threads > 1 {
        let source = io::Error::other(format!("{threads} threads run already"));
        return Err(because("rights")(source));
    }
    let mut kept = to_trace() | to_look();
    if duties.names_functions {
        kept |= to_open_mapped_files();
    }
    if duties.ends_command {
        kept |= CapabilitySet::KILL;
    }
    if duties.opens_events && root.number::<i32>(PARANOID).is_ok_and(|level| level > 2) {
        kept |= CapabilitySet::SYS_ADMIN;
    }
    let held = rustix::thread::capabilities(None).map_err(because("capabilities"))?;
    if duties.sets_ceilings && !held.permitted.contains(CapabilitySet::SYS_PTRACE) {
        // A process is open then only to one that has all its capabilities (security/commoncap.c).
        kept |= held.permitted;
    }
    if !duties.writes.iter().all(|directory| is_ours(directory)) {
        kept |= to_write_for_another();
    }
    Ok(kept)
}

fn give_up_all_but(kept: CapabilitySet) -> Result<(), SandboxError> {
    keep(kept).map_err(because("capabilities"))?;
    let unseen = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    unseen.map_err(because("being looked into"))
}

/// Whether a program that this process starts has root's capabilities, whatever is left of them here.
fn gets_capabilities_back() -> rustix::io::Result<bool> {
    let bits = rustix::thread::capabilities_secure_bits()?;
    let is_forbidden = rustix::thread::no_new_privs()?;
    Ok(geteuid().is_root() && !bits.contains(CapabilitiesSecureBits::NO_ROOT) && !is_forbidden)
}

fn is_ours(output: &Path) -> bool {
    output
        .metadata()
        .is_ok_and(|found| found.uid() == geteuid().as_raw())
}

fn is_refused(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let number = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(number, Some(Errno::PERM | Errno::NOSYS | Errno::INVAL))
}

/// Leaves this process what it takes to read files and to answer: rights to look into processes, memory, time
/// and system calls. It can write to what is open, and start nothing.
pub(crate) fn reader() -> io::Result<()> {
    for (resource, most) in [
        (Resource::As, READER_BYTES),
        (Resource::Cpu, READER_SECONDS),
        (Resource::Nofile, READER_FILES),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
    ] {
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        // A limit that was lower before stays so.
        let _kept = setrlimit(resource, limit);
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    keep(to_look() | to_open_mapped_files())?;
    rustix::thread::set_no_new_privs(true)?;
    syscalls::reader()
}

/// Leaves this process the right to have the kernel time BPF programs, and the system calls for that.
pub(crate) fn timer() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    keep(CapabilitySet::SYS_ADMIN)?;
    rustix::thread::set_no_new_privs(true)?;
    syscalls::timer()
}

fn is_known(capability: CapabilitySet) -> bool {
    rustix::thread::capability_is_in_bounding_set(capability).is_ok()
}

/// One capability, and what stood for it on kernels before it.
fn or_before(capability: CapabilitySet) -> CapabilitySet {
    if is_known(capability) {
        capability
    } else {
        CapabilitySet::SYS_ADMIN
    }
}

/// Capability to open `/proc/PID/map_files` (`CAP_SYS_ADMIN` before Linux 5.9).
pub(super) fn to_open_mapped_files() -> CapabilitySet {
    or_before(CapabilitySet::CHECKPOINT_RESTORE)
}

/// Capabilities to read the data of programs and events, and to open the events of a CPU that comes online
/// (`CAP_SYS_ADMIN` before Linux 5.8).
pub(super) fn to_trace() -> CapabilitySet {
    or_before(CapabilitySet::BPF) | or_before(CapabilitySet::PERFMON) | CapabilitySet::IPC_LOCK
}

/// Capabilities to look into processes: whose VM it is, its vCPUs and its mappings.
pub(super) fn to_look() -> CapabilitySet {
    CapabilitySet::SYS_PTRACE | CapabilitySet::DAC_READ_SEARCH
}

/// Capabilities to write into a directory of another user, and to give files to that user.
pub(super) fn to_write_for_another() -> CapabilitySet {
    CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE
}

/// Drops all but these from this thread; gains none. Each thread has capabilities of its own: all must be dropped before
/// a second one is started.
pub(super) fn keep(kept: CapabilitySet) -> io::Result<()> {
    let now = rustix::thread::capabilities(None)?;
    let permitted = now.permitted & kept;
    let sets = CapabilitySets {
        effective: permitted,
        permitted,
        // The ambient set shrinks with it.
        inheritable: now.inheritable & kept,
    };
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}
