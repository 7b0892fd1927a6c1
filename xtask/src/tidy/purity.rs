//! Allowed side effects: the core has none, the host uses the system's files, and only few host files write to them.

use super::{Finding, Repo, Source};

/// Names that the code of some folders does without, tests aside, and why.
struct Rule {
    within: &'static [&'static str],
    except: &'static [&'static str],
    names: &'static [&'static str],
    why: &'static str,
}

const fn core(names: &'static [&'static str], why: &'static str) -> Rule {
    Rule {
        within: &["crates/core/src"],
        except: &[],
        names,
        why,
    }
}

/// Calls that open, make or remove files by name.
const OPENS: &[&str] = &[
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

const RULES: [Rule; 10] = [
    core(&["std::fs", "std::net", "std::io"], "the core does no I/O"),
    core(&["std::process"], "the core starts nothing"),
    core(&["std::env"], "the core is given what it needs"),
    core(&["std::thread"], "the core has no threads"),
    // `Arc` is left: what cannot be changed may be had by many.
    core(
        &[
            "std::sync::atomic",
            "std::sync::mpsc",
            "Mutex",
            "RwLock",
            "OnceLock",
            "LazyLock",
        ],
        "the core shares nothing",
    ),
    core(&["Instant::now", "SystemTime"], "the core has no clock"),
    core(
        &["HashMap", "HashSet"],
        "its order is not the same in each run",
    ),
    Rule {
        within: &["crates/host/src"],
        // Parameters and boot files, and the baseline.
        except: &["crates/host/src/knob/disk.rs"],
        names: &[
            "fs::write(",
            "File::create(",
            "OpenOptions",
            "fs::remove_",
            "fs::rename(",
            "create_dir",
        ],
        why: "only the knobs of the host write to the machine",
    },
    Rule {
        // They write only files named on the command line otherwise.
        within: &["crates/lab/src", "crates/experiments/src"],
        except: &[],
        names: &["OpenOptions", "fs::remove_", "fs::rename(", "create_dir"],
        why: "lab and experiments change nothing that they find",
    },
    Rule {
        within: &["crates/capture/src", "crates/cli/src"],
        // The one home of these, which looks before it opens.
        except: &["crates/capture/src/files"],
        names: OPENS,
        why: "only crates/capture/src/files opens files by name",
    },
];

/// Folders of the system that only `host` and `xtask` may name, outside tests.
const SYSTEM: [&str; 3] = ["/sys", "/proc", "/dev"];

/// Exceptions: paths that each folder may name.
const EXCEPTIONS: [(&str, &[&str]); 4] = [
    ("crates/host/", &SYSTEM),
    (
        "crates/lab/",
        &["/dev/kvm", "/proc/self", "/proc/thread-self"],
    ),
    ("crates/experiments/", &["/proc/self"]),
    ("xtask/", &SYSTEM),
];

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let sources = || repo.sources.iter().filter(|source| source.is_rust());
    let mut found: Vec<Finding> = sources().flat_map(system_paths).collect();
    for rule in &RULES {
        let is_of = |source: &&Source| {
            let begins = |path: &&str| source.path.starts_with(path);
            rule.within.iter().any(begins) && !rule.except.iter().any(begins)
        };
        found.extend(
            sources()
                .filter(is_of)
                .flat_map(|source| rule.breaches(source)),
        );
    }
    found
}

impl Rule {
    fn breaches<'a>(&'a self, source: &'a Source) -> impl Iterator<Item = Finding> + 'a {
        source.code_without_tests().filter_map(|(line, code)| {
            let name = self.names.iter().find(|name| code.contains(*name))?;
            let name = name.trim_end_matches('(');
            Some(source.finding(line, format!("`{name}`: {}", self.why)))
        })
    }
}

fn system_paths(source: &Source) -> Vec<Finding> {
    let below = |text: &str, root: &&str| {
        let rest = text.strip_prefix(root);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_allowed = |text: &str| {
        let mut exceptions = EXCEPTIONS.iter();
        exceptions.any(|(owner, paths)| {
            source.path.starts_with(owner) && paths.iter().any(|root| below(text, root))
        })
    };
    let literals = source.literals_without_tests();
    let paths = literals.filter(|(_, text)| SYSTEM.iter().any(|root| below(text, root)));
    let breaches = paths.filter(|(_, text)| !is_allowed(text));
    breaches
        .map(|(line, text)| {
            let text = format!("`{text}`: only crates/host knows the system's files");
            source.finding(line, text)
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::findings;

    fn count(path: &str, text: &str) -> usize {
        findings(check, path, text).len()
    }

    #[test]
    fn each_name_is_found_where_it_must_not_stand_and_nowhere_else() {
        for rule in &RULES {
            for name in rule.names {
                let text = format!("let it = {name};\n").replace("(;", "();");
                for folder in rule.within {
                    let path = format!("{folder}/a.rs");
                    assert_eq!(count(&path, &text), 1, "{name}");
                    let marked = format!("#[cfg(test)]\nmod test {{\n    {text}}}\n");
                    assert_eq!(count(&path, &marked), 0, "{name}");
                }
                for path in rule.except.iter().chain(&["xtask/src/a.rs"]) {
                    assert_eq!(count(path, &text), 0, "{name}");
                }
            }
        }
    }

    #[test]
    fn comments_strings_and_tests_are_no_code() {
        for (text, lines) in [
            (
                "//! No std::fs here.\n/// Nor std::fs.\n#[a]\nfn b() {\n    //! std::fs\n}\n",
                &[][..],
            ),
            ("a(\"std::fs // std::fs\"); // std::fs\n", &[]),
            ("a /* std::fs /* c */ std::fs\nstd::fs */ std::fs\n", &[2]),
            ("'\"' std::fs '\"' '\\'' &'a str\n", &[1]),
            (
                "r#\"std::fs\"std::fs\"# b\nb\"\\\"std::fs\" std::fs\n",
                &[2],
            ),
            ("#[cfg(test)]\nmod test {\n    std::fs\n}\nstd::fs\n", &[5]),
            ("#[cfg(test)]\nmod test;\nstd::fs\n", &[3]),
        ] {
            let expected = lines.iter().map(|line| {
                format!("crates/core/src/a.rs:{line}: `std::fs`: the core does no I/O")
            });
            let found = findings(check, "crates/core/src/a.rs", text);
            assert_eq!(found, expected.collect::<Vec<_>>(), "{text}");
        }
    }

    #[test]
    fn only_the_host_names_system_files() {
        let text = "x\n\"/sys\" r\"/dev\"\nb\"\\\"/sys\"\n";
        let found = findings(check, "crates/cli/src/a.rs", text);
        let lines: Vec<_> = found.iter().filter_map(|it| it.split(':').nth(1)).collect();
        assert_eq!(lines, ["2", "2"], "{found:?}");
        for (path, literal, expected) in [
            ("crates/cli/src/a.rs", "/sys/module", 1),
            ("crates/capture/src/a.rs", "/proc", 1),
            ("crates/host/src/a.rs", "/sys/module", 0),
            ("crates/cli/tests/a.rs", "/sys/module", 0),
            ("crates/cli/src/a.rs", "/system", 0),
            ("crates/lab/src/a.rs", "/dev/kvm", 0),
            ("crates/lab/src/a.rs", "/dev/sda", 1),
        ] {
            let text = format!("a(\"{literal}\");\n");
            assert_eq!(count(path, &text), expected, "{path}: {literal}");
        }
    }
}
