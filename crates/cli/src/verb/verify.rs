//! `haltwise verify DIR`: recorded halts, checked against KVM's algorithm.

use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::recording::Side;

use crate::exit::{Exit, Failure, Outcome};
use crate::reading::opened::Opened;
use crate::reading::rule::{self, GivenHost};
use crate::reading::select;
use crate::shown::Shown;
use crate::verify::{feed, page, view};

#[derive(Debug, clap::Args)]
#[command(
    about = "Check recorded halts against KVM's halt polling algorithm",
    long_about = "Check recorded halts against KVM's halt polling algorithm

Replays every halt with the algorithm of the recorded kernel and the parameters \
in force at that time, and compares whether grow or shrink was called, the \
window before and after, and changes without a trace event. Prints each \
difference with its halt. Options specify what the recording does not contain, \
and override what it does. Of a capture of a guest (record --guest), checks the \
guest's governor haltpoll instead of KVM.",
    after_long_help = "EXAMPLES
  haltwise verify cap
  haltwise verify cap --rows all          all differences, not only the first 20
  haltwise verify cap --json | jq .shown
  haltwise verify imported --kernel 6.1 --max 200us --shrink 0
  haltwise verify cap --backport shrink-floor

EXIT CODES
  0 all halts that could be checked match
  1 some halts differ, or none could be checked
  5 as 0, but the capture is truncated or damaged, or events were lost"
)]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    #[command(flatten)]
    given: GivenHost,
    #[command(flatten)]
    shown: Shown,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let shown = &arguments.shown;
    let opened = Opened::open(&arguments.dir)?;
    let vms = match &arguments.vm {
        None => None,
        vm => Some(select::vms(&opened.info().roster, vm.as_deref())?),
    };
    let mut view = match opened.info().side {
        Side::Host => {
            let setup = rule::setup(&opened, &arguments.given)?;
            let fed = feed::feed(&opened, &setup, vms.as_deref(), shown.rows())?;
            view::build(&opened, &setup, &fed)
        }
        Side::Guest if arguments.given.policy.is_some() => {
            let error = anyhow!("--policy is for captures of hosts; this one is of a guest");
            return Err(Failure::new(Exit::Usage, error));
        }
        Side::Guest => {
            let setup = rule::guest_setup(&opened, &arguments.given)?;
            let fed = feed::feed_guest(&opened, &setup, shown.rows())?;
            view::build_guest(&opened, &setup, &fed)
        }
    };
    shown.sort(&mut [&mut view.shown])?;
    shown.print(&view, |_| page::document(&view))?;
    if view.checked == 0 {
        let error = anyhow!("no halt could be checked: {}", view.why_not_checked());
        return Err(Failure::new(Exit::Failed, error).hint(view.hint_if_not_checked()));
    }
    Ok(if view.differences > 0 {
        Exit::Failed
    } else {
        Exit::of_partial(view.is_partial())
    })
}
