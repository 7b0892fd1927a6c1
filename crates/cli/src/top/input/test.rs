//! Input from terminals, key by key; arbitrary input neither panics nor waits for ever.

use proptest::prelude::*;

use super::*;

fn keys(bytes: &[u8]) -> Vec<Key> {
    let mut parser = Parser::default();
    let mut keys = parser.feed(bytes);
    keys.extend(parser.give_up());
    keys
}

#[test]
fn what_terminals_send() {
    // xterm, Linux console, rxvt, screen and tmux; in application mode and not.
    for (bytes, key) in [
        (&b"\x1b[A"[..], Key::Up),
        (b"\x1bOA", Key::Up),
        (b"\x1b[B", Key::Down),
        (b"\x1bOC", Key::Right),
        (b"\x1b[D", Key::Left),
        (b"\x1b[1;5D", Key::Left),
        (b"\x1b[H", Key::Home),
        (b"\x1bOH", Key::Home),
        (b"\x1b[1~", Key::Home),
        (b"\x1b[7~", Key::Home),
        (b"\x1b[4~", Key::End),
        (b"\x1b[F", Key::End),
        (b"\x1b[5~", Key::PageUp),
        (b"\x1b[6~", Key::PageDown),
        (b"\x1bOP", Key::Function(1)),
        (b"\x1b[11~", Key::Function(1)),
        (b"\r", Key::Enter),
        (b"\n", Key::Enter),
        (b"\x7f", Key::Backspace),
        (b"\x08", Key::Backspace),
        (b"\x03", Key::Ctrl('c')),
        (b"\x0c", Key::Ctrl('l')),
        (b"\x1a", Key::Ctrl('z')),
        (b"\x1b", Key::Esc),
        (b"q", Key::Char('q')),
        (b" ", Key::Char(' ')),
        ("é".as_bytes(), Key::Char('é')),
        ("数".as_bytes(), Key::Char('数')),
        ("🦀".as_bytes(), Key::Char('🦀')),
    ] {
        assert_eq!(keys(bytes), [key], "{bytes:?}");
    }
}

#[test]
fn several_keys_at_once_and_a_key_in_pieces() {
    assert_eq!(
        keys(b"j\x1b[Bq"),
        [Key::Char('j'), Key::Down, Key::Char('q')]
    );
    let mut parser = Parser::default();
    for piece in [&b"\x1b"[..], b"[", b"6"] {
        assert_eq!(parser.feed(piece), []);
        assert!(parser.is_waiting());
    }
    assert_eq!(parser.feed(b"~x"), [Key::PageDown, Key::Char('x')]);
    assert!(!parser.is_waiting());
}

#[test]
fn what_means_nothing_is_dropped() {
    for bytes in [
        &b"\x1b[99~"[..],
        b"\x1b[?1;2c",
        b"\t",
        b"\x00",
        b"\xff\xfe",
        b"\x1bOz",
    ] {
        assert_eq!(keys(bytes), [], "{bytes:?}");
    }
    assert_eq!(keys(b"\xc3q"), [Key::Char('q')], "half a character");
    assert_eq!(keys(b"\x1bj"), [Key::Esc, Key::Char('j')], "Alt-j");
}

proptest! {
    /// Whatever comes, in whichever pieces: no panic, and never more than a key is held back.
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1_usize..9) {
        let mut parser = Parser::default();
        for chunk in bytes.chunks(piece) {
            let _keys = parser.feed(chunk);
            prop_assert!(parser.pending.len() <= LONGEST + 2);
        }
        let _key = parser.give_up();
        prop_assert!(!parser.is_waiting());
    }

    /// The pieces in which bytes come do not matter.
    #[test]
    fn pieces_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..60), piece in 1_usize..9) {
        let mut parser = Parser::default();
        let mut keys: Vec<Key> = bytes.chunks(piece).flat_map(|chunk| parser.feed(chunk)).collect();
        keys.extend(parser.give_up());
        prop_assert_eq!(keys, self::keys(&bytes));
    }
}
