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

/// The first key, or `None` for a sequence that is ignored, and its length in bytes; `None` if more bytes must come.
type Found = Option<(Option<Key>, usize)>;

impl Parser {
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        while let Some((key, length)) = first(&self.pending) {
            keys.extend(key);
            self.pending.drain(..length);
        }
        keys
    }

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
    let key = match bytes {
        [] | [ESC] | [ESC, b'O'] => return None,
        [ESC, b'[', rest @ ..] => return sequence(rest),
        [ESC, b'O', letter @ b'P'..=b'S', ..] => {
            return Some((Some(Key::Function(letter - b'P' + 1)), 3));
        }
        [ESC, b'O', letter, ..] => return Some((named(*letter), 3)),
        // Alt and a key, or Esc and something at once: the escape is the key.
        [ESC, ..] => Some(Key::Esc),
        [b'\r' | b'\n', ..] => Some(Key::Enter),
        [0x7f | 0x08, ..] => Some(Key::Backspace),
        [b'\t', ..] => None,
        [control @ 1..=26, ..] => Some(Key::Ctrl(char::from(control - 1 + b'a'))),
        [0..=0x1f, ..] => None,
        _ => return character(bytes),
    };
    Some((key, 1))
}

/// After `ESC [`: numbers and a letter or `~`.
fn sequence(rest: &[u8]) -> Found {
    let parameters = rest.iter().take_while(|b| (0x20..=0x3f).contains(*b));
    let length = parameters.take(LONGEST).count();
    if length == LONGEST {
        return Some((None, 2 + LONGEST));
    }
    let last = rest.get(length)?;
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
    Some((key, length + 3))
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
    let bytes = &bytes[..bytes.len().min(4)];
    let (whole, is_cut) = match std::str::from_utf8(bytes) {
        Ok(_) => (bytes.len(), false),
        Err(error) => (error.valid_up_to(), error.error_len().is_none()),
    };
    let text = std::str::from_utf8(&bytes[..whole]).unwrap_or_default();
    match text.chars().next() {
        Some(c) => Some((Some(Key::Char(c)), c.len_utf8())),
        None if is_cut => None,
        None => Some((None, 1)),
    }
}

#[cfg(test)]
mod test;
