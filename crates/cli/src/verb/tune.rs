//! `haltwise tune DIR`: which setting of KVM's parameters serves the recorded halts best; of a guest, which of its
//! governor's; or what given policies would have cost.

mod replay;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;
use haltwise_core::ids::VmIndex;
use haltwise_core::replay::GoalName;

use crate::exit::{Exit, Failure, Outcome};
use crate::prices::GivenCosts;
use crate::prices::price::{GivenPrice, no_prices};
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::candidates::{Extent, TuneRequest};
use crate::recommend::caps::CeilingsFor;
use crate::recommend::goal::{self, Goals};
use crate::recommend::guest::joined::{self, Beside};
use crate::recommend::guest::view::GuestTuneResult;
use crate::recommend::view::TuneResult;
use crate::recommend::{Tuned, recommend};
use crate::shown::Shown;
use crate::terminal;
use crate::tune::{guest, plan, text};

use self::replay::{Asked, POLICY};

#[derive(Debug, clap::Args)]
#[command(
    about = "Recommend the best setting for the recorded halts",
    after_long_help = "EXAMPLES
  haltwise tune cap                                  the best setting
  haltwise tune cap --goal density --max-poll-cpu 2%
  haltwise tune cap --goal latency --calibration cal.json
  haltwise tune cap --plan plan.json && haltwise apply plan.json
  haltwise tune cap --goal web=latency --goal batch=density --plan plan.json
  haltwise tune guest --host host                    both captures of one VM
  haltwise tune cap --vm web-1 --json | jq '.played.front'

  haltwise tune cap --policy usual                   the cost of other policies
  haltwise tune cap --policy off --policy kvm:max=50us
  haltwise tune cap --policy kvm:max=80us,shrink=0 --goal latency
  haltwise tune cap --policy off --policy guest-haltpoll --exit-cpu 1500ns
  haltwise tune --policies                           list the policies
  haltwise tune cap --policy usual --json | jq '.host.played[].from_zero.ratio'

Settings are chosen on the first half of the capture and evaluated on the second
half. No setting of any host is changed. A capture recorded with --mode counts
gives a fixed threshold with bounds.

VMs whose ceiling can be set (docs/ceilings.md) get one of their own in the plan
where that is better by at least 2 %, and the others the parameters that are
best for them. --ceilings all plans for VMs that are to be started so.

Of a capture of a guest (record --guest) it tunes the five parameters of the
guest's governor haltpoll instead, and compares them with polling in its host,
other governors, idle=poll and cpu-pm. --host gives the capture that its host
recorded at that time: the two are matched by time, and prices and load are the
host's. A plan has the guest's parameters, for `haltwise apply` in the guest.

If every VM has its own ceiling that cannot be set from outside, halt_poll_ns
applies to none of them: no plan is written, and --plan exits with 1.

With --policy nothing is recommended: all recorded halts are replayed under
each policy. `kvm` without parameters is the recorded kernel's algorithm with
the recorded parameters. Two rows for one policy mean two steady states; a VM
may end in either.

Exits with 5 if the capture is truncated or damaged, or if events were lost."
)]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR", required_unless_present = "policies")]
    dir: Option<PathBuf>,
    /// Compute the cost under this policy instead; may be repeated
    ///
    /// usual: for a host off, kvm, kvm:knobs=default, leader and a lower bound; for a guest off, settings of
    /// guest-haltpoll, smart-idle-poll, other governors and a lower bound.
    #[arg(long = "policy", short, value_name = "SPEC", hide_possible_values = true, value_parser = POLICY,
        conflicts_with_all = ["max_poll_cpu", "host", "vm", "plan", "ceiling_only", "ceilings"])]
    policy: Vec<Asked>,
    /// List the policies and their parameters
    #[arg(long, conflicts_with_all = ["dir", "policy", "goals", "max_poll_cpu", "host", "vm", "plan", "ceiling_only", "ceilings", "rows", "sort", "json"])]
    policies: bool,
    #[command(flatten)]
    goals: Goals,
    /// Limit of the CPU time spent polling, in % of one CPU
    ///
    /// It holds for all vCPUs together.
    #[arg(long, value_name = "SHARE", value_parser = goal::percent)]
    max_poll_cpu: Option<f64>,
    /// Capture of the guest's host, recorded at the same time
    #[arg(long, value_name = "DIR")]
    host: Option<PathBuf>,
    /// Only this VM, by a name, UUID, VMID or PID
    ///
    /// Parameters still apply to all VMs. With --host: the VM of the host that the guest is.
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Write a plan for `haltwise apply` (docs/plan-json.md)
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Tune only `halt_poll_ns` and ceilings of VMs
    #[arg(long)]
    ceiling_only: bool,
    /// VMs that the plan may give a ceiling
    #[arg(long, value_name = "VMS", default_value = "settable")]
    ceilings: CeilingsFor,
    #[command(flatten)]
    costs: GivenCosts,
    #[command(flatten)]
    price: GivenPrice,
    /// With --policy: also print each VM in detail
    #[arg(long, requires = "policy")]
    detail: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Arguments {
    fn refuse_for_guest(&self, goals: &BTreeMap<VmIndex, GoalName>) -> Result<(), Failure> {
        let given = [
            (self.ceiling_only, "--ceiling-only"),
            (self.ceilings != CeilingsFor::Settable, "--ceilings"),
            (!goals.is_empty(), "--goal VM=GOAL"),
        ];
        let Some((_, option)) = given.into_iter().find(|(is_given, _)| *is_given) else {
            return Ok(());
        };
        let error = anyhow!("tune: {option} is for captures of a host, and this one is of a guest");
        Err(Failure::new(Exit::Usage, error)
            .hint("without it tune prints the commands for the guest"))
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let Some(dir) = arguments.dir.as_deref() else {
        terminal::document(&replay::list(), arguments.shown.width())?;
        return Ok(Exit::Done);
    };
    let opened = Opened::open(dir)?;
    if arguments.policy.is_empty() {
        recommended(arguments, &opened)
    } else {
        replay::run(arguments, &opened)
    }
}

fn recommended(arguments: &Arguments, opened: &Opened) -> Outcome {
    let host = arguments.host.as_deref().map(Opened::open).transpose()?;
    let selector = arguments.vm.as_deref().filter(|_| host.is_none());
    let vms = selector.map(|vm| select::vms(&opened.info().roster, Some(vm)));
    let request = TuneRequest {
        goal: arguments.goals.of_all()?,
        goals: arguments.goals.of_vms(&opened.info().roster)?,
        ceilings: arguments.ceilings,
        max_poll_cpu_percent: arguments.max_poll_cpu,
        vms: vms.transpose()?,
        costs: arguments.costs.clone(),
        ceiling_only: arguments.ceiling_only,
        extent: Extent::All,
    };
    match (opened.info().side.is_host(), &host) {
        (false, _) => arguments.refuse_for_guest(&request.goals)?,
        (true, None) => no_prices(arguments.price)?,
        (true, Some(_)) => {
            let error =
                anyhow!("tune: --host is for captures of a guest, and this one is of a host");
            return Err(Failure::new(Exit::Usage, error)
                .hint("give the guest's capture first: haltwise tune GUEST --host HOST"));
        }
    }
    let vm = arguments.vm.as_deref();
    let beside = host.as_ref().map(|host| Beside { host, vm });
    let joined = beside.map(|beside| joined::read(opened, &beside, &request.costs));
    match recommend(opened, &request, arguments.price, joined.transpose()?)? {
        Tuned::Host(made) => of_host(arguments, opened, &made.view),
        Tuned::Guest(view) => of_guest(arguments, opened, view),
    }
}

fn of_guest(arguments: &Arguments, opened: &Opened, mut view: GuestTuneResult) -> Outcome {
    let (plan, shown) = (arguments.plan.as_ref(), &arguments.shown);
    if let Some(path) = plan {
        plan::of_guest(opened.info(), &view).write(path)?;
    }
    shown.sort(&mut [&mut view.rows])?;
    shown.print_text(&view, |style| {
        let plan = plan.map(|path| path.display().to_string());
        guest::render(&view, plan.as_deref(), shown.rows(), style)
    })?;
    Ok(Exit::of_partial(view.basis.search.is_partial()))
}

fn of_host(arguments: &Arguments, opened: &Opened, view: &TuneResult) -> Outcome {
    let path = arguments.plan.as_ref().filter(|_| !view.has_no_plan());
    if let Some(path) = path {
        plan::plan(opened.info(), view).write(path)?;
    }
    let shown = &arguments.shown;
    let mut lines = text::lines(view);
    shown.sort(&mut [&mut lines])?;
    shown.print_text(view, |style| {
        let plan = path.map(|path| path.display().to_string());
        text::render(view, &lines, plan.as_deref(), shown.rows(), style)
    })?;
    if arguments.plan.is_some() && path.is_none() {
        let error = anyhow!(
            "no plan was written: halt_poll_ns applies to no VM of this capture, because each has its \
             own ceiling"
        );
        return Err(Failure::new(Exit::Failed, error)
            .hint(
                "`haltwise apply --vm VM --ceiling TIME` sets the ceiling of a running VM, if its VMM allows it; \
                 otherwise the VMM has to (KVM_CAP_HALT_POLL)",
            ));
    }
    Ok(Exit::of_partial(view.basis.search.is_partial()))
}
