//! Action of each key: one table, from which the page of help is drawn too.

use super::input::Key;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Move(isize),
    Page(isize),
    Open,
    Back,
    /// Sort by the next column to the right, or to the left.
    Sort(isize),
    Reverse,
    Filter,
    Pause,
    Travel(isize),
    First,
    Last,
    Faster,
    Slower,
    Help,
    Redraw,
    Suspend,
    Quit,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) keys: &'static [Key],
    pub(crate) shown: &'static str,
    pub(crate) action: Action,
    pub(crate) help: &'static str,
}

const fn bind(
    keys: &'static [Key],
    shown: &'static str,
    action: Action,
    help: &'static str,
) -> Binding {
    Binding {
        keys,
        shown,
        action,
        help,
    }
}

use Key::{Backspace, Char, Ctrl, Down, End, Enter, Esc, Function, Home, Left};
use Key::{PageDown, PageUp, Right, Up};

/// All of them, in the order in which help shows them.
pub(crate) const BINDINGS: [Binding; 22] = [
    bind(&[Up, Char('k')], "Up k", Action::Move(-1), "row above"),
    bind(&[Down, Char('j')], "Down j", Action::Move(1), "row below"),
    bind(&[PageUp], "PgUp", Action::Page(-1), "screen above"),
    bind(&[PageDown], "PgDn", Action::Page(1), "screen below"),
    bind(&[Enter], "Enter", Action::Open, "open the VM or vCPU"),
    bind(
        &[Esc, Backspace],
        "Esc",
        Action::Back,
        "back; drop the filter",
    ),
    bind(
        &[Char('>'), Char('.')],
        "> .",
        Action::Sort(1),
        "sort by the next column",
    ),
    bind(
        &[Char('<'), Char(',')],
        "< ,",
        Action::Sort(-1),
        "sort by the previous column",
    ),
    bind(&[Char('r')], "r", Action::Reverse, "reverse the order"),
    bind(&[Char('/')], "/", Action::Filter, "show only matching VMs"),
    bind(
        &[Char(' ')],
        "Space",
        Action::Pause,
        "pause; go on, or play",
    ),
    bind(&[Left], "Left", Action::Travel(-1), "one step back in time"),
    bind(&[Right], "Right", Action::Travel(1), "one step on"),
    bind(&[Char('[')], "[", Action::Travel(-10), "ten steps back"),
    bind(&[Char(']')], "]", Action::Travel(10), "ten steps on"),
    bind(&[Home], "Home", Action::First, "oldest step"),
    bind(&[End], "End", Action::Last, "latest interval; follow"),
    bind(
        &[Char('+'), Char('=')],
        "+",
        Action::Faster,
        "play faster (captures)",
    ),
    bind(&[Char('-')], "-", Action::Slower, "play more slowly"),
    bind(
        &[Char('?'), Char('h'), Function(1)],
        "? h",
        Action::Help,
        "this page",
    ),
    bind(&[Ctrl('l')], "Ctrl-L", Action::Redraw, "redraw the screen"),
    bind(&[Char('q'), Ctrl('c')], "q", Action::Quit, "quit"),
];

/// Not on the page of help: what every program on a terminal does.
const USUAL: [Binding; 1] = [bind(
    &[Ctrl('z')],
    "Ctrl-Z",
    Action::Suspend,
    "into the background",
)];

pub(crate) fn action(key: Key) -> Option<Action> {
    let all = BINDINGS.iter().chain(&USUAL);
    let mut found = all.filter(|binding| binding.keys.contains(&key));
    found.next().map(|binding| binding.action)
}

#[cfg(test)]
mod test;
