//! Basis of the figures of a replay, in words: one home for `replay`, `tune`, `prove` and the page.

use haltwise_core::replay::Doubts;
use haltwise_core::replay::latency::{ENOUGH, TYPICAL};

use super::Source;
use crate::number::{count, nanos, percent, three_digits};

pub(crate) fn source(of: Source) -> &'static str {
    match of {
        Source::Calibrated => "as calibrated",
        Source::Given => "as given",
        Source::Joined => "by the two captures: a stay in HLT less its halt",
        Source::Assumed => {
            "assumed: half the wake-up latency of the shortest sleeps; measure it with \
             `haltwise calibrate`"
        }
        Source::Bounded => {
            "assumed, the upper bound for hardware: half the wake-up latency of the shortest sleeps is \
             more, so they waited for a CPU; measure it with `haltwise calibrate`"
        }
    }
}

pub(crate) fn sleep(switch_cpu_ns: u64, of: Source) -> String {
    let (cost, source) = (nanos(switch_cpu_ns), source(of));
    format!("a sleep costs {cost} of CPU time ({source})")
}

pub(crate) fn cost(switch_cpu_ns: u64, of: Source, latency_weight: f64) -> String {
    let (sleep, weight) = (sleep(switch_cpu_ns, of), three_digits(latency_weight));
    format!("{sleep}; 1 ns of latency counts as {weight} of CPU time")
}

/// Whether waking earlier makes the next gap longer.
pub(crate) const ARRIVALS: &str = "by-source: for each vCPU and wake source, as recorded";

/// How many halts figures rest on, and how many settings were tried on them.
pub(crate) fn evaluated(halts: u64, judged: u64, judged_ns: u64, settings: usize) -> String {
    let [halts, judged] = [halts, judged].map(count);
    let judged_time = nanos(judged_ns);
    format!(
        "{halts}, of them {judged} in the validation half, {judged_time}; {settings} settings evaluated"
    )
}

pub(crate) const PARTIAL: &str = "rows are missing or damaged; see `haltwise report`";

/// A doubt: what it is about in a word, and how far it goes.
pub(crate) type Doubt = (&'static str, String);

/// Doubts about this many `halts`, which are `whose`. `under` names the settings under which they sleep for
/// lengths that were never recorded, for lengths that were recorded a few times, and for lengths that were
/// calibrated.
pub(crate) fn of_halts(doubts: &Doubts, halts: u64, whose: &str, under: [&str; 3]) -> Vec<Doubt> {
    let [never, seldom, elsewhere] = under;
    let all = [
        (
            "preempted",
            doubts.poll_cut,
            "the poll was preempted; replayed as preempted after the same time".to_owned(),
        ),
        (
            "wake unknown",
            doubts.wake_unknown,
            "their wake source is not known".to_owned(),
        ),
        (
            "arrivals",
            doubts.arrival_assumed,
            "it is not known how their wake events move with the halt; timers are replayed at their \
             recorded time, all others the same time after the start of the halt"
                .to_owned(),
        ),
        (
            "gap guessed",
            doubts.gap_guessed,
            "the wake-up latency was not recorded; that of similar sleeps is used".to_owned(),
        ),
        (
            "sleeps",
            doubts.latency_guessed,
            format!(
                "with {never} they sleep for a time for which too few wake-ups were recorded; the latency at \
                 the nearest recorded time is used"
            ),
        ),
        (
            "few sleeps",
            doubts.latency_thin,
            format!(
                "with {seldom} they sleep for a time for which fewer than {ENOUGH} wake-ups or one halt in {TYPICAL} \
                 were recorded; their latency is used, and may be that of disturbed ones"
            ),
        ),
        (
            "calibrated",
            doubts.latency_calibrated,
            format!(
                "with {elsewhere} they sleep for a time for which fewer than {ENOUGH} wake-ups or one halt in {TYPICAL} \
                 were recorded; the calibrated or specified latency is used"
            ),
        ),
    ];
    let said = |(what, n, text): (&'static str, u64, String)| {
        let share = percent(n as f64, halts as f64);
        (n > 0).then(|| (what, format!("{share} of {whose}: {text}")))
    };
    all.into_iter().filter_map(said).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_doubt_is_said_with_its_own_count() {
        assert!(of_halts(&Doubts::default(), 10, "the halts", ["off", "off", "off"]).is_empty());
        let doubts = Doubts {
            poll_cut: 10,
            wake_unknown: 20,
            arrival_assumed: 30,
            gap_guessed: 40,
            latency_guessed: 50,
            latency_thin: 60,
            latency_calibrated: 70,
        };
        let said = of_halts(&doubts, 100, "the validated halts", ["off", "kvm", "share"]);
        let halts = "% of the validated halts";
        for (what, text) in [
            ("preempted", "10.0 HALTS: the poll was preempted"),
            ("wake unknown", "20.0 HALTS"),
            ("arrivals", "30.0 HALTS"),
            ("gap guessed", "40.0 HALTS"),
            ("sleeps", "50.0 HALTS: with off they sleep"),
            (
                "few sleeps",
                "60.0 HALTS: with kvm they sleep for a time for which fewer than 16",
            ),
            ("calibrated", "70.0 HALTS: with share they sleep"),
        ] {
            let text = text.replace("HALTS", halts);
            let found = said.iter().find(|(found, _)| *found == what);
            let is_said = found.is_some_and(|(_, found)| found.starts_with(&text));
            assert!(is_said, "{what}: {said:?}");
        }
        assert_eq!(said.len(), 7);
    }
}
