//! `haltwise report --findings DIR`: what a capture shows that can be put right, and how.

use crate::exit::{Exit, Outcome};
use crate::explain::tune_advice::TuneAdvice;
use crate::explain::{load, page, view};
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::Looking;
use crate::recommend::candidates::TuneRequest;

use super::Arguments;

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let opened = Opened::open(arguments.dir()?)?;
    let vms = select::vms(&opened.info().roster, arguments.vm.as_deref())?;
    let only = arguments.vm.as_ref().map(|_| vms.clone());
    let request = TuneRequest::of_goal(arguments.weight.goal, only);
    let mut looking = Looking::new(&opened, &request);
    let (loaded, ends) = load::load(&opened, &mut looking.sinks())?;
    looking.go_on(&opened, &ends);
    let tuned = looking.recommend(&opened, &request);
    let told = TuneAdvice::of(&tuned, &opened, &loaded.recording);
    let mut view = view::view(&loaded, &vms, arguments.weight.milli() as f64 / 1e3, told);
    let shown = &arguments.shown;
    shown.sort(&mut [&mut view.findings])?;
    shown.print(&view, |top| page::document(&view, top))?;
    let partial = view.recording.source.lost > 0 || loaded.recording.is_partial();
    Ok(Exit::of_partial(partial))
}
