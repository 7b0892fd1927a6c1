//! Every rule: a recording on which it fires, and the nearest one on which it stays silent.

mod about_exits;
mod about_guests;
mod about_halts;
mod about_vmm;
mod guards;
mod laws;

use std::collections::BTreeMap;

use super::RULES;
use super::evidence::{Evidence, ExitsSeen};
use super::in_guest::{self, InGuest};
use super::remedy::{Advised, Does};
use super::{Explained, Finding, Sure, explain};
use crate::account::ledger::Ledger;
use crate::account::within::Interval;
use crate::event::{
    CeilingSource, Halt, HostSample, IdleState, Knob, KnobScope, Observable, Paused, Vcpu, Vm,
    WakeSource, WindowChange,
};
use crate::exit::account::test::row;
use crate::exit::account::{Account as ExitAccount, By};
use crate::exit::{Cause, Isa, Kind, Recorded, SubKey};
use crate::ids::{Pid, Tid, VcpuId, VmIndex, VmKey, VmmKind};
use crate::recording::Roster;

const SECOND: u64 = 1_000_000_000;

/// Exits: what, which reason, which sub-key, how many, and how long each takes.
type Row = (Kind, u32, Option<u64>, u64, u64);

/// A recording of ten seconds with one VM.
struct Bench {
    roster: Roster,
    ledger: Ledger,
    exits: Option<ExitsSeen>,
    /// Settings told so far: each at its own time.
    told: u64,
    /// Value of a nanosecond of latency.
    weight: f64,
    advised: Advised,
    in_guest: Option<InGuest>,
}

macro_rules! load {
    ($($(#[$doc:meta])* $field:ident: $of:ty,)*) => {
        #[derive(Debug, Clone, Copy)]
        struct Load {
            $($(#[$doc])* $field: $of,)*
        }

        impl Load {
            $(const fn $field(mut self, $field: $of) -> Self {
                self.$field = $field;
                self
            })*
        }
    };
}

load! {
    vcpu: u32,
    count: u64,
    period_ns: u64,
    gap_ns: u64,
    latency_ns: u64,
    window_ns: u32,
    ceiling_ns: u32,
    source: CeilingSource,
    wake: WakeSource,
    /// Every so many polls are cut; 0 for none.
    cut_each: u64,
}

/// A thousand halts a second for the whole recording, 60 us long, not polled.
const LOAD: Load = Load {
    vcpu: 0,
    count: 10_000,
    period_ns: 1_000_000,
    gap_ns: 60_000,
    latency_ns: 30_000,
    window_ns: 0,
    ceiling_ns: 200_000,
    source: CeilingSource::Param,
    wake: WakeSource::Device,
    cut_each: 0,
};

impl Bench {
    fn new(vcpus: u32) -> Self {
        let vcpu = |id| Vcpu {
            id: VcpuId(id),
            tid: Tid(100 + id),
            window_ns: Some(0),
            guest_veto: Some(false),
            ..Vcpu::default()
        };
        let vm = Vm {
            key: VmKey::first(Pid(99), 1),
            name: "guest".into(),
            vmm: VmmKind::Qemu,
            observable: Observable::Yes,
            ..Vm::default()
        };
        let bench = Self {
            roster: Roster {
                vms: vec![vm],
                vcpus: (0..vcpus).map(vcpu).collect(),
                ..Roster::default()
            },
            ledger: Ledger::default(),
            exits: None,
            told: 0,
            weight: 1.0,
            advised: Advised::NotAsked,
            in_guest: None,
        };
        bench.param("halt_poll_ns", "200000")
    }

    /// The same on a host of which it is known that it has CPUs to spare.
    fn calm(vcpus: u32) -> Self {
        Self::new(vcpus).pressure(0.0)
    }

    fn param(mut self, name: &str, value: &str) -> Self {
        self.told += 1;
        self.ledger.knob(&Knob {
            time_ns: self.told,
            name: name.into(),
            scope: KnobScope::Host,
            value: value.into(),
        });
        self
    }

    fn load(mut self, load: Load) -> Self {
        for nth in 0..load.count {
            self.ledger.halt(&load.halt(nth));
        }
        self
    }

    /// The same with something of the VM, or of its first vCPU, changed.
    fn vm(mut self, change: impl FnOnce(&mut Vm)) -> Self {
        change(&mut self.roster.vms[0]);
        self
    }

    fn vcpu(mut self, change: impl FnOnce(&mut Vcpu)) -> Self {
        change(&mut self.roster.vcpus[0]);
        self
    }

    /// Some task waits for one of four CPUs for this share of the time, and they are busy for half of it.
    fn pressure(self, share: f64) -> Self {
        self.host(share, 0.5)
    }

    /// The larger of two such calls holds.
    fn host(mut self, waited: f64, busy: f64) -> Self {
        for second in [0, 10] {
            self.ledger.host(&HostSample {
                time_ns: second * SECOND,
                cpus: 4,
                total_ns: 4 * second * SECOND,
                busy_ns: parts(4 * second * SECOND, busy),
                cpu_pressure_ns: Some(parts(second * SECOND, waited)),
                ..HostSample::default()
            });
        }
        self
    }

    fn window(mut self, grow: bool, count: u64) -> Self {
        for nth in 0..count {
            self.ledger.window(&WindowChange {
                time_ns: nth * 1000,
                vm: Some(VmIndex(0)),
                vcpu: Some(VcpuId(0)),
                tid: Tid(100),
                grow,
                old_ns: 10_000,
                new_ns: 20_000,
            });
        }
        self
    }

    fn exits(self, keys: &[SubKey], rows: &[Row]) -> Self {
        self.exits_on(Isa::Vmx, keys, rows)
    }

    fn exits_on(mut self, isa: Isa, keys: &[SubKey], rows: &[Row]) -> Self {
        let mut account = ExitAccount::new(By::Reason, 0);
        for &(kind, reason, sub, count, each_ns) in rows {
            let cause = Cause {
                kind,
                isa,
                reason: Some(reason),
                sub,
            };
            let times = vec![each_ns; usize::try_from(count).unwrap()];
            account.add(&row(SECOND, 0, cause, &times, 0, 0));
        }
        self.exits = Some(ExitsSeen {
            recorded: Recorded {
                sub_keys: keys.to_vec(),
                ..Recorded::default()
            },
            vms: BTreeMap::from([(VmIndex(0), account)]),
        });
        self
    }

    fn explain(&self) -> Explained {
        self.explain_in(10 * SECOND)
    }

    fn explain_in(&self, span_ns: u64) -> Explained {
        let interval = Interval {
            start_ns: 0,
            end_ns: span_ns,
        };
        let exits = self.exits.as_ref();
        let evidence = Evidence {
            weight: self.weight,
            advised: self.advised.clone(),
            in_guest: self.in_guest,
            ..Evidence::new(&self.roster, &self.ledger, exits, interval, |_| true)
        };
        explain(&evidence)
    }

    fn finding(&self, id: &str) -> Option<Finding> {
        let mut known = RULES.iter().chain(in_guest::RULES);
        assert!(known.any(|rule| rule.id == id), "no rule {id}");
        let findings = self.explain().findings;
        findings.into_iter().find(|it| it.rule.id == id)
    }

    /// How sure a rule is of what it found; `None` if it is silent.
    fn says(&self, id: &str) -> Option<Sure> {
        Some(self.finding(id)?.found.sure)
    }

    /// Kinds of remedy that a rule gives; the cases name each of them.
    fn gives(&self, id: &str) -> Vec<Does> {
        let remedies = self.finding(id).map(|it| it.found.remedies);
        let given: Vec<Does> = remedies.iter().flatten().map(|it| it.does).collect();
        let has_case = |does: &Does| guards::KINDS.contains(&(id, *does));
        assert!(given.iter().all(has_case), "{id}: {given:?}");
        given
    }

    /// Why a remedy of a rule is not given.
    fn withholds(&self, id: &str) -> Option<String> {
        let withheld = self.explain().withheld;
        Some(withheld.into_iter().find(|it| it.rule.id == id)?.why)
    }

    /// Whether the findings of a rule cost too little to be shown.
    fn is_small(&self, id: &str) -> bool {
        self.explain().small.iter().any(|it| it.rule.id == id)
    }

    fn lacks(&self, id: &str) -> Option<String> {
        let explained = self.explain();
        let blind = explained.blind.iter().find(|it| it.rule.id == id)?;
        Some(blind.reason.clone())
    }

    /// Cost of a rule's finding, by the weight.
    fn cost(&self, id: &str) -> f64 {
        let cost = self.finding(id).unwrap().found.cost;
        cost.unwrap().weighed(self.weight)
    }
}

/// Wake-ups of an idle vCPU by a timer at this rate.
const fn tick(hz: u64) -> Load {
    LOAD.count(10 * hz)
        .period_ns(SECOND / hz)
        .gap_ns(SECOND / hz - 50_000)
        .wake(WakeSource::Timer)
}

/// A VM of one vCPU with this load: on CPUs to spare, on CPUs that others want, on a host of which nothing is known.
fn calm(load: Load) -> Bench {
    Bench::calm(1).load(load)
}

fn pressed(load: Load) -> Bench {
    alone(load).pressure(0.5)
}

fn alone(load: Load) -> Bench {
    Bench::new(1).load(load)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of ten seconds"
)]
fn parts(ns: u64, share: f64) -> u64 {
    (ns as f64 * share) as u64
}

impl Load {
    fn halt(&self, nth: u64) -> Halt {
        let window = u64::from(self.window_ns);
        let cut = self.cut_each > 0 && nth.is_multiple_of(self.cut_each);
        let caught = window >= self.gap_ns && !cut;
        let latency = if caught { 0 } else { self.latency_ns };
        Halt {
            start_ns: nth * self.period_ns,
            halt_ns: self.gap_ns + latency,
            vm: Some(VmIndex(0)),
            vcpu: Some(VcpuId(self.vcpu)),
            tid: Tid(100 + self.vcpu),
            waited: !caught,
            valid: true,
            window_ns: Some(self.window_ns),
            window_next_ns: Some(self.window_ns),
            ceiling_ns: Some(self.ceiling_ns),
            ceiling_source: self.source,
            poll_ns: Some(window.min(self.gap_ns)),
            wake_latency_ns: Some(latency),
            wake: self.wake,
            poll_cut: Some(cut),
            ..Halt::default()
        }
    }
}

#[test]
fn ids_are_different_and_every_rule_says_where_it_comes_from() {
    let mut ids: Vec<_> = RULES.iter().map(|rule| rule.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), RULES.len());
    assert!(RULES.iter().all(|rule| !rule.source.is_empty()));
}

#[test]
fn nothing_seen_is_nothing_found() {
    let nothing = Bench::new(0).explain();
    assert!(nothing.findings.is_empty(), "{:?}", nothing.findings);
    let blind: Vec<_> = nothing.blind.iter().map(|it| it.rule.id).collect();
    let judged = "ceiling-above-1ms guest-veto halts-not-observable sched-ext amd-idle-hlt";
    let rest = RULES.iter().map(|rule| rule.id);
    let rest: Vec<_> = rest
        .filter(|id| judged.split(' ').all(|it| it != *id))
        .collect();
    assert_eq!(blind, rest, "all others lack halts or exits");
}

#[test]
fn the_most_expensive_comes_first_and_what_is_not_known_last() {
    let serial = (Kind::PioWrite, 30, Some(0x3f8), 20_000, 50_000);
    let bench = Bench::calm(2).load(LOAD.ceiling_ns(0).gap_ns(20_000));
    let mut bench = bench.exits(&[SubKey::Pio], &[serial]);
    bench.roster.vcpus[1].guest_veto = Some(true);
    let explained = bench.explain();
    let ids: Vec<_> = explained.findings.iter().map(|it| it.rule.id).collect();
    assert_eq!(ids, ["port-polling", "hlt-below-break-even", "guest-veto"]);
}
