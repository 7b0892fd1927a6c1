//! Whether two policies are in the same state: compared as values, and by the texts of their `Debug`.

use std::hint::black_box;

use haltwise_core::kvm::{Arch, Version};
use haltwise_core::policy::{POLICIES, Policy, Setting, Spec};

use super::rounds::{Rounds, Scale, timed};

/// Measures, and prints a table.
pub(crate) fn measure(scale: &Scale, rounds: &mut Rounds) {
    let setting = Setting::upstream(Version::new(6, 12), Arch::X86, 30_000);
    let build = |name: &str| -> Option<Box<dyn Policy>> {
        let texts = [
            name.to_owned(),
            format!("{name}:50us"),
            format!("{name}:2%|kvm"),
        ];
        let mut specs = texts.iter().filter_map(|text| text.parse::<Spec>().ok());
        specs.find_map(|spec| spec.build(&setting).ok())
    };
    let pairs: Vec<_> = POLICIES
        .iter()
        .filter_map(|entry| Some((entry.name, build(entry.name)?, build(entry.name)?)))
        .collect();
    for round in 0..scale.rounds {
        for (name, one, other) in &pairs {
            let (one, other) = (&**one, &**other);
            let of_values = nanos(scale, || black_box(one) == black_box(other));
            let by_text = || format!("{:?}", black_box(one)) == format!("{:?}", black_box(other));
            rounds.add(name, "value", round, of_values);
            rounds.add(name, "text", round, nanos(scale, by_text));
        }
    }
    println!("whether two policies are in the same state, ns (95 % interval)");
    println!("{:<18} {:>17} {:>17}", "policy", "value", "text");
    for (name, ..) in &pairs {
        let cell = |what| rounds.cell(name, what);
        println!("{name:<18} {:>17} {:>17}", cell("value"), cell("text"));
    }
    println!();
}

fn nanos(scale: &Scale, same: impl Fn() -> bool) -> f64 {
    let times = (scale.drawn / 1_000).max(1);
    let (seconds, all) = timed(|| (0..times).all(|_| same()));
    assert!(all, "both were built alike");
    seconds * 1e9 / times as f64
}
