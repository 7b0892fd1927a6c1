//! Inputs of rules: guests with their accounts, the settings, the host.

use std::collections::BTreeMap;

use super::cost::Cost;
use super::in_guest::InGuest;
use super::remedy::Advised;
use super::{Found, Judgement, STORM_PER_S, Who};
use crate::account::Account;
use crate::account::ledger::Ledger;
use crate::account::within::Interval;
use crate::event::{KnobScope, Vcpu, Vm, WakeSource};
use crate::exit::account::{Account as ExitAccount, Tally};
use crate::exit::{Cause, Isa, Kind, Recorded, SubKey};
use crate::ids::{VcpuId, VmIndex};
use crate::parameter::Parameter;
use crate::recording::Roster;
use crate::stats::Fold;
use crate::stats::total;
use crate::stats::{ENOUGH_EVENTS, Share};
use crate::topology::Cpu;
use crate::vmm::Threads;

const BALANCED: f64 = 1.0;

/// The exits of a recording, of each VM by itself.
#[derive(Debug)]
pub struct ExitsSeen {
    pub recorded: Recorded,
    pub vms: BTreeMap<VmIndex, ExitAccount>,
}

#[derive(Debug)]
pub struct Evidence<'a> {
    pub guests: Vec<Guest<'a>>,
    /// Everything of the halts, also of VMs that are not asked about.
    pub ledger: &'a Ledger,
    /// The host's CPUs, where they were recorded.
    pub cpus: &'a [Cpu],
    pub exits: Option<&'a ExitsSeen>,
    pub interval: Interval,
    pub total: Account,
    /// Value of a nanosecond of wake-up latency, in nanoseconds of CPU.
    pub weight: f64,
    pub advised: Advised,
    /// Known facts about a guest that recorded itself; `None` for a host.
    pub in_guest: Option<InGuest>,
}

#[derive(Debug)]
pub struct Guest<'a> {
    /// As the roster tells of it.
    pub vm: &'a Vm,
    /// While it was there.
    pub interval: Interval,
    /// Its vCPUs that halted or that the roster names, by number.
    pub seats: Vec<VcpuEvidence<'a>>,
    /// All its halts, those of vCPUs whose number is not known too.
    pub account: Account,
    pub exits: Option<&'a ExitAccount>,
}

#[derive(Debug, Clone, Copy)]
pub struct VcpuEvidence<'a> {
    pub id: VcpuId,
    /// As the roster tells of it, when last looked at.
    pub listed: Option<&'a Vcpu>,
    /// Its halts; `None` if none was seen.
    pub account: Option<&'a Account>,
}

impl<'a> Evidence<'a> {
    /// Puts together what is known of the VMs that `wanted` picks.
    pub fn new(
        roster: &'a Roster,
        ledger: &'a Ledger,
        exits: Option<&'a ExitsSeen>,
        interval: Interval,
        wanted: impl Fn(VmIndex) -> bool,
    ) -> Self {
        let vms = roster.vms.iter().filter(|vm| wanted(vm.index));
        let seats = seats(roster, ledger);
        let of_vm = |vm| seats.get(vm).into_iter().flat_map(BTreeMap::values);
        let guest = |vm: &'a Vm| Guest {
            vm,
            interval: interval.of_vm(vm),
            seats: of_vm(&vm.index).copied().collect(),
            account: ledger.vm(vm.index),
            exits: exits.and_then(|seen| seen.vms.get(&vm.index)),
        };
        Self {
            guests: vms.map(guest).collect(),
            ledger,
            cpus: &roster.cpus,
            exits,
            interval,
            total: ledger.total(),
            weight: BALANCED,
            advised: Advised::NotAsked,
            in_guest: None,
        }
    }

    pub fn setting(&self, name: &str) -> Option<&str> {
        let value = self.ledger.knob_value(KnobScope::Host, name)?;
        Some(value.trim())
    }

    pub fn param(&self, parameter: Parameter) -> Option<u64> {
        self.setting(parameter.name())?.parse().ok()
    }

    pub fn idle_cpus(&self) -> Option<f64> {
        let host = &self.ledger.host;
        Some((f64::from(host.cpus) - host.busy_cpus()?).max(0.0))
    }

    pub fn tells(&self, key: SubKey) -> bool {
        self.exits
            .is_some_and(|seen| seen.recorded.sub_keys.contains(&key))
    }

    pub fn each(&self, look: impl Fn(&Self, &Guest<'a>) -> Option<Found>) -> Vec<Found> {
        let guests = self.guests.iter();
        guests.filter_map(|guest| look(self, guest)).collect()
    }

    /// Asks about the halts of every guest; blind where they cannot be judged, see [`Self::unfit`].
    pub(super) fn each_halting(
        &self,
        lacking: impl Fn(&Account) -> u64,
        reason: &str,
        look: impl Fn(&Self, &Guest<'a>) -> Option<Found>,
    ) -> Judgement {
        let unfit = self.unfit(lacking, reason);
        unfit.unwrap_or_else(|| self.each(look).into())
    }

    /// Asks about the exits of every guest; blind where none were recorded.
    pub fn each_exits(
        &self,
        look: impl Fn(&Self, &Guest<'a>, &ExitAccount) -> Option<Found>,
    ) -> Judgement {
        let Some(seen) = self.exits else {
            return Judgement::blind("exits were not recorded (`haltwise record --exits`)");
        };
        let limited = !seen.recorded.reasons.is_empty() || !seen.recorded.vcpus.is_empty();
        let found = self.each(|_, guest| look(self, guest, guest.exits?));
        let no_exit = seen.vms.values().all(|account| account.isa().is_none());
        let blind = match (limited, no_exit) {
            (true, _) => Some("the recording was limited to some exits".to_owned()),
            (_, true) => {
                Some("no exits were reported: KVM runs without hardware virtualization, or there were none".to_owned())
            }
            _ => None,
        };
        Judgement { found, blind }
    }

    /// Asks about the exits of every guest by what they were about; blind where that was not told.
    ///
    /// No exit need be told: where KVM virtualises in software, accesses are counted all the same.
    pub fn each_about(
        &self,
        key: SubKey,
        look: impl Fn(&Self, &Guest<'a>, &ExitAccount) -> Option<Found>,
    ) -> Judgement {
        if self.exits.is_some() && !self.tells(key) {
            let name = key.as_str();
            return Judgement::blind(format!(
                "not recorded: `haltwise record --exits={name}` records it"
            ));
        }
        let judgement = self.each_exits(look);
        Judgement {
            blind: judgement.blind.filter(|_| self.exits.is_none()),
            ..judgement
        }
    }

    /// Why halts cannot be judged: none has what `of` counts as lacking, for this reason, or no vCPU
    /// halted often enough.
    pub(super) fn unfit(&self, of: impl Fn(&Account) -> u64, reason: &str) -> Option<Judgement> {
        if self.lacks(of) {
            return Some(Judgement::blind(reason));
        }
        if self.guests.is_empty() {
            return Some(Judgement::blind("no VM is known"));
        }
        let enough = |account: &Account| account.halts >= ENOUGH_EVENTS;
        if self.vcpus().any(enough) {
            return None;
        }
        let mut guests = self.guests.iter();
        let of_unknown_vcpus = guests.any(|guest| guest.unplaced_halts() >= ENOUGH_EVENTS);
        Some(Judgement::blind(if of_unknown_vcpus {
            "the vCPUs of these halts were not recorded".to_owned()
        } else {
            format!("no vCPU halted {ENOUGH_EVENTS} times, which is too few")
        }))
    }

    /// Findings from the threads of each guest; blind if `of` is unknown for any guest, or if there is no guest.
    pub(super) fn each_threads(
        &self,
        of: impl Fn(&Threads) -> Option<u64>,
        lacks: &str,
        look: impl Fn(&Self, &Guest<'a>) -> Option<Found>,
    ) -> Judgement {
        let is_known = |guest: &Guest<'_>| guest.vm.threads.as_ref().and_then(&of).is_some();
        let is_unknown = self.guests.is_empty() || !self.guests.iter().all(is_known);
        Judgement {
            found: self.each(look),
            blind: is_unknown.then(|| lacks.to_owned()),
        }
    }

    /// Whether no halt at all has what `of` counts, though there were halts.
    fn lacks(&self, of: impl Fn(&Account) -> u64) -> bool {
        let halts = total(self.guests.iter().map(|guest| guest.account.halts));
        let mut accounts = self.guests.iter().map(|guest| &guest.account);
        halts > 0 && accounts.all(|account| of(account) >= account.halts)
    }

    /// The accounts of all vCPUs that halted, without halts of which the vCPU is not known.
    pub(super) fn vcpus(&self) -> impl Iterator<Item = &'a Account> {
        let seats = self.guests.iter().flat_map(|guest| &guest.seats);
        seats.filter_map(|seat| seat.account)
    }
}

type Seats<'a> = BTreeMap<VcpuId, VcpuEvidence<'a>>;

fn seats<'a>(roster: &'a Roster, ledger: &'a Ledger) -> BTreeMap<VmIndex, Seats<'a>> {
    let mut all = BTreeMap::<VmIndex, Seats<'a>>::new();
    let mut see = |vm, id, listed: Option<&'a Vcpu>, account: Option<&'a Account>| {
        let seat = all.entry(vm).or_default().entry(id);
        let seat = seat.or_insert(VcpuEvidence {
            id,
            listed: None,
            account: None,
        });
        (seat.listed, seat.account) = (listed.or(seat.listed), account.or(seat.account));
    };
    for listed in &roster.vcpus {
        see(listed.vm, listed.id, Some(listed), None);
    }
    for (place, account) in ledger.places() {
        if let (Some(vm), Some(id)) = (place.vm, place.vcpu) {
            see(vm, id, None, Some(account));
        }
    }
    all
}

impl Guest<'_> {
    /// The vCPUs that `is_it` picks and the sum of their accounts; `None` if it picks none.
    pub fn gather(
        &self,
        is_it: impl Fn(&VcpuEvidence<'_>, &Account) -> bool,
    ) -> Option<(Who, Account)> {
        let mut who = Who {
            vm: Some(self.vm.index),
            vcpus: Vec::new(),
        };
        let mut sum = Account::default();
        for seat in &self.seats {
            if let Some(account) = seat.account.filter(|account| is_it(seat, account)) {
                sum.fold(account);
                who.vcpus.push(seat.id);
            }
        }
        (!who.vcpus.is_empty()).then_some((who, sum))
    }

    /// How often in a second in which it was there.
    pub fn per_s(&self, count: u64) -> f64 {
        self.interval.per_s(count)
    }

    /// The same, if that is a storm.
    pub(super) fn storm(&self, count: u64) -> Option<f64> {
        Some(self.per_s(count)).filter(|per_s| *per_s >= STORM_PER_S)
    }

    /// The latency that polls of these halts spared: each that was met, a sleep with the median wake-up latency.
    pub(super) fn spared(&self, account: &Account) -> Cost {
        let latency = account.wake_latency_ns.percentile(0.5).unwrap_or(0);
        Cost::latency(self.per_s(account.successful_polls) * latency as f64)
    }

    /// Halts of which the vCPU is not known.
    pub(super) fn unplaced_halts(&self) -> u64 {
        let placed = self.seats.iter().filter_map(|seat| seat.account);
        let placed = total(placed.map(|account| account.halts));
        self.account.halts.saturating_sub(placed)
    }

    /// For which share of the time its vCPUs are halted, on average.
    pub(super) fn rests(&self) -> f64 {
        let vcpus = self.seats.len().max(1) as f64;
        self.per_s(self.account.halted_ns()) / 1e9 / vcpus
    }

    /// Wakes in a second that may be a device's: a wake whose source is not known may be.
    pub(super) fn device_wakes_per_s(&self) -> f64 {
        let by = |source: WakeSource| self.account.wakes[usize::from(source.code())];
        let known = by(WakeSource::Timer).saturating_add(by(WakeSource::Ipi));
        self.per_s(self.account.halts.saturating_sub(known))
    }

    pub fn whole(&self) -> Who {
        Who {
            vm: Some(self.vm.index),
            vcpus: Vec::new(),
        }
    }
}

impl VcpuEvidence<'_> {
    /// The guest switched host polling off for it.
    pub fn is_vetoed(&self) -> bool {
        self.listed.and_then(|vcpu| vcpu.guest_veto) == Some(true)
    }
}

/// The share of an account's wakes whose source is known that came from `source`.
pub fn wake_share(account: &Account, source: WakeSource) -> Option<Share> {
    let unknown = usize::from(WakeSource::Unknown.code());
    let known = total(&account.wakes[..unknown]);
    // A minority of wakes says little of the rest.
    (known.saturating_mul(2) >= account.halts)
        .then(|| Share::of(account.wakes[usize::from(source.code())], known))?
}

/// The share of an account's gaps that are at most `limit_ns`.
pub fn gaps_within(account: &Account, limit_ns: u64) -> Option<Share> {
    let share = account.gap_ns.share_up_to(limit_ns)?;
    let gaps = account.gap_ns.count();
    (gaps >= ENOUGH_EVENTS).then(|| Share::wilson(share, gaps as f64))
}

/// The exits of any of these reasons, together.
pub fn exits_of(exits: &ExitAccount, reasons: &[(Isa, u32)]) -> Tally {
    let is_it = |cause: &Cause| {
        let reason = cause.reason.map(|reason| (cause.isa, reason));
        cause.kind == Kind::Exit && reason.is_some_and(|reason| reasons.contains(&reason))
    };
    tally(exits, is_it)
}

/// Sum of the exits of these kinds whose sub-key passes `is_it`.
pub fn about(exits: &ExitAccount, kinds: &[Kind], is_it: impl Fn(u64) -> bool) -> Tally {
    tally(exits, |cause| {
        kinds.contains(&cause.kind) && cause.sub.is_some_and(&is_it)
    })
}

/// Sums of the exits of these kinds, grouped by `key` of their sub-key.
pub fn grouped(exits: &ExitAccount, kinds: &[Kind], key: fn(u64) -> u64) -> BTreeMap<u64, Tally> {
    let mut groups: BTreeMap<u64, Tally> = BTreeMap::new();
    for (cause, tally) in &exits.causes {
        if let Some(sub) = cause.sub.filter(|_| kinds.contains(&cause.kind)) {
            groups.entry(key(sub)).or_default().fold(tally);
        }
    }
    groups
}

/// The share of the time of all exits but halts that this is.
pub fn part_of_time(exits: &ExitAccount, time_ns: u64) -> f64 {
    time_ns as f64 / exits.total().exits.time_ns().max(1) as f64
}

pub fn tally(exits: &ExitAccount, is_it: impl Fn(&Cause) -> bool) -> Tally {
    let mut sum = Tally::default();
    let rows = exits.causes.iter().filter(|(cause, _)| is_it(cause));
    rows.for_each(|(_, tally)| sum.fold(tally));
    sum
}
