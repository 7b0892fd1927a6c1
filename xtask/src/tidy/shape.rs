//! The shape of files: a header and a length. Clippy bounds functions.

use super::{Finding, Repo, Source};

const FILE_LINES: usize = 800;

pub(crate) fn check(repo: &Repo) -> Vec<Finding> {
    let mut found = Vec::new();
    for source in repo
        .sources
        .iter()
        .filter(|source| source.is_rust() || source.is_c())
    {
        if is_generated(source) {
            continue;
        }
        found.extend(header(source));
        found.extend(length(source));
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
}
