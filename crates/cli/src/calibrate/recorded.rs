//! Evidence from the sleeps of a capture: KVM's share of a wake-up, which two threads do not have.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::anyhow;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, WindowChange};
use haltwise_core::replay::calibration::written::{GapClass, Sleeper, Written};
use haltwise_core::replay::latency::{class_of, is_typical};
use haltwise_core::stats::{Estimate, median_estimate};
use haltwise_host::root::Root;

use crate::exit::{Exit, Failure};
use crate::number::{nanos_f64, whole};
use crate::prices::kept;
use crate::reading::opened::Opened;
use crate::reading::pass;

/// Wake-up latencies of a capture's undisturbed sleeps, by class of their length, and how many there were.
#[derive(Debug, Default)]
pub(crate) struct Sleeps {
    halts: u64,
    classes: BTreeMap<usize, (u64, Vec<f64>)>,
}

/// Number of sleeps of each class that is enough for a median.
const KEPT: usize = 4_096;

impl pass::Sink for Sleeps {
    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        self.halts += 1;
        let Some(latency_ns) = halt
            .wake_latency_ns
            .filter(|_| halt.waited && !halt.is_preempted())
        else {
            return;
        };
        let awake_ns = halt.poll_ns.unwrap_or(0).saturating_add(latency_ns);
        let class = class_of(halt.halt_ns.saturating_sub(awake_ns));
        let (seen, kept) = self.classes.entry(class).or_default();
        *seen += 1;
        if kept.len() < KEPT {
            kept.push(latency_ns as f64);
        }
    }
}

pub(crate) fn sleeps(dir: &Path) -> Result<Sleeps, Failure> {
    let opened = Opened::open(dir)?;
    opened.must_be_of_host("calibrate")?;
    let mut sleeps = Sleeps::default();
    pass::pass(&opened, "reading", &mut [&mut sleeps]).whole(Table::Halts)?;
    let halts = sleeps.halts;
    sleeps
        .classes
        .retain(|_, (seen, _)| is_typical(*seen, halts));
    if sleeps.classes.is_empty() {
        let error = anyhow!("no length of sleep is often enough in {}", dir.display());
        return Err(Failure::new(Exit::Failed, error)
            .hint("record a VM whose vCPUs sleep, or leave the capture out"));
    }
    Ok(sleeps)
}

/// Adds KVM's part to the price that is kept, if it lacks that and a capture of this host shows it.
pub(crate) fn learn(root: &Root, capture: &Path) {
    let lacks_kvm = |of: &Written| of.sleeper == Sleeper::Thread && of.kvm_ns.is_none();
    if let Some(mut price) = kept::of_host(root).filter(lacks_kvm)
        && let Ok(sleeps) = sleeps(capture)
    {
        add(&mut price, &sleeps);
        kept::keep(root, &price);
    }
}

/// Takes recorded latencies where there are some, and adds what they took longer than threads' to the other lengths;
/// says how much that was.
pub(crate) fn add(found: &mut Written, recorded: &Sleeps) {
    let of = |class: &GapClass| {
        let (_, latencies) = recorded.classes.get(&class_of(class.gap_ns))?;
        median_estimate(latencies)
    };
    let recorded: Vec<Option<Estimate>> = found.classes.iter().map(of).collect();
    let pairs = found.classes.iter().zip(&recorded);
    let longer: Vec<f64> = pairs
        .filter_map(|(class, recorded)| {
            Some(recorded.as_ref()?.median - class.wake_latency_ns?.median)
        })
        .collect();
    let added = median_estimate(&longer);
    for (class, recorded) in found.classes.iter_mut().zip(&recorded) {
        let own = class.wake_latency_ns;
        let shifted = own.map(|own| added.map_or(own, |by| shift(own, by)));
        class.wake_latency_ns = recorded.or(shifted);
        let longer_ns = class
            .wake_latency_ns
            .zip(own)
            .map(|(now, own)| now.median - own.median);
        for quantile_ns in &mut class.wake_latency_quantiles_ns {
            *quantile_ns = whole(*quantile_ns as f64 + longer_ns.unwrap_or(0.0));
        }
        class.switch_cpu_ns = class.switch_cpu_ns.map(|own| with(own, added));
    }
    found.switch_cpu_ns = found.switch_cpu_ns.map(|own| with(own, added));
    found.kvm_ns = added;
    let lengths = recorded.iter().flatten().count();
    found.notes.push(match added {
        Some(added) => format!(
            "recorded sleeps of {} of {} lengths took {} longer to wake (from {} to {}); that is added to the other \
             lengths, and to the CPU of a block",
            longer.len(),
            found.classes.len(),
            signed(added.median),
            signed(added.low),
            signed(added.high)
        ),
        None if lengths > 0 => format!(
            "the wake-up latencies of {lengths} lengths are the capture's; no thread's sleep of these lengths was \
             measured, so that KVM's share of a block is not known"
        ),
        None => "the capture has no undisturbed sleeps of the lengths that were measured: nothing is added".to_owned(),
    });
}

/// The CPU time of a block with KVM's share, where that is known.
fn with(own: Estimate, kvm: Option<Estimate>) -> Estimate {
    kvm.map_or(own, |kvm| switch(own, kvm))
}

/// KVM's work after a wake-up, before the halt ends, is CPU time of the vCPU's thread, and part of its latency. KVM's
/// work before the sleep is no part of the latency, and takes at most about as much.
fn switch(own: Estimate, kvm: Estimate) -> Estimate {
    let [median, low, high] = [kvm.median, kvm.low, kvm.high].map(|ns| ns.max(0.0));
    Estimate {
        median: own.median + median,
        low: own.low + low,
        high: own.high + 2.0 * high,
        samples: own.samples.min(kvm.samples),
    }
}

fn shift(own: Estimate, by: Estimate) -> Estimate {
    Estimate {
        median: own.median + by.median,
        low: own.low + by.low,
        high: own.high + by.high,
        samples: own.samples.min(by.samples),
    }
}

pub(super) fn signed(ns: f64) -> String {
    let sign = if ns < 0.0 { "-" } else { "" };
    format!("{sign}{}", nanos_f64(ns.abs()))
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_core::replay::calibration::SCHEMA;
    use haltwise_core::replay::calibration::written::Samples;

    fn measured() -> Written {
        let class = |gap_ns, latency| {
            let samples = Samples {
                latency: vec![latency; 6],
                ..Samples::default()
            };
            samples.estimate(gap_ns)
        };
        Written {
            schema: SCHEMA,
            sleeper: Sleeper::Thread,
            vcpu_cpu: 1,
            host_cpu: 0,
            repetitions: 6,
            elapsed_ns: 1,
            classes: vec![class(30_000, 5_000.0), class(3_000_000, 9_000.0)],
            switch_cpu_ns: median_estimate(&[3_000.0; 6]),
            ..Written::default()
        }
    }

    fn of_class(slept_ns: u64, latency_ns: f64) -> Sleeps {
        let class = (20, vec![latency_ns; 20]);
        Sleeps {
            halts: 20,
            classes: BTreeMap::from([(class_of(slept_ns), class)]),
        }
    }

    #[test]
    fn what_recorded_sleeps_took_longer_is_added_to_lengths_that_were_not_recorded() {
        let mut found = measured();
        let recorded = of_class(30_000, 12_000.0);
        add(&mut found, &recorded);
        let latency = |nth: usize| found.classes[nth].wake_latency_ns.unwrap();
        assert_eq!((latency(0).median, latency(0).samples), (12_000.0, 20));
        assert_eq!((latency(1).median, latency(1).samples), (16_000.0, 1));
        let block = found.switch_cpu_ns.unwrap();
        assert_eq!(
            (block.low, block.median, block.high),
            (10_000.0, 10_000.0, 17_000.0)
        );
        assert!(
            found.notes[0].contains("7.00 us longer"),
            "{:?}",
            found.notes
        );
    }

    #[test]
    fn a_capture_adds_to_the_price_that_is_kept_of_the_host_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/captures/idle");
        let recorded = sleeps(&capture).unwrap().classes;
        let gaps = recorded
            .keys()
            .map(|class| (1..1 << 40).find(|ns| class_of(*ns) == *class));
        let mut price = measured();
        let own = price.classes[0].clone();
        price.classes = gaps
            .map(|gap| GapClass {
                gap_ns: gap.unwrap(),
                ..own.clone()
            })
            .collect();
        price.host = Some(haltwise_host::wakeup::host(&root));
        kept::keep(&root, &price);
        learn(&root, &capture);
        let learned = kept::of_host(&root).unwrap();
        assert!(learned.kvm_ns.is_some(), "{:?}", learned.notes);
        learn(&root, &capture);
        assert_eq!(kept::of_host(&root).unwrap(), learned);
    }

    #[test]
    fn a_capture_of_other_lengths_adds_nothing_and_that_is_said() {
        let mut found = measured();
        let recorded = of_class(200, 1.0);
        add(&mut found, &recorded);
        assert_eq!(found.classes, measured().classes);
        assert!(found.notes[0].contains("nothing is added"));
    }

    #[test]
    fn recorded_latencies_stand_in_for_what_could_not_be_measured() {
        let mut found = measured();
        found.switch_cpu_ns = None;
        for class in &mut found.classes {
            (class.wake_latency_ns, class.switch_cpu_ns) = (None, None);
        }
        let recorded = of_class(30_000, 12_000.0);
        add(&mut found, &recorded);
        let latencies = found.classes.iter().map(|it| it.wake_latency_ns);
        let medians: Vec<_> = latencies.map(|it| it.map(|it| it.median)).collect();
        assert_eq!(medians, [Some(12_000.0), None]);
        assert_eq!(found.switch_cpu_ns, None);
        assert!(found.notes[0].contains("is not known"), "{:?}", found.notes);
    }
}
