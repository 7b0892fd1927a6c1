//! A host with 61 VMs: what a text lists, sums up and leaves to options.

use std::path::Path;

use haltwise_core::event::{CeilingSource, Facts, Observable, Paused, Vcpu, Vm, WakeSource};
use haltwise_core::ids::{Pid, VmIndex, VmKey, VmmKind};
use serde_json::Value;

use super::guest::{Guest, tid};
use super::{START_NS, compare, fits, haltwise, in_order, info_of, record, scenarios};

const VMS: u32 = 61;

/// Gaps of the VMs in turn: servers, desktops, batches, those in between.
pub(super) const GAPS: [&str; 4] = [
    "exp:40us",
    "uniform:3800us:4ms",
    "bimodal:0.8:15us:2ms",
    "exp:300us",
];

/// Writes the capture: one VM cannot be seen, one is paused, one polls in its guest, three have a cap.
pub(super) fn write(dir: &Path) {
    let of_one = scenarios::named("idle");
    let mut info = info_of(&of_one);
    let vm = |vm: u32| Vm {
        index: VmIndex(vm),
        key: VmKey {
            pid: Pid(5_000 + vm),
            start_ticks: 4_000,
            ordinal: 0,
        },
        name: format!("production-frontend-{vm:02}.example.com"),
        vmm: VmmKind::Qemu,
        observable: match vm {
            60 => Observable::No("exits on HLT are disabled".into()),
            _ => Observable::Yes,
        },
        paused: (vm == 59).then_some(Paused {
            over_ns: 0,
            from_ns: Some(START_NS),
        }),
        ..Vm::default()
    };
    let vcpu = of_one.roster.vcpus[0].clone();
    info.roster.vms = (0..VMS).map(vm).collect();
    info.roster.vcpus = (0..VMS)
        .map(|vm| Vcpu {
            vm: VmIndex(vm),
            tid: tid(vm, 0),
            guest_veto: Some(vm == 12),
            time: None,
            ..vcpu.clone()
        })
        .collect();
    let mut facts = Facts::default();
    for vm in 0..59 {
        let cap = vm % 20 == 7;
        let guest = Guest {
            vm,
            seed: 100 + u64::from(vm),
            gaps: GAPS[vm as usize % GAPS.len()],
            wakes: &[WakeSource::Timer, WakeSource::Device, WakeSource::Ipi],
            veto: vm == 12,
            ceiling_ns: if cap { 50_000 } else { 200_000 },
            source: if cap {
                CeilingSource::Cap
            } else {
                CeilingSource::Param
            },
            ..Guest::default()
        };
        guest.run(&mut facts);
    }
    in_order(&mut facts);
    facts.host = of_one.facts.host;
    record(dir, info, &facts, of_one.ending);
}

/// The names in a table's first column, as far as they are not cut.
fn listed(text: &str) -> Vec<u32> {
    let rows = text.lines().filter(|line| line.starts_with("  produ"));
    let number = |line: &str| {
        let name = line.split_whitespace().next()?;
        name.trim_end_matches(".example.com")
            .trim_end_matches('~')
            .rsplit('-')
            .next()?
            .parse()
            .ok()
    };
    rows.filter_map(number).collect()
}

#[test]
fn a_report_of_many_vms_fits_a_screen_and_lists_what_costs_most() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("many"));
    let report =
        |options: &[&str]| haltwise(dir.path(), &[&["report", "many"], options].concat()).0;
    let text = report(&[]);
    compare("many/report.txt", &text).unwrap();
    fits("many/report.txt", &text).unwrap();
    assert!(text.lines().count() < 80, "{}", text.lines().count());
    // JSON keeps all: what the text lists first is what costs most there.
    let json: Value = serde_json::from_str(&report(&["--json"])).unwrap();
    let vms = json["vms"].as_array().unwrap();
    assert_eq!(vms.len(), VMS as usize);
    for (key, pointer) in [
        ("poll", "/account/poll/cpu_percent"),
        ("halts", "/account/halts_per_s"),
        ("wake", "/account/wake_latency_ns/p50"),
    ] {
        let mut expected: Vec<(f64, u32)> = vms
            .iter()
            .filter_map(|vm| {
                let name = vm["name"].as_str()?;
                let number = name.trim_end_matches(".example.com").rsplit('-').next()?;
                Some((vm.pointer(pointer)?.as_f64()?, number.parse().ok()?))
            })
            .collect();
        expected.sort_by(|a, b| b.0.total_cmp(&a.0));
        let got = listed(&report(&["--sort", key, "--rows", "7", "--width", "120"]));
        assert_eq!(got.len(), 7);
        let value = |wanted: u32| expected.iter().find(|(_, vm)| *vm == wanted).unwrap().0;
        let got: Vec<f64> = got.into_iter().map(value).collect();
        let best: Vec<f64> = expected.iter().take(7).map(|(value, _)| *value).collect();
        assert_eq!(got, best, "{key}");
    }
    assert_eq!(
        listed(&report(&["--rows", "all", "--width", "120"])).len(),
        VMS as usize
    );
}
