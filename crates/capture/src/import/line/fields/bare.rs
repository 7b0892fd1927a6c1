//! Fields printed one by one: `ns=423016 waited=1`, or `ns=0x67468 (423016) waited=(1)`.

use super::number;

#[derive(Debug)]
pub(super) struct Bare<'a>(&'a [u8]);

impl<'a> Bare<'a> {
    /// `None` if a part of the text is neither a field nor the decimal value of the field before it.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let is_field = |word: &[u8]| word.contains(&b'=');
        let mut words = words(text);
        let is_whole =
            is_field(words.next()?) && words.all(|it| is_field(it) || inner(it).is_some());
        is_whole.then_some(Self(text))
    }

    pub(super) fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut words = words(self.0);
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix(b"="))?;
        // The same in decimal may follow.
        let decimal = words.next().and_then(inner);
        Some(decimal.or(inner(value)).unwrap_or(value))
    }

    pub(super) fn number(&self, name: &[u8]) -> Option<u64> {
        number::any(self.value(name)?)
    }

    pub(super) fn flag(&self, name: &[u8]) -> Option<bool> {
        match self.number(name)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = text.split(u8::is_ascii_whitespace);
    words.filter(|word| !word.is_empty())
}

fn inner(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(")?.strip_suffix(b")")
}
