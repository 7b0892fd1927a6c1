//! All experiments, as `haltwise-experiments` lists them.

use std::fmt::Write as _;

use crate::experiment::registry::EXPERIMENTS;

/// A line for each experiment; with its source and variants if `verbose`.
pub fn list(verbose: bool) -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        let _ = writeln!(text, "{:<22}{}", experiment.name, experiment.title);
        if !verbose {
            continue;
        }
        let _ = writeln!(text, "    source: {}", experiment.source.document);
        for report in experiment.source.reports {
            let _ = writeln!(text, "      {report}");
        }
        for variant in (experiment.variants)() {
            let _ = writeln!(
                text,
                "    {}, {}: {}",
                variant.group, variant.name, variant.what
            );
        }
        text.push('\n');
    }
    text
}
