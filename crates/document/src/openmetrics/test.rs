//! Figures as metrics, and what names may do to the text.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::figures;

figures! {
    struct Of {
        /// Its name.
        vm: String = Name,
        /// Its UUID.
        uuid: Option<String> = Name,
    }

    struct Totals {
        /// Halts.
        halts: u64 = Count,
        /// CPU time of "polls" \ all.
        polled_ns: Option<u64> = Nanos,
        /// Energy.
        package_uj: u64 = Microjoules,
        /// How late vCPUs wake.
        wake_latency_ns: Buckets = Buckets,
    }

    struct Now {
        /// Text that is no metric.
        name: String = Name,
        /// Whether it is paused.
        paused: Option<bool> = Flag,
        /// A part of all CPUs.
        polled_share: f64 = Share,
        /// The same in percent.
        cpu_percent: f64 = CpuPercent,
        /// Memory.
        resident_bytes: u64 = Bytes,
        /// A mean.
        added_ns: f64 = MeanNanos,
    }
}

fn totals(halts: u64) -> Totals {
    Totals {
        halts,
        polled_ns: (halts > 0).then_some(1_500_000_001),
        package_uj: 2_500_000,
        wake_latency_ns: Buckets {
            below: vec![(1_024, 1), (131_072, 2), (1 << 30, 2)],
            count: 3,
            sum_ns: 2_000_000_000,
        },
    }
}

fn labels(vm: &str) -> Labels {
    Labels::of(&Of {
        vm: vm.to_owned(),
        uuid: None,
    })
}

fn two_vms() -> Metrics {
    let mut metrics = Metrics::new(100);
    metrics.info("haltwise_vm", "Names.", &labels("web"));
    metrics.add(Kind::Counter, "haltwise_vm", &labels("web"), &totals(7));
    metrics.add(Kind::Counter, "haltwise_vm", &labels("db"), &totals(0));
    metrics
}

#[test]
fn openmetrics_has_units_and_an_end() {
    let expected = r#"# TYPE haltwise_vm info
# HELP haltwise_vm Names.
haltwise_vm_info{vm="web"} 1
# TYPE haltwise_vm_halts counter
# HELP haltwise_vm_halts Halts.
haltwise_vm_halts_total{vm="web"} 7
haltwise_vm_halts_total{vm="db"} 0
# TYPE haltwise_vm_polled_seconds counter
# UNIT haltwise_vm_polled_seconds seconds
# HELP haltwise_vm_polled_seconds CPU time of \"polls\" \\ all.
haltwise_vm_polled_seconds_total{vm="web"} 1.500000001
# TYPE haltwise_vm_package_joules counter
# UNIT haltwise_vm_package_joules joules
# HELP haltwise_vm_package_joules Energy.
haltwise_vm_package_joules_total{vm="web"} 2.5
haltwise_vm_package_joules_total{vm="db"} 2.5
# TYPE haltwise_vm_wake_latency_seconds histogram
# UNIT haltwise_vm_wake_latency_seconds seconds
# HELP haltwise_vm_wake_latency_seconds How late vCPUs wake.
haltwise_vm_wake_latency_seconds_bucket{vm="web",le="1.024e-06"} 1
haltwise_vm_wake_latency_seconds_bucket{vm="web",le="0.000131072"} 2
haltwise_vm_wake_latency_seconds_bucket{vm="web",le="1.073741824"} 2
haltwise_vm_wake_latency_seconds_bucket{vm="web",le="+Inf"} 3
haltwise_vm_wake_latency_seconds_sum{vm="web"} 2.0
haltwise_vm_wake_latency_seconds_count{vm="web"} 3
haltwise_vm_wake_latency_seconds_bucket{vm="db",le="1.024e-06"} 1
haltwise_vm_wake_latency_seconds_bucket{vm="db",le="0.000131072"} 2
haltwise_vm_wake_latency_seconds_bucket{vm="db",le="1.073741824"} 2
haltwise_vm_wake_latency_seconds_bucket{vm="db",le="+Inf"} 3
haltwise_vm_wake_latency_seconds_sum{vm="db"} 2.0
haltwise_vm_wake_latency_seconds_count{vm="db"} 3
# EOF
"#;
    let metrics = two_vms();
    assert_eq!(metrics.render(Format::OpenMetrics), expected);
    assert_eq!((metrics.series(), metrics.left_out()), (18, 0));
}

#[test]
fn the_older_format_names_counters_by_their_samples() {
    let text = two_vms().render(Format::Prometheus);
    for line in [
        "# TYPE haltwise_vm_info gauge\n",
        "# TYPE haltwise_vm_polled_seconds_total counter\n",
        "# HELP haltwise_vm_polled_seconds_total CPU time of \"polls\" \\\\ all.\n",
        "# TYPE haltwise_vm_wake_latency_seconds histogram\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("# UNIT") && !text.contains("# EOF"));
}

#[test]
fn figures_come_in_base_units_and_what_is_not_known_is_no_sample() {
    let mut metrics = Metrics::new(100);
    let now = Now {
        name: "no metric".to_owned(),
        paused: None,
        polled_share: 0.25,
        cpu_percent: 150.0,
        resident_bytes: 4096,
        added_ns: 1500.0,
    };
    metrics.add(Kind::Gauge, "x", &Labels::none(), &now);
    let text = metrics.render(Format::Prometheus);
    let samples: Vec<&str> = text.lines().filter(|it| !it.starts_with('#')).collect();
    assert_eq!(
        samples,
        [
            "x_polled_ratio 0.25",
            "x_cpu_ratio 1.5",
            "x_resident_bytes 4096",
            "x_added_seconds 1.5e-6"
        ]
    );
    assert_eq!(Now::FIGURES.len(), 6);
}

/// A label's value, as a reader takes it.
fn unescaped(text: &str) -> String {
    let mut chars = text.chars();
    let mut value = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some(other) => value.push(other),
                None => panic!("a lone backslash: {text}"),
            },
            c => value.push(c),
        }
    }
    value
}

/// Names that formats of lines take for their own.
fn hostile() -> impl Strategy<Value = String> {
    let bad = prop::sample::select(vec![
        "\"", "\\", "\n", "}", "{", ",", " ", "=", "# EOF", "\u{0}", "\r", "a", "数", "\u{202e}",
        "le=\"1\"", "\\n",
    ]);
    prop::collection::vec(bad, 0..8).prop_map(|parts| parts.concat())
}

/// Series of a VM in the law below.
const EACH: usize = 9;

proptest! {
    /// Whatever VMs are called, a line is a comment or one sample, a label has the name of its VM, and no two samples
    /// have the same labels.
    #[test]
    fn no_name_makes_a_line_or_another_label(names in prop::collection::vec(hostile(), 1..5)) {
        let mut metrics = Metrics::new(1_000);
        for name in &names {
            metrics.add(Kind::Counter, "x", &labels(name), &totals(1));
        }
        let text = metrics.render(Format::OpenMetrics);
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with("# ")).collect();
        prop_assert_eq!(samples.len(), metrics.series());
        let distinct: BTreeSet<&str> = samples.iter().map(|it| it.rsplit_once(' ').unwrap().0).collect();
        prop_assert_eq!(distinct.len(), samples.len());
        let plain = |name: &String| name.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
        let wanted: BTreeSet<String> = names.iter().map(plain).collect();
        let read = samples.iter().filter_map(|it| it.strip_prefix("x_halts_total"));
        let read: BTreeSet<String> = read
            .map(|it| match it.strip_prefix("{vm=\"") {
                Some(rest) => unescaped(rest.strip_suffix("\"} 1").unwrap()),
                None => String::new(),
            })
            .collect();
        prop_assert_eq!(&read, &wanted);
        let alike = names.len() - wanted.len();
        prop_assert_eq!(metrics.left_out(), alike * metrics.series() / wanted.len());
    }

    /// There are never more series than there is room for, a subject is whole or absent, and what is absent is counted.
    #[test]
    fn a_cap_leaves_out_whole_subjects_and_counts_them(most in 0_usize..60, vms in 0_usize..12) {
        let mut metrics = Metrics::new(most);
        for vm in 0..vms {
            metrics.subject(|metrics| {
                metrics.add(Kind::Counter, "x", &labels(&vm.to_string()), &totals(1));
            });
        }
        prop_assert!(metrics.series() <= most);
        prop_assert_eq!(metrics.series(), vms.min(most / EACH) * EACH);
        prop_assert_eq!(metrics.series() + metrics.left_out(), vms * EACH);
    }
}
