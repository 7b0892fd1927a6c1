//! JSON output of the lab and of haltwise's verbs, as far as checks judge it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ours;
use crate::tool;

pub(crate) fn text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    serde_json::from_str(&text(path)?).with_context(|| format!("understand {}", path.display()))
}

/// Output of a verb about a capture. The verb runs here, where nothing is emulated.
pub(crate) fn ask<T: DeserializeOwned>(verb: &[&str], capture: &Path) -> Result<T> {
    /// Done, but data was lost: the document says so, and is judged.
    const PARTIAL: i32 = 5;
    /// `verify` found differences, which its document has.
    const FAILED: i32 = 1;
    let mut command = Command::new(ours("haltwise")?);
    let output = command.args(verb).arg(capture).output();
    let output = output.context("start haltwise")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = format!("haltwise {}: {}: {said}", verb.join(" "), output.status);
    let is_judged = match output.status.code() {
        Some(0 | PARTIAL) => true,
        Some(FAILED) => verb[0] == "verify",
        _ => false,
    };
    ensure!(is_judged, "{said}");
    serde_json::from_slice(&output.stdout).context(said)
}

/// A list in a document; empty where there is none.
pub(crate) fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of[name].as_array().map_or(&[], Vec::as_slice)
}

pub(crate) type Counts = BTreeMap<String, u64>;

pub(crate) fn count(of: &Counts, name: &str) -> u64 {
    of.get(name).copied().unwrap_or(0)
}

/// Leaves what each count grew by. What is no counter but a state may fall; nothing asks for it.
pub(crate) fn subtract(counts: &mut Counts, before: &Counts) {
    for (name, now) in counts {
        *now = now.saturating_sub(count(before, name));
    }
}

#[cfg(test)]
pub(crate) fn counts<const N: usize>(of: [(&str, u64); N]) -> Counts {
    of.map(|(name, count)| (name.to_owned(), count)).into()
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Lab {
    vms: Vec<LabVm>,
}

#[derive(Debug, Default, Deserialize)]
struct LabVm {
    vcpus: Vec<LabVcpu>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct LabVcpu {
    pub(crate) tid: u32,
    pub(crate) halts: u64,
    pub(crate) exits: Counts,
    pub(crate) stats: Counts,
    pub(crate) hist: BTreeMap<String, Vec<u64>>,
}

impl Lab {
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = &LabVcpu> {
        self.vms.iter().flat_map(|vm| &vm.vcpus)
    }

    /// Exits of a kind that the guests made.
    pub(crate) fn made(&self, kind: &str) -> u64 {
        self.vcpus().filter_map(|vcpu| vcpu.exits.get(kind)).sum()
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.vcpus().filter_map(|vcpu| vcpu.stats.get(name)).sum()
    }

    #[cfg(test)]
    pub(crate) fn of(vcpu: LabVcpu) -> Self {
        let vcpus = vec![vcpu];
        Self {
            vms: vec![LabVm { vcpus }],
        }
    }
}

impl LabVcpu {
    pub(crate) fn stat(&self, name: &str) -> u64 {
        count(&self.stats, name)
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Report {
    pub(crate) recording: Recording,
    pub(crate) host: Value,
    pub(crate) vms: Vec<Vm>,
    pub(crate) unplaced: Option<Account>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Recording {
    pub(crate) lost: u64,
    pub(crate) cut: bool,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Vm {
    pub(crate) index: u64,
    pub(crate) name: String,
    pub(crate) account: Account,
    pub(crate) vcpus: Vec<Vcpu>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Vcpu {
    pub(crate) id: u32,
    pub(crate) tid: Option<u32>,
    pub(crate) ceiling_ns: Option<u32>,
    pub(crate) account: Account,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Account {
    pub(crate) halts: u64,
    pub(crate) waits: u64,
    pub(crate) halted_ns: u64,
    pub(crate) parts: Counts,
    pub(crate) poll: Poll,
    pub(crate) wakes: Counts,
    pub(crate) ceilings: Vec<Ceiling>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Poll {
    pub(crate) polled: u64,
    pub(crate) successful: u64,
    pub(crate) ns: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Ceiling {
    pub(crate) ns: u64,
    pub(crate) halts: u64,
}

impl Report {
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = (&Vm, &Vcpu)> {
        let vms = self.vms.iter();
        vms.flat_map(|vm| vm.vcpus.iter().map(move |vcpu| (vm, vcpu)))
    }

    #[cfg(test)]
    pub(crate) fn of(index: u64, vcpu: Vcpu) -> Self {
        let vm = Vm {
            index,
            vcpus: vec![vcpu],
            ..Vm::default()
        };
        Self {
            vms: vec![vm],
            ..Self::default()
        }
    }

    pub(crate) fn of_thread(&self, thread: u32) -> Option<(&Vm, &Vcpu)> {
        self.vcpus().find(|(_, vcpu)| vcpu.tid == Some(thread))
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Exits {
    pub(crate) total: ExitsTotal,
    pub(crate) reasons: Vec<ExitRow>,
    pub(crate) userspace: Vec<ExitRow>,
    pub(crate) subs: Vec<ExitRow>,
    pub(crate) groups: Vec<ExitsGroup>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExitsTotal {
    pub(crate) exits: u64,
    pub(crate) entries: u64,
    pub(crate) lone_entries: u64,
    pub(crate) other: u64,
    pub(crate) untimed: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExitRow {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) reason: Option<u32>,
    pub(crate) sub: Option<u64>,
    pub(crate) count: u64,
    pub(crate) untimed: u64,
    pub(crate) time_ns: u64,
    pub(crate) kernel_ns: u64,
    pub(crate) user_ns: u64,
}

/// A VM or a vCPU, where it was asked for.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ExitsGroup {
    pub(crate) vm: Option<u64>,
    pub(crate) vm_name: Option<String>,
    pub(crate) vcpu: Option<u32>,
    pub(crate) exits: u64,
    pub(crate) halt_exits: u64,
    pub(crate) injections: u64,
    pub(crate) emulations: u64,
}

impl Exits {
    pub(crate) fn of_reason(&self, name: &str) -> u64 {
        let of = |row: &&ExitRow| row.name.eq_ignore_ascii_case(name);
        self.reasons.iter().filter(of).map(|row| row.count).sum()
    }
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Verified {
    pub(crate) halts: u64,
    pub(crate) checked: u64,
    pub(crate) differences: u64,
    pub(crate) several_settings: u64,
    pub(crate) transitions: BTreeMap<String, Counts>,
    pub(crate) settings: Vec<Value>,
    pub(crate) skipped: Counts,
    pub(crate) capture: Recording,
    pub(crate) shown: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Proof {
    pub(crate) side: String,
    pub(crate) means: String,
    pub(crate) partial: bool,
    pub(crate) blocks: Vec<Block>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Block {
    pub(crate) round: usize,
    /// `a`, `b` or `control`.
    #[serde(rename = "block")]
    pub(crate) under: String,
    pub(crate) halts: u64,
    pub(crate) lost: u64,
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) predicted: BTreeMap<String, f64>,
}

impl Proof {
    /// Whether it was of a side, by its parameters, and is whole.
    pub(crate) fn wrong(&self, side: &str, rounds: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        let (blocks, means) = (self.blocks.len(), format!("{side}-parameters"));
        if self.side != side || self.means != means || self.partial || blocks != 3 * rounds {
            wrong.push(format!(
                "prove ended with {blocks} blocks of a {} by {}, partial: {}",
                self.side, self.means, self.partial
            ));
        }
        let lost: u64 = self.blocks.iter().map(|block| block.lost).sum();
        if lost > 0 {
            wrong.push(format!("prove lost {lost} events"));
        }
        wrong
    }
}

/// Those of `rules` that fired, also if too cheap to be shown; `None` if the document lacks its lists.
pub(crate) fn fired<'a>(explained: &Value, rules: &[&'a str]) -> Option<Vec<&'a str>> {
    let [findings, small] = ["findings", "small"].map(|name| explained[name].as_array());
    let rule = |finding: &Value| rules.iter().copied().find(|rule| finding["rule"] == *rule);
    Some(findings?.iter().chain(small?).filter_map(rule).collect())
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Halt {
    pub(crate) tid: u32,
    pub(crate) start_ns: u64,
    #[serde(rename = "halt_ns")]
    pub(crate) length_ns: u64,
    pub(crate) waited: bool,
    pub(crate) change: String,
    pub(crate) window_ns: Option<u64>,
    pub(crate) wake: String,
    pub(crate) polled: Option<bool>,
    pub(crate) poll_ns: Option<u64>,
}

impl Halt {
    pub(crate) fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.length_ns)
    }

    pub(crate) fn has_polled(&self) -> bool {
        self.polled == Some(true)
    }

    /// Source of the wake-up, if it is known.
    pub(crate) fn wake(&self) -> Option<&str> {
        Some(&*self.wake).filter(|wake| *wake != "unknown")
    }
}

pub(crate) fn halts(capture: &Path) -> Result<Vec<Halt>> {
    let printed = tool::ask(Command::new(ours("capture-halts")?).arg(capture))?;
    parse_halts(&printed)
}

pub(crate) fn parse_halts(printed: &str) -> Result<Vec<Halt>> {
    let halts = serde_json::Deserializer::from_str(printed).into_iter();
    let halts: Result<_, _> = halts.collect();
    halts.context("understand what capture-halts printed")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_no_halt_is_an_error() {
        let halt = r#"{"tid":7,"start_ns":100,"halt_ns":50,"waited":true,"change":"grow","window_ns":10,"wake":"unknown","polled":null}"#;
        let halts = parse_halts(halt).unwrap();
        assert_eq!((halts.len(), halts[0].end_ns()), (1, 150));
        assert_eq!((halts[0].window_ns, halts[0].wake()), (Some(10), None));
        for bad in [r#"{"tid":7}"#, &halt[..90]] {
            assert!(parse_halts(bad).is_err(), "{bad}");
        }
    }
}
