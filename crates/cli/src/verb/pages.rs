//! `haltwise pages DIR`: manual pages, shell completions, and pages of what declarations say, for packages.

mod published;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use haltwise_capture::files::output::{self, Readers};

use crate::Cli;
use crate::exit::{Exit, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Directory that is there
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

pub(crate) fn run(Arguments { dir }: &Arguments) -> Outcome {
    let context = || format!("write into {}", dir.display());
    clap_mangen::generate_to(Cli::command(), dir).with_context(context)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Cli::command(), "haltwise", dir)
            .with_context(context)?;
    }
    for (name, text) in documents()? {
        output::write(&dir.join(name), text.as_bytes(), Readers::Umask).with_context(context)?;
    }
    Ok(Exit::Done)
}

/// Pages and schemas, by the names of their files.
fn documents() -> anyhow::Result<BTreeMap<String, String>> {
    let formats = published::formats().into_iter();
    let mut files: BTreeMap<_, _> = formats
        .map(|(name, page)| (name.to_owned(), page))
        .collect();
    for verb in &published::ALL {
        let schema = serde_json::to_string_pretty(&verb.schema())? + "\n";
        files.insert(format!("{}-json.md", verb.name), verb.page());
        files.insert(format!("{}.schema.json", verb.name), schema);
    }
    Ok(files)
}

#[cfg(test)]
mod test {
    use std::fmt::Write as _;
    use std::fs;

    use clap::Command;
    use serde_json::Value;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn too_wide(command: &Command) -> Vec<String> {
        let after = [command.get_after_help(), command.get_after_long_help()];
        let text: Vec<String> = after
            .into_iter()
            .flatten()
            .map(ToString::to_string)
            .collect();
        let lines = text.iter().flat_map(|text| text.lines());
        let wide = lines.filter(|line| line.width() > 80);
        let name = command.get_name();
        let mut found: Vec<String> = wide.map(|line| format!("{name}: {line}")).collect();
        found.extend(command.get_subcommands().flat_map(too_wide));
        found
    }

    fn walk(command: &Command, texts: &mut String) {
        texts.push_str(&command.clone().render_long_help().to_string());
        command.get_subcommands().for_each(|it| walk(it, texts));
    }

    #[test]
    fn documents_that_help_names_are_there_and_no_default_is_elsewhere() {
        let mut texts = String::new();
        walk(&Cli::command(), &mut texts);
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let made = documents().unwrap();
        let mut named = 0;
        for rest in texts.split("docs/").skip(1) {
            let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '\n');
            let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
            let name = rest[..end].split('\n').next().unwrap_or_default();
            let name = name.trim_end_matches('.');
            assert!(
                docs.join(name).exists() || made.contains_key(name),
                "docs/{name}"
            );
            named += 1;
        }
        assert!(named > 10, "{named}");
        for circle in ["see above", "default: see"] {
            assert!(!texts.contains(circle), "{circle}");
        }
    }

    fn links(page: &str) -> impl Iterator<Item = (&str, &str)> {
        let links = page.split("](").skip(1);
        links.filter_map(|rest| {
            let link = rest.split(')').next()?;
            Some(link.split_once('#').unwrap_or((link, "")))
        })
    }

    #[test]
    fn pages_of_fields_link_to_pages_and_headings_that_are_there() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let files = documents().unwrap();
        let mut checked = 0;
        for (name, page) in &files {
            for (target, heading) in links(page) {
                let other = files.get(target).cloned();
                let other = other.or_else(|| fs::read_to_string(docs.join(target)).ok());
                assert!(other.is_some(), "{name} links to {target}");
                let words = heading.replace('-', " ");
                let is_it = |line: &str| {
                    line.starts_with('#')
                        && line.trim_start_matches('#').trim().to_lowercase() == words
                };
                let has = heading.is_empty() || other.is_some_and(|it| it.lines().any(is_it));
                assert!(has, "{name} links to {target}#{heading}");
                checked += 1;
            }
        }
        assert!(checked > files.len(), "{checked}");
    }

    /// The fields of an object and of those within, a line for each object.
    fn names(path: &str, schema: &Value, lines: &mut String) {
        let Some(fields) = schema["properties"].as_object() else {
            return;
        };
        let all: Vec<&str> = fields.keys().map(String::as_str).collect();
        writeln!(lines, "{path}: {}", all.join(" ")).unwrap();
        for (name, field) in fields {
            let path = format!("{path}.{name}");
            names(&path, field, lines);
            names(&format!("{path}[]"), &field["items"], lines);
        }
    }

    /// `UPDATE_GOLDEN=1` updates them. A name may go only with the next number of `schema`.
    #[test]
    fn names_in_json_are_as_committed() {
        let mut lines = String::new();
        for verb in &published::ALL {
            names(verb.name, &verb.schema(), &mut lines);
        }
        let home = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let file = home.join("tests/golden/expected/json-names.tsv");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &lines).unwrap();
        }
        let expected = fs::read_to_string(&file).unwrap();
        for (expected, got) in expected.lines().zip(lines.lines()) {
            assert_eq!(expected, got);
        }
        assert_eq!(expected, lines);
    }

    #[test]
    fn names_are_completed() {
        let mut bash = Vec::new();
        let mut command = Cli::command();
        clap_complete::generate(Shell::Bash, &mut command, "haltwise", &mut bash);
        let bash = String::from_utf8(bash).unwrap();
        for names in [
            "bpf tracepoints",
            "full counts stats",
            "prometheus openmetrics",
            "density balanced latency",
            "cpu-clock cycles instructions",
            "kernel cpu arch host vmm class",
            "off fixed",
        ] {
            assert!(bash.contains(&format!("compgen -W \"{names}")), "{names}");
        }
    }

    /// Help is at most 80 columns wide: a longer line of an example would be wrapped, and could not be pasted.
    #[test]
    fn examples_are_printed_as_they_are_written() {
        assert_eq!(too_wide(&Cli::command()), Vec::<String>::new());
    }
}
