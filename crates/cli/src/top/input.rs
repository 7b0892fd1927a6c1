//! Bytes of a terminal as keys. Pure; never stuck on bytes that mean nothing.
//!
//! Own reading and not crossterm's: its reader spins for ever on a terminal that went away.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Char(char),
    Ctrl(char),
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    Enter,
    Esc,
    Backspace,
    Function(u8),
}

/// More parameters than that no terminal sends for one key; such a sequence is dropped.
const LONGEST: usize = 32;

/// Collects bytes until they are a key.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pending: Vec<u8>,
}

enum Found {
    Key(Key, usize),
    /// Nothing of ours, and its length.
    Nothing(usize),
    More,
}

impl Parser {
    /// The keys that these bytes complete.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while !self.pending.is_empty() {
            let length = match first(&self.pending) {
                Found::Key(key, length) => {
                    keys.push(key);
                    length
                }
                Found::Nothing(length) => length,
                Found::More => break,
            };
            self.pending.drain(..length);
        }
        keys
    }

    /// Whether a key has begun and not ended.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.pending.is_empty()
    }

    /// No more bytes came: an escape that stands alone is the key.
    pub(crate) fn give_up(&mut self) -> Option<Key> {
        let alone = self.pending == [ESC];
        self.pending.clear();
        alone.then_some(Key::Esc)
    }
}

const ESC: u8 = 0x1b;

fn first(bytes: &[u8]) -> Found {
    match bytes {
        [ESC] | [ESC, b'O'] => Found::More,
        [ESC, b'[', rest @ ..] => sequence(rest),
        [ESC, b'O', letter, ..] => match letter {
            b'P'..=b'S' => Found::Key(Key::Function(letter - b'P' + 1), 3),
            _ => named(*letter).map_or(Found::Nothing(3), |key| Found::Key(key, 3)),
        },
        // Alt and a key, or Esc and something at once: the escape is the key.
        [ESC, ..] => Found::Key(Key::Esc, 1),
        [b'\r' | b'\n', ..] => Found::Key(Key::Enter, 1),
        [0x7f | 0x08, ..] => Found::Key(Key::Backspace, 1),
        [b'\t', ..] => Found::Nothing(1),
        [control @ 1..=26, ..] => Found::Key(Key::Ctrl(char::from(control - 1 + b'a')), 1),
        [0..=0x1f, ..] => Found::Nothing(1),
        [ascii @ 0x20..=0x7e, ..] => Found::Key(Key::Char(char::from(*ascii)), 1),
        _ => character(bytes),
    }
}

/// After `ESC [`: numbers and a letter or `~`.
fn sequence(rest: &[u8]) -> Found {
    let parameters = rest.iter().take_while(|b| (0x20..=0x3f).contains(*b));
    let length = parameters.take(LONGEST).count();
    if length == LONGEST {
        return Found::Nothing(2 + LONGEST);
    }
    let Some(last) = rest.get(length) else {
        return Found::More;
    };
    let number = rest[..length].split(|b| *b == b';').next();
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u8>().ok());
    let key = match (last, number) {
        (b'~', Some(1 | 7)) => Some(Key::Home),
        (b'~', Some(4 | 8)) => Some(Key::End),
        (b'~', Some(5)) => Some(Key::PageUp),
        (b'~', Some(6)) => Some(Key::PageDown),
        (b'~', Some(n @ 11..=15)) => Some(Key::Function(n - 10)),
        (letter, _) => named(*letter),
    };
    let length = length + 3;
    key.map_or(Found::Nothing(length), |key| Found::Key(key, length))
}

fn named(letter: u8) -> Option<Key> {
    match letter {
        b'A' => Some(Key::Up),
        b'B' => Some(Key::Down),
        b'C' => Some(Key::Right),
        b'D' => Some(Key::Left),
        b'H' => Some(Key::Home),
        b'F' => Some(Key::End),
        _ => None,
    }
}

fn character(bytes: &[u8]) -> Found {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => return Found::Nothing(1),
    };
    let Some(whole) = bytes.get(..length) else {
        let so_far = bytes.iter().skip(1).all(|b| (0x80..=0xbf).contains(b));
        return if so_far {
            Found::More
        } else {
            Found::Nothing(1)
        };
    };
    let text = std::str::from_utf8(whole).ok();
    match text.and_then(|text| text.chars().next()) {
        Some(c) => Found::Key(Key::Char(c), length),
        None => Found::Nothing(1),
    }
}

#[cfg(test)]
mod test;
