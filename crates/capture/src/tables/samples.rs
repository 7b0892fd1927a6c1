//! `samples`, and what they point to: `sample_frames`, `sample_stacks` and `sample_threads`.

use arrow_array::{ArrayRef, BooleanArray, StringArray, UInt32Array, UInt64Array};
use haltwise_core::exit::Isa;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex};
use haltwise_core::profile::{Event, Frame, Hit, Phase, Sample, Space, Stack, Thread};

use super::halt_counts::number_lists;
use crate::columns::{Columns, maybe, name_array};
use crate::error::CaptureReadError;
use crate::laws::Laws;
use crate::table::{Column, Kind, Table};
use crate::tables::{Row, array, place};

pub(crate) const COLUMNS: &[Column] = &[
    Column::new("time_ns", Kind::U64, "When."),
    Column::nullable(
        "vm",
        Kind::U32,
        "not known",
        "The VM. A thread that runs no vCPU belongs to the first VM of its process.",
    ),
    Column::nullable(
        "vcpu",
        Kind::U32,
        "runs none, or not placed yet",
        "The vCPU that the thread runs. Where it is NULL, `vcpus` may know by `vm` and `tid`.",
    ),
    Column::new("tid", Kind::U32, "The thread."),
    Column::new("cpu", Kind::U32, "The host's CPU."),
    Column::new(
        "event",
        Kind::Name,
        "What was sampled: `cpu-clock`, `cycles`, `instructions`, `cache-misses`, `dtlb-misses`, `page-faults`.",
    ),
    Column::new(
        "weight",
        Kind::U64,
        "What it stands for: nanoseconds of the CPU clock, or so many events.",
    ),
    Column::new(
        "hit",
        Kind::Name,
        "What ran: `kernel`, `user` (the VMM), `guest-kernel`, `guest-user`, `hypervisor` (below this host), `unknown`.",
    ),
    Column::new(
        "stack",
        Kind::U64,
        "The row of `sample_stacks`; 0 where there is none: a guest's stack is not walked.",
    ),
    Column::new(
        "phase",
        Kind::Name,
        "What came last in this thread: `entered` (`kvm_entry`), `exit` (`kvm_exit`: an exit is being handled, in the kernel or in the VMM); `unknown` without `--exits`.",
    ),
    Column::new(
        "isa",
        Kind::Name,
        "Whose reason it is, as in `exits`; `none` where there is none.",
    ),
    Column::nullable(
        "reason",
        Kind::U32,
        "phase is not `exit`",
        "The reason of the exit being handled.",
    ),
];

pub(crate) const FRAMES: &[Column] = &[
    Column::new("frame", Kind::U64, "Its number, from 1 on."),
    Column::new("space", Kind::Name, "Whose code: `kernel`, `user`."),
    Column::new(
        "module",
        Kind::Text,
        "`kernel`, a kernel module, the path of a program or library, `[vdso]` and the like; empty where no code lies at the address.",
    ),
    Column::nullable(
        "symbol",
        Kind::Text,
        "none covers it",
        "The function: demangled; without what a compiler appends to names of the kernel's (`.isra.0`). At most 400 bytes.",
    ),
    Column::nullable(
        "address",
        Kind::U64,
        "there is a symbol",
        "The address: in a file counted from its beginning, else as it was in memory.",
    ),
];

pub(crate) const STACKS: &[Column] = &[
    Column::new("stack", Kind::U64, "Its number, from 1 on."),
    Column::new(
        "frames",
        Kind::Numbers,
        "Rows of `sample_frames`, the innermost first, the kernel's before those of user space. At most 1024.",
    ),
    Column::new(
        "cut",
        Kind::Bool,
        "Frames are missing at its outer end: more than are kept, or an address at which no code lies (the VMM has no frame pointers).",
    ),
];

pub(crate) const THREADS: &[Column] = &[
    Column::nullable("vm", Kind::U32, "not known", "Its VM, as in `samples`."),
    Column::new("pid", Kind::U32, "Its process."),
    Column::new("tid", Kind::U32, "Its number."),
    Column::nullable(
        "name",
        Kind::Text,
        "gone already",
        "Its name (`/proc/PID/task/TID/comm`).",
    ),
];

/// Names as a dictionary, by their place among all.
macro_rules! named {
    ($type:ident, $rows:expr, $of:expr) => {{
        let words: Vec<&str> = $type::ALL.iter().map(|one| one.as_str()).collect();
        name_array(
            &words,
            $rows.iter().map($of).map(|one| place(&$type::ALL, one)),
        )
    }};
}

impl Row for Sample {
    const TABLE: Table = Table::Samples;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u64s = |of: fn(&Self) -> u64| array(UInt64Array::from_iter_values(rows.iter().map(of)));
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let maybe_u32s =
            |of: fn(&Self) -> Option<u32>| array(rows.iter().map(of).collect::<UInt32Array>());
        vec![
            u64s(|row| row.time_ns),
            maybe_u32s(|row| row.vm.map(|vm| vm.0)),
            maybe_u32s(|row| row.vcpu.map(|vcpu| vcpu.0)),
            u32s(|row| row.tid.0),
            u32s(|row| row.cpu),
            named!(Event, rows, |row: &Self| row.event),
            u64s(|row| row.weight),
            named!(Hit, rows, |row: &Self| row.hit),
            u64s(|row| row.stack),
            named!(Phase, rows, |row: &Self| row.phase),
            named!(Isa, rows, |row: &Self| row.isa),
            maybe_u32s(|row| row.reason),
        ]
    }

    fn lawful(rows: Vec<Self>, laws: &mut Laws) -> Vec<Self> {
        laws.each(rows, Laws::sample)
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let time_ns = columns.u64s("time_ns")?;
        let vm = columns.maybe_u32s("vm")?;
        let vcpu = columns.maybe_u32s("vcpu")?;
        let tid = columns.u32s("tid")?;
        let cpu = columns.u32s("cpu")?;
        let event = columns.names("event", Event::from_name)?;
        let weight = columns.u64s("weight")?;
        let hit = columns.names("hit", Hit::from_name)?;
        let stack = columns.u64s("stack")?;
        let phase = columns.names("phase", Phase::from_name)?;
        let isa = columns.names("isa", Isa::from_name)?;
        let reason = columns.maybe_u32s("reason")?;
        let sample = |row| Self {
            time_ns: time_ns[row],
            vm: maybe(vm, row).map(VmIndex),
            vcpu: maybe(vcpu, row).map(VcpuId),
            tid: Tid(tid[row]),
            cpu: cpu[row],
            event: event[row],
            weight: weight[row],
            hit: hit[row],
            stack: stack[row],
            phase: phase[row],
            isa: isa[row],
            reason: maybe(reason, row),
        };
        Ok((0..columns.len()).map(sample).collect())
    }
}

impl Row for Frame {
    const TABLE: Table = Table::SampleFrames;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let symbols = rows.iter().map(|row| row.symbol.as_deref());
        vec![
            array(UInt64Array::from_iter_values(rows.iter().map(|row| row.id))),
            named!(Space, rows, |row: &Self| row.space),
            array(StringArray::from_iter_values(
                rows.iter().map(|row| &row.module),
            )),
            array(symbols.collect::<StringArray>()),
            array(rows.iter().map(|row| row.address).collect::<UInt64Array>()),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let id = columns.u64s("frame")?;
        let space = columns.names("space", Space::from_name)?;
        let module = columns.texts("module")?;
        let symbol = columns.maybe_texts("symbol")?;
        let address = columns.maybe_u64s("address")?;
        let frame = |(row, symbol): (usize, Option<&str>)| Self {
            id: id[row],
            space: space[row],
            module: module.value(row).to_owned(),
            symbol: symbol.map(str::to_owned),
            address: maybe(address, row),
        };
        Ok(symbol.iter().enumerate().map(frame).collect())
    }
}

impl Row for Stack {
    const TABLE: Table = Table::SampleStacks;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let cut = rows.iter().map(|row| Some(row.cut));
        vec![
            array(UInt64Array::from_iter_values(rows.iter().map(|row| row.id))),
            number_lists(rows.iter().map(|row| &row.frames[..])),
            array(cut.collect::<BooleanArray>()),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let id = columns.u64s("stack")?;
        let frames = columns.lists("frames")?;
        let cut = columns.bools("cut")?;
        let stack = |(row, frames)| Self {
            id: id[row],
            frames,
            cut: cut.value(row),
        };
        Ok(frames.into_iter().enumerate().map(stack).collect())
    }
}

impl Row for Thread {
    const TABLE: Table = Table::SampleThreads;

    fn encode(rows: &[Self]) -> Vec<ArrayRef> {
        let u32s = |of: fn(&Self) -> u32| array(UInt32Array::from_iter_values(rows.iter().map(of)));
        let vms = rows.iter().map(|row| row.vm.map(|vm| vm.0));
        let names = rows.iter().map(|row| row.name.as_deref());
        vec![
            array(vms.collect::<UInt32Array>()),
            u32s(|row| row.pid.0),
            u32s(|row| row.tid.0),
            array(names.collect::<StringArray>()),
        ]
    }

    fn decode(columns: &Columns<'_>) -> Result<Vec<Self>, CaptureReadError> {
        let vm = columns.maybe_u32s("vm")?;
        let pid = columns.u32s("pid")?;
        let tid = columns.u32s("tid")?;
        let name = columns.maybe_texts("name")?;
        let thread = |(row, name): (usize, Option<&str>)| Self {
            vm: maybe(vm, row).map(VmIndex),
            pid: Pid(pid[row]),
            tid: Tid(tid[row]),
            name: name.map(str::to_owned),
        };
        Ok(name.iter().enumerate().map(thread).collect())
    }
}
