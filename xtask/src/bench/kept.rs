//! What a benchmark leaves behind: `measurements/<date>-<host>-<name>/` with README, raw rounds, summary.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{repo, say, tool};

/// One row of raw figures, as CSV cells.
pub(crate) type Row = Vec<String>;

/// Everything that is kept of one benchmark.
pub(crate) struct Kept<'a> {
    /// Its name, for the folder.
    pub(crate) name: &'a str,
    /// What it measures and how, for the README.
    pub(crate) method: &'a str,
    /// Columns of `raw.csv`.
    pub(crate) columns: &'a [&'a str],
    /// What was measured.
    pub(crate) figures: Figures,
}

/// Figures as they come: rows of `raw.csv`, and the lines that are printed.
pub(crate) struct Figures {
    pub(crate) rows: Vec<Row>,
    pub(crate) summary: String,
}

impl Kept<'_> {
    /// Writes the folder; an older one of the same name and day gets a sibling.
    pub(crate) fn write(&self) -> Result<PathBuf> {
        let date = tool::ask(Command::new("date").arg("+%Y-%m-%d"))?
            .trim()
            .to_owned();
        let stem = format!("{date}-{}-{}", short_host(), self.name);
        let base = repo::root().join("measurements");
        let folder = (1..1000)
            .map(|n| {
                if n == 1 {
                    stem.clone()
                } else {
                    format!("{stem}-{n}")
                }
            })
            .map(|name| base.join(name))
            .find(|folder| !folder.exists())
            .context("name a folder for the measurement")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        put(&folder, "README.md", &self.readme())?;
        put(&folder, "raw.csv", &csv(self.columns, &self.figures.rows))?;
        put(&folder, "summary.txt", &self.figures.summary)?;
        say::note(&format!("kept in measurements/{}", name_of(&folder)));
        Ok(folder)
    }

    fn readme(&self) -> String {
        let command: Vec<String> = std::env::args().skip(1).collect();
        let mut text = format!("# {}\n\n{}\n\n", self.name, self.method);
        let mut line = |what: &str, value: &str| {
            // Writing to a String cannot fail.
            let _written = writeln!(text, "* {what}: {}", value.trim());
        };
        line("command", &format!("cargo xtask {}", command.join(" ")));
        line("revision", &said(&["git", "rev-parse", "--short", "HEAD"]));
        line("kernel", &said(&["uname", "-sr"]));
        line("CPU", &cpu_field("model name"));
        line("CPUs", &said(&["nproc"]));
        line("microcode", &cpu_field("microcode"));
        line(
            "hypervisor below",
            if cpu_field("flags").contains("hypervisor") {
                "yes"
            } else {
                "no"
            },
        );
        line("kvm", &kvm_modules());
        line("perf", &said(&["perf", "--version"]));
        line(
            "trace-cmd",
            said(&["trace-cmd", "version"])
                .lines()
                .find(|l| !l.trim().is_empty())
                .unwrap_or(""),
        );
        text.push_str(
            "\nThe machine is shared: absolute times drift, differences within a round do not.\n",
        );
        text
    }
}

fn put(folder: &Path, name: &str, text: &str) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))
}

fn csv(columns: &[&str], rows: &[Row]) -> String {
    let mut text = columns.join(",");
    text.push('\n');
    for row in rows {
        text.push_str(&row.join(","));
        text.push('\n');
    }
    text
}

fn name_of(folder: &Path) -> String {
    folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What a program says, or that it is not there.
fn said(command: &[&str]) -> String {
    let (program, arguments) = command.split_first().expect("a program and its arguments");
    tool::ask(Command::new(program).args(arguments)).unwrap_or_else(|_| "not here".into())
}

fn cpu_field(name: &str) -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map_or_else(|| "unknown".into(), |(_, value)| value.trim().to_owned())
}

fn kvm_modules() -> String {
    let modules = ["kvm", "kvm_intel", "kvm_amd", "kvm_pvm"];
    let there = |name: &&str| Path::new("/sys/module").join(name).exists();
    modules
        .into_iter()
        .filter(there)
        .collect::<Vec<_>>()
        .join(", ")
}

fn short_host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name
        .trim()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(12)
        .collect();
    if name.is_empty() { "host".into() } else { name }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn csv_has_a_header_and_a_line_for_each_row() {
        let rows = vec![vec!["1".into(), "x".into()], vec!["2".into(), "y".into()]];
        assert_eq!(csv(&["a", "b"], &rows), "a,b\n1,x\n2,y\n");
    }
}
