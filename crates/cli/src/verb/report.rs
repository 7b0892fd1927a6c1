//! `haltwise report DIR`: where the halted time of a capture goes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::replay::GoalName;

use crate::exit::{Exit, Outcome};
use crate::html;
use crate::html::content::{self, PageRequest};
use crate::number::count;
use crate::prices::price::GivenPrice;
use crate::reading::load::{self, OverTime};
use crate::reading::opened::Opened;
use crate::reading::pass::Sink;
use crate::reading::select;
use crate::recommend::candidates::TuneRequest;
use crate::recommend::{Looking, Recommendation, recommend_in_guest};
use crate::report::build::{self, Extent};
use crate::report::text::{self, Options};
use crate::shown::Shown;
use crate::terminal;

#[derive(Debug, clap::Args)]
#[command(mut_arg("sort", |sort| sort.help(HELP)), after_help = "EXAMPLES
  haltwise report cap                  summary, and the VMs that poll most
  haltwise report cap --rows all --sort wake    all VMs, by wake-up latency
  haltwise report cap --vm web-1       one VM in detail, by name
  haltwise report cap --vm 4711        by the PID of its VMM
  haltwise report cap --vcpus          also a row and a chart for each vCPU
  haltwise report cap --json | jq '.vms[].account.poll.cpu_percent'
  haltwise report cap --html cap.html  the same as one HTML file
  haltwise report cap --html cap.html --against other --proof proof.json

Exits with 5 if the capture is truncated or damaged, or if events were lost: the
report is still printed, and its last lines say what is missing.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    /// Also print each VM in detail, as for a capture of one VM
    #[arg(long)]
    detail: bool,
    /// As --detail, with a row and a chart for each vCPU
    #[arg(long)]
    vcpus: bool,
    /// Write an HTML page, one file that needs no network: findings, remedies, charts,
    /// and the cost of the recorded halts under other settings
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "vcpus", "width", "rows", "sort", "detail"])]
    html: Option<PathBuf>,
    /// Add a comparison with this capture to the page, as `haltwise diff`
    #[arg(long, value_name = "DIR", requires = "html")]
    against: Option<PathBuf>,
    /// Add a result of `haltwise prove --json` to the page
    #[arg(long, value_name = "FILE", requires = "html")]
    proof: Option<PathBuf>,
    /// Add the accuracy of a ledger's predictions to the page
    #[arg(long, value_name = "FILE", requires = "html")]
    ledger: Option<PathBuf>,
    /// Costs for the page: output of `haltwise calibrate --json`
    #[arg(long, value_name = "FILE", requires = "html")]
    calibration: Option<PathBuf>,
    /// Tune only `halt_poll_ns` on the page, as `haltwise tune --ceiling-only`
    #[arg(long, requires = "html")]
    ceiling_only: bool,
    #[command(flatten)]
    shown: Shown,
}

impl Arguments {
    /// Whether each VM is shown in detail: where asked for, and where there is one.
    fn is_detailed(&self, vms: usize) -> bool {
        self.detail || self.vcpus || self.vm.is_some() || vms < 2
    }
}

/// Short names of fields to sort by.
const SORT: [(&str, &str); 8] = [
    ("cpu", "cpu.cpu_percent"),
    ("poll", "account.poll.cpu_percent"),
    ("failed", "account.poll.wasted_cpu_percent"),
    ("halts", "account.halts_per_s"),
    ("halted", "account.halted_share"),
    ("waits", "account.waits_per_s"),
    ("gap", "account.gap_ns.p50"),
    ("wake", "account.wake_latency_ns.p50"),
];

const HELP: &str = "Sort VMs by this field, largest first: cpu, poll, failed, halts, halted, waits, gap, wake, name, \
                    or as --json names it [default: cpu, then poll]";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if let Some(file) = &arguments.html {
        return page_for_browsers(arguments, file);
    }
    let opened = Opened::open(&arguments.dir)?;
    let wanted = select::vms(&opened.info().roster, arguments.vm.as_deref())?;
    let only = arguments.vm.as_ref().map(|_| wanted.clone());
    let wanted: BTreeSet<VmIndex> = wanted.into_iter().collect();
    let request = TuneRequest::of_goal(GoalName::Balanced, only);
    // What is tuned of a guest has its own search.
    let is_of_host = opened.info().side.is_host();
    let mut looking = is_of_host.then(|| Looking::new(&opened, &request));
    let shown = &arguments.shown;
    let detail = arguments.is_detailed(opened.info().roster.vms.len());
    let (extent, over_time) = if detail || shown.is_json() {
        (Extent::Whole, OverTime::Vcpus)
    } else {
        (Extent::Table, OverTime::Host)
    };
    let mut sinks: Vec<&mut dyn Sink> = Vec::new();
    sinks.extend(looking.as_mut().map(Looking::sink));
    let (recording, ends) = load::load(&opened, over_time, &mut sinks)?;
    let summary = if let Some(mut looking) = looking {
        looking.go_on(&opened, &ends);
        Recommendation::of(&looking.recommend(&opened, &request))
    } else {
        let price = GivenPrice::default();
        Recommendation::in_guest(&recommend_in_guest(&opened, &request, price, None))
    };
    let wanted = |vm: &Vm| wanted.contains(&vm.index);
    let mut report = build::report(&recording, wanted, summary, extent);
    if !shown.is_json() {
        text::order(&mut report.vms);
    }
    shown.sort_by(&SORT, &mut [&mut report.vms])?;
    let options = Options {
        top: shown.rows(),
        detail,
        vcpus: arguments.vcpus,
    };
    shown.print_text(&report, |style| text::render(&report, options, style))?;
    Ok(Exit::of_partial(
        report.recording.lost > 0 || recording.is_partial(),
    ))
}

fn page_for_browsers(arguments: &Arguments, file: &Path) -> Outcome {
    let content = content::content(&PageRequest {
        dir: &arguments.dir,
        vm: arguments.vm.as_deref(),
        against: arguments.against.as_deref(),
        proof: arguments.proof.as_deref(),
        ledger: arguments.ledger.as_deref(),
        calibration: arguments.calibration.as_deref(),
        ceiling_only: arguments.ceiling_only,
    })?;
    let bytes = html::write(&content, file)?;
    let kilobytes = count(bytes.div_ceil(1_000) as u64);
    terminal::say(&format!("Wrote {}, {kilobytes} kB", file.display()));
    Ok(Exit::of_partial(content.is_partial()))
}
