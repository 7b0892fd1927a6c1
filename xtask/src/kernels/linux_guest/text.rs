//! Halts that other tools recorded, imported from their text, against those that haltwise recorded in the
//! same seconds: one by one.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::kernels::check::Found;
use crate::kernels::ours;
use crate::kernels::reported::{Halt, Verified, ask, halts};
use crate::tool;

/// Program that printed the text, which is a file of that name, and whether it shows in which context a waker ran. Without
/// that, `import` takes a timer's interrupt for the thread that it interrupted, and says so.
pub(super) const TOOLS: [(&str, bool); 3] =
    [("ftrace", true), ("perf", false), ("trace-cmd", false)];

/// The share of halts that two interrupts may have woken at once, of which each tool names another.
const OTHER_WAKES: f64 = 0.02;

type Threads = BTreeMap<u32, Vec<Halt>>;

pub(super) fn judge(dir: &Path, release: &str, found: &mut Found) -> Result<()> {
    let recorded = threads(halts(&dir.join("capture"))?);
    for (name, tells_context) in TOOLS {
        let text = dir.join(name);
        if !text.is_file() {
            // The tool is not installed here, and that was said.
            continue;
        }
        let capture = dir.join(format!("{name}.capture"));
        let mut import = Command::new(ours("haltwise")?);
        import.args([
            "import", "--json", "--max", "5ms", "--kernel", release, "-o",
        ]);
        tool::ask(import.arg(&capture).arg(&text)).with_context(|| format!("text of {name}"))?;
        let imported = threads(halts(&capture)?);
        // A text tells windows by calls of grow and shrink alone: without one there is nothing to check. That none was
        // left out shows below, halt by halt.
        let has_calls = imported
            .values()
            .flatten()
            .any(|halt| halt.change != "none");
        let checked = if has_calls {
            let verified: Verified = ask(&["verify", "--json"], &capture)?;
            found.require(
                verified.differences == 0 && verified.checked > 0,
                format!("{name}: verify: {verified:?}"),
            );
            format!("{} verified", verified.checked)
        } else {
            "no call of grow or shrink to verify".to_owned()
        };
        let (differences, other_wakes) = differences(&recorded, &imported, tells_context);
        let count: usize = imported.values().map(Vec::len).sum();
        found.say(format_args!("{name} {count}, {checked}"));
        found.require(
            other_wakes as f64 <= OTHER_WAKES * count as f64,
            format!("{name}: {other_wakes} of {count} halts were woken by something else"),
        );
        let several = differences.len();
        let first = differences.into_iter().take(5);
        found
            .disagreements
            .extend(first.map(|text| format!("{name}: {text}, one of {several}")));
    }
    Ok(())
}

fn threads(mut halts: Vec<Halt>) -> Threads {
    halts.sort_by_key(Halt::end_ns);
    let mut threads = Threads::new();
    for halt in halts {
        threads.entry(halt.tid).or_default().push(halt);
    }
    threads
}

/// Each halt must be there with its length, whether it waited, and its call of grow or shrink; its window
/// where both know it. Also gives how many halts were woken by something else where both know what.
fn differences(
    recorded: &Threads,
    imported: &Threads,
    tells_context: bool,
) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    let mut other_wakes = 0;
    for (tid, ours) in recorded {
        let theirs = imported.get(tid).map_or(&[][..], Vec::as_slice);
        if ours.len() != theirs.len() {
            let (recorded, imported) = (ours.len(), theirs.len());
            found.push(format!(
                "thread {tid}: {recorded} halts recorded, {imported} imported"
            ));
        }
        for (n, (one, other)) in ours.iter().zip(theirs).enumerate() {
            let same = one.length_ns == other.length_ns
                && one.waited == other.waited
                && one.change == other.change
                && agree(one.window_ns.as_ref(), other.window_ns.as_ref());
            let was_timer = one.wake == "timer";
            let comparable = tells_context || !was_timer;
            let same_wake = agree(one.wake(), other.wake());
            other_wakes += usize::from(comparable && !same_wake);
            if !same {
                found.push(format!("thread {tid}, halt {n}: {one:?} is {other:?}"));
            }
        }
    }
    (found, other_wakes)
}

fn agree<T: PartialEq>(one: Option<T>, other: Option<T>) -> bool {
    one.zip(other).is_none_or(|(one, other)| one == other)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kernels::reported::parse_halts;

    #[test]
    fn halts_are_compared_in_the_order_of_their_ends() {
        const FIRST: &str = r#"{"tid":7,"start_ns":100,"halt_ns":50,"waited":true,"change":"grow","window_ns":10,"wake":"timer"}"#;
        let second = r#"{"tid":7,"start_ns":120,"halt_ns":10,"waited":false,"change":"none","wake":"unknown"}"#;
        let recorded = format!("{FIRST}{second}");
        let of_import = second.replace(r#""unknown""#, r#""ipi","window_ns":30"#);
        let imported = format!("{of_import}{FIRST}");
        let of = |text: &str| threads(parse_halts(text).unwrap());
        let differ =
            |text: &str, tells_context| differences(&of(&recorded), &of(text), tells_context);
        let judge = |text: &str| {
            let (found, other_wakes) = differ(text, true);
            found.len() + other_wakes
        };
        let for_another = imported.replace("timer", "ipi");
        assert_eq!(differ(&for_another, true).1, 1);
        assert_eq!(differ(&for_another, false).1, 0, "it is not known");
        assert_eq!(judge(&imported), 0);
        for (from, to) in [
            ("_ns\":50", "_ns\":51"),
            ("true", "false"),
            ("grow", "none"),
            ("none", "grow"),
            ("_ns\":10,\"wake", "_ns\":11,\"wake"),
            ("timer", "device"),
            (FIRST, ""),
        ] {
            assert!(judge(&imported.replace(from, to)) > 0, "{from} to {to}");
        }
    }
}
