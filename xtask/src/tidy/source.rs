//! One file of the repository, as tidy's rules see it: its lines, and for Rust also its lines
//! without comments and strings, its string literals, and which lines are tests.
//!
//! Not a parser: it relies on rustfmt having laid out the file, which the gate checks first.

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
        let is_rust = has_extension(path, "rs");
        let (blanked, literals) = if is_rust {
            blank(text)
        } else {
            (text.to_string(), Vec::new())
        };
        let code: Vec<String> = blanked.lines().map(String::from).collect();
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

    /// Whether this is C or a C header.
    pub(crate) fn is_c(&self) -> bool {
        has_extension(&self.path, "c") || has_extension(&self.path, "h")
    }

    pub(crate) fn is_prose(&self) -> bool {
        has_extension(&self.path, "md")
    }

    /// All lines with their numbers from 1.
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
            let name = line
                .strip_prefix("mod ")
                .or_else(|| line.strip_prefix("pub mod "))?;
            (before.trim() == "#[cfg(test)]")
                .then(|| name.strip_suffix(';'))
                .flatten()
        })
    }

    /// The whole file is for tests, as its parent says.
    pub(crate) fn mark_as_test(&mut self) {
        self.tests.fill(true);
    }

    fn is_test(&self, line: usize) -> bool {
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

/// Blanks comments, strings and characters, keeping all line breaks; gives the strings apart.
fn blank(text: &str) -> (String, Vec<(usize, String)>) {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut literals = Vec::new();
    let mut line = 1;
    let mut at = 0;
    while at < chars.len() {
        let end = match lexeme(&chars, at) {
            Lexeme::Code => {
                out.push(chars[at]);
                line += usize::from(chars[at] == '\n');
                at += 1;
                continue;
            }
            Lexeme::Blank(end) => end,
            Lexeme::Literal(end) => {
                literals.push((line, chars[at..end].iter().collect::<String>()));
                end
            }
        };
        for char in &chars[at..end] {
            out.push(if *char == '\n' { '\n' } else { ' ' });
            line += usize::from(*char == '\n');
        }
        at = end;
    }
    let contents = |(line, text): (usize, String)| {
        let text = text
            .trim_start_matches(['b', 'c', 'r', '#'])
            .trim_end_matches('#');
        (line, text.trim_matches('"').to_string())
    };
    (out, literals.into_iter().map(contents).collect())
}

/// What begins at a place; with its end where it is not plain code.
enum Lexeme {
    Code,
    Blank(usize),
    Literal(usize),
}

fn lexeme(chars: &[char], at: usize) -> Lexeme {
    let next = |offset: usize| chars.get(at + offset).copied().unwrap_or('\0');
    let before = if at == 0 { ' ' } else { chars[at - 1] };
    match chars[at] {
        '/' if next(1) == '/' => {
            let end = chars[at..].iter().position(|char| *char == '\n');
            Lexeme::Blank(end.map_or(chars.len(), |length| at + length))
        }
        '/' if next(1) == '*' => Lexeme::Blank(end_of_comment(chars, at)),
        '"' => Lexeme::Literal(end_of_string(chars, at)),
        'r' | 'b' | 'c' if !before.is_alphanumeric() && before != '_' => {
            raw_string(chars, at).map_or(Lexeme::Code, Lexeme::Literal)
        }
        // A character, not a lifetime: `'a'` or `'\n'`.
        '\'' if next(1) == '\\' => {
            let end = chars[at + 3..].iter().position(|char| *char == '\'');
            Lexeme::Blank(end.map_or(chars.len(), |length| at + 4 + length))
        }
        '\'' if next(2) == '\'' => Lexeme::Blank(at + 3),
        _ => Lexeme::Code,
    }
}

fn end_of_comment(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('/', Some('*')) => (depth, at) = (depth + 1, at + 2),
            ('*', Some('/')) => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// The end of a string with a prefix: `r"…"`, `br#"…"#`, `b"…"`, `c"…"`.
fn raw_string(chars: &[char], start: usize) -> Option<usize> {
    let mut at = start;
    let mut raw = false;
    while let Some('r' | 'b' | 'c') = chars.get(at) {
        raw |= chars[at] == 'r';
        at += 1;
    }
    let hashes = chars[at..].iter().take_while(|char| **char == '#').count();
    at += hashes;
    if chars.get(at) != Some(&'"') || at - start > 3 + hashes {
        return None;
    }
    if !raw {
        return (hashes == 0).then(|| end_of_string(chars, at));
    }
    let mut end = at + 1;
    while end < chars.len() {
        let closing = chars[end + 1..].iter().take(hashes);
        if chars[end] == '"' && closing.filter(|char| **char == '#').count() == hashes {
            return Some(end + 1 + hashes);
        }
        end += 1;
    }
    Some(chars.len())
}

#[cfg(test)]
mod test {
    use super::*;

    fn code(text: &str) -> Vec<String> {
        Source::new("a.rs", text).code
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        assert_eq!(code("a(\"x // y\"); // z"), ["a(        );     "]);
        assert_eq!(
            code("a /* b /* c */ d\ne */ f"),
            ["a               ", "     f"]
        );
        assert_eq!(code("'\"' 'a' '\\'' &'a str"), ["             &'a str"]);
        assert_eq!(code("r#\"a\"b\"# c"), ["         c"]);
        assert_eq!(code("bar\"x\""), ["bar   "]);
    }

    #[test]
    fn literals_have_their_lines() {
        let source = Source::new("a.rs", "x\n\"/sys\" r\"/dev\"\nb\"\\\"q\"");
        let found: Vec<_> = source.literals_without_tests().collect();
        assert_eq!(found, [(2, "/sys"), (2, "/dev"), (3, "\\\"q")]);
    }

    #[test]
    fn modules_declared_for_tests_are_found() {
        let source = Source::new(
            "a.rs",
            "#[cfg(test)]\nmod b;\nmod c;\n#[cfg(test)]\nmod d {\n}\n",
        );
        assert_eq!(source.test_modules().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn test_modules_are_tests_until_their_brace() {
        let source = Source::new("a.rs", "a\n#[cfg(test)]\nmod test {\n    b\n}\nc\n");
        let lines: Vec<_> = source.code_without_tests().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 6]);
        let source = Source::new("crates/x/tests/a.rs", "a\n");
        assert_eq!(source.code_without_tests().count(), 0);
        let source = Source::new("a.rs", "#[cfg(test)]\nmod test;\nc\n");
        let lines: Vec<_> = source.code_without_tests().map(|(line, _)| line).collect();
        assert_eq!(lines, [3]);
    }
}
