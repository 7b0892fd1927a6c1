//! The view, the table of keys, and the effect of each key on the view. Pure: no clock, no terminal.

use haltwise_core::event::Vm;
use haltwise_core::ids::{VcpuId, VmIndex};
use ratatui::crossterm::event::KeyCode::{
    self, Backspace, Down, End, Enter, Esc, F, Home, Left, PageDown, PageUp, Right, Up,
};
use ratatui::crossterm::event::{KeyEvent, KeyModifiers};

use self::Action::{
    Back, Filter, First, Help, Last, Move, Open, Page, Pause, Quit, Redraw, Reverse, Sort, Suspend,
    Travel,
};
use super::rows::{self, Column, Table, There, TopRow};
use super::step::{Key, Step};
use super::timeline::{Origin, Timeline};

const FILTER: usize = 60;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Host,
    Vm(VmIndex),
    Vcpu(VmIndex, VcpuId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The column of [`Model::sorted_by`].
    pub(crate) by: Column,
    pub(crate) reversed: bool,
    /// The row that is marked; the first, as long as the user has not moved.
    marked: Option<Key>,
    /// Where it was when it was marked: its neighbours stand there if it goes.
    place: usize,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            by: Column::Cpu,
            reversed: false,
            marked: None,
            place: 0,
        }
    }
}

impl Standing {
    pub(crate) fn place(&self, rows: &[TopRow]) -> usize {
        let there = |key: Key| rows.iter().position(|row| row.key == key);
        let found = self.marked.and_then(there);
        found
            .unwrap_or(self.place)
            .min(rows.len().saturating_sub(1))
    }

    fn mark(&mut self, rows: &[TopRow], place: usize) {
        self.place = place;
        self.marked = rows.get(place).map(|row| row.key);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) origin: Origin,
    pub(crate) timeline: Timeline,
    pub(crate) screen: Screen,
    pub(crate) vms: Standing,
    pub(crate) vcpus: Standing,
    /// Only VMs whose names hold this.
    pub(crate) filter: String,
    /// The filter as it was before the user began to type.
    pub(crate) typing: Option<String>,
    pub(crate) help: bool,
}

impl Model {
    pub(crate) fn new(origin: Origin, timeline: Timeline) -> Self {
        Self {
            origin,
            timeline,
            screen: Screen::Host,
            vms: Standing::default(),
            vcpus: Standing {
                by: Column::Name,
                ..Standing::default()
            },
            filter: String::new(),
            typing: None,
            help: false,
        }
    }

    pub(crate) fn there(&self) -> There {
        There {
            cpu: self.step().is_some_and(|it| !it.cpus.is_empty()),
            exits: self.exits(),
            history: self.timeline.len() > 1,
            pilot: self.step().is_some_and(|it| !it.around.pilot.is_empty()),
        }
    }

    pub(crate) fn exits(&self) -> bool {
        self.origin.names.is_some()
    }

    pub(crate) fn step(&self) -> Option<&Step> {
        self.timeline.now()
    }

    /// A VM, as the step that is looked at has it; else as the last before had it.
    pub(crate) fn vm(&self, index: VmIndex) -> Option<&Vm> {
        let mut steps = self.timeline.before(usize::MAX).rev();
        steps.find_map(|step| step.around.vms.iter().find(|vm| vm.index == index))
    }

    pub(crate) fn table(&self) -> Option<Table> {
        match self.screen {
            Screen::Host => Some(Table::Vms),
            Screen::Vm(_) => Some(Table::Vcpus),
            Screen::Vcpu(..) => None,
        }
    }

    pub(crate) fn standing(&self) -> &Standing {
        match self.screen {
            Screen::Host => &self.vms,
            _ => &self.vcpus,
        }
    }

    fn standing_mut(&mut self) -> &mut Standing {
        match self.screen {
            Screen::Host => &mut self.vms,
            _ => &mut self.vcpus,
        }
    }

    pub(crate) fn rows(&self) -> Vec<TopRow> {
        let Some(step) = self.step() else {
            return Vec::new();
        };
        let names = self.origin.names.as_ref();
        let mut rows = match self.screen {
            Screen::Host => rows::of_host(step, names),
            Screen::Vm(vm) | Screen::Vcpu(vm, _) => {
                let vm = step.around.vms.iter().find(|there| there.index == vm);
                vm.map_or_else(Vec::new, |vm| rows::of_vcpus(step, vm, names))
            }
        };
        if self.screen == Screen::Host && !self.filter.is_empty() {
            rows.retain(|row| rows::is_meant(row, &self.filter));
        }
        let standing = self.standing();
        rows::sort(&mut rows, self.sorted_by(), standing.reversed);
        rows
    }

    /// CPU time is not known of every step.
    pub(crate) fn sorted_by(&self) -> Column {
        match self.standing().by {
            Column::Cpu if !self.there().cpu => Column::Halts,
            by => by,
        }
    }

    /// A key was pressed. `page`: how many rows a screen shows. Gives what is left to the driver: to draw anew, to leave
    /// the terminal to the shell for a while, to quit.
    pub(crate) fn press(&mut self, key: KeyEvent, page: usize) -> Option<Action> {
        if self.typing.is_some() {
            return self.type_filter(key);
        }
        let (_, _, action, _) = *BINDINGS.iter().find(|(keys, ..)| keys.contains(&key))?;
        if self.help && !matches!(action, Action::Quit | Action::Redraw | Action::Suspend) {
            self.help = false;
            return None;
        }
        self.act(action, page)
    }

    fn type_filter(&mut self, key: KeyEvent) -> Option<Action> {
        match (key.code, key.modifiers) {
            (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Some(Action::Quit),
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => self.filter.clear(),
            (_, KeyModifiers::CONTROL) => {}
            (KeyCode::Enter, _) => self.typing = None,
            (KeyCode::Esc, _) => self.filter = self.typing.take().unwrap_or_default(),
            (KeyCode::Backspace, _) => {
                self.filter.pop();
            }
            (KeyCode::Char(c), _) if self.filter.chars().count() < FILTER => self.filter.push(c),
            _ => {}
        }
        None
    }

    fn act(&mut self, action: Action, page: usize) -> Option<Action> {
        let page = isize::try_from(page.max(1)).unwrap_or(isize::MAX);
        match action {
            Action::Move(rows) => self.move_mark(rows),
            Action::Page(pages) => self.move_mark(pages.saturating_mul(page)),
            Action::Open => self.open(),
            Action::Back => self.back(),
            Action::Sort(by) => self.sort(by),
            Action::Reverse => self.standing_mut().reversed ^= true,
            Action::Filter => {
                self.screen = Screen::Host;
                self.typing = Some(self.filter.clone());
            }
            Action::Pause => self.pause(),
            Action::Travel(steps) => {
                let position = self.timeline.position().saturating_add_signed(steps);
                self.timeline.seek(position);
            }
            Action::First => self.timeline.seek(0),
            Action::Last => self.last(),
            Action::Help => self.help = true,
            Action::Redraw | Action::Suspend | Action::Quit => return Some(action),
        }
        None
    }

    /// Moves the mark; on the screen of a vCPU, to the next one of the VM.
    fn move_mark(&mut self, by: isize) {
        let rows = self.rows();
        let place = self.standing().place(&rows).saturating_add_signed(by);
        let place = place.min(rows.len().saturating_sub(1));
        match (self.screen, rows.get(place).map(|row| row.key)) {
            (Screen::Vcpu(vm, _), Some(Key::Vcpu(_, id))) => self.screen = Screen::Vcpu(vm, id),
            (Screen::Vcpu(..), _) => return,
            _ => {}
        }
        self.standing_mut().mark(&rows, place);
    }

    fn open(&mut self) {
        let rows = self.rows();
        let place = self.standing().place(&rows);
        let Some(row) = rows.get(place) else { return };
        match (self.screen, row.key) {
            (Screen::Host, Key::Vm(vm)) => {
                self.vms.mark(&rows, place);
                self.vcpus.marked = None;
                self.vcpus.place = 0;
                self.screen = Screen::Vm(vm);
            }
            (Screen::Vm(_), Key::Vcpu(vm, id)) => {
                self.vcpus.mark(&rows, place);
                self.screen = Screen::Vcpu(vm, id);
            }
            _ => {}
        }
    }

    fn back(&mut self) {
        self.screen = match self.screen {
            Screen::Vcpu(vm, _) => Screen::Vm(vm),
            Screen::Vm(_) => Screen::Host,
            Screen::Host => {
                self.filter.clear();
                Screen::Host
            }
        };
    }

    fn sort(&mut self, by: isize) {
        let Some(table) = self.table() else { return };
        // All of them, on the screen or not: a narrow screen can be sorted by what it has no room for.
        let columns = rows::fitting(table, self.there(), usize::MAX);
        let columns = columns.into_iter().map(|(column, _)| column);
        let columns: Vec<Column> = columns.filter(|column| column.sorts()).collect();
        let sorted_by = self.sorted_by();
        let place = columns.iter().position(|column| *column == sorted_by);
        let place = place.unwrap_or(0).saturating_add_signed(by);
        self.standing_mut().by = columns[place.min(columns.len() - 1)];
    }

    fn pause(&mut self) {
        if self.timeline.follows() {
            self.timeline.hold();
        } else if self.origin.is_live() {
            self.timeline.follow();
        }
    }

    fn last(&mut self) {
        if self.origin.is_live() {
            self.timeline.follow();
        } else {
            self.timeline.seek(usize::MAX);
        }
    }
}

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
    Help,
    Redraw,
    Suspend,
    Quit,
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

/// Keys, their names, what they do, and help, in the order in which the page of help shows them: not without help.
type Binding = (&'static [KeyEvent], &'static str, Action, &'static str);

pub(crate) const BINDINGS: &[Binding] = &[
    (&[key(Up), char('k')], "Up k", Move(-1), "row above"),
    (&[key(Down), char('j')], "Down j", Move(1), "row below"),
    (&[key(PageUp)], "PgUp", Page(-1), "screen above"),
    (&[key(PageDown)], "PgDn", Page(1), "screen below"),
    (&[key(Enter)], "Enter", Open, "open the VM or vCPU"),
    (
        &[key(Esc), key(Backspace)],
        "Esc",
        Back,
        "back; drop the filter",
    ),
    (
        &[char('>'), char('.')],
        "> .",
        Sort(1),
        "sort by the next column",
    ),
    (
        &[char('<'), char(',')],
        "< ,",
        Sort(-1),
        "sort by the previous column",
    ),
    (&[char('r')], "r", Reverse, "reverse the order"),
    (&[char('/')], "/", Filter, "show only matching VMs"),
    (&[char(' ')], "Space", Pause, "pause; go on"),
    (&[key(Left)], "Left", Travel(-1), "one step back in time"),
    (&[key(Right)], "Right", Travel(1), "one step on"),
    (&[char('[')], "[", Travel(-10), "ten steps back"),
    (&[char(']')], "]", Travel(10), "ten steps on"),
    (&[key(Home)], "Home", First, "oldest step"),
    (&[key(End)], "End", Last, "latest interval; follow"),
    (&[char('?'), char('h'), key(F(1))], "? h", Help, "this page"),
    (&[ctrl('l')], "Ctrl-L", Redraw, "redraw the screen"),
    (&[char('q'), ctrl('c')], "q", Quit, "quit"),
    (&[ctrl('z')], "", Suspend, ""),
];

/// A terminal sends Alt and a key as it sends Esc and the key at once.
pub(crate) fn presses(event: KeyEvent) -> impl Iterator<Item = KeyEvent> {
    let esc = event.modifiers.contains(KeyModifiers::ALT);
    let plain = KeyEvent::new(event.code, event.modifiers - KeyModifiers::ALT);
    esc.then(|| key(Esc)).into_iter().chain([plain])
}

#[cfg(test)]
pub(crate) mod test;
