//! One file of the repository, as tidy's rules see it: its lines, and for Rust also its lines
//! without comments and strings, its string literals, and which lines are tests.
//!
//! Not a parser: it relies on rustfmt having laid out the file, which the gate checks first.

use proc_macro2::{Span, TokenStream, TokenTree};

#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
    /// For Rust: the text with comments, strings and characters blanked, line by line.
    code: Vec<String>,
    /// For Rust: string literals with the line on which each begins, from 1.
    literals: Vec<(usize, String)>,
    /// For Rust: whether each line belongs to tests.
    tests: Vec<bool>,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let Code { lines, literals } = if has_extension(path, "rs") {
            Code::of(text)
        } else {
            Code::default()
        };
        let code: Vec<String> = lines.into_iter().map(String::from_iter).collect();
        let tests = test_lines(path, &code);
        Self {
            path: path.to_string(),
            text: text.to_string(),
            code,
            literals,
            tests,
        }
    }

    pub(crate) fn is_a(&self, extension: &str) -> bool {
        has_extension(&self.path, extension)
    }

    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    pub(crate) fn is_c(&self) -> bool {
        has_extension(&self.path, "c") || has_extension(&self.path, "h")
    }

    pub(crate) fn is_prose(&self) -> bool {
        has_extension(&self.path, "md")
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.iter().map(String::as_str))
    }

    pub(crate) fn code_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code().filter(|(line, _)| !self.is_test(*line))
    }

    pub(crate) fn literals_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        self.literals
            .iter()
            .filter(|(line, _)| !self.is_test(*line))
            .map(|(line, text)| (*line, text.as_str()))
    }

    /// Names of the modules in files of their own that are declared for tests only.
    pub(crate) fn test_modules(&self) -> impl Iterator<Item = &str> {
        let before = std::iter::once("").chain(self.code.iter().map(String::as_str));
        let pairs = before.zip(self.code.iter().map(|line| line.trim()));
        pairs.filter_map(|(before, line)| {
            let (visibility, name) = line.split_once("mod ")?;
            let is_module = visibility.is_empty() || visibility.starts_with("pub");
            let name = name.strip_suffix(';').filter(|_| is_module);
            name.filter(|_| before.trim() == "#[cfg(test)]")
        })
    }

    /// The whole file is for tests, as its parent says.
    pub(crate) fn mark_as_test(&mut self) {
        self.tests.fill(true);
    }

    pub(crate) fn is_test(&self, line: usize) -> bool {
        self.tests.get(line - 1).copied().unwrap_or(false)
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path)
        .extension()
        .is_some_and(|found| found == extension)
}

/// Marks the lines of tests: whole files in a folder for tests, benchmarks or examples, or in a module called `test`, and
/// the items under `#[cfg(test)]`, which end at a closing brace as deep as they began.
fn test_lines(path: &str, code: &[String]) -> Vec<bool> {
    let own_file = ["/tests/", "/benches/", "/examples/", "/test/"]
        .iter()
        .any(|part| path.contains(part))
        || path.ends_with("/test.rs")
        || path.ends_with("/tests.rs");
    let mut marks = vec![own_file; code.len()];
    let mut inside: Option<String> = None;
    for (line, mark) in code.iter().zip(&mut marks) {
        let indent = &line[..line.len() - line.trim_start().len()];
        match &inside {
            None if line.trim_start().starts_with("#[cfg(test)]") => {
                *mark = true;
                inside = Some(indent.to_string());
            }
            None => {}
            Some(depth) => {
                *mark = true;
                let at_depth = indent == depth;
                if at_depth && (line.trim() == "}" || line.trim_end().ends_with(';')) {
                    inside = None;
                }
            }
        }
    }
    marks
}

/// The code of a file, with its lines and columns kept.
#[derive(Default)]
struct Code {
    lines: Vec<Vec<char>>,
    literals: Vec<(usize, String)>,
}

impl Code {
    /// Without comments, strings and characters. What is no Rust stays as it is; the compiler refuses it.
    fn of(text: &str) -> Self {
        let Ok(tokens) = text.parse::<TokenStream>() else {
            let lines = text.lines().map(|line| line.chars().collect());
            let literals = Vec::new();
            return Self {
                lines: lines.collect(),
                literals,
            };
        };
        let mut code = Self::default();
        code.lines.resize(text.lines().count(), Vec::new());
        code.read(tokens);
        code
    }

    fn read(&mut self, tokens: TokenStream) {
        // A comment that is documentation comes as `#[doc = "…"]`, each part of which stands where all of it does.
        let mut is_comment = false;
        for token in tokens {
            let span = token.span();
            match token {
                TokenTree::Punct(sign) if sign.as_char() == '#' && !is_one(span) => {
                    is_comment = true;
                }
                TokenTree::Punct(_) if is_comment => {}
                TokenTree::Group(_) if is_comment => is_comment = false,
                TokenTree::Group(group) => {
                    self.write(group.span_open());
                    self.read(group.stream());
                    self.write(group.span_close());
                }
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    if text.ends_with(['"', '#']) {
                        let text = text.trim_start_matches(['b', 'c', 'r', '#']);
                        let text = text.trim_end_matches('#').trim_matches('"');
                        self.literals.push((span.start().line, text.to_owned()));
                    } else if !text.ends_with('\'') {
                        self.write(span);
                    }
                }
                TokenTree::Ident(_) | TokenTree::Punct(_) => self.write(span),
            }
        }
    }

    fn write(&mut self, span: Span) {
        let (at, text) = (span.start(), span.source_text());
        let line = &mut self.lines[at.line - 1];
        line.resize(at.column, ' ');
        line.extend(text.unwrap_or_default().chars());
    }
}

fn is_one(span: Span) -> bool {
    let (start, end) = (span.start(), span.end());
    start.line == end.line && start.column + 1 == end.column
}
