//! `samples`, and what they point to: `sample_frames`, `sample_stacks` and `sample_threads`.

use haltwise_core::profile::{Frame, Sample, Stack, Thread};

use crate::laws::Laws;
use crate::tables::Law;

table! {
    Samples: Sample {
        time_ns: U64, "When.";
        vm: U32, null "not known", "The VM. A thread that runs no vCPU belongs to the first VM of its process.";
        vcpu: U32, null "runs none, or not placed yet",
            "The vCPU that the thread runs. Where it is NULL, `vcpus` may know by `vm` and `tid`.";
        tid: U32, "The thread.";
        cpu: U32, "The host's CPU.";
        event: Name,
            "What was sampled: `cpu-clock`, `cycles`, `instructions`, `cache-misses`, `dtlb-misses`, `page-faults`.";
        weight: U64, "What it stands for: nanoseconds of the CPU clock, or so many events.";
        hit: Name,
            "What ran: `kernel`, `user` (the VMM), `guest-kernel`, `guest-user`, `hypervisor` (below this host), `unknown`.";
        stack: U64, "The row of `sample_stacks`; 0 where there is none: a guest's stack is not walked.";
        phase: Name,
            "What came last in this thread: `entered` (`kvm_entry`), `exit` (`kvm_exit`: an exit is being handled, in the kernel or in the VMM); `unknown` without `--exits`.";
        isa: Name, "Whose reason it is, as in `exits`; `none` where there is none.";
        reason: U32, null "phase is not `exit`", "The reason of the exit being handled.";
    }
    const LAW: Option<Law<Self>> = Some(Laws::sample);
}

table! {
    SampleFrames: Frame {
        id as "frame": U64, "Its number, from 1 on.";
        space: Name, "Whose code: `kernel`, `user`.";
        module: Text,
            "`kernel`, a kernel module, the path of a program or library, `[vdso]` and the like; empty where no code lies at the address.";
        symbol: Text, null "none covers it",
            "The function: demangled; without what a compiler appends to names of the kernel's (`.isra.0`). At most 400 bytes.";
        address: U64, null "there is a symbol",
            "The address: in a file counted from its beginning, else as it was in memory.";
    }
}

table! {
    SampleStacks: Stack {
        id as "stack": U64, "Its number, from 1 on.";
        frames: Numbers,
            "Rows of `sample_frames`, the innermost first, the kernel's before those of user space. At most 1024.";
        cut: Bool,
            "Frames are missing at its outer end: more than are kept, or an address at which no code lies (the VMM has no frame pointers).";
    }
}

table! {
    SampleThreads: Thread {
        vm: U32, null "not known", "Its VM, as in `samples`.";
        pid: U32, "Its process.";
        tid: U32, "Its number.";
        name: Text, null "gone already", "Its name (`/proc/PID/task/TID/comm`).";
    }
}
