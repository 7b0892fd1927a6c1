//! Remedies, and when a remedy must not be given: the guards of all remedies.
//!
//! A remedy says of which kind it is ([`Does`]) and what it takes ([`Remedy::takes`]). By these two
//! [`Remedy::guarded`] decides on the evidence whether it may be given, in one place for all rules: a rule
//! cannot give a remedy without a kind and without its [`Terms`], price and harm. A table of tests (`test/guards.rs`)
//! has each kind of each rule, on evidence on which it is given and on evidence that makes it harmful; a law over all
//! rules holds that no other kind is given.

use std::borrow::Cow;

use super::contention::Contention;
use super::cost::Cost;
use super::evidence::{Evidence, Guest};
use super::prelude::percent;
use super::terms::{HOST_POLLS_FOR_GUEST, HOST_POLLS_LESS, HOST_POLLS_MORE, Terms};
use super::{Found, Who};
use crate::account::Account;
use crate::account::worth::highest_ceiling;
use crate::event::CeilingSource;
use crate::exit::{Cause, Kind};
use crate::kvm::Knobs;
use crate::parameter::Values;
use crate::stats::Fold;

/// Effect of a remedy, as far as the effect decides when the remedy harms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Does {
    HostPollsMore(Lever),
    HostPollsLess(Lever),
    GuestPolls,
    /// Halts exit to the host.
    TrapsHalts,
    /// A guest that spins exits no more for it.
    NoPauseExits,
    /// The guest is given what Windows needs: Hyper-V's interface.
    ForWindows,
    ForLinux,
    /// KVM's vendor module is loaded with a setting: a parameter that is 1 or Y.
    LoadsModule(&'static [&'static str]),
    GuestPollsLess,
    /// Halts stay inside the guest.
    HaltsInGuest,
    /// KVM waits busily for a guest's timer that it let expire early.
    WaitsForTimers,
    /// The guest, or a device of it, exits less.
    SparesExits,
    /// The VMM, or the kernel on its behalf, does less for the guest.
    SparesVmm,
    /// Fewer vCPUs on these CPUs, or more CPUs.
    SparesCpus,
    Nothing,
}

/// Control that decides how long the host polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lever {
    /// KVM's parameters, for all VMs that have no ceiling of their own.
    Parameters,
    /// The VM's own ceiling (`KVM_CAP_HALT_POLL`).
    OwnCeiling,
    /// The guest, which disabled host polling.
    Guest,
}

impl Lever {
    /// That of vCPUs: by who set the highest ceiling that governed them.
    pub(super) fn of(account: &Account) -> Self {
        match highest_ceiling(account).map(|ceiling| ceiling.source) {
            Some(CeilingSource::Cap) => Self::OwnCeiling,
            _ => Self::Parameters,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    pub does: Does,
    /// A command, or a setting, in a sentence.
    pub text: Cow<'static, str>,
    /// Price of the remedy, and when the remedy does harm.
    pub terms: Terms,
    /// Cost of the remedy itself, as far as the recording tells: CPU time that is then polled, or latency that polls
    /// no longer spare.
    pub takes: Cost,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Guarded {
    Given,
    /// It may be given, and it was not recorded whether something that forbids it is so: what.
    Doubtful(&'static str),
    Harms(String),
}

/// Recommendation of `tune` for the same halts: for KVM's parameters, or for a guest that recorded itself. Rules
/// name no value of a parameter themselves: this type does, so that no finding contradicts it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Advised {
    #[default]
    NotAsked,
    Leave,
    /// Another limit of polling on the side that recorded.
    Set {
        from_ns: u32,
        to_ns: u32,
        /// How, in a sentence without its full stop.
        how: String,
    },
    /// For a guest: polling in the host instead.
    Host {
        /// How, in a sentence without its full stop.
        how: String,
    },
}

impl Advised {
    /// Other parameters of KVM than those in force.
    pub fn change(from: &Knobs, to: &Knobs) -> Self {
        let changed = Values::from(*to).beyond(&Values::from(*from));
        let set: Vec<String> = (changed.listed())
            .map(|(name, to)| format!(" --set {name}={to}"))
            .collect();
        Self::Set {
            from_ns: from.halt_poll_ns,
            to_ns: to.halt_poll_ns,
            how: format!("`haltwise apply{}`", set.concat()),
        }
    }
}

/// How a Linux guest gives up polling by itself, and lets the host poll for it.
pub(super) const WITHOUT_HALTPOLL: &str = "Boot the guest without `cpuidle_haltpoll.force=1` (QEMU: without `kvm-hint-dedicated=on`), so that the \
     host may poll for it again; where the guest has cpuidle_haltpoll as a module, `modprobe -r \
     cpuidle_haltpoll` does it while it runs. Debian's kernels have it built in.";

impl Remedy {
    /// One that takes nothing that a recording would tell, with its price and when it does harm.
    pub(super) const fn new(
        does: Does,
        text: &'static str,
        price: &'static str,
        harm: &'static str,
    ) -> Self {
        Self::under(does, text, Terms::new(price, harm))
    }

    /// The same, with terms that it shares with other remedies.
    pub(super) const fn under(does: Does, text: &'static str, terms: Terms) -> Self {
        Self {
            does,
            text: Cow::Borrowed(text),
            terms,
            takes: Cost::NONE,
        }
    }

    /// The same, with a text that depends on the evidence.
    pub(super) fn with_text(does: Does, text: String, terms: Terms) -> Self {
        Self {
            text: text.into(),
            ..Self::under(does, "", terms)
        }
    }

    #[must_use]
    pub fn taking(self, takes: Cost) -> Self {
        Self { takes, ..self }
    }

    /// One that has the host poll more or less, by this lever.
    pub(super) fn host_polling(
        evidence: &Evidence<'_>,
        does: fn(Lever) -> Does,
        lever: Lever,
    ) -> Self {
        let does = does(lever);
        let more = matches!(does, Does::HostPollsMore(_));
        let text = match lever {
            Lever::Parameters => advice(evidence, more),
            Lever::OwnCeiling => {
                "The VM has a ceiling of its own, to which no host parameter applies: have its VMM set \
                 KVM_CAP_HALT_POLL to what `haltwise tune DIR --ceiling-only` finds."
                    .to_owned()
            }
            Lever::Guest => WITHOUT_HALTPOLL.to_owned(),
        };
        let terms = match lever {
            Lever::Guest => HOST_POLLS_FOR_GUEST,
            _ if more => HOST_POLLS_MORE,
            _ => HOST_POLLS_LESS,
        };
        Self::with_text(does, text, terms)
    }

    /// Whether it may be given for what was found.
    pub fn guarded(&self, evidence: &Evidence<'_>, found: &Found) -> Guarded {
        if let Some(why) = self.is_not_worth_it(evidence, found) {
            return Guarded::Harms(why);
        }
        let seen = Seen::of(evidence, &found.who);
        match self.does {
            Does::HostPollsMore(lever) if seen.is_vetoed && lever != Lever::Guest => {
                harms("the guest disabled host polling: KVM does not poll for it")
            }
            Does::HostPollsMore(Lever::Parameters) => {
                contradicts(evidence, true).unwrap_or_else(|| self.takes_cpu(evidence, &seen))
            }
            Does::HostPollsLess(Lever::Parameters) => {
                contradicts(evidence, false).unwrap_or(Guarded::Given)
            }
            Does::GuestPolls if evidence.in_guest.is_some() => {
                contradicts(evidence, true).unwrap_or_else(|| self.takes_cpu(evidence, &seen))
            }
            Does::HostPollsMore(_) | Does::GuestPolls | Does::WaitsForTimers => {
                self.takes_cpu(evidence, &seen)
            }
            Does::TrapsHalts => match seen.contention(evidence) {
                Contention::Wanted(_) => Guarded::Given,
                Contention::Unknown => Guarded::Doubtful(CPUS),
                Contention::Free => harms(
                    "no other task wants these CPUs: each halt would cost an exit and a wake-up for \
                     nothing",
                ),
            },
            // For a guest that recorded itself, the cost that its polls spare is known.
            Does::GuestPollsLess if evidence.in_guest.is_some() => {
                contradicts(evidence, false).unwrap_or(Guarded::Given)
            }
            Does::GuestPollsLess => match seen.contention(evidence) {
                Contention::Wanted(_) => Guarded::Given,
                Contention::Unknown => harms("whether other tasks use the CPUs was not recorded"),
                Contention::Free => harms("no other task uses the CPUs on which the guest polls"),
            },
            Does::NoPauseExits | Does::HaltsInGuest => match seen.contention(evidence) {
                Contention::Free => Guarded::Given,
                Contention::Wanted(why) => harms(why),
                Contention::Unknown => harms("whether other tasks use the CPUs was not recorded"),
            },
            Does::ForWindows if seen.is_kvm_guest => harms(
                "the guest uses KVM's paravirtual interface, which Windows does not: Hyper-V's would take \
                 it away",
            ),
            Does::ForLinux if seen.is_hyperv_guest => {
                harms("the guest uses Hyper-V's interface, as Windows does")
            }
            Does::LoadsModule(names) => already(evidence, names),
            Does::HostPollsLess(_)
            | Does::ForWindows
            | Does::ForLinux
            | Does::SparesExits
            | Does::SparesVmm
            | Does::SparesCpus
            | Does::Nothing => Guarded::Given,
        }
    }

    fn is_not_worth_it(&self, evidence: &Evidence<'_>, found: &Found) -> Option<String> {
        let takes = self.takes.weighed(evidence.weight);
        let gains = found.cost?.weighed(evidence.weight);
        (takes > 0.0 && takes >= gains).then(|| {
            format!(
                "by the goal it costs {} of a CPU and saves {} at most",
                percent(takes / 1e9),
                percent(gains / 1e9)
            )
        })
    }

    fn takes_cpu(&self, evidence: &Evidence<'_>, seen: &Seen) -> Guarded {
        if let Contention::Wanted(why) = seen.contention(evidence) {
            return harms(why);
        }
        let needs = self.takes.cpu_ns_per_s / 1e9;
        match evidence.idle_cpus() {
            Some(idle) if idle < needs => harms(format!(
                "it takes up to {} of a CPU, and {} was idle",
                percent(needs),
                percent(idle)
            )),
            None if seen.contention(evidence) == Contention::Unknown => Guarded::Doubtful(CPUS),
            _ => Guarded::Given,
        }
    }
}

const CPUS: &str = "other tasks use these CPUs";

fn harms(why: impl Into<String>) -> Guarded {
    Guarded::Harms(why.into())
}

/// Whether `tune` recommends something else than more, or less, polling on the side that recorded.
fn contradicts(evidence: &Evidence<'_>, more: bool) -> Option<Guarded> {
    let (parameter, halts) = match evidence.in_guest {
        None => ("halt_poll_ns", "halts"),
        Some(_) => ("guest_halt_poll_ns", "idle periods"),
    };
    match &evidence.advised {
        Advised::NotAsked => None,
        Advised::Leave => Some(harms(format!(
            "tune finds no significantly better setting on the same {halts}"
        ))),
        Advised::Host { .. } => more.then(|| harms("tune recommends polling in the host instead")),
        Advised::Set { from_ns, to_ns, .. } => {
            let other_way = if more {
                to_ns < from_ns
            } else {
                to_ns > from_ns
            };
            other_way.then(|| {
                harms(format!(
                    "on the same {halts} tune recommends {parameter}={to_ns} instead of {from_ns}"
                ))
            })
        }
    }
}

/// Recommendation of `tune`, for more or less polling on the side that recorded.
pub(super) fn advice(evidence: &Evidence<'_>, more: bool) -> String {
    let way = if more { "more" } else { "less" };
    match (&evidence.advised, &evidence.in_guest) {
        (Advised::Set { how, .. } | Advised::Host { how }, _)
            if contradicts(evidence, more).is_none() =>
        {
            format!("{how}, as tune recommends.")
        }
        (Advised::NotAsked, None) => {
            "`haltwise tune DIR` finds the setting of KVM's parameters that suits all VMs of the host \
             together."
                .to_owned()
        }
        (Advised::NotAsked, Some(_)) => {
            "`haltwise tune DIR` finds the setting of haltpoll's parameters, or polling in the \
             host, that suits these idle periods."
                .to_owned()
        }
        // Never given: tune says otherwise.
        (_, None) => format!("KVM parameters that make the host poll {way}."),
        (_, Some(_)) => format!("Parameters of haltpoll with which the guest polls {way}."),
    }
}

fn already(evidence: &Evidence<'_>, names: &[&str]) -> Guarded {
    let is_on = |name: &&&str| matches!(evidence.setting(name), Some("Y" | "1"));
    match names.iter().find(is_on) {
        Some(name) => harms(format!("{name} is on already")),
        None => Guarded::Given,
    }
}

struct Seen {
    account: Account,
    is_vetoed: bool,
    is_kvm_guest: bool,
    is_hyperv_guest: bool,
}

impl Seen {
    fn of(evidence: &Evidence<'_>, who: &Who) -> Self {
        let mut account = Account::default();
        let mut seen = (false, false);
        let (mut seats, mut vetoed) = (0, 0);
        let asked = |guest: &&Guest<'_>| who.vm.is_none_or(|vm| guest.vm.index == vm);
        for guest in evidence.guests.iter().filter(asked) {
            for seat in &guest.seats {
                if who.vcpus.is_empty() || who.vcpus.contains(&seat.id) {
                    seats += 1;
                    vetoed += u32::from(seat.is_vetoed());
                    seat.account.into_iter().for_each(|of| account.fold(of));
                }
            }
            seen.0 |= is_kvm_guest(guest);
            seen.1 |= writes(guest, HYPERV);
        }
        Self {
            account,
            is_vetoed: seats > 0 && vetoed == seats,
            is_kvm_guest: seen.0 && who.vm.is_some(),
            is_hyperv_guest: seen.1 && who.vm.is_some(),
        }
    }

    fn contention(&self, evidence: &Evidence<'_>) -> Contention {
        Contention::of(evidence, &self.account)
    }
}

/// MSRs of KVM (`asm/kvm_para.h`): `MSR_KVM_WALL_CLOCK_NEW` and those after it.
const KVM: std::ops::RangeInclusive<u64> = 0x4b56_4d00..=0x4b56_4dff;

/// Synthetic MSRs of Hyper-V (`hyperv-tlfs.h`).
const HYPERV: std::ops::RangeInclusive<u64> = 0x4000_0000..=0x4000_01ff;

/// It wrote `MSR_KVM_POLL_CONTROL`, or another of KVM's MSRs where those were recorded.
fn is_kvm_guest(guest: &Guest<'_>) -> bool {
    guest
        .seats
        .iter()
        .any(super::evidence::VcpuEvidence::is_vetoed)
        || writes(guest, KVM)
}

fn writes(guest: &Guest<'_>, msrs: std::ops::RangeInclusive<u64>) -> bool {
    let is_it = |cause: &Cause| {
        cause.kind == Kind::MsrWrite && cause.sub.is_some_and(|msr| msrs.contains(&msr))
    };
    guest
        .exits
        .is_some_and(|exits| exits.causes.keys().any(is_it))
}
