//! The shape of files: a header, a length, functions of a length, names of files.

use super::{Finding, Repo, Source};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;

/// All rules of this family.
pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo
        .sources
        .iter()
        .filter(|source| source.is_rust() || source.is_c())
    {
        found.extend(name(source));
        if is_generated(source) {
            continue;
        }
        found.extend(header(source));
        found.extend(length(source));
        found.extend(functions(source));
    }
    found
}

/// A kernel's types as dumped by bpftool; nobody writes or reads them line by line.
fn is_generated(source: &Source) -> bool {
    source.path.ends_with("vmlinux.h")
}

fn header(source: &Source) -> Option<Finding> {
    let mut lines = source.text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().unwrap_or_default();
    let good = if source.is_rust() {
        first.starts_with("//! ")
    } else {
        // The licence may stand first, as the kernel's own style wants it.
        let licence = first.contains("SPDX-License-Identifier");
        let first = if licence && first.starts_with("//") {
            lines.next().unwrap_or_default()
        } else {
            first
        };
        first.starts_with("/*") || first.starts_with("//")
    };
    let wanted = if source.is_rust() {
        "`//!`"
    } else {
        "a comment"
    };
    (!good).then(|| {
        source.finding(
            1,
            format!("begin with {wanted} that says what this file is"),
        )
    })
}

fn length(source: &Source) -> Option<Finding> {
    let lines = source.text.lines().count();
    (lines > FILE_LINES).then(|| {
        source.finding(
            lines,
            format!("{lines} lines; split what exceeds {FILE_LINES}"),
        )
    })
}

fn name(source: &Source) -> Option<Finding> {
    let file = source.path.rsplit('/').next().unwrap_or_default();
    match file {
        "utils.rs" | "util.rs" | "helpers.rs" | "helper.rs" | "misc.rs" => {
            Some(source.finding(1, "name the file after what it is about".into()))
        }
        _ => None,
    }
}

/// Functions that are too long. rustfmt puts the closing brace as deep as the signature.
fn functions(source: &Source) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (line, code) in source.code() {
        let indent = &code[..code.len() - code.trim_start().len()];
        match &open {
            None if begins_function(source, code) => open = Some((line, indent.to_string())),
            None => {}
            Some((start, depth)) => {
                let closed = code.trim_end() == format!("{depth}}}");
                let declared = line == *start + 1 && code.trim().is_empty();
                if closed && line + 1 - start > FUNCTION_LINES {
                    let lines = line + 1 - start;
                    found.push(source.finding(
                        *start,
                        format!("a function of {lines} lines; split what exceeds {FUNCTION_LINES}"),
                    ));
                }
                if closed || declared {
                    open = None;
                }
            }
        }
    }
    found
}

fn begins_function(source: &Source, code: &str) -> bool {
    let code = code.trim_end();
    if source.is_c() {
        let at_margin = code
            .chars()
            .next()
            .is_some_and(|char| char.is_alphabetic() || char == '_');
        return at_margin && code.contains('(') && !code.ends_with(';') && !code.contains('=');
    }
    let words: Vec<&str> = code.split_whitespace().collect();
    let Some(place) = words.iter().position(|word| *word == "fn") else {
        return false;
    };
    let modifier = |word: &&str| {
        word.starts_with("pub")
            || matches!(*word, "const" | "async" | "unsafe" | "extern" | "in")
            || word.ends_with(')')
    };
    // A one-liner or a declaration ends where it begins.
    words[..place].iter().all(modifier) && !code.ends_with('}') && !code.ends_with(';')
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::tidy::fixture::findings;

    #[test]
    fn a_file_needs_its_header() {
        assert_eq!(findings(check, "a.rs", "//! Is a.\n"), [""; 0]);
        assert_eq!(findings(check, "a.rs", "use b;\n").len(), 1);
        assert_eq!(
            findings(
                check,
                "a.c",
                "// SPDX-License-Identifier: GPL-2.0\n/* A. */\n"
            ),
            [""; 0]
        );
        assert_eq!(
            findings(
                check,
                "a.c",
                "// SPDX-License-Identifier: GPL-2.0\n#include <b>\n"
            )
            .len(),
            1
        );
        assert_eq!(findings(check, "a.h", "#pragma once\n").len(), 1);
    }

    #[test]
    fn length_is_bounded() {
        let text = |lines: usize| "//! Is a.\n".repeat(lines);
        assert_eq!(findings(check, "a.rs", &text(800)), [""; 0]);
        assert_eq!(findings(check, "a.rs", &text(801)).len(), 1);
        assert_eq!(findings(check, "bpf/vmlinux.h", &text(801)), [""; 0]);
    }

    #[test]
    fn vague_names_are_refused() {
        assert_eq!(findings(check, "a/utils.rs", "//! Is a.\n").len(), 1);
    }

    #[test]
    fn functions_are_bounded() {
        let rust = |body: usize| {
            format!(
                "//! A.\nimpl A {{\n    pub(crate) fn b() {{\n{}    }}\n}}\n",
                "        c();\n".repeat(body)
            )
        };
        assert_eq!(findings(check, "a.rs", &rust(68)), [""; 0]);
        assert_eq!(
            findings(check, "a.rs", &rust(69)),
            ["a.rs:3: a function of 71 lines; split what exceeds 70"]
        );
        let c = |body: usize| format!("/* A. */\nint b(void)\n{{\n{}}}\n", "\tc();\n".repeat(body));
        assert_eq!(findings(check, "a.c", &c(60)), [""; 0]);
        assert_eq!(findings(check, "a.c", &c(69)).len(), 1);
    }
}
