//! Names of functions as their source has them. What is too long, or refers to itself, ends early.

use std::fmt::{self, Write};

use cpp_demangle::{DemangleOptions, Symbol};

/// A name is kept up to so many bytes: templates grow without end.
pub(super) const NAME_MOST: usize = 400;

/// Takes no more than a name may have.
#[derive(Debug, Default)]
struct Bounded {
    text: String,
    is_cut: bool,
}

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = NAME_MOST - self.text.len();
        let fits = text.floor_char_boundary(room);
        self.text.push_str(&text[..fits]);
        // It ends the demangler too, however much it would go on to say.
        self.is_cut = fits < text.len();
        if self.is_cut { Err(fmt::Error) } else { Ok(()) }
    }
}

pub(super) fn written_name(symbol: &[u8]) -> String {
    let symbol = String::from_utf8_lossy(symbol);
    let mut name = Bounded::default();
    if let Ok(rust) = rustc_demangle::try_demangle(&symbol) {
        let _cut = write!(name, "{rust:#}");
        return name.text;
    }
    if symbol.starts_with("_Z") {
        // Its limits on depth are the library's own.
        if let Ok(cpp) = Symbol::new(symbol.as_bytes()) {
            let written = cpp.structured_demangle(&mut name, &DemangleOptions::new());
            if written.is_ok() || name.is_cut {
                return name.text;
            }
            name.text.clear();
        }
    }
    let _cut = name.write_str(&symbol);
    name.text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn symbols_become_the_names_of_their_source() {
        for (symbol, name) in [
            ("main", "main"),
            ("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"),
            ("_RNvC6_123foo3bar", "123foo::bar"),
            ("_ZN3foo3barEi", "foo::bar(int)"),
            ("_Zwhat", "_Zwhat"),
            ("", ""),
        ] {
            assert_eq!(written_name(symbol.as_bytes()), name, "{symbol}");
        }
        assert_eq!(written_name(b"a\xffb"), "a\u{fffd}b");
    }

    /// Names that grow by doubling: what stands for the whole before is named again and again.
    #[test]
    fn no_symbol_grows_without_end() {
        let mut doubling = "_Z1fIiE".to_owned();
        let mut deep = "_Z1f".to_owned();
        for nth in 0..400 {
            write!(doubling, "1aIS{}_S{}_E", nth % 10, nth % 10).unwrap();
            deep.push('P');
        }
        deep.push('i');
        let tuple = format!("_RNvC1a1b{}", "TBa_Ba_E".repeat(400));
        let rust = format!("_R{}C1a{}", "Nt".repeat(1500), "1b".repeat(1500));
        let long = "x".repeat(4096);
        for symbol in [doubling, deep, tuple, rust, long] {
            let name = written_name(symbol.as_bytes());
            assert!(!name.is_empty() && name.len() <= NAME_MOST, "{name}");
        }
    }
}
