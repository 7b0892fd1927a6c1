//! The table of keys has no key twice, and help shows each.

use std::collections::BTreeSet;

use super::*;

#[test]
fn no_key_does_two_things() {
    let mut seen = BTreeSet::new();
    for binding in BINDINGS.iter().chain(&USUAL) {
        for key in binding.keys {
            assert!(seen.insert(*key), "{key:?} twice");
            assert_eq!(action(*key), Some(binding.action), "{key:?}");
        }
    }
    assert_eq!(action(Key::Char('x')), None);
}

#[test]
fn help_names_the_keys_that_it_shows() {
    for binding in BINDINGS {
        for key in binding.keys {
            if let Key::Char(c) = key
                && !matches!(c, ' ' | '=')
            {
                assert!(binding.shown.contains(*c), "{c} in `{}`", binding.shown);
            }
        }
        assert!(
            binding.shown.len() <= 7 && binding.help.len() <= 29,
            "{binding:?}"
        );
    }
}
