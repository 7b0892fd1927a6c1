//! Exits as `haltwise record --exits` counts them, against `perf kvm stat` of the same run.
//!
//! Both stand at the same two tracepoints, one behind the other. Whatever the first does at an entry, less
//! what it does at an exit, is in the times of the second and not in its own: microseconds of some 60 under
//! emulation. So there are two runs, in either order; what each order does to the times goes out of the
//! mean of the two.

use std::path::Path;

use anyhow::{Context, Result};

use super::super::check::Check;
use super::super::deb::Kernel;
use super::super::guest::Left;
use super::super::{Boot, LIMIT, guest};
use super::{Exits, Found, our_pairs, read, same_counts, text, time_ns};
use crate::tool;

pub(crate) const NAME: &str = "perf-kvm-stat";

/// How far the times may be apart, all exits together.
const APART: f64 = 0.05;

/// The guest with perf, and the check.
pub(crate) fn boot(kernel: &Kernel) -> Result<Boot> {
    let perf = tool::find("perf").context("perf kvm stat: perf is not installed")?;
    let guest = guest(kernel)?;
    guest.root.program("bin/perf", &perf)?;
    let script = include_str!("perf_stat.sh").to_owned();
    let judge = |left: &Left| vec![(NAME, compare(&left.out_dir))];
    let check = Check::new(NAME, script, LIMIT, judge);
    Ok((guest, vec![check]))
}

fn compare(out: &Path) -> Result<Found> {
    let mut found = Found::default();
    let mut runs = Vec::new();
    for run in ["first", "second"] {
        let exits: Exits = read(&out.join(run).join("exits.json"))?;
        let printed = text(&out.join(run).join("perf"))?;
        let (perf, ours) = (
            perf_pairs(&printed),
            our_pairs(&exits, |row| row.name.to_lowercase()),
        );
        found.require(
            !printed.contains("lost") && !perf.is_empty(),
            format!("perf lost events or printed none: {printed}"),
        );
        let text = format!("perf kvm stat counts {perf:?}, we {ours:?}");
        found.require(same_counts(&perf, &ours), text);
        runs.push((perf, ours));
    }
    judge_times(&runs, &mut found);
    Ok(found)
}

/// By the reason's name.
type Pairs = super::Pairs<String>;

/// `   msr   5853   43.80%   29.68%   25.24us   6263.47us   60.56us ( +-   4.45% )`
fn perf_pairs(printed: &str) -> Pairs {
    let pair = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, samples, _, _, _, _, mean, ..] = words[..] else {
            return None;
        };
        let samples: u64 = samples.parse().ok()?;
        let mean_us: f64 = mean.strip_suffix("us")?.parse().ok()?;
        Some((
            name.to_lowercase(),
            (samples, samples as f64 * mean_us * 1e3),
        ))
    };
    printed.lines().filter_map(pair).collect()
}

/// The mean of what our times are more, over the two orders. It must be small of all exits together; of
/// single reasons it is printed, since one disturbance of the emulator outweighs thousands of exits.
fn judge_times(runs: &[(Pairs, Pairs)], found: &mut Found) {
    let more = |ratio: &dyn Fn(&Pairs, &Pairs) -> f64| {
        let logs = runs.iter().map(|(perf, ours)| ratio(perf, ours).ln());
        (logs.sum::<f64>() / runs.len() as f64).exp() - 1.0
    };
    let all = more(&|perf, ours| time_ns(ours) / time_ns(perf));
    let text = format!("times are {:+.1} % apart", all * 100.0);
    found.require(all.abs() <= APART, text);
    let ours = runs.iter().flat_map(|(_, ours)| ours.values());
    let counted: u64 = ours.map(|(pairs, _)| pairs).sum();
    let of = |name: &str| {
        let time = |pairs: &Pairs| pairs.get(name).map_or(f64::NAN, |pair| pair.1);
        let apart = more(&|perf, ours| time(ours) / time(perf));
        format!("{name} {:+.1} %", apart * 100.0)
    };
    let named = ["msr", "npf", "io", "hlt", "cpuid"].map(of).join(", ");
    found.summary = format!(
        "{counted} pairs, each reason's as perf kvm stat has it; time {:+.1} % ({named})",
        all * 100.0
    );
}

#[cfg(test)]
mod test {
    use super::*;

    const TOLD: &str = "\n\nAnalyze events for all VMs, all VCPUs:\n\n             VM-EXIT    Samples  \
        Samples%     Time%    Min Time    Max Time         Avg time \n\n                 msr       \
        5853    43.80%    29.68%     25.24us   6263.47us     60.00us ( +-   4.45% )\n                 \
        npf       2383    17.83%    21.73%     66.37us   4388.63us    100.00us ( +-   4.11% )\n\nTotal \
        Samples:8236, Total events handled time:589480.00us.\n";

    fn pairs(msr: (u64, f64), npf: (u64, f64)) -> Pairs {
        [("msr".to_owned(), msr), ("npf".to_owned(), npf)].into()
    }

    #[test]
    fn what_perf_prints_is_read_and_one_exit_more_or_a_reason_less_is_found() {
        let perf = perf_pairs(TOLD);
        assert_eq!(perf, pairs((5853, 351_180_000.0), (2383, 238_300_000.0)));
        assert!(same_counts(&perf, &perf));
        let mut ours = pairs((5854, 0.0), (2383, 0.0));
        assert!(!same_counts(&perf, &ours));
        ours.remove("msr");
        assert!(!same_counts(&perf, &ours));
    }

    #[test]
    fn what_the_order_does_goes_out_of_the_mean_and_what_stays_is_found() {
        let perf = pairs((10, 50.0), (10, 50.0));
        let scaled = |factor: f64| pairs((10, 50.0 * factor), (10, 50.0 * factor));
        let judged = |first: f64, second: f64| {
            let runs = [
                (perf.clone(), scaled(first)),
                (perf.clone(), scaled(second)),
            ];
            let mut found = Found::default();
            judge_times(&runs, &mut found);
            found.disagreements.len()
        };
        assert_eq!(judged(1.1, 1.0 / 1.1), 0);
        assert_eq!(judged(1.1, 1.02), 1);
        assert_eq!(judged(f64::NAN, 1.0), 1);
    }
}
