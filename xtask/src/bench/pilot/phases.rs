//! Four VMs whose loads change, under the kernel's default, under static ceilings, under the best of these for each VM and
//! phase (the oracle), and under the pilot.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use haltwise_core::prove::rank::Interval;
use serde_json::Value;

use super::super::kept::Figures;
use super::super::run::Programs;
use super::held::{self, CameTo, Ceilings};
use super::parts::{GOALS, Parts};
use super::{Args, Calibrated, Ends, row, status};
use crate::say;

/// The busy one never halts, but for a moment: there is nothing to choose.
pub(super) const BUSY: &str = "bulk";

/// Times between wake-ups: idle, ticking, request and response at 15, 50 and 150 us, bulk.
pub(super) const LOADS: [(&str, &str); 6] = [
    ("idle", "20ms"),
    ("ticking", "4ms"),
    ("rr-15us", "15us"),
    ("rr-50us", "50us"),
    ("rr-150us", "150us"),
    (BUSY, "5us"),
];

pub(super) const VMS: usize = 4;

/// Left out at both ends of each phase: VMs do not begin at the very same moment, and a recorder needs its time.
const EDGE: Duration = Duration::from_secs(2);

/// The kernel's default, then static ceilings, in nanoseconds.
const STATIC: [Option<u64>; 5] = [None, Some(0), Some(30_000), Some(80_000), Some(400_000)];

/// What halts consisted of, slice by slice and VM by VM.
type Slices = Vec<[Parts; VMS]>;

/// What they cost in a second, in nanoseconds of CPU, by [`of_same_work`].
type Costs = Vec<[f64; VMS]>;

pub(super) fn measure(
    programs: &Programs,
    args: &Args,
    calibrated: &Calibrated,
    folder: &Path,
    figures: &mut Figures,
) -> Result<()> {
    let arm = |seconds| Arm {
        programs,
        calibrated,
        folder,
        seconds,
        rounds: args.held_rounds,
    };
    let mut fixed = Vec::new();
    for ceiling in STATIC {
        say::step(&format!("phases under ceiling {}", in_words(ceiling)));
        fixed.push(arm(args.static_phase).fixed(ceiling)?);
    }
    for (goal, weight) in GOALS {
        if !args.goals.is_empty() && !args.goals.iter().any(|wanted| wanted == goal) {
            continue;
        }
        let costs = |slices: &Slices| {
            let of = |parts: &Parts| parts.cost_ns(calibrated.switch_cpu_ns, weight);
            of_same_work(slices, fixed.first().unwrap_or(slices), &of)
        };
        let swept: Vec<Costs> = fixed.iter().map(costs).collect();
        let best = best_of(&swept);
        say::step(&format!("phases under the oracle, goal {goal}"));
        let oracle = costs(&arm(args.static_phase).under_oracle(goal, &best)?);
        say::step(&format!("phases under the pilot, goal {goal}"));
        let piloted = arm(args.phase).under_pilot(goal)?;
        let (pilot, own_percent) = (costs(&piloted.slices), piloted.own_percent);
        for (ceiling, costs) in STATIC.iter().zip(&swept) {
            keep(figures, goal, &in_words(*ceiling), costs);
        }
        keep(figures, goal, "oracle", &oracle);
        keep(figures, goal, "pilot", &pilot);
        let head = format!("phases, goal {goal}\n");
        figures.summary.push_str(&head);
        say_all(figures, &swept, &oracle, &pilot);
        if args.held_rounds > 0 {
            let left = piloted.came_to.iter().zip(&best);
            let oracle: Vec<Ceilings> = left.map(|(left, best)| left.under(best)).collect();
            let arm = arm(args.phase);
            held::measure(&arm, (goal, weight), &piloted.came_to, &oracle, figures)?;
        }
        let row = row(
            "phases",
            &format!("{goal} pilot"),
            0,
            "all",
            "pilot_cpu_percent",
            own_percent,
        );
        let line = format!("phases: the pilot itself takes {own_percent:.2} % of a CPU");
        figures.add(row, &line);
    }
    Ok(())
}

fn in_words(ceiling: Option<u64>) -> String {
    ceiling.map_or_else(|| "default".to_owned(), |ns| format!("{ns}ns"))
}

/// Which ceiling of the sweep cost each VM least in each phase.
fn best_of(swept: &[Costs]) -> Vec<[Option<u64>; VMS]> {
    let best = |slice: usize, vm: usize| {
        let costs = swept.iter().map(|costs| costs[slice][vm]);
        let least = STATIC.iter().zip(costs).min_by(|a, b| a.1.total_cmp(&b.1));
        least.and_then(|(ceiling, _)| *ceiling)
    };
    let phase = |slice| std::array::from_fn(|vm| best(slice, vm));
    (0..LOADS.len()).map(phase).collect()
}

/// What as many halts cost in a second as there were under the default: a VM that waits less for others halts more often,
/// which costs more and is no loss.
fn of_same_work(slices: &Slices, default: &Slices, cost: &dyn Fn(&Parts) -> f64) -> Costs {
    let of = |(parts, default): (&Parts, &Parts)| {
        cost(parts) / parts.halts.max(1.0) * default.halts / default.seconds
    };
    let slice = |(vms, default): (&[Parts; VMS], &[Parts; VMS])| {
        let mut costs = [0.0; VMS];
        for (to, both) in costs.iter_mut().zip(vms.iter().zip(default)) {
            *to = of(both);
        }
        costs
    };
    slices.iter().zip(default).map(slice).collect()
}

fn keep(figures: &mut Figures, goal: &str, arm: &str, costs: &Costs) {
    for (slice, vms) in costs.iter().enumerate() {
        for (vm, cost) in vms.iter().enumerate() {
            let (arm, name) = (format!("{goal} {arm}"), name(vm));
            let row = row("phases", &arm, slice, &name, "cost_ns_per_s", *cost);
            figures.rows.push(row);
        }
    }
}

/// All costs, in ms of CPU in a second.
fn say_all(figures: &mut Figures, fixed: &[Costs], oracle: &Costs, pilot: &Costs) {
    let total =
        |costs: &Costs| costs.iter().flatten().sum::<f64>() / costs.len().max(1) as f64 / 1e6;
    let least = |of: &dyn Fn(&Costs) -> f64| fixed.iter().map(of).fold(f64::INFINITY, f64::min);
    let of_vm = |costs: &Costs, vm: usize| costs.iter().map(|slice| slice[vm]).sum::<f64>();
    let slices = pilot.len().max(1) as f64;
    let by_vm: f64 = (0..VMS).map(|vm| least(&|costs| of_vm(costs, vm))).sum();
    let [default, best, own] = [&fixed[0], oracle, pilot].map(total);
    let differ: Vec<f64> = (fixed[0].iter().zip(pilot))
        .map(|(default, pilot)| (pilot.iter().sum::<f64>() - default.iter().sum::<f64>()) / 1e6)
        .collect();
    let mut line = |what: &str, value: f64| {
        let line = format!("phases: {what:28} {value:8.1} ms of CPU in a second\n");
        figures.summary.push_str(&line);
    };
    line("default", default);
    line("best static ceiling", least(&total));
    line("best static for each VM", by_vm / slices / 1e6);
    line("oracle", best);
    line("pilot", own);
    let saved = (default - own) / (default - best);
    let interval = Interval::of(&differ).map_or_else(String::new, |it| {
        format!(
            "; pilot less default, slice by slice: {:+.1} ({:+.1} to {:+.1})",
            it.estimate, it.low, it.high
        )
    });
    let line = format!(
        "phases: the pilot saves {:.0} % of what the oracle saves{interval}\n",
        saved * 100.0
    );
    figures.summary.push_str(&line);
    by_load(figures, &fixed[0], oracle, pilot);
}

/// Costs of each load, of the VMs that have it in turn.
fn by_load(figures: &mut Figures, default: &Costs, oracle: &Costs, pilot: &Costs) {
    figures
        .summary
        .push_str("phases: load       default    oracle     pilot, ms of CPU in a second; pilot against default\n");
    for (load, (name, _)) in LOADS.iter().enumerate() {
        let cells: Vec<(usize, usize)> = (0..pilot.len())
            .flat_map(|slice| (0..VMS).map(move |vm| (slice, vm)))
            .filter(|(slice, vm)| (slice + vm) % LOADS.len() == load)
            .collect();
        let mean = |costs: &Costs| {
            let sum: f64 = cells.iter().map(|(slice, vm)| costs[*slice][*vm]).sum();
            sum / cells.len().max(1) as f64 / 1e6
        };
        let [default, oracle, own] = [default, oracle, pilot].map(mean);
        if *name == BUSY {
            continue;
        }
        let line = format!(
            "phases: {name:<9} {default:9.1} {oracle:9.1} {own:9.1} {:+6.1} %\n",
            100.0 * (own / default - 1.0)
        );
        figures.summary.push_str(&line);
    }
}

/// The VMs under the pilot.
struct Piloted {
    slices: Slices,
    /// What it took itself, in % of a CPU.
    own_percent: f64,
    /// At the end of each phase.
    came_to: Vec<CameTo>,
}

/// One setting for all phases.
pub(super) struct Arm<'a> {
    pub(super) programs: &'a Programs,
    pub(super) calibrated: &'a Calibrated,
    pub(super) folder: &'a Path,
    /// Of each phase.
    seconds: u64,
    /// In which what the pilot came to is measured.
    pub(super) rounds: u32,
}

impl Arm<'_> {
    /// Under the kernel's default, or a ceiling.
    fn fixed(&self, ceiling: Option<u64>) -> Result<Slices> {
        let (began, vms) = (Instant::now(), self.vms(ceiling)?);
        let one = |slice| self.slice(self.begin(began, slice), &in_words(ceiling), slice);
        let slices = (0..LOADS.len()).map(one).collect();
        drop(vms);
        slices
    }

    /// Each VM in each phase under the ceiling that is best for it.
    fn under_oracle(&self, goal: &str, best: &[[Option<u64>; VMS]]) -> Result<Slices> {
        let one = |slice: usize| {
            let began = Instant::now();
            let start = |vm| self.vm(vm, &[load(slice, vm)], best[slice][vm]);
            let vms = (0..VMS).map(start).collect::<Result<Vec<Ends>>>()?;
            let parts = self.slice(began, &format!("{goal}-oracle"), slice);
            drop(vms);
            parts
        };
        (0..LOADS.len()).map(one).collect()
    }

    fn under_pilot(&self, goal: &str) -> Result<Piloted> {
        let (began, vms) = (Instant::now(), self.vms(None)?);
        let pilot = self
            .calibrated
            .pilot(self.programs, "phased-*", goal)
            .spawn()
            .context("start the pilot")?;
        let one = |slice| {
            let parts = self.slice(self.begin(began, slice), goal, slice)?;
            Ok((parts, CameTo::read(&status(self.programs)?)?))
        };
        let all: Result<Vec<_>> = (0..LOADS.len()).map(one).collect();
        // It ends as it does for people, and says what it was.
        let asked = Command::new("kill")
            .args(["-TERM", &pilot.id().to_string()])
            .status()?;
        if !asked.success() {
            bail!("the pilot ended early");
        }
        let output = pilot.wait_with_output()?;
        drop(vms);
        let told: Value =
            serde_json::from_slice(&output.stdout).context("read the pilot's state")?;
        let own_percent = told["own"]["cpu_percent"].as_f64();
        let (slices, came_to) = all?.into_iter().unzip();
        Ok(Piloted {
            slices,
            own_percent: own_percent.context("the pilot knows its own cost")?,
            came_to,
        })
    }

    fn vms(&self, ceiling: Option<u64>) -> Result<Vec<Ends>> {
        let vm = |vm| {
            let gaps: Vec<_> = (0..LOADS.len()).map(|slice| load(slice, vm)).collect();
            self.vm(vm, &gaps, ceiling)
        };
        (0..VMS).map(vm).collect()
    }

    /// One VM, with these times between wake-ups one after the other.
    pub(super) fn vm(&self, vm: usize, gaps: &[&str], ceiling: Option<u64>) -> Result<Ends> {
        let gaps: Vec<_> = gaps.iter().map(|gap| format!("fixed:{gap}")).collect();
        let mut command = Command::new(&self.programs.lab);
        command.args(["run", "tick", "--name", &name(vm)]);
        command.args(["--gaps", &gaps.join(",")]);
        let every = format!("{}s", self.seconds);
        command.args(["--gaps-every", &every, "--duration", "7200s"]);
        if ceiling.is_some() {
            command.args(["--cap", &in_words(ceiling)]);
        }
        Ends::start(&command)
    }

    /// When a slice begins, of VMs that began then.
    fn begin(&self, began: Instant, slice: usize) -> Instant {
        let before: Duration = (0..slice).map(|_| Duration::from_secs(self.seconds)).sum();
        began + before
    }

    /// One slice, from its begin on, its edges left out.
    fn slice(&self, begins: Instant, arm: &str, slice: usize) -> Result<[Parts; VMS]> {
        let begins = begins + EDGE;
        std::thread::sleep(begins.saturating_duration_since(Instant::now()));
        let recorded = Duration::from_secs(self.seconds).saturating_sub(2 * EDGE);
        let names: Vec<String> = (0..VMS).map(name).collect();
        let capture = self.folder.join(format!("{arm}-{slice}"));
        let parts = Parts::record(self.programs, recorded.as_secs(), &capture, &names)?;
        parts.try_into().ok().context("each VM has its parts")
    }
}

pub(super) fn name(vm: usize) -> String {
    format!("phased-{vm}")
}

/// Time between wake-ups of a VM in a slice: loads of a VM begin one later than those of the VM before.
pub(super) fn load(slice: usize, vm: usize) -> &'static str {
    LOADS[(slice + vm) % LOADS.len()].1
}
