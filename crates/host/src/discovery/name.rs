//! Names that are safe to print and store.
//!
//! A VMM's command line and a thread's name belong to the user who started the VMM. They may hold control
//! characters, text that runs backwards, or 100 kB; a report must show none of that.

pub const LONGEST_NAME: usize = 96;

/// The printable part of a name: control and invisible characters become `?`, the rest is cut at
/// [`LONGEST_NAME`] characters with `…`. `None` if nothing visible is left.
pub fn printable(text: &str) -> Option<String> {
    printable_within(text, LONGEST_NAME)
}

pub(crate) fn printable_within(text: &str, longest: usize) -> Option<String> {
    let mut characters = text
        .trim()
        .chars()
        .map(|c| if is_visible(c) { c } else { '?' });
    let mut name: String = characters.by_ref().take(longest).collect();
    if characters.next().is_some() {
        name.pop();
        name.push('…');
    }
    let name = name.trim_end();
    (!name.is_empty() && name.chars().any(|c| c != '?')).then(|| name.to_owned())
}

/// Neither a control character nor one that moves, hides or reverses the text around it.
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{e000}'..='\u{f8ff}'
            | '\u{e0000}'..='\u{10ffff}')
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_of_ill_will_are_made_harmless() {
        for (given, shown) in [
            ("a\x1b[31mred", "a?[31mred"),
            ("a\nb\tc", "a?b?c"),
            ("abc\u{202e}def", "abc?def"),
            ("\u{9b}31m", "?31m"),
        ] {
            assert_eq!(printable(given).as_deref(), Some(shown));
        }
        for nothing in ["", " \n", "\u{200b}", "\x00\x01"] {
            assert_eq!(printable(nothing), None, "{nothing:?}");
        }
        let long = printable(&"x".repeat(100_000)).unwrap();
        assert_eq!(long.chars().count(), LONGEST_NAME);
        assert!(long.ends_with('…'));
    }
}
