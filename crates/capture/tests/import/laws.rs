//! Printed events come back, whichever tool printed them.

use std::collections::BTreeMap;

use haltwise_capture::import::GivenSettings;
use haltwise_core::event::{CeilingSource, Halt, WakeSource, WindowCall};
use haltwise_core::ids::Tid;
use haltwise_core::parameter::{Parameter, Values};
use proptest::prelude::*;

use super::kvm::{self, CEILING, Tool};
use super::{Made, capture_of};

fn told() -> GivenSettings {
    GivenSettings {
        parameters: Values::default().with(Parameter::HaltPollNs, CEILING),
        kernel_release: Some("6.12".to_owned()),
        ..GivenSettings::default()
    }
}

fn vcpus() -> impl Strategy<Value = Vec<Vec<(u64, u64)>>> {
    let gap = prop_oneof![0..30_000_u64, 0..400_000_u64];
    let halts = prop::collection::vec((gap, 3_000..60_000_u64), 1..40);
    prop::collection::vec(halts, 1..5)
}

fn by_vcpu(halts: &[Halt]) -> BTreeMap<Tid, Vec<Halt>> {
    let mut threads = BTreeMap::<_, Vec<Halt>>::new();
    for halt in halts {
        threads.entry(halt.tid).or_default().push(*halt);
    }
    threads
}

fn check(tool: Tool, halts: &[Halt], truths: &[&Halt]) -> Result<(), TestCaseError> {
    prop_assert_eq!(halts.len(), truths.len());
    let (mut window_known, mut watched) = (false, false);
    for (halt, truth) in halts.iter().zip(truths) {
        window_known |= truth.change != WindowCall::None;
        let facts = |it: &Halt| (it.vcpu, it.halt_ns, it.waited, it.valid, it.change);
        prop_assert_eq!(facts(halt), facts(truth));
        prop_assert_eq!(
            (halt.ceiling_ns, halt.ceiling_source),
            (Some(CEILING), CeilingSource::Param)
        );
        prop_assert_eq!(halt.window_ns, truth.window_ns.filter(|_| window_known));
        // The event of a halt comes 300 ns after its end; times may be cut to the microsecond.
        let slack = 300 + if tool.is_exact() { 0 } else { 1_000 };
        prop_assert!(
            halt.end_ns().abs_diff(truth.end_ns()) <= slack,
            "{:?} {:?}",
            halt,
            truth
        );
        if !truth.waited {
            prop_assert_eq!(halt.wake_latency_ns, Some(0));
        } else if watched {
            // From the second halt on the thread is known to be a vCPU's when it is woken.
            let latency = halt.wake_latency_ns.unwrap();
            prop_assert!(
                latency.abs_diff(truth.wake_latency_ns.unwrap()) <= slack + 1_000,
                "{:?} {:?}",
                halt,
                truth
            );
            prop_assert_eq!(halt.wake, WakeSource::Device, "{:?}", halt);
        }
        watched = true;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Halts printed by any tool and imported are the halts that were, however long a thread is held up between the
    /// call of grow or shrink and the wake-up that follows.
    #[test]
    fn what_is_printed_comes_back(
        vcpus in vcpus(),
        tool in prop::sample::select(&Tool::ALL[..]),
        delays in prop::collection::vec(prop_oneof![Just(0), 0..10_000_u64, 0..5_000_000_u64], 1..20),
    ) {
        let (truths, events) = kvm::run(&vcpus, &delays);
        let made = capture_of(tool.text(&events).as_bytes(), told()).unwrap();
        let (imported, capture, halts) = (&made.imported, &made.capture, &made.halts);
        prop_assert!(imported.skipped.is_empty(), "{:?}", imported.skipped);
        prop_assert_eq!(imported.events, events.len() as u64);
        let roster = &capture.info().roster;
        prop_assert_eq!((roster.vms.len(), roster.vcpus.len()), (1, vcpus.len()));
        prop_assert_eq!((imported.vms, imported.vcpus), (1, vcpus.len()));
        let threads = by_vcpu(halts);
        prop_assert_eq!(threads.len(), vcpus.len());
        for (tid, halts) in &threads {
            let truths: Vec<&Halt> = truths.iter().filter(|truth| truth.tid == *tid).collect();
            check(tool, halts, &truths)?;
        }
    }

    /// However the lines of several CPUs are interleaved, as long as each CPU's are in order and none
    /// is overtaken by thousands, the same comes out.
    #[test]
    fn interleaving_changes_nothing(vcpus in vcpus(), picks in prop::collection::vec(any::<prop::sample::Index>(), 800)) {
        let (_, events) = kvm::run(&vcpus, &[0]);
        let mut cpus = BTreeMap::<u32, Vec<String>>::new();
        for event in events.iter().rev() {
            cpus.entry(event.cpu).or_default().push(Tool::Ftrace.line(event));
        }
        let mut shuffled = String::new();
        for pick in picks {
            cpus.retain(|_, lines| !lines.is_empty());
            if cpus.is_empty() {
                break;
            }
            let which = pick.index(cpus.len());
            let lines = cpus.values_mut().nth(which);
            shuffled += &lines.unwrap().pop().unwrap();
        }
        prop_assume!(cpus.values().all(Vec::is_empty));
        let expected = capture_of(Tool::Ftrace.text(&events).as_bytes(), told()).unwrap().halts;
        let made = capture_of(shuffled.as_bytes(), told()).unwrap();
        let (imported, halts) = (made.imported, made.halts);
        prop_assert!(imported.skipped.is_empty());
        // Events of the same microsecond may change places.
        prop_assert_eq!(expected.len(), halts.len());
        let sum = |halts: &[Halt]| halts.iter().map(|halt| halt.halt_ns).sum::<u64>();
        prop_assert_eq!(sum(&expected), sum(&halts));
        for (expected, halts) in by_vcpu(&expected).values().zip(by_vcpu(&halts).values()) {
            for (expected, halt) in expected.iter().zip(halts) {
                let kept = |halt: &Halt| (halt.start_ns, halt.halt_ns, halt.window_ns, halt.change);
                prop_assert_eq!(kept(expected), kept(halt));
            }
        }
    }

    /// A damaged line costs itself, and never makes a halt that was not, nor a window that was not.
    #[test]
    fn damage_makes_nothing_up(
        vcpus in vcpus(),
        hits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
    ) {
        let (truths, events) = kvm::run(&vcpus, &[0]);
        let mut lines: Vec<String> = events.iter().map(|event| Tool::Perf.line(event)).collect();
        for (line, at) in hits {
            // The line ends in its middle, and the next one follows at once.
            let line = &mut lines[line.index(events.len())];
            // A line that lost all but blanks tells nothing.
            let least = (line.len() - line.trim_start().len() + 8).min(line.len());
            line.truncate(least + at.index(line.len() - least + 1));
        }
        let Ok(Made { halts, .. }) = capture_of(lines.concat().as_bytes(), told()) else {
            // So little was left that no halt is.
            return Ok(());
        };
        for halt in halts {
            let of = |truth: &&Halt| {
                truth.tid == halt.tid
                    && truth.halt_ns == halt.halt_ns
                    && truth.end_ns().abs_diff(halt.end_ns()) <= 300
            };
            let truth = truths.iter().find(of);
            prop_assert!(truth.is_some(), "made up: {:?}", halt);
            let truth = truth.unwrap();
            prop_assert_eq!(halt.waited, truth.waited);
            if halt.window_ns.is_some() {
                prop_assert_eq!(halt.window_ns, truth.window_ns, "{:?}", halt);
            }
        }
    }
}
