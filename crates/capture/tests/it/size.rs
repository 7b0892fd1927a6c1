//! How much room a halt takes on disk, for halts as real guests make them.
//!
//! The figures are printed (`cargo test -p haltwise-capture size -- --nocapture`) and held to the
//! project's promise: at most 24 bytes in the end, at most 40 while recording.

use std::fs;

use haltwise_capture::table::Table;
use haltwise_core::event::{CeilingSource, Halt, WakeSource, WindowCall};
use haltwise_core::ids::{Tid, VcpuId, VmIndex};
use haltwise_core::units::Nanos;
use haltwise_core::workload::{Gaps, SplitMix64};

use crate::common::{ending, of_halts, some_halts, started};

/// Rows of one flush: 100 ms of 100,000 halts per second.
const FLUSH: usize = 10_000;

/// A guest's vCPU: gaps by a law, a fixed window, clocks that jitter by some hundred ns.
struct Vcpu {
    gaps: Gaps,
    random: SplitMix64,
    now_ns: u64,
    index: u32,
}

impl Vcpu {
    fn new(spec: &str, index: u32) -> Self {
        let seed = u64::from(index);
        Self {
            gaps: Gaps::new(spec.parse().unwrap(), seed).unwrap(),
            random: SplitMix64(seed ^ 0x5eed),
            now_ns: 5_000_000_000_000 + seed * 777,
            index,
        }
    }

    fn jitter(&mut self, mean: u64) -> u64 {
        self.random.exponential(Nanos(mean)).0
    }

    fn halt(&mut self) -> Halt {
        const WINDOW: u64 = 200_000;
        let gap_ns = self.gaps.draw().0 + self.jitter(300);
        let waited = gap_ns > WINDOW;
        let latency_ns = 25_000 + self.jitter(4_000);
        let wake_latency_ns = u64::from(waited) * latency_ns;
        let polled_ns = gap_ns.min(WINDOW + self.jitter(80));
        let halt_ns = gap_ns + wake_latency_ns;
        let start_ns = self.now_ns;
        self.now_ns += halt_ns + 3_000 + self.jitter(500);
        Halt {
            start_ns,
            halt_ns,
            vm: Some(VmIndex(self.index / 2)),
            vcpu: Some(VcpuId(self.index % 2)),
            tid: Tid(4_000 + self.index),
            waited,
            valid: true,
            window_ns: Some(200_000),
            window_next_ns: Some(200_000),
            ceiling_ns: Some(200_000),
            ceiling_source: CeilingSource::Param,
            change: WindowCall::None,
            poll_ns: Some(polled_ns.saturating_sub(self.jitter(60))),
            polled: Some(true),
            wake_latency_ns: Some(wake_latency_ns),
            wake: [WakeSource::Device, WakeSource::Timer][(self.index % 2) as usize],
            poll_cut: Some(false),
            cpu: Some(self.index),
            waker_cpu: waited.then(|| u32::from(latency_ns.is_multiple_of(3))),
        }
    }
}

/// Bytes per halt: of the stream, of the Parquet table.
fn bytes_per_halt(specs: &[&str], halts: usize) -> (f64, f64) {
    let (dir, mut recording) = started();
    let mut vcpus: Vec<Vcpu> = (specs.iter().zip(0..))
        .map(|(spec, index)| Vcpu::new(spec, index))
        .collect();
    let next = |_| {
        vcpus
            .iter_mut()
            .min_by_key(|vcpu| vcpu.now_ns)
            .unwrap()
            .halt()
    };
    let all: Vec<Halt> = (0..halts).map(next).collect();
    for flush in all.chunks(FLUSH) {
        recording.append(&of_halts(flush.to_vec())).unwrap();
    }
    let stream = fs::metadata(dir.path().join(Table::Halts.stream_file()))
        .unwrap()
        .len();
    let summary = recording.finish(ending()).unwrap();
    let table = summary.tables["halts"];
    assert_eq!(table.rows, halts as u64);
    (
        stream as f64 / halts as f64,
        table.bytes as f64 / halts as f64,
    )
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the figures are the test's second result"
)]
fn a_halt_takes_at_most_24_bytes() {
    for (name, specs, halts) in [
        ("pingpong, 5.7 us polled", &["fixed:5700ns"][..], 1_000_000),
        (
            "4 vCPUs, mixed",
            &[
                "fixed:5700ns",
                "exp:60us",
                "bimodal:0.8:15us:2ms",
                "exp:300us",
            ],
            300_000,
        ),
        (
            "2 vCPUs that sleep",
            &["exp:900us", "uniform:300us:4ms"],
            200_000,
        ),
    ] {
        let (stream, parquet) = bytes_per_halt(specs, halts);
        println!("{name}: {stream:.1} bytes per halt while recording, {parquet:.1} in Parquet");
        assert!(stream <= 40.0, "{name}: {stream:.1} in the stream");
        assert!(parquet <= 24.0, "{name}: {parquet:.1} in Parquet");
    }
}

#[test]
#[expect(
    clippy::print_stdout,
    reason = "the figure is the test's second result"
)]
fn a_flush_has_a_fixed_cost() {
    let (dir, mut recording) = started();
    let path = dir.path().join(Table::Halts.stream_file());
    let before = fs::metadata(&path).unwrap().len();
    for i in 0..100 {
        let halts = some_halts(i + 1)
            .halts
            .split_off(usize::try_from(i).unwrap());
        recording.append(&of_halts(halts)).unwrap();
    }
    let each = (fs::metadata(&path).unwrap().len() - before) / 100;
    println!("a flush of one halt takes {each} bytes of the stream");
    assert!(each <= 2048, "{each}");
}
