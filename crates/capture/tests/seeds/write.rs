//! Writes the seeds of the fuzz targets: small captures with something in every column.
//!
//! Both as haltwise writes them and unpacked, so that a fuzzer reaches the decoders behind the
//! compression too.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use haltwise_capture::recording::Recording;
use haltwise_capture::table::Table;
use haltwise_core::event::{CeilingSource, Observable, Vcpu, Vm};
use haltwise_core::ids::{Pid, Tid, VcpuId, VmKey, VmmKind};
use haltwise_core::recording::{Missing, Roster};
use haltwise_core::workload::SplitMix64;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::facts::{Draw, ending, info};

pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds")
}

pub(crate) fn all() {
    let capture = tempfile::tempdir().unwrap();
    let mut info = info();
    info.command = vec!["haltwise".into(), "record".into()];
    info.missing = vec![Missing::new("poll_ns", "no such statistic")];
    info.roster = roster();
    let mut recording = Recording::create(capture.path(), info).unwrap();
    let mut draw = Draw(SplitMix64(1));
    (0..8).for_each(|_| recording.append(&draw.facts()).unwrap());
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
    recording.finish(ending()).unwrap();
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

fn roster() -> Roster {
    let vm = Vm {
        key: VmKey::first(Pid(4700), 5),
        name: "web-1".into(),
        vmm: VmmKind::Qemu,
        observable: Observable::No("its threads are hidden".into()),
        ..Vm::default()
    };
    let vcpu = Vcpu {
        id: VcpuId(1),
        tid: Tid(4711),
        window_ns: Some(10_000),
        ceiling_ns: Some(200_000),
        ceiling_source: CeilingSource::Param,
        guest_veto: Some(false),
        ..Vcpu::default()
    };
    Roster {
        vms: vec![vm],
        vcpus: vec![vcpu],
        ..Roster::default()
    }
}
