//! `haltwise` without a verb: ten seconds, and the answer.

use std::path::{Path, PathBuf};

use clap::Args;
use haltwise_core::replay::GoalName;
use haltwise_core::units::Nanos;
use haltwise_host::discovery;
use haltwise_host::root::Root;

use crate::calibrate;
use crate::collect::interrupt::Interrupt;
use crate::collect::recording::{self, RecordingRequest};
use crate::exit::{Exit, Failure, Outcome};
use crate::now::view::Answer;
use crate::now::{build, page};
use crate::prices::kept;
use crate::recommend::goal::GOAL;
use crate::terminal::{self, Width};
use crate::time;

/// Description in `haltwise --help`.
pub(crate) const ABOUT: &str = "Measure and tune the halt polling of KVM virtual machines

Without a command, records the halts of all VMs for ten seconds, and prints the CPU \
time spent polling, the VMs that take most CPU time and what it is spent on, vCPUs \
that never halt, what halt_poll_ns=0 and the recommended setting would save and do to \
the wake-up latency, what else stands out, and the commands that apply, undo and prove \
the recommendation, for each goal. Does not change any setting. The capture is kept \
and named, with nine older ones (1 GiB at most) in the directory for temporary files. \
Where no price of a sleep is kept with this host, 5 s more go into measuring it. \
Exits with 4 if recording is not permitted, after what can be said without it.";

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Answer from this capture instead of recording one
    #[arg(long, value_name = "DIR", conflicts_with = "duration")]
    capture: Option<PathBuf>,
    /// How long to record [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true)]
    duration: Option<Nanos>,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// How much latency counts in the answer: density, balanced or latency
    ///
    /// All goals are listed.
    #[arg(long, value_name = "GOAL", default_value = "balanced", hide_possible_values = true, value_parser = GOAL)]
    goal: GoalName,
    /// Print JSON (schema 1, see docs/now-json.md)
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    width: Width,
}

pub(crate) fn run(asked: &Arguments) -> Outcome {
    if let Some(dir) = &asked.capture {
        return answer(asked, dir, None);
    }
    if let Some(dir) = recorded(asked)? {
        let root = Root::host();
        calibrate::recorded::learn(&root, &dir);
        return answer(asked, &dir, Some(&root));
    }
    let advice = "No KVM virtual machine runs here: there is nothing to record.";
    show(asked, &build::unrecorded(&Root::host(), advice.to_owned())?)?;
    Ok(Exit::Done)
}

fn answer(asked: &Arguments, dir: &Path, here: Option<&Root>) -> Outcome {
    let (view, is_partial) = build::build(dir, asked.vm.as_deref(), asked.goal, here)?;
    show(asked, &view)?;
    Ok(Exit::of_partial(is_partial))
}

fn show(asked: &Arguments, view: &Answer) -> Result<(), Failure> {
    if asked.json {
        terminal::print_json(view)
    } else {
        terminal::document(&page::document(view), asked.width.columns())
    }
}

/// Records into a directory of its own; `None` where no VM runs.
fn recorded(asked: &Arguments) -> Result<Option<PathBuf>, Failure> {
    let root = Root::host();
    let has_vms = discovery::scan(&root).is_ok_and(|scan| !scan.vms.is_empty());
    let price = if has_vms {
        let interrupt = Interrupt::watch()?;
        let price = kept::or_measured(&root, || interrupt.came().is_some());
        if interrupt.came().is_some() {
            let error = anyhow::anyhow!("interrupted before anything was recorded");
            return Err(Failure::new(Exit::Failed, error));
        }
        price
    } else {
        None
    };
    let wanted = RecordingRequest {
        price: price.map(Box::new),
        ..RecordingRequest::brief(asked.vm.as_deref(), asked.duration, None)
    };
    recording::own::make_room();
    // A VM that is being made has no vCPU yet.
    match recording::record_if(&wanted, |roster| has_vms || !roster.vms.is_empty()) {
        Ok(recorded) => Ok(recorded.map(|_| wanted.output)),
        Err(failure) if failure.exit == Exit::Denied => {
            let advice = "Recording is not permitted: run `sudo haltwise`.".to_owned();
            show(asked, &build::unrecorded(&Root::host(), advice)?)?;
            Err(failure
                .hint("run `sudo haltwise`; `haltwise status --check` says which rights it takes"))
        }
        Err(failure) => Err(failure),
    }
}
