//! Who may touch the world: the core nothing, the host the system's files, and only two files of one
//! module of it may write to them.

use super::words::begins_word;
use super::{Finding, Repo, Source};

/// What the core does without, and why.
const IMPURE: [(&str, &str); 19] = [
    ("std::fs", "the core does no I/O"),
    ("std::net", "the core does no I/O"),
    ("std::io", "the core does no I/O"),
    ("std::process", "the core starts nothing"),
    ("std::env", "the core is told what it needs"),
    ("std::thread", "the core has no threads"),
    // `Arc` is left: what cannot be changed may be had by many.
    ("std::sync::atomic", "the core shares nothing"),
    ("std::sync::mpsc", "the core shares nothing"),
    ("Mutex", "the core shares nothing"),
    ("RwLock", "the core shares nothing"),
    ("OnceLock", "the core shares nothing"),
    ("LazyLock", "the core shares nothing"),
    ("Instant::now", "the core has no clock"),
    ("SystemTime", "the core has no clock"),
    ("println!", "only the rim prints"),
    ("eprintln!", "only the rim prints"),
    ("HashMap", "its order is not the same in each run"),
    ("HashSet", "its order is not the same in each run"),
    ("unsafe", "the core needs none"),
];

/// Folders of the system that only `host` may name, outside tests.
const SYSTEM: [&str; 3] = ["/sys", "/proc", "/dev"];

/// What others may name nevertheless.
const EXCEPTIONS: [(&str, &[&str]); 4] = [
    ("crates/host/", &["/sys", "/proc", "/dev"]),
    (
        "crates/lab/",
        &["/dev/kvm", "/proc/self", "/proc/thread-self"],
    ),
    ("crates/experiments/", &["/proc/self"]),
    ("xtask/", &["/sys", "/proc", "/dev"]),
];

const WRITES: [&str; 6] = [
    "fs::write(",
    "File::create(",
    "OpenOptions",
    "fs::remove_",
    "fs::rename(",
    "create_dir",
];

/// The parts of `host` that may write to the machine: parameters and boot files, and the baseline.
const WRITERS: [&str; 3] = [
    "crates/host/src/knob/disk.rs",
    "crates/host/src/knob/store.rs",
    "crates/host/src/knob/own.rs",
];

/// The part of the experiments that may change what it finds: a root of resctrl that it is given.
const RESCTRL: &str = "crates/experiments/src/resctrl/root.rs";

/// Calls that change existing files; otherwise lab and experiments write only files named on the command line.
const CHANGES: [&str; 4] = ["OpenOptions", "fs::remove_", "fs::rename(", "create_dir"];

/// Calls that open, make or remove files by name.
const OPENS: [&str; 10] = [
    "File::open(",
    "File::create",
    "OpenOptions",
    "fs::read(",
    "fs::read_to_string(",
    "fs::read_dir(",
    "fs::write(",
    "fs::rename(",
    "fs::remove_",
    "create_dir",
];

/// The one home of these in `capture` and `cli`, which looks before it opens.
const OPENER: &str = "crates/capture/src/files";

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo.sources.iter().filter(|source| source.is_rust()) {
        if source.path.starts_with("crates/core/src") {
            found.extend(impurities(source));
        }
        if source.path.starts_with("crates/host/src") && !WRITERS.contains(&source.path.as_str()) {
            found.extend(calls(source, &WRITES, &WRITERS));
        }
        let of_lab = ["crates/lab/src", "crates/experiments/src"];
        if of_lab.iter().any(|of| source.path.starts_with(of)) && source.path != RESCTRL {
            found.extend(calls(source, &CHANGES, &[RESCTRL]));
        }
        let opens = ["crates/capture/src", "crates/cli/src"];
        let may_open = source.path.starts_with(OPENER);
        if opens.iter().any(|of| source.path.starts_with(of)) && !may_open {
            found.extend(openings(source));
        }
        found.extend(system_paths(source));
    }
    found
}

/// Calls that open files elsewhere than in their home.
fn openings(source: &Source) -> Vec<Finding> {
    let hits = source.code_without_tests().filter_map(|(line, code)| {
        let call = OPENS.iter().find(|call| code.contains(*call))?;
        let call = call.trim_end_matches('(');
        Some(source.finding(line, format!("`{call}`: only {OPENER} opens files by name")))
    });
    hits.collect()
}

fn impurities(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, code) in source.code_without_tests() {
        for (name, reason) in IMPURE {
            let is_lint = code.contains("unsafe_code");
            if begins_word(code, name) && !is_lint {
                found.push(source.finding(line, format!("{name}: {reason}")));
            }
        }
    }
    found
}

/// Calls that only some files may make.
fn calls(source: &Source, forbidden: &[&str], writers: &[&str]) -> Vec<Finding> {
    let hits = source.code_without_tests().filter_map(|(line, code)| {
        let call = forbidden.iter().find(|call| code.contains(*call))?;
        let text = format!(
            "`{}`: only {} write to the machine",
            call.trim_end_matches('('),
            writers.join(" and ")
        );
        Some(source.finding(line, text))
    });
    hits.collect()
}

fn system_paths(source: &Source) -> Vec<Finding> {
    let excepted = EXCEPTIONS
        .iter()
        .filter(|(owner, _)| source.path.starts_with(owner))
        .flat_map(|(_, paths)| paths.iter())
        .copied()
        .collect::<Vec<_>>();
    let below = |text: &str, root: &str| {
        text.strip_prefix(root)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    source
        .literals_without_tests()
        .filter(|(_, text)| SYSTEM.iter().any(|root| below(text, root)))
        .filter(|(_, text)| !excepted.iter().any(|root| below(text, root)))
        .map(|(line, text)| {
            source.finding(
                line,
                format!("`{text}`: only crates/host knows the system's files"),
            )
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::findings;

    #[test]
    fn the_core_is_pure() {
        let core = |text: &str| findings(check, "crates/core/src/a.rs", text).len();
        for (name, _) in IMPURE {
            assert_eq!(core(&format!("use {name};\n")), 1, "{name}");
        }
        assert_eq!(core("//! No std::fs here.\n#![forbid(unsafe_code)]\n"), 0);
        assert_eq!(core("#[cfg(test)]\nmod test {\n    use std::fs;\n}\n"), 0);
        assert_eq!(
            findings(check, "crates/cli/src/a.rs", "use std::fs;\n").len(),
            0
        );
    }

    #[test]
    fn only_the_host_names_system_files() {
        let text = "a(\"/sys/module\");\n";
        assert_eq!(findings(check, "crates/cli/src/a.rs", text).len(), 1);
        assert_eq!(
            findings(check, "crates/capture/src/a.rs", "a(\"/proc\");\n").len(),
            1
        );
        assert_eq!(findings(check, "crates/host/src/a.rs", text).len(), 0);
        assert_eq!(findings(check, "crates/cli/tests/a.rs", text).len(), 0);
        assert_eq!(
            findings(check, "crates/cli/src/a.rs", "a(\"/system\");\n").len(),
            0
        );
        assert_eq!(
            findings(check, "crates/lab/src/a.rs", "a(\"/dev/kvm\");\n").len(),
            0
        );
        assert_eq!(
            findings(check, "crates/lab/src/a.rs", "a(\"/dev/sda\");\n").len(),
            1
        );
    }

    #[test]
    fn files_are_opened_in_one_place() {
        for call in OPENS {
            let text = format!("let file = {call}path);\n");
            for path in ["crates/cli/src/a.rs", "crates/capture/src/a.rs"] {
                assert_eq!(findings(check, path, &text).len(), 1, "{call}");
            }
            for path in [
                "crates/capture/src/files.rs",
                "crates/capture/src/files/output.rs",
                "crates/cli/tests/a.rs",
            ] {
                assert_eq!(findings(check, path, &text).len(), 0, "{call}");
            }
        }
    }

    #[test]
    fn only_the_knobs_write() {
        let text = "fs::write(path, value);\n";
        assert_eq!(findings(check, "crates/host/src/params.rs", text).len(), 1);
        assert_eq!(
            findings(check, "crates/host/src/knob/disk.rs", text).len(),
            0
        );
        assert_eq!(
            findings(check, "crates/host/src/knob/writer.rs", text).len(),
            1
        );
        assert_eq!(findings(check, "crates/host/tests/a.rs", text).len(), 0);
        let text = "fs::remove_dir(path);\n";
        assert_eq!(findings(check, "crates/lab/src/vm.rs", text).len(), 1);
        assert_eq!(findings(check, RESCTRL, text).len(), 0);
    }
}
