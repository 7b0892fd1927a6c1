//! Prices that tuning a guest's governor needs and only the guest itself can measure: those of an exit, of a write of
//! the timer, and of an IPI.
//!
//! | file | measures |
//! |---|---|
//! | `exit` | CPUID, which always exits to the hypervisor, less an empty loop |
//! | `timer` | a timer that becomes the next of its CPU and is disarmed, less one that is far off |
//! | `ipi` | a signal to a thread that runs on the other CPU, less one that it has blocked |
//! | `signal` | the signals of that |
//!
//! Each repetition does both of a pair in turn, and gives one value: the difference of their medians. A price is the
//! median of these with its interval, as all costs are. One whose interval reaches 0 was not measured.

mod exit;
mod ipi;
mod signal;
mod timer;

use std::{io, thread};

use haltwise_core::replay::calibration::written::Written;
use haltwise_core::stats::{Estimate, median_estimate};

use super::Plan;
use super::pair::joined;
use crate::cpus::pin;

const REPETITIONS: usize = 31;

type Priced = Result<Estimate, String>;

/// Measures them, and adds them to what was found; what could not be measured becomes a note.
pub fn add(found: &mut Written, plan: &Plan) {
    let why_not = match exit::is_guest() {
        Some(true) => return put(found, measured(plan)),
        Some(false) => {
            "exits, timer writes and IPIs have no price here: CPUID reports no hypervisor, so that this machine is not a \
             guest"
        }
        None => "exits, timer writes and IPIs are measured in guests on x86_64 only",
    };
    found.notes.push(why_not.to_owned());
}

fn measured(plan: &Plan) -> [Priced; 3] {
    [
        exit::price(plan.sleeper_cpu),
        timer::price(plan.sleeper_cpu),
        ipi::price(plan.waker_cpu, plan.sleeper_cpu),
    ]
}

fn put(found: &mut Written, [exit, timer_write, ipi]: [Priced; 3]) {
    let mut take = |what: &str, priced: Priced| match priced {
        Ok(price) => Some(price),
        Err(reason) => {
            let text = format!("the price of {what} was not measured: {reason}");
            found.notes.push(text);
            None
        }
    };
    let (exit, timer_write, ipi) = (
        take("an exit", exit),
        take("a timer write", timer_write),
        take("an IPI", ipi),
    );
    found.exit_cpu_ns = exit;
    found.timer_write_cpu_ns = timer_write;
    found.ipi_cpu_ns = ipi;
}

/// The values of repetitions on a CPU, in a thread of its own. The first is not looked at: caches are cold.
fn repeated(
    cpu: u32,
    repetition: impl Fn() -> io::Result<Option<f64>> + Sync,
) -> Result<Vec<f64>, String> {
    let values = thread::scope(|scope| {
        let measuring = scope.spawn(|| {
            pin(cpu)?;
            let values = (0..=REPETITIONS).map(|_| repetition()).skip(1);
            values.collect::<io::Result<Vec<_>>>()
        });
        joined(measuring)
    });
    let values = values.map_err(|error| failed(&error))?;
    Ok(values.into_iter().flatten().collect())
}

fn of_differences(differences: &[f64]) -> Priced {
    let Some(price) = median_estimate(differences) else {
        return Err("no repetition gave a value".to_owned());
    };
    if price.low <= 0.0 {
        return Err(format!(
            "the difference is within noise, {:.0} ns to {:.0} ns",
            price.low, price.high
        ));
    }
    Ok(price)
}

/// The difference of two medians, by so many `parts`.
fn difference(with: &[u64], without: &[u64], parts: f64) -> Option<f64> {
    Some((middle(with)? - middle(without)?) / parts)
}

fn middle(times: &[u64]) -> Option<f64> {
    let times: Vec<f64> = times.iter().map(|ns| *ns as f64).collect();
    median_estimate(&times).map(|estimate| estimate.median)
}

fn failed(error: &io::Error) -> String {
    format!("the system refused: {error}")
}

#[cfg(test)]
mod test {
    use super::super::measure;
    use super::*;
    use haltwise_core::units::Nanos;

    #[test]
    fn a_price_is_the_median_of_differences_and_none_within_noise() {
        let all: Vec<f64> = (1..=31).map(|it| 1_000.0 + f64::from(it)).collect();
        let price = of_differences(&all).unwrap();
        assert_eq!((price.median, price.samples), (1_016.0, 31));
        assert!(price.low > 1_000.0 && price.high < 1_032.0);
        let noise: Vec<f64> = (-15..=15).map(f64::from).collect();
        let reason = of_differences(&noise).unwrap_err();
        assert!(reason.contains("within noise, -6 ns to 6 ns"), "{reason}");
        assert!(of_differences(&[]).is_err());
    }

    #[test]
    fn a_difference_is_that_of_the_medians_for_each_part() {
        let with = [5_000, 4_000, 90_000];
        assert_eq!(difference(&with, &[1_000, 700, 2_000], 2.0), Some(2_000.0));
        assert_eq!(difference(&[1], &[3], 1.0), Some(-2.0));
        assert_eq!(difference(&with, &[], 1.0), None);
    }

    #[test]
    fn what_was_not_measured_is_null_and_a_note() {
        let plan = Plan {
            gaps: vec![Nanos(30_000)],
            repetitions: 1,
            ..Plan::new(true, 0, 0)
        };
        let mut found = measure(&plan, || true).unwrap();
        let before = found.notes.len();
        let price = of_differences(&[1_500.0; 9]);
        put(
            &mut found,
            [price, Err("noise".to_owned()), Err("one CPU".to_owned())],
        );
        assert_eq!(found.exit_cpu_ns.map(|it| it.median), Some(1_500.0));
        assert_eq!((found.timer_write_cpu_ns, found.ipi_cpu_ns), (None, None));
        assert_eq!(
            found.notes[before..],
            [
                "the price of a timer write was not measured: noise",
                "the price of an IPI was not measured: one CPU"
            ]
        );
    }

    #[test]
    fn each_price_here_is_positive_or_has_a_reason() {
        let cpus = super::super::allowed_cpus().unwrap();
        let plan = Plan::new(true, cpus[cpus.len() - 1], cpus[0]);
        for priced in measured(&plan) {
            match priced {
                Ok(price) => assert!(price.low > 0.0),
                Err(reason) => assert!(!reason.is_empty()),
            }
        }
        let reason = ipi::price(cpus[0], cpus[0]).unwrap_err();
        assert!(reason.contains("one CPU"), "{reason}");
    }
}
