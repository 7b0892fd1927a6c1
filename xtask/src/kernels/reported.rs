//! JSON output of the lab and of haltwise's verbs, as far as checks judge it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::check::Found;
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

/// Structs that mirror documents: every field must be there, but in tests.
macro_rules! documents {
    ($($(#[$of:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })+) => {$(
        $(#[$of])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[cfg_attr(test, serde(default))]
        pub(crate) struct $name {
            $($(#[$of_field])* pub(crate) $field: $type,)+
        }
    )+};
}

documents! {
    Lab {
        vms: Vec<LabVm>,
    }
    LabVm {
        vcpus: Vec<LabVcpu>,
    }
    LabVcpu {
        tid: u32,
        halts: u64,
        exits: Counts,
        stats: Counts,
        hist: BTreeMap<String, Vec<u64>>,
    }
    Report {
        recording: Recording,
        host: Value,
        vms: Vec<Vm>,
        unplaced: Option<Account>,
    }
    Recording {
        lost: u64,
        cut: bool,
    }
    Vm {
        index: u64,
        name: String,
        account: Account,
        vcpus: Vec<Vcpu>,
    }
    Vcpu {
        id: u32,
        tid: Option<u32>,
        ceiling_ns: Option<u32>,
        account: Account,
    }
    Account {
        halts: u64,
        waits: u64,
        halted_ns: u64,
        parts: Counts,
        poll: Poll,
        wakes: Counts,
        ceilings: Vec<Ceiling>,
    }
    Poll {
        polled: u64,
        successful: u64,
        ns: Option<u64>,
    }
    Ceiling {
        ns: u64,
        halts: u64,
    }
    Exits {
        total: ExitsTotal,
        reasons: Vec<ExitRow>,
        userspace: Vec<ExitRow>,
        subs: Vec<ExitRow>,
        groups: Vec<ExitsGroup>,
    }
    ExitsTotal {
        exits: u64,
        entries: u64,
        lone_entries: u64,
        other: u64,
        untimed: u64,
    }
    ExitRow {
        kind: String,
        name: String,
        reason: Option<u32>,
        sub: Option<u64>,
        count: u64,
        untimed: u64,
        time_ns: u64,
        kernel_ns: u64,
        user_ns: u64,
    }
    /// A VM or a vCPU, where it was asked for.
    ExitsGroup {
        vm: Option<u64>,
        vm_name: Option<String>,
        vcpu: Option<u32>,
        exits: u64,
        halt_exits: u64,
        injections: u64,
        emulations: u64,
    }
    Verified {
        halts: u64,
        checked: u64,
        differences: u64,
        several_settings: u64,
        transitions: BTreeMap<String, Counts>,
        settings: Vec<Value>,
        skipped: Counts,
        capture: Recording,
        shown: Vec<Value>,
    }
    Proof {
        side: String,
        means: String,
        partial: bool,
        blocks: Vec<Block>,
    }
    Block {
        round: usize,
        /// `a`, `b` or `control`.
        #[serde(rename = "block")]
        under: String,
        halts: u64,
        lost: u64,
        figures: BTreeMap<String, f64>,
        predicted: BTreeMap<String, f64>,
    }
    Halt {
        tid: u32,
        start_ns: u64,
        #[serde(rename = "halt_ns")]
        length_ns: u64,
        waited: bool,
        change: String,
        window_ns: Option<u64>,
        wake: String,
        polled: Option<bool>,
        poll_ns: Option<u64>,
    }
}

impl Lab {
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = &LabVcpu> {
        self.vms.iter().flat_map(|vm| &vm.vcpus)
    }

    /// Exits of a kind that the guests made.
    pub(crate) fn made(&self, kind: &str) -> u64 {
        self.vcpus().map(|vcpu| count(&vcpu.exits, kind)).sum()
    }

    pub(crate) fn stat(&self, name: &str) -> u64 {
        self.vcpus().map(|vcpu| vcpu.stat(name)).sum()
    }
}

impl LabVcpu {
    pub(crate) fn stat(&self, name: &str) -> u64 {
        count(&self.stats, name)
    }
}

impl Report {
    pub(crate) fn vcpus(&self) -> impl Iterator<Item = (&Vm, &Vcpu)> {
        let vms = self.vms.iter();
        vms.flat_map(|vm| vm.vcpus.iter().map(move |vcpu| (vm, vcpu)))
    }

    pub(crate) fn of_thread(&self, thread: u32) -> Option<(&Vm, &Vcpu)> {
        self.vcpus().find(|(_, vcpu)| vcpu.tid == Some(thread))
    }
}

impl Exits {
    pub(crate) fn of_reason(&self, name: &str) -> u64 {
        let of = |row: &&ExitRow| row.name.eq_ignore_ascii_case(name);
        self.reasons.iter().filter(of).map(|row| row.count).sum()
    }
}

impl Proof {
    /// Checks that the proof is whole, and compared a side's parameters.
    pub(crate) fn judge(&self, what: &str, side: &str, rounds: usize, found: &mut Found) {
        let (blocks, means) = (self.blocks.len(), format!("{side}-parameters"));
        let is_whole = !self.partial && blocks == 3 * rounds;
        found.require(
            self.side == side && self.means == means && is_whole,
            format!(
                "{what} ended with {blocks} blocks of a {} by {}, partial: {}",
                self.side, self.means, self.partial
            ),
        );
        let lost: u64 = self.blocks.iter().map(|block| block.lost).sum();
        found.require(lost == 0, format!("{what} lost {lost} events"));
    }
}

/// Those of `rules` that fired, also if too cheap to be shown; `None` if the document lacks its lists.
pub(crate) fn fired<'a>(explained: &Value, rules: &[&'a str]) -> Option<Vec<&'a str>> {
    let [findings, small] = ["findings", "small"].map(|name| explained[name].as_array());
    let rule = |finding: &Value| rules.iter().copied().find(|rule| finding["rule"] == *rule);
    Some(findings?.iter().chain(small?).filter_map(rule).collect())
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

/// A document with some fields changed, each by its pointer.
#[cfg(test)]
pub(crate) fn changed<T: DeserializeOwned>(document: &Value, changes: &[(&str, Value)]) -> T {
    let mut document = document.clone();
    for (pointer, value) in changes {
        let field = document.pointer_mut(pointer);
        *field.unwrap_or_else(|| panic!("no {pointer}")) = value.clone();
    }
    serde_json::from_value(document).unwrap()
}
