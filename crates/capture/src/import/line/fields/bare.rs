//! Fields printed one by one: `ns=423016 waited=1`, or `ns=0x67468 (423016) waited=(1)`.

use super::number;

/// More fields than KVM's widest event has.
const MOST: usize = 16;

#[derive(Debug)]
pub(super) struct Bare<'a> {
    fields: [(&'a [u8], &'a [u8]); MOST],
    known: usize,
}

impl<'a> Bare<'a> {
    /// Reads all of a text; `None` if a part of it is no field.
    pub(super) fn read(text: &'a [u8]) -> Option<Self> {
        let mut bare = Self {
            fields: [(&[], &[]); MOST],
            known: 0,
        };
        let words = text
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        for word in words {
            if let Some(equals) = word.iter().position(|byte| *byte == b'=') {
                let value = &word[equals + 1..];
                *bare.fields.get_mut(bare.known)? =
                    (&word[..equals], inner(value).unwrap_or(value));
                bare.known += 1;
            } else {
                // The same in decimal.
                let last = bare.known.checked_sub(1)?;
                bare.fields[last].1 = inner(word)?;
            }
        }
        (bare.known > 0).then_some(bare)
    }

    pub(super) fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        let mut known = self.fields[..self.known].iter();
        known.find(|field| field.0 == name).map(|field| field.1)
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

fn inner(text: &[u8]) -> Option<&[u8]> {
    text.strip_prefix(b"(")?.strip_suffix(b")")
}
