//! A VMM of one VM that does what VMMs do to their VMs and to themselves, for tests and benchmarks of ceilings: it takes
//! commands on stdin, a line each, and answers each with a line. With `announce` as its argument it announces its VM;
//! without, `libhaltwise_preload.so` may do so. With `silent`, `slow` or `shows FILE` it pretends to: questions get no
//! answer, or one after 1.9 s, or what it shows as its socket is that file.
//!
//! `replace` closes the VM and creates another, `own NS` sets the ceiling by itself, `fork` starts a child
//! that has the VM's fds and does nothing, `reap` ends it, `exec` starts this program anew in the same process, `more N`
//! creates N VMs of no vCPU beside it, `trips N`
//! runs the vCPU N times until it exits, and answers with the CPU time of that in nanoseconds.

#![expect(unsafe_code, reason = "fork, and memory of a guest")]
#![expect(clippy::print_stdout, reason = "the answers")]

use std::fs::File;
use std::io::{BufRead as _, Error, IoSliceMut, Result, stdin};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use haltwise_governor::KVM_CAP_HALT_POLL;
use haltwise_governor::protocol::{REQUEST_BYTES, Reply, memfd_name};
use kvm_bindings::{kvm_enable_cap, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType, recvmsg, send, socketpair,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Where the guest's only page lies.
const CODE: u64 = 0x1000;
/// `again: out %al, $0x10; jmp again`.
const GUEST: [u8; 4] = [0xe6, 0x10, 0xeb, 0xfc];
/// Three pages below 4 GiB that VMX takes for real mode.
const TSS: usize = 0xfffb_d000;

#[repr(align(4096))]
struct Page([u8; 4096]);

/// The VM, and the vCPU by which haltwise finds it.
struct Vm {
    fd: VmFd,
    vcpu: VcpuFd,
    // Given back after the fds are closed.
    _memory: Box<Page>,
}

impl Vm {
    fn create(announced: bool) -> Result<Self> {
        let vm = Kvm::new()?.create_vm()?;
        if announced && !haltwise_governor::announce(&vm) {
            return Err(Error::other("the VM cannot be announced"));
        }
        let mut memory = Box::new(Page([0; 4096]));
        memory.0[..GUEST.len()].copy_from_slice(&GUEST);
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: CODE,
            memory_size: 4096,
            userspace_addr: (&raw const *memory).addr() as u64,
        };
        // SAFETY: a page that lives as long as the VM, of which we make no use meanwhile.
        unsafe { vm.set_user_memory_region(region) }?;
        vm.set_tss_address(TSS)?;
        // Without one, halts are the VMM's.
        vm.create_irq_chip()?;
        let vcpu = vm.create_vcpu(0)?;
        let mut segments = vcpu.get_sregs()?;
        (segments.cs.base, segments.cs.selector) = (0, 0);
        vcpu.set_sregs(&segments)?;
        let mut registers = vcpu.get_regs()?;
        (registers.rip, registers.rflags) = (CODE, 2);
        vcpu.set_regs(&registers)?;
        Ok(Self {
            fd: vm,
            vcpu,
            _memory: memory,
        })
    }

    /// As a VMM with an option of its own does it.
    fn set_ceiling(&self, ns: u64) -> Result<()> {
        let mut cap = kvm_enable_cap {
            cap: KVM_CAP_HALT_POLL,
            ..Default::default()
        };
        cap.args[0] = ns;
        Ok(self.fd.enable_cap(&cap)?)
    }

    fn trips(&mut self, trips: u64) -> Result<i64> {
        let clock = || {
            let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        let before = clock();
        for _ in 0..trips {
            self.vcpu.run()?;
        }
        Ok(clock() - before)
    }
}

fn main() -> Result<()> {
    // As every VMM has: with a single thread the kernel takes a shorter way to a file.
    std::thread::spawn(std::thread::park);
    let mut arguments = std::env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let announced = role == "announce";
    let mut vm = Vm::create(announced)?;
    let _shown = match &*role {
        "silent" => Some(pretend(None)?),
        "slow" => Some(pretend(Some(Duration::from_millis(1_900)))?),
        "shows" => Some(show(
            File::open(arguments.next().unwrap_or_default())?.into(),
        )?),
        _ => None,
    };
    let (mut child, mut more) = (None, Vec::new());
    println!("ready");
    for line in stdin().lock().lines() {
        let line = line?;
        let (command, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number: u64 = number.parse().map_err(Error::other)?;
        match command {
            "replace" => {
                // Closed first: the new fds have the old numbers.
                drop(vm);
                vm = Vm::create(announced)?;
            }
            "own" => vm.set_ceiling(number)?,
            "more" => {
                for _ in 0..number {
                    let vm = Kvm::new()?.create_vm()?;
                    // Beyond the number that is answered for, it is not.
                    let _ = announced && haltwise_governor::announce(&vm);
                    more.push(vm);
                }
            }
            "fork" => child = Some(fork()?),
            "reap" => reap(child.take())?,
            "exec" => {
                let mut again = Command::new(std::env::current_exe()?);
                return Err(again.args(std::env::args_os().skip(1)).exec());
            }
            "trips" => {
                println!("{}", vm.trips(number)?);
                continue;
            }
            _ => return Err(Error::other("no such command")),
        }
        println!("done");
    }
    Ok(())
}

/// Shows this file to be asked, with the memfd that says so.
fn show(file: OwnedFd) -> Result<Vec<OwnedFd>> {
    let sign = memfd_create(memfd_name(file.as_raw_fd()), MemfdFlags::CLOEXEC)?;
    Ok(vec![file, sign])
}

/// Shows a socket at which questions are answered after that time, or never.
fn pretend(after: Option<Duration>) -> Result<Vec<OwnedFd>> {
    let (unix, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    let (asked, answering) = socketpair(unix, SocketType::SEQPACKET, flags, None)?;
    let mut shown = show(asked)?;
    match after {
        Some(after) => drop(std::thread::spawn(move || {
            while answer(&answering, after).is_ok() {}
        })),
        None => shown.push(answering),
    }
    Ok(shown)
}

/// Takes one request, and answers after that time that there is no VM.
fn answer(socket: &OwnedFd, after: Duration) -> Result<()> {
    let mut request = [0; REQUEST_BYTES];
    let mut request = [IoSliceMut::new(&mut request)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(socket, &mut request, &mut control, RecvFlags::empty())?;
    std::thread::sleep(after);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(to) = message {
            for to in to {
                // The client may have gone.
                let _ = send(&to, &Reply::of(0).encode(), SendFlags::NOSIGNAL);
            }
        }
    }
    Ok(())
}

/// The child's PID is below ours, as after PIDs have wrapped: a walk over the processes meets the child first.
fn fork() -> Result<Pid> {
    for pid in (2..std::process::id().cast_signed()).rev() {
        match fork_as(pid) {
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {}
            child => return child,
        }
    }
    Err(Error::other("no PID below ours is free"))
}

fn fork_as(pid: i32) -> Result<Pid> {
    // SAFETY: integers and addresses, all of which may be zero.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.exit_signal = libc::SIGCHLD.cast_unsigned().into();
    arguments.set_tid = (&raw const pid).addr() as u64;
    arguments.set_tid_size = 1;
    let size = size_of_val(&arguments);
    // SAFETY: arguments and PID live as long as the call; without CLONE_VM the child has memory of its own, and it only
    // sleeps until it is killed.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size) } {
        -1 => Err(Error::last_os_error()),
        0 => loop {
            std::thread::sleep(Duration::from_hours(1));
        },
        _ => Pid::from_raw(pid).ok_or_else(|| Error::other("no child")),
    }
}

fn reap(child: Option<Pid>) -> Result<()> {
    if let Some(child) = child {
        kill_process(child, Signal::KILL)?;
        waitpid(Some(child), WaitOptions::empty())?;
    }
    Ok(())
}
