//! Implementation of `haltwise undo`: restores the settings from before the first apply, and says what it left alone.

use haltwise_host::clock;
use haltwise_host::knob::{CutOff, KnobError, Reversal, Snapshot, UndoneStep, Why, Writer};
use haltwise_host::root::Root;
use serde::Serialize;

use crate::exit::{Exit, Failure, Outcome};
use crate::knob::explain::explain;
use crate::knob::text::{changes, page_cut_off};
use crate::knob::{ChangeView, CutOffView, LeftView, SCHEMA, who};
use crate::page::{Page, harmless};
use crate::pilot_state::kept;
use crate::state::{GivenRoot, command};
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(
    about = "Restore the settings from before apply",
    long_about = "Restore the settings from before `haltwise apply`

Restores each parameter to what it was before the first apply that set it, and \
removes the files that --persist wrote. Also works after a crash, and after a \
reboot: parameters that no such file sets are then back to their boot values. \
Parameters that were modified externally are left alone. `haltwise status` \
shows what is set, and what was there before.",
    after_long_help = "EXAMPLES
  haltwise undo                restore the settings
  haltwise undo --dry-run      print what would change

Exits with 5 if a parameter was left alone because it was modified externally."
)]
pub(crate) struct Arguments {
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    /// Also revert parameters that were modified externally
    #[arg(long)]
    take_over: bool,
    /// Print JSON (schema 1, see docs/status-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root: GivenRoot,
}

/// Everything that is said; the JSON of `--json`.
#[derive(Debug, Serialize)]
struct Undone {
    pub(crate) schema: u32,
    /// Whether it was done, and not only said.
    pub(crate) done: bool,
    /// By the apply that had set it, newest first.
    pub(crate) steps: Vec<StepView>,
    /// An apply or undo that was cut off before this one.
    pub(crate) settled: Option<CutOffView>,
    /// Always empty: undo leaves no apply in force.
    pub(crate) in_force: [u64; 0],
    /// Process of a pilot that runs, and may change settings again.
    pub(crate) pilot_pid: Option<u32>,
}

#[derive(Debug, Serialize)]
struct StepView {
    pub(crate) step: u64,
    pub(crate) who: String,
    pub(crate) turns: Vec<ChangeView>,
    pub(crate) left: Vec<LeftView>,
}

pub(crate) fn run(options: &Arguments) -> Outcome {
    let (undone, is_partial) = if options.dry_run {
        look(options)?
    } else {
        act(options)?
    };
    terminal::show(options.json, &undone, |undone| {
        render(undone, terminal::columns())
    })?;
    Ok(Exit::of_partial(is_partial))
}

fn look(options: &Arguments) -> Result<(Undone, bool), Failure> {
    let now = Snapshot::read(&options.root).map_err(explain)?;
    let reversal = reversal(&now, options)?;
    let undone = Undone::new(&options.root, &reversal, now.cut_off.as_ref(), false);
    Ok((undone, reversal.is_partial()))
}

fn act(options: &Arguments) -> Result<(Undone, bool), Failure> {
    let root = &options.root;
    // Where nothing was ever set, nothing is made either.
    match Snapshot::read(root) {
        Err(KnobError::Busy { .. }) => {}
        now => drop(reversal(&now.map_err(explain)?, options)?),
    }
    let mut writer = Writer::open(root, &who()).map_err(explain)?;
    let cut_off = writer.now().cut_off.clone();
    let reversal = reversal(writer.now(), options)?;
    if !reversal.steps.is_empty() {
        writer.undo(&reversal).map_err(explain)?;
    }
    let undone = Undone::new(root, &reversal, cut_off.as_ref(), true);
    Ok((undone, reversal.is_partial()))
}

/// Nothing to undo is an error, unless that is because an apply was cut off before it had set anything.
fn reversal(now: &Snapshot, options: &Arguments) -> Result<Reversal, Failure> {
    match now.reversal(options.take_over) {
        Err(KnobError::Nothing) if now.cut_off.is_some() => Ok(Reversal { steps: Vec::new() }),
        Err(KnobError::Nothing) => {
            // In the off periods of a trial nothing is in force.
            let pilot = acting_pid(&options.root).map(pilot);
            let status = command(&options.root, "status");
            let shows = || format!("`{status}` shows the settings in force");
            Err(explain(KnobError::Nothing).hint(pilot.unwrap_or_else(shows)))
        }
        other => other.map_err(explain),
    }
}

fn acting_pid(root: &Root) -> Option<u32> {
    kept::acting_pid(root, clock::wall_ns())
}

impl Undone {
    fn new(root: &Root, reversal: &Reversal, cut_off: Option<&CutOff>, done: bool) -> Self {
        Self {
            schema: SCHEMA,
            done,
            steps: (reversal.steps.iter())
                .map(|step| StepView::new(root, step))
                .collect(),
            settled: cut_off.map(|it| CutOffView::new(root, it)),
            in_force: [],
            pilot_pid: acting_pid(root),
        }
    }
}

impl StepView {
    fn new(root: &Root, step: &UndoneStep) -> Self {
        let changes = step.changes.iter();
        let left = step.left.iter();
        Self {
            step: step.step,
            who: step.who.clone(),
            turns: changes.map(|it| ChangeView::new(root, it)).collect(),
            left: left.map(|it| LeftView::new(root, it)).collect(),
        }
    }
}

fn render(undone: &Undone, width: usize) -> String {
    let mut page = Page::new(width);
    if let Some(cut_off) = &undone.settled {
        page_cut_off(&mut page, cut_off);
    }
    for step in &undone.steps {
        let what = if undone.done { "Undone" } else { "Would undo" };
        let text = format!("apply {} (`{}`):", step.step, harmless(&step.who));
        page.wrapped(&format!("{what}: "), &text, 2);
        changes(&mut page, &step.turns);
        left(&mut page, step);
    }
    let turns = || undone.steps.iter().flat_map(|step| &step.turns);
    if turns().any(|turn| turn.name.starts_with("ceiling of ")) {
        let text = "KVM cannot take a ceiling away: a VM whose ceiling was set keeps the restored value, and \
                    does not follow halt_poll_ns until it is restarted.";
        page.wrapped("", text, 2);
    }
    let left = || undone.steps.iter().flat_map(|step| &step.left);
    page.line(if !undone.done {
        "Nothing was changed."
    } else if left().any(|left| left.why == Why::NoAnswer) {
        "All else of haltwise is undone; undo again once it answers and permits it."
    } else {
        "No setting of haltwise is in force."
    });
    if let Some(pid) = undone.pilot_pid {
        page.wrapped("Note: ", &pilot(pid), 2);
    }
    page.finish()
}

fn pilot(pid: u32) -> String {
    format!(
        "a pilot (process {pid}) runs, and may change settings again; in the off periods of a trial nothing is in \
         force. Stop it, then undo: systemctl stop haltwise-pilot"
    )
}

fn left(page: &mut Page, step: &StepView) {
    for left in &step.left {
        let found = match &left.found {
            Some(value) if !left.name.starts_with('/') => format!(" ({value})"),
            _ => String::new(),
        };
        let why = match left.why {
            Why::Theirs => "left alone: modified externally",
            Why::Restored if left.name.contains(" in ") => {
                "already restored, or reset by a boot of the guest"
            }
            Why::Restored => "already restored",
            Why::Ended => "is gone: the VM has ended",
            Why::NoAnswer if left.name.starts_with("ceiling of ") => {
                "left as it is: the VMM does not answer"
            }
            Why::NoAnswer => "left as it is",
            Why::GuestBooted => "left alone: the guest has booted since",
            Why::Rebooted => "already reset by a reboot or a reload of KVM",
        };
        let said = match &left.said {
            Some(said) if !left.name.starts_with("ceiling of ") => format!(": {}", harmless(said)),
            _ => String::new(),
        };
        let text = format!("{}{found} {why}{said}", harmless(&left.name));
        page.wrapped("  ", &text, 4);
    }
}
