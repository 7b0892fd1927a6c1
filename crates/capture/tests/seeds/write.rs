//! Writes the seeds of the fuzz targets: small captures with something in every column.
//!
//! Both as haltwise writes them and unpacked, so that a fuzzer reaches the decoders behind the
//! compression too.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use haltwise_capture::info::{CaptureInfo, Clock, Ended, Host, Tool};
use haltwise_capture::recording::{Ending, Recording};
use haltwise_capture::table::Table;
use haltwise_core::event::{
    CeilingSource, Facts, Halt, HaltCounts, HostSample, IdleState, Knob, KnobScope, Lost,
    Observable, Vcpu, Vm, WakeSource, WindowCall, WindowChange,
};
use haltwise_core::exit::{Cause, Exits, Isa, Kind};
use haltwise_core::hist::LogHist;
use haltwise_core::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use haltwise_core::profile::{Event, Frame, Hit, Phase, Rows, Sample, Space, Stack, Thread};
use haltwise_core::recording::{Missing, Mode, Roster, Rung};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterVersion};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

/// Writes all seeds of the capture's targets.
pub(crate) fn all() {
    let capture = tempfile::tempdir().unwrap();
    let mut recording = Recording::create(capture.path(), info()).unwrap();
    recording.append(&facts(0)).unwrap();
    recording.append(&facts(10)).unwrap();
    for table in Table::STREAMED {
        let stream = capture.path().join(table.stream_file());
        put(
            "capture_stream",
            &table.stream_file(),
            &fs::read(&stream).unwrap(),
        );
    }
    let halts = File::open(capture.path().join("halts.arrows")).unwrap();
    let batches: Vec<_> = StreamReader::try_new(halts, None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    put(
        "capture_stream",
        "unpacked.arrows",
        &unpacked_stream(&batches),
    );
    put(
        "capture_parquet",
        "unpacked.parquet",
        &unpacked_parquet(&batches),
    );
    put(
        "capture_json",
        "recording.json",
        &fs::read(capture.path().join("capture.json")).unwrap(),
    );
    let ended = Ended {
        time_ns: 2_000_000_000,
        by: "SIGINT".into(),
    };
    let lost = BTreeMap::from([("ring buffer full".to_owned(), 3)]);
    recording
        .finish(Ending {
            ended,
            lost,
            overhead: None,
        })
        .unwrap();
    for (target, file) in [
        ("capture_json", "capture.json"),
        ("capture_parquet", "halts.parquet"),
    ] {
        put(target, file, &fs::read(capture.path().join(file)).unwrap());
    }
}

fn put(target: &str, name: &str, bytes: &[u8]) {
    let directory = directory().join(target);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join(name), bytes).unwrap();
}

fn unpacked_stream(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

fn unpacked_parquet(batches: &[RecordBatch]) -> Vec<u8> {
    let properties = WriterProperties::builder().set_writer_version(WriterVersion::PARQUET_2_0);
    let properties = Some(properties.build());
    let mut writer =
        ArrowWriter::try_new(Vec::new(), Arc::clone(&batches[0].schema()), properties).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.into_inner().unwrap()
}

fn info() -> CaptureInfo {
    let tool = Tool {
        name: "haltwise".into(),
        version: "0.1.0".into(),
    };
    let host = Host {
        kernel_release: "6.12.0".into(),
        arch: "x86_64".into(),
        cpu_model: Some("Some CPU".into()),
        cpus: 2,
        hostname: None,
    };
    let clock = Clock::new(1_000_000_000, 1_735_689_600_000_000_000);
    let mut info = CaptureInfo::new(tool, host, clock, Rung::Bpf, Mode::Full);
    info.command = vec!["haltwise".into(), "record".into()];
    info.missing = vec![Missing::new("poll_ns", "no such statistic")];
    info.knobs = facts(0).knobs;
    info.roster = roster();
    info
}

fn roster() -> Roster {
    let vm = Vm {
        index: VmIndex(0),
        key: VmKey {
            pid: Pid(4700),
            start_ticks: 5,
            ordinal: 0,
        },
        name: "web-1".into(),
        vmm: VmmKind::Qemu,
        observable: Observable::No("its threads are hidden".into()),
        ..Vm::default()
    };
    let vcpu = Vcpu {
        vm: VmIndex(0),
        id: VcpuId(1),
        tid: Tid(4711),
        window_ns: Some(10_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        guest_veto: Some(false),
        time: None,
    };
    Roster {
        vms: vec![vm],
        vcpus: vec![vcpu],
    }
}

fn exits(from: u64, handling_ns: LogHist) -> Exits {
    Exits {
        time_ns: 1_000_000_000 + from,
        interval_ns: 1_000_000_000,
        vm: Some(VmIndex(0)),
        vcpu: Some(VcpuId(1)),
        tid: Tid(4711),
        cause: Cause {
            kind: Kind::MsrWrite,
            isa: Isa::Vmx,
            reason: Some(32),
            sub: Some(0x830),
        },
        count: 7,
        user_ns: from,
        handling_ns,
    }
}

fn profile(from: u64) -> Rows {
    let (space, module) = (Space::Kernel, String::from("kvm"));
    let frame = |id, symbol: Option<&str>| Frame {
        id: from + id,
        space,
        module: module.clone(),
        symbol: symbol.map(str::to_owned),
        address: symbol.is_none().then_some(0x1234),
    };
    Rows {
        frames: vec![frame(1, Some("kvm_vcpu_halt")), frame(2, None)],
        stacks: vec![Stack {
            id: from + 1,
            frames: vec![from + 1, from + 2],
            cut: true,
        }],
        threads: vec![Thread {
            vm: Some(VmIndex(0)),
            pid: Pid(4700),
            tid: Tid(4711),
            name: Some("vcpu 0".into()),
        }],
        samples: vec![Sample {
            time_ns: 1_000_000_000 + from,
            vm: Some(VmIndex(0)),
            vcpu: Some(VcpuId(1)),
            tid: Tid(4711),
            cpu: 1,
            event: Event::CpuClock,
            weight: 1_003_009,
            hit: Hit::Kernel,
            stack: from + 1,
            phase: Phase::Exit,
            isa: Isa::Vmx,
            reason: Some(12),
        }],
    }
}

/// Ten halts from this number on, and a little of everything else.
fn polling(time_ns: u64) -> IdleState {
    IdleState {
        time_ns,
        name: "POLL".into(),
        ..IdleState::default()
    }
}

fn sampled(time_ns: u64) -> HostSample {
    HostSample {
        time_ns,
        cpus: 2,
        ..HostSample::default()
    }
}

fn facts(from: u64) -> Facts {
    let halt = |i: u64| Halt {
        start_ns: 1_000_000_000 + 20_000 * i,
        halt_ns: 5_700 + i % 97,
        vm: (!i.is_multiple_of(5)).then_some(VmIndex(0)),
        vcpu: (!i.is_multiple_of(5)).then_some(VcpuId(1)),
        tid: Tid(4711),
        waited: i.is_multiple_of(3),
        valid: true,
        window_ns: Some(10_000),
        window_next_ns: (!i.is_multiple_of(4)).then_some(20_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        change: WindowCall::ALL[usize::try_from(i % 3).unwrap()],
        poll_ns: (!i.is_multiple_of(5)).then_some(5_000 + i),
        polled: i.is_multiple_of(2).then_some(true),
        wake_latency_ns: Some(i * 100),
        wake: WakeSource::ALL[usize::try_from(i % 5).unwrap()],
        poll_cut: Some(i.is_multiple_of(7)),
    };
    let mut halt_ns = LogHist::default();
    for value in [0, 3, 3, 5_700, 91_000] {
        halt_ns.record(value + from);
    }
    let time_ns = 1_000_000_000 + from;
    let (vm, vcpu, tid) = (Some(VmIndex(0)), Some(VcpuId(1)), Tid(4711));
    let (old_ns, new_ns) = (10_000, 20_000);
    let knob = |scope, name: &str| Knob {
        time_ns,
        name: name.into(),
        scope,
        value: "200000".into(),
    };
    Facts {
        halts: (from..from + 10).map(halt).collect(),
        windows: vec![WindowChange {
            time_ns,
            vm,
            vcpu,
            tid,
            grow: true,
            old_ns,
            new_ns,
        }],
        counts: vec![HaltCounts {
            time_ns,
            vm,
            vcpu,
            tid,
            halt_ns: halt_ns.clone(),
            ..HaltCounts::default()
        }],
        knobs: vec![
            knob(KnobScope::Host, "halt_poll_ns"),
            knob(KnobScope::Vm(VmIndex(0)), "max_halt_poll_ns"),
        ],
        host: vec![sampled(time_ns)],
        idle_states: vec![polling(time_ns)],
        lost: vec![Lost {
            time_ns,
            count: 3,
            place: "ring buffer full".into(),
        }],
        exits: vec![exits(from, halt_ns)],
        profile: profile(from),
    }
}
