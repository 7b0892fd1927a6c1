//! Cost of halts right now, or at any moment of a capture: a full screen, a page, or JSON.
//!
//! | file | holds |
//! |---|---|
//! | [`step`] | what every vCPU did in one interval |
//! | [`timeline`] | the steps that are kept, the one that is looked at, and what is the same for all |
//! | [`recorded`], [`live`] | steps from a capture, from this host |
//! | [`piloted`] | what the pilot says of the VMs, where one runs |
//! | [`figures`], [`rows`] | what is said of a VM and of a vCPU, in which columns and order |
//! | [`model`] | the view, the table of keys, and how a key changes the view |
//! | [`draw`] | the screens, as cells |
//! | [`view`] | a step as data: the JSON |
//! | [`tty`] | the terminal, and the loop that serves it |

mod draw;
mod figures;
pub(crate) mod live;
mod model;
mod piloted;
pub(crate) mod recorded;
mod rows;
pub(crate) mod step;
mod timeline;
mod tty;
pub(crate) mod view;
#[cfg(test)]
pub(crate) mod world;

use std::path::Path;
use std::time::Duration;

use haltwise_core::ids::VmIndex;
use haltwise_core::recording::Roster;

use self::live::Live;
use self::model::Model;
use self::recorded::Length;
use self::step::lost_count;
use self::timeline::Timeline;
use crate::collect::interrupt::Interrupt;
use crate::collect::watching::ToWatch;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use crate::time::nanos;
use crate::words::plural;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Screen,
    /// One interval as a page, in so many columns.
    Page(usize),
    /// JSON: one interval, or one after the other.
    Json {
        once: bool,
    },
}

impl Form {
    fn is_once(self) -> bool {
        matches!(self, Self::Page(_) | Self::Json { once: true })
    }
}

pub(crate) fn show_capture(
    dir: &Path,
    interval: Duration,
    at: Option<Duration>,
    form: Form,
    pick: impl FnOnce(&Roster) -> Result<Option<Vec<VmIndex>>, Failure>,
) -> Outcome {
    if form == Form::Screen {
        tty::check()?;
    }
    let length = match at {
        // One page of a capture is all of it, unless a moment is asked for.
        None if form.is_once() => Length::Whole,
        _ => Length::Ns(nanos(interval)),
    };
    let (origin, timeline) = recorded::load(dir, length, pick)?;
    let partial = origin.partial;
    let mut model = Model::new(origin, timeline);
    if let Some(at) = at {
        let (start_ns, _) = model.timeline.span();
        model.timeline.seek_time(start_ns.saturating_add(nanos(at)));
    }
    if form == Form::Screen {
        return tty::run(model, None, &Interrupt::watch()?);
    }
    print(&model, form)?;
    if !form.is_once() {
        while !model.timeline.at_end() {
            model.timeline.seek(model.timeline.position() + 1);
            print(&model, form)?;
        }
    }
    Ok(outcome(&model, partial))
}

pub(crate) fn show_host(wanted: &ToWatch, form: Form) -> Outcome {
    if form == Form::Screen {
        tty::check()?;
    }
    let interrupt = Interrupt::watch()?;
    let (mut live, origin) = Live::attach(wanted)?;
    let mut model = Model::new(origin, Timeline::default());
    if form == Form::Screen {
        return tty::run(model, Some(live), &interrupt);
    }
    let (vms, vcpus) = live.seen();
    terminal::say(&format!(
        "Watching {} ({}) and those to come, by {}. Every {:.1} s{}.",
        plural(vms as u64, "VM"),
        plural(vcpus as u64, "vCPU"),
        model.origin.rung,
        wanted.interval.as_secs_f64(),
        if form.is_once() {
            ", one interval; Ctrl-C ends it early"
        } else {
            "; Ctrl-C to end"
        },
    ));
    loop {
        let once = form.is_once() && live.is_due();
        let ends = once || interrupt.came().is_some();
        let step = if ends {
            Some(live.stop()?)
        } else {
            live.turn()?
        };
        if let Some(step) = step {
            model.timeline = Timeline::default();
            model.timeline.push(step);
            print(&model, form)?;
            if ends {
                return Ok(outcome(&model, false));
            }
        }
        std::thread::sleep(live.rest());
    }
}

fn print(model: &Model, form: Form) -> Result<(), Failure> {
    let text = match form {
        Form::Screen => return Ok(()),
        Form::Page(width) => draw::text(model, u16::try_from(width).unwrap_or(u16::MAX)),
        Form::Json { once: true } => return terminal::print_json(&view::of(model)),
        Form::Json { once: false } => serde_json::to_string(&view::of(model))? + "\n",
    };
    terminal::print(&text)
}

fn outcome(model: &Model, partial: bool) -> Exit {
    let lost = model.step().map_or(0, |step| lost_count(&step.around.lost));
    Exit::of_partial(partial || lost > 0)
}
