//! A VM is there from its beginning to its end, whether it halts or not, in every mode and from every source. VMs that
//! their VMM holds are in stock kernels (`xtask/src/kernels/linux_guest.rs`).

use std::time::Duration;

use haltwise_core::event::Vm;
use haltwise_host::clock::monotonic_ns;
use rustix::process::Signal;

use crate::bench::{Bench, haltwise, has_recorded};
use crate::documents::contradictions;

const WAYS: [(&str, &str); 4] = [
    ("full", ""),
    ("counts", "--mode counts --interval 200ms"),
    ("stats", "--mode stats --interval 200ms"),
    ("tracepoints", "--source tracepoints"),
];

/// Runs a VM to its end, and says from when to when its process was there.
fn passing(bench: &Bench, guest: &str) -> (u64, u64) {
    let from_ns = monotonic_ns();
    bench.lab_ran(guest);
    (from_ns, monotonic_ns())
}

#[test]
#[ignore = "long: make test-long"]
fn a_vm_that_comes_late_and_goes_early_is_there_that_long_and_is_listed_without_a_halt() {
    let Some(bench) = Bench::set_up() else { return };
    let staying = bench.keep_halting("exp:2ms", "presence-stays");
    for (way, options) in WAYS {
        let recorder = bench.recorder(way, options);
        let halts = "pingpong --gap exp:1ms --name presence-halts --duration 800ms";
        let halting = passing(&bench, halts);
        // Without a halt it is found by a walk alone: there is one in two seconds at least.
        let runs = "port-poll --name presence-runs --duration 2500ms";
        let never = passing(&bench, runs);
        std::thread::sleep(Duration::from_millis(1_500));
        let noticed_ns = monotonic_ns();
        has_recorded(&recorder.end(Signal::INT));
        let capture = bench.capture(way);
        let vms = &capture.info().roster.vms;
        let of = |name: &str| -> &Vm {
            let found = vms.iter().find(|vm| vm.name == name);
            found.unwrap_or_else(|| panic!("{way}: no {name} among {vms:?}"))
        };
        let stays = of("presence-stays");
        assert_eq!((stays.from_ns, stays.to_ns), (None, None), "{way}");
        for (name, (from_ns, to_ns)) in [("presence-halts", halting), ("presence-runs", never)] {
            // Tracepoints know nothing of a VM that comes and goes between two looks at all processes.
            if way == "tracepoints" && name == "presence-runs" {
                continue;
            }
            let vm = of(name);
            let came_ns = vm.from_ns.unwrap();
            // A process's beginning is told in ticks of 10 ms.
            assert!(
                came_ns + 20_000_000 >= from_ns && came_ns <= to_ns,
                "{way}: {vm:?}"
            );
            let gone_ns = vm.to_ns.unwrap();
            assert!(gone_ns > came_ns && gone_ns < noticed_ns, "{way}: {vm:?}");
        }
        let wrong = contradictions(haltwise(), &bench.path(way));
        assert!(wrong.is_empty(), "{way}:\n{}", wrong.join("\n"));
    }
    staying.end(Signal::TERM);
}
