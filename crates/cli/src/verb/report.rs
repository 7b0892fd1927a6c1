//! `haltwise report DIR`: where the halted time of a capture goes, or another section: findings, exits or a profile.

mod sections;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::ValueEnum;
use haltwise_core::event::Vm;
use haltwise_core::ids::VmIndex;
use haltwise_core::profile::Event;
use haltwise_core::units::Nanos;

use crate::collect::profile::EVENTS;
use crate::exit::{Exit, Failure, Outcome};
use crate::html;
use crate::html::content::{self, PageOptions};
use crate::number::count;
use crate::offered::Offered;
use crate::page::harmless;
use crate::reading::load::{self, OverTime};
use crate::reading::opened::Opened;
use crate::reading::select;
use crate::recommend::Looking;
use crate::recommend::candidates::TuneRequest;
use crate::recommend::goal::Weight;
use crate::recommend::recommendation::Summary;
use crate::report::build;
use crate::report::text::{self, Options};
use crate::shown::Shown;
use crate::terminal;
use crate::time;

#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
#[command(about = "Summarize a capture: halts, findings, VM exits or profile", mut_arg("sort", |sort| sort.help(HELP)), after_long_help = "EXAMPLES
  haltwise report cap                  summary, and the VMs that poll most
  haltwise report cap --rows all --sort wake    all VMs, by wake-up latency
  haltwise report cap --vm web-1       one VM in detail, by name
  haltwise report cap --vm 4711        by the PID of its VMM
  haltwise report cap --vcpus          also a row and a chart for each vCPU
  haltwise report cap --json | jq '.vms[].account.poll.cpu_percent'
  haltwise report cap --html cap.html  the same as one HTML file
  haltwise report cap --html cap.html --against other --proof proof.json

  haltwise report cap --findings       problems, most expensive first
  haltwise report cap --findings --json | jq '.findings[] | [.rule, .remedy]'
  haltwise report --exits --vm web-1   record ten seconds, say why it exits
  haltwise report cap --exits          by reason, most expensive first
  haltwise report cap --exits --by sub by MSR, port, page and so on
  haltwise report cap --exits --exit MSR_WRITE --by sub    MSRs written
  haltwise report cap --profile        by area, by exit, hottest symbols
  haltwise report cap --profile --exit EPT_VIOLATION    samples of this exit
  haltwise report cap --profile --folded - | ...    for other tools

FINDINGS
  Remedies that would do harm on this host are listed with the reason. Findings
  that cost less than 0.2 % of a CPU are counted but not shown. Rules about
  exits need `haltwise record --exits`, some need `--exits=msr,pio,mmio`. Rules
  without data are listed as not evaluated.

EXITS AND PROFILE
  Record exits with `haltwise record --exits`, or `--exits=msr,pio,...` to count
  them by MSR, port and so on; samples with `haltwise record --profile 997hz`.
  With both, each sample has the exit that was being handled.

Exits with 5 if the capture is truncated or damaged, or if events were lost: the
report is still printed, and its last lines say what is missing.")]
pub(crate) struct Arguments {
    /// Capture directory, written by `haltwise record` or `import`
    #[arg(value_name = "DIR", required_unless_present = "exits")]
    dir: Option<PathBuf>,
    /// Print the problems found and their remedies
    #[arg(long, group = "section")]
    findings: bool,
    /// Print VM exits by reason, count and handling time
    ///
    /// Without DIR, ten seconds are recorded with all details, and the capture is kept.
    #[arg(long, group = "section", conflicts_with = "goal")]
    exits: bool,
    /// Print where vCPU and VMM threads spend CPU time
    #[arg(long, group = "section", conflicts_with = "goal")]
    profile: bool,
    /// Only this VM, by a name, UUID, VMID or PID [default: all]
    #[arg(long, value_name = "NAME|PID")]
    vm: Option<String>,
    #[command(flatten)]
    weight: Weight,
    /// Group exits or samples by this
    ///
    /// Exits by reason, sub (MSR, port, page and so on), vm, vcpu or second; samples by vm, vcpu, thread, area, exit,
    /// symbol or module.
    #[arg(long, value_name = "KEY", requires = "section", conflicts_with = "findings", hide_possible_values = true, value_parser = BY)]
    by: Option<String>,
    /// Only this exit, by name [default: all]
    ///
    /// With --exits also by number.
    #[arg(
        long,
        value_name = "NAME",
        requires = "section",
        conflicts_with = "findings"
    )]
    exit: Option<String>,
    /// Without DIR: how long to record exits [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = time::duration, allow_hyphen_values = true, requires = "exits", conflicts_with = "dir")]
    duration: Option<Nanos>,
    /// Only samples of this event [default: the first recorded]
    #[arg(long, value_name = "EVENT", requires = "profile", hide_possible_values = true, value_parser = EVENTS)]
    event: Option<Event>,
    /// Write folded stacks of the profile to FILE (`-`: stdout)
    ///
    /// One stack per line: `VM;thread;...;function samples`.
    #[arg(long, value_name = "FILE", requires = "profile")]
    folded: Option<PathBuf>,
    /// Also print each VM in detail, as for a capture of one VM
    #[arg(long, conflicts_with = "section")]
    detail: bool,
    /// As --detail, with a row and a chart for each vCPU
    #[arg(long, conflicts_with = "section")]
    vcpus: bool,
    /// Write all sections and charts as an HTML page
    ///
    /// One file that needs no network: findings, remedies, charts, and the cost of the recorded halts under other
    /// settings.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["section", "goal", "json", "vcpus", "width", "rows", "sort", "detail"])]
    html: Option<PathBuf>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    shown: Shown,
}

impl Arguments {
    fn dir(&self) -> Result<&Path, Failure> {
        let missing = || Failure::new(Exit::Usage, anyhow!("DIR is missing"));
        self.dir.as_deref().ok_or_else(missing)
    }

    pub(crate) fn reads_capture(&self) -> bool {
        self.dir.is_some()
    }

    /// Whether each VM is shown in detail: where asked for, and where there is one.
    fn is_detailed(&self, vms: usize) -> bool {
        self.detail || self.vcpus || self.vm.is_some() || vms < 2
    }
}

/// Keys of all sections; [`key`] refuses those of another section.
const BY: Offered<String> = Offered {
    names: &[
        "reason", "sub", "vm", "vcpu", "second", "thread", "area", "exit", "symbol", "module",
    ],
    read: |text| Ok(text.to_owned()),
};

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

const HELP: &str = "Sort rows by this field of --json, largest first; VMs also by cpu, poll, failed, halts, halted, \
                    waits, gap or wake [default: cpu, then poll; sections: what costs most]";

fn key<T: ValueEnum>(by: Option<&str>) -> Result<Option<T>, Failure> {
    let unknown = |by| {
        let keys = T::value_variants().iter().filter_map(T::to_possible_value);
        let keys: Vec<String> = keys.map(|it| it.get_name().to_owned()).collect();
        let error = anyhow!("--by {}: not a key of this section", harmless(by));
        Failure::new(Exit::Usage, error).hint(format!("keys: {}", keys.join(", ")))
    };
    by.map(|by| T::from_str(by, false).map_err(|_| unknown(by)))
        .transpose()
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if arguments.findings {
        sections::findings(arguments)
    } else if arguments.exits {
        sections::exits(arguments)
    } else if arguments.profile {
        sections::profile(arguments)
    } else if let Some(file) = &arguments.html {
        page_for_browsers(arguments, file)
    } else {
        halts(arguments)
    }
}

fn halts(arguments: &Arguments) -> Outcome {
    let opened = Opened::open(arguments.dir()?)?;
    let wanted = select::vms(&opened.info().roster, arguments.vm.as_deref())?;
    let only = arguments.vm.as_ref().map(|_| wanted.clone());
    let wanted: BTreeSet<VmIndex> = wanted.into_iter().collect();
    let request = TuneRequest::of_goal(arguments.weight.goal, only);
    let mut looking = Looking::new(&opened, &request);
    let shown = &arguments.shown;
    let detail = arguments.is_detailed(opened.info().roster.vms.len());
    let over_time = if detail || shown.is_json() {
        OverTime::Vcpus
    } else {
        OverTime::Host
    };
    let (recording, ends) = load::load(&opened, over_time, &mut looking.sinks())?;
    looking.go_on(&opened, &ends);
    let summary = Summary::of(&looking.recommend(&opened, &request));
    let wanted = |vm: &Vm| wanted.contains(&vm.index);
    let mut report = build::report(&recording, wanted, summary);
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
    let content = content::content(arguments.dir()?, arguments.vm.as_deref(), &arguments.page)?;
    let bytes = html::write(&content, file)?;
    let kilobytes = count(bytes.div_ceil(1_000) as u64);
    terminal::say(&format!("Wrote {}, {kilobytes} kB", file.display()));
    Ok(Exit::of_partial(content.is_partial()))
}
