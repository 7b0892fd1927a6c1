//! Action of each key: one table, from which the page of help is drawn too.

use ratatui::crossterm::event::KeyCode::{
    Backspace, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right, Up,
};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

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

/// A row of the table; without `help` the page of help does not show it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binding {
    pub(crate) keys: &'static [KeyEvent],
    pub(crate) shown: &'static str,
    pub(crate) action: Action,
    pub(crate) help: &'static str,
}

const fn bind(
    keys: &'static [KeyEvent],
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

const fn key(code: KeyCode) -> KeyEvent {
    KeyEvent::new(code, KeyModifiers::NONE)
}

pub(crate) const fn char(c: char) -> KeyEvent {
    key(KeyCode::Char(c))
}

pub(crate) const fn ctrl(c: char) -> KeyEvent {
    KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL)
}

/// All of them, in the order in which help shows them.
pub(crate) const BINDINGS: &[Binding] = &[
    bind(&[key(Up), char('k')], "Up k", Action::Move(-1), "row above"),
    bind(
        &[key(Down), char('j')],
        "Down j",
        Action::Move(1),
        "row below",
    ),
    bind(&[key(PageUp)], "PgUp", Action::Page(-1), "screen above"),
    bind(&[key(PageDown)], "PgDn", Action::Page(1), "screen below"),
    bind(&[key(Enter)], "Enter", Action::Open, "open the VM or vCPU"),
    bind(
        &[key(Esc), key(Backspace)],
        "Esc",
        Action::Back,
        "back; drop the filter",
    ),
    bind(
        &[char('>'), char('.')],
        "> .",
        Action::Sort(1),
        "sort by the next column",
    ),
    bind(
        &[char('<'), char(',')],
        "< ,",
        Action::Sort(-1),
        "sort by the previous column",
    ),
    bind(&[char('r')], "r", Action::Reverse, "reverse the order"),
    bind(&[char('/')], "/", Action::Filter, "show only matching VMs"),
    bind(
        &[char(' ')],
        "Space",
        Action::Pause,
        "pause; go on, or play",
    ),
    bind(
        &[key(Left)],
        "Left",
        Action::Travel(-1),
        "one step back in time",
    ),
    bind(&[key(Right)], "Right", Action::Travel(1), "one step on"),
    bind(&[char('[')], "[", Action::Travel(-10), "ten steps back"),
    bind(&[char(']')], "]", Action::Travel(10), "ten steps on"),
    bind(&[key(Home)], "Home", Action::First, "oldest step"),
    bind(&[key(End)], "End", Action::Last, "latest interval; follow"),
    bind(
        &[char('+'), char('=')],
        "+",
        Action::Faster,
        "play faster (captures)",
    ),
    bind(&[char('-')], "-", Action::Slower, "play more slowly"),
    bind(
        &[char('?'), char('h'), key(F(1))],
        "? h",
        Action::Help,
        "this page",
    ),
    bind(&[ctrl('l')], "Ctrl-L", Action::Redraw, "redraw the screen"),
    bind(&[char('q'), ctrl('c')], "q", Action::Quit, "quit"),
    bind(&[ctrl('z')], "", Action::Suspend, ""),
];

pub(crate) fn action(key: KeyEvent) -> Option<Action> {
    let mut all = BINDINGS.iter();
    let found = all.find(|binding| binding.keys.contains(&key));
    found.map(|binding| binding.action)
}

/// A terminal sends Alt and a key as it sends Esc and the key at once.
pub(crate) fn presses(event: KeyEvent) -> impl Iterator<Item = KeyEvent> {
    let esc = event.modifiers.contains(KeyModifiers::ALT);
    let plain = KeyEvent::new(event.code, event.modifiers - KeyModifiers::ALT);
    esc.then(|| key(Esc)).into_iter().chain([plain])
}
