//! Which source is taken, and what is said where none works.

use haltwise_core::recording::Mode;

use super::*;

fn denied() -> Result<Rung, CollectError> {
    Err(CollectError::Denied {
        what: "attach".to_owned(),
        need: "CAP_BPF",
    })
}

fn told(failure: &Failure) -> String {
    format!(
        "{:#} / {}",
        failure.error,
        failure.hint.clone().unwrap_or_default()
    )
}

#[test]
fn the_best_rung_that_works_is_taken() {
    let tracepoints = || Ok(Rung::Tracepoints);
    for (asked, bpf, taken) in [
        (None, Ok(Rung::Bpf), Some(Rung::Bpf)),
        (None, denied(), Some(Rung::Tracepoints)),
        (Some(Rung::Bpf), denied(), None),
        (
            Some(Rung::Tracepoints),
            Ok(Rung::Bpf),
            Some(Rung::Tracepoints),
        ),
    ] {
        let chosen = choose(asked, || bpf, tracepoints);
        assert_eq!(chosen.ok(), taken, "{asked:?}");
    }
}

/// A kernel before 5.15, on either source: both refuse, and what is said is the better source's reason.
#[test]
fn stats_mode_without_histograms_is_refused_with_what_to_do() {
    let root = Root::host();
    let options = CollectOptions {
        mode: Mode::Stats,
        ..CollectOptions::default()
    };
    let tracepoints = || PerfCollector::start(options.clone(), root.clone()).map(drop);
    let bpf = || Err(CollectError::NoHistograms);
    let oldest = "this kernel keeps none (Linux 5.15 and later do)";
    let carried = "tracepoints do not carry them";
    for (asked, text) in [
        (None, oldest),
        (Some(Rung::Bpf), "this kernel keeps none"),
        (Some(Rung::Tracepoints), carried),
    ] {
        let failure = choose(asked, bpf, tracepoints).expect_err("nothing to read");
        assert_eq!(failure.exit, Exit::Unsupported, "{asked:?}");
        let told = told(&failure);
        let is_said = told.contains(text) && told.contains("--mode counts");
        assert!(is_said, "{told}");
    }
}
