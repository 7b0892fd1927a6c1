//! Exits that never happened, through the real programs: for what real guests cannot show here.
//!
//! A thread that asks for exits and entries in turn looks to the programs like the thread of a vCPU
//! (`bpf/on_request.rs`). Not part of the library's interface: tests use it.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Barrier;

use haltwise_core::event::Lost;
use haltwise_core::exit::{Exits, SubKey};
use haltwise_core::ids::{Pid, VcpuId, VmIndex};
use libbpf_rs::{MapCore, MapMut};

use super::super::cost::start_timing;
use super::super::on_request::{in_a_thread, run};
use super::super::program::run_count;
use super::super::record::Place;
use super::ExitCounter;
use crate::clock;
use crate::collector::CollectError;
use crate::exits::ExitOptions;

#[derive(Debug, Clone, Copy)]
pub struct Synthetic {
    /// Threads, each a vCPU of its own; all alive at once.
    pub vcpus: u32,
    /// Number of vCPUs that the table of counts is sized for.
    pub expected_vcpus: u32,
    pub exits: u32,
    /// Their reasons, one after the other, from 0 up.
    pub reasons: u32,
}

#[derive(Debug)]
pub struct Played {
    pub rows: Vec<Exits>,
    pub timed: Timed,
    /// Bytes that the kernel's tables take: fixed when they are loaded.
    pub table_bytes: u64,
}

const VMX: u64 = 1;
const SVM: u64 = 2;

/// Plays; an error where BPF is not to be had. x86 only: the arguments are laid out as its older
/// kernels do, where the reason is one of them.
pub fn play(wanted: Synthetic) -> Result<Played, CollectError> {
    let mut counter = counter(wanted.expected_vcpus, &ExitOptions::default())?;
    let progs = &counter.skel.progs;
    // KVM puts the guest's FPU away at the end of KVM_RUN: nothing to do.
    let programs = [
        progs.on_exit_before.as_fd(),
        progs.on_entry.as_fd(),
        progs.on_fpu.as_fd(),
    ];
    let timed = time(programs, wanted)?;
    let maps = &counter.skel.maps;
    let table_bytes = [&maps.cells, &maps.cell_of].map(size_of_table);
    Ok(Played {
        rows: rows(&mut counter)?,
        timed,
        table_bytes: table_bytes.into_iter().sum(),
    })
}

fn size_of_table(map: &MapMut<'_>) -> u64 {
    u64::from(map.max_entries()) * u64::from(map.key_size() + map.value_size())
}

#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// Time of the two programs together for one exit and its entry, as the kernel measures it, less
    /// `measuring_ns`.
    pub ns_per_exit: f64,
    /// Time that the kernel measures for two programs that do nothing: the kernel's own clock reads.
    pub measuring_ns: f64,
}

/// Plays to any programs: for an exit, for an entry, and one that does nothing with a 0.
pub fn time(programs: [BorrowedFd<'_>; 3], wanted: Synthetic) -> Result<Timed, CollectError> {
    let timing = start_timing();
    let start = Barrier::new(wanted.vcpus as usize);
    let played: io::Result<()> = std::thread::scope(|scope| {
        let start = &start;
        let threads: Vec<_> = (0..wanted.vcpus)
            .map(|vcpu| {
                let thread = std::thread::Builder::new().stack_size(64 << 10);
                thread.spawn_scoped(scope, move || {
                    start.wait();
                    one(programs, vcpu, wanted)
                })
            })
            .collect::<io::Result<_>>()?;
        for thread in threads {
            thread
                .join()
                .map_err(|_| io::Error::other("a thread panicked"))??;
        }
        Ok(())
    });
    played.map_err(CollectError::failed("play exits"))?;
    drop(timing);
    let [exits, entries, idle] = programs.map(run_count);
    let measuring_ns = 2.0 * idle.time_ns as f64 / idle.count.max(1) as f64;
    let both = (exits.time_ns + entries.time_ns) as f64 / exits.count.max(1) as f64;
    Ok(Timed {
        ns_per_exit: both - measuring_ns,
        measuring_ns,
    })
}

#[derive(Debug, Clone, Copy)]
pub enum Step {
    /// `kvm_entry` of this vCPU.
    Entry(u32),
    /// `kvm_exit` of this vCPU, for this reason of VMX.
    Exit(u32, u32),
    /// The same for a reason of SVM.
    SvmExit(u32, u32),
    /// `kvm_userspace_exit`, for this reason.
    Return(u32),
    /// `kvm_fpu`: `KVM_RUN` begins.
    Run,
    /// `kvm_msr`: a write of this register.
    Wrmsr(u32),
}

/// Plays these steps, each list in a thread of its own after the last has ended; gives the rows.
pub fn play_steps(threads: &[&[Step]]) -> Result<Vec<Exits>, CollectError> {
    play_telling(BTreeSet::new(), threads).map(|(rows, _)| rows)
}

pub fn play_telling(
    sub_keys: BTreeSet<SubKey>,
    threads: &[&[Step]],
) -> Result<(Vec<Exits>, Vec<Lost>), CollectError> {
    let options = ExitOptions { sub_keys };
    let mut counter = counter(1, &options)?;
    let progs = &counter.skel.progs;
    let (exit, entry) = (progs.on_exit_before.as_fd(), progs.on_entry.as_fd());
    let (returned, fpu) = (progs.on_userspace_exit.as_fd(), progs.on_fpu.as_fd());
    let msr = progs.on_msr.autoload().then(|| progs.on_msr.as_fd());
    let step = |step: &Step| match *step {
        Step::Entry(vcpu) => run(entry, &[address(vcpu)]),
        Step::Exit(vcpu, reason) => run(exit, &[reason.into(), address(vcpu), VMX]),
        Step::SvmExit(vcpu, reason) => run(exit, &[reason.into(), address(vcpu), SVM]),
        Step::Return(reason) => run(returned, &[reason.into(), 0]),
        Step::Run => run(fpu, &[1]),
        Step::Wrmsr(register) => {
            let not_asked = || io::Error::other("sub-keys of MSRs were not asked for");
            run(msr.ok_or_else(not_asked)?, &[1, register.into()])
        }
    };
    for steps in threads {
        in_a_thread(steps, step).map_err(CollectError::failed("play exits"))?;
    }
    Ok((rows(&mut counter)?, counter.lost(clock::monotonic_ns())?))
}

/// Loaded, and counting what is played: what other processes do is not.
fn counter(vcpus: u32, options: &ExitOptions) -> Result<ExitCounter, CollectError> {
    let vcpus = usize::try_from(vcpus).unwrap_or(usize::MAX);
    let ours = [Pid(std::process::id())];
    let mut counter = ExitCounter::start(options, &ours, vcpus)?;
    counter.detach();
    Ok(counter)
}

fn rows(counter: &mut ExitCounter) -> Result<Vec<Exits>, CollectError> {
    let place = |who: super::Who| Place {
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(who.tid)),
    };
    counter.read(&mut |who| place(who))
}

/// Where a vCPU's `struct kvm_vcpu` would lie. It cannot be read, which the programs must bear.
fn address(vcpu: u32) -> u64 {
    0xdead_0000_0000_0000 | u64::from(vcpu + 1) << 12
}

fn one(programs: [BorrowedFd<'_>; 3], vcpu: u32, wanted: Synthetic) -> io::Result<()> {
    let [exit, entry, idle] = programs;
    let address = address(vcpu);
    run(entry, &[address])?;
    for nth in 0..wanted.exits {
        run(exit, &[u64::from(nth % wanted.reasons), address, VMX])?;
        run(entry, &[address])?;
        run(idle, &[0])?;
    }
    Ok(())
}
