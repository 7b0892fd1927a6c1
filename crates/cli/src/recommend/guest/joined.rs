//! The capture of the guest's host, matched with the guest's own by time: what an exit and a block cost, who else
//! wants the CPUs, and whether the host polls.

use std::collections::BTreeMap;

use anyhow::anyhow;
use haltwise_capture::table::Table;
use haltwise_core::event::{Halt, Vcpu, WindowChange};
use haltwise_core::explain::contention::Contention;
use haltwise_core::explain::evidence::Evidence;
use haltwise_core::ids::VmIndex;
use haltwise_core::join::{self, Join, Lanes, Pair, Refused, Span};
use haltwise_core::kvm::{Arch, Knobs, Version};
use haltwise_core::replay::overrun::Overruns;
use haltwise_core::replay::session::Survey;
use haltwise_document::figures;

use crate::exit::{Exit, Failure};
use crate::page::harmless;
use crate::prices::{self, GivenCosts, Known};
use crate::reading::given::knobs_of;
use crate::reading::load::{OverTime, load};
use crate::reading::opened::Opened;
use crate::reading::pass::{PassEnds, Sink, pass};
use crate::reading::select;

/// The host's capture, and which of its VMs the guest is, if that is said.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub(crate) host: &'a Opened,
    pub(crate) vm: Option<&'a str>,
}

#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) join: Join,
    pub(crate) vm: String,
    pub(crate) known: Known,
    pub(crate) contention: Contention,
    pub(crate) load: HostLoad,
    pub(crate) knobs: Knobs,
    pub(crate) version: Option<Version>,
}

figures! {
    /// A CPU of the guest, and the vCPU that it is.
    const JOINED_CPU: Pair {
        /// The guest's number.
        cpu: u32 = Number,
        /// KVM's.
        vcpu: u32 = Number,
        /// Its entries into HLT while both recorded.
        hlts: u64 = Count,
        /// Those of them that hold a halt of the host.
        matched: u64 = Count,
        /// Those of them in which no halt began or ended: the vCPU was woken before KVM halted it.
        without_halt: u64 = Count,
        /// The vCPU's halts on the host from the first of these to the last.
        halts: u64 = Count,
        /// Those of them that lie in an entry into HLT.
        halts_matched: u64 = Count,
    }
}

figures! {
    /// The host's load while it recorded.
    #[derive(Clone, Copy, PartialEq, Default)]
    pub(crate) struct HostLoad {
        /// CPUs of the host.
        pub(crate) cpus: u32 = Count,
        /// vCPUs of all its VMs that were seen.
        pub(crate) vcpus: u64 = Count,
        /// Share of the time in which some task waited for a CPU (PSI); `null` where that was not recorded.
        pub(crate) cpu_pressure: Option<f64> = Share,
        /// Polls for this VM's vCPUs that another task ended; `null` of too few polls.
        pub(crate) polls_preempted: Option<f64> = Share,
        /// Whether the host gives the VM's CPUs to others too much for a guest that polls or keeps its CPUs: `null`
        /// where neither is known.
        pub(crate) contended: Option<bool> = Flag,
        /// The ceiling of the host's polling for this VM, when last looked at.
        pub(crate) halt_poll_ns: Option<u32> = Nanos,
        /// The guest has switched host polling off (`MSR_KVM_POLL_CONTROL`), on some of its vCPUs at least.
        pub(crate) guest_disabled: bool = Flag,
    }

    /// How the two captures belong together, and what the host's says.
    pub(crate) struct JoinFigures {
        /// The VM on its host.
        pub(crate) vm: String = Name,
        /// CPU by CPU.
        pub(crate) cpus: Vec<Pair> = List(JOINED_CPU),
        /// Entries into HLT while both recorded.
        pub(crate) hlts: u64 = Count,
        /// Those of them that hold a halt of the host.
        pub(crate) matched: u64 = Count,
        /// Those of them in which no halt began or ended.
        pub(crate) without_halt: u64 = Count,
        /// The share that is one of both: nothing contradicts the match.
        pub(crate) consistent_share: f64 = Share,
        /// The share of first halts that begin when expected under wrong offsets: chance.
        pub(crate) by_chance_share: f64 = Share,
        /// For how long both recorded.
        pub(crate) overlap_ns: u64 = Nanos,
        /// The host's clock less the guest's, in nanoseconds, with the way from HLT to KVM's halt; negative if the host
        /// booted later.
        pub(crate) clock_offset_ns: i64 = Number,
        /// By how many millionths the host's clock runs faster.
        pub(crate) clock_drift_ppm: f64 = Real,
        /// How far from the expected moment the first halt of an entry into HLT begins: the median.
        pub(crate) residual_p50_ns: u64 = Nanos,
        /// 99 of 100 are at most this.
        pub(crate) residual_p99_ns: u64 = Nanos,
        /// By how much an entry into HLT lasts longer than its halts, the lower quartile: exit and entry. A wait for the CPU
        /// adds to it.
        pub(crate) exit_ns: u64 = Nanos,
        /// The host's load.
        pub(crate) host: HostLoad = Record(HostLoad::FIGURES),
    }
}

impl JoinFigures {
    pub(super) fn of(joined: &Joined) -> Self {
        let join = &joined.join;
        Self {
            vm: joined.vm.clone(),
            cpus: join.pairs.clone(),
            hlts: join.hlts(),
            matched: join.matched(),
            without_halt: join.without_halt(),
            consistent_share: join.share(),
            by_chance_share: join.by_chance,
            overlap_ns: join.overlap_ns,
            clock_offset_ns: join.offset_ns,
            clock_drift_ppm: join.drift_ppm,
            residual_p50_ns: join.residual_p50_ns,
            residual_p99_ns: join.residual_p99_ns,
            exit_ns: join.exit_ns,
            host: joined.load,
        }
    }
}

impl Joined {
    pub(crate) fn is_contended(&self) -> bool {
        self.contention.is_wanted()
    }

    /// Whether it is known that they do not: none waits, and each vCPU could have a CPU of its own.
    pub(crate) fn is_free(&self) -> bool {
        self.contention == Contention::Free && self.load.vcpus <= u64::from(self.load.cpus)
    }

    pub(crate) fn host_polls(&self) -> bool {
        self.load.halt_poll_ns.is_some_and(|ns| ns > 0) && !self.load.guest_disabled
    }

    pub(crate) fn in_force(&self) -> Knobs {
        Knobs {
            halt_poll_ns: self.load.halt_poll_ns.unwrap_or(self.knobs.halt_poll_ns),
            ..self.knobs
        }
    }
}

/// Stays in HLT of a guest, or halts on a host, by VM.
struct Stays {
    in_guest: bool,
    vms: BTreeMap<VmIndex, Lanes>,
}

impl Sink for Stays {
    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        let (Some(vm), Some(vcpu)) = (halt.vm, halt.vcpu) else {
            return;
        };
        if self.in_guest && !halt.waited {
            return;
        }
        // A guest polls before it enters HLT; to its host that is no halt yet.
        let before_ns = halt.poll_ns.unwrap_or(0).min(halt.halt_ns);
        let before_ns = if self.in_guest { before_ns } else { 0 };
        let span = Span {
            start_ns: halt.start_ns.saturating_add(before_ns),
            length_ns: halt.halt_ns - before_ns,
        };
        let lanes = self.vms.entry(vm).or_default();
        lanes.entry(vcpu.0).or_default().push(span);
    }
}

struct OfVm {
    vm: VmIndex,
    survey: Survey,
}

impl Sink for OfVm {
    fn halt(&mut self, halt: &Halt, _: Option<&WindowChange>) {
        if halt.vm == Some(self.vm) {
            self.survey.halt(halt);
        }
    }
}

fn stays(opened: &Opened, in_guest: bool) -> Result<BTreeMap<VmIndex, Lanes>, Failure> {
    let vms = BTreeMap::new();
    let mut stays = Stays { in_guest, vms };
    let ends: PassEnds = pass(opened, "reading", &mut [&mut stays]);
    ends.opened(Table::Halts)?;
    for lane in stays.vms.values_mut().flat_map(BTreeMap::values_mut) {
        lane.sort_by_key(|span| span.start_ns);
    }
    Ok(stays.vms)
}

pub(crate) fn read(
    guest: &Opened,
    beside: &Beside<'_>,
    given: &GivenCosts,
) -> Result<Joined, Failure> {
    let host = beside.host;
    if !host.info().side.is_host() {
        let error =
            anyhow!("tune: --host is for the capture of a host, and this one is of a guest");
        return Err(Failure::new(Exit::Usage, error));
    }
    let own: Vec<Lanes> = stays(guest, true)?.into_values().collect();
    let [own] = &own[..] else {
        return Err(refused(guest, host, Refused::TooFew(0)));
    };
    let wanted = select::vms(&host.info().roster, beside.vm)?;
    let (vm, join) =
        nearest(own, stays(host, false)?, &wanted).map_err(|error| refused(guest, host, error))?;
    let mut of_vm = OfVm {
        vm,
        survey: Survey::default(),
    };
    let (recording, _) = load(host, OverTime::Vcpus, &mut [&mut of_vm])?;
    let evidence = Evidence::new(
        &recording.info.roster,
        &recording.ledger,
        None,
        recording.interval(),
        |index| index == vm,
    );
    let account = recording.ledger.vm(vm);
    let contention = Contention::of(&evidence, &account);
    let samples = host.host_samples();
    let load = HostLoad {
        cpus: samples.rows.last().map_or(0, |sample| sample.cpus),
        vcpus: recording.info.roster.vcpus.len() as u64,
        cpu_pressure: recording.ledger.host.cpu_pressure(),
        polls_preempted: account.preempted().map(|share| share.share),
        contended: match contention {
            Contention::Wanted(_) => Some(true),
            Contention::Free => Some(false),
            Contention::Unknown => None,
        },
        ..of_vcpus(&recording.info.roster.vcpus, vm)
    };
    let version = host.info().host.kernel_release.parse().ok();
    let (knobs, _) = knobs_of(
        &host.info().knobs,
        version.unwrap_or(Version::LAST_READ),
        Arch::X86,
    );
    let named = recording.info.roster.vms.iter().find(|it| it.index == vm);
    Ok(Joined {
        join,
        vm: named.map_or_else(String::new, |vm| vm.name.clone()),
        known: Known {
            // The guest's polls are played, to which overruns of the host's polls do not apply.
            overruns: Overruns::default(),
            ..prices::know(given, host.info().price.as_deref(), &of_vm.survey)?
        },
        contention,
        load,
        knobs,
        version,
    })
}

fn of_vcpus(vcpus: &[Vcpu], vm: VmIndex) -> HostLoad {
    let own = vcpus.iter().filter(|vcpu| vcpu.vm == vm);
    HostLoad {
        halt_poll_ns: own.clone().filter_map(|vcpu| vcpu.ceiling_ns).max(),
        guest_disabled: own.clone().any(|vcpu| vcpu.guest_veto == Some(true)),
        ..HostLoad::default()
    }
}

fn nearest(
    own: &Lanes,
    mut vms: BTreeMap<VmIndex, Lanes>,
    wanted: &[VmIndex],
) -> Result<(VmIndex, Join), Refused> {
    vms.retain(|vm, _| wanted.contains(vm));
    let (mut best, mut why) = (None::<(VmIndex, Join)>, Refused::TooFew(0));
    for (vm, lanes) in vms {
        match join::join(own, &lanes) {
            Ok(join)
                if best
                    .as_ref()
                    .is_none_or(|(_, best)| join.share() > best.share()) =>
            {
                best = Some((vm, join));
            }
            Ok(_) => {}
            // The refusal of a VM that halts says more.
            Err(Refused::TooFew(_)) if !matches!(why, Refused::TooFew(_)) => {}
            Err(refused) => why = refused,
        }
    }
    best.ok_or(why)
}

fn refused(guest: &Opened, host: &Opened, why: Refused) -> Failure {
    let error = anyhow!(
        "tune: {} and {} are not matched as recordings of one VM at the same time: {why}",
        harmless(&guest.named().display().to_string()),
        harmless(&host.named().display().to_string()),
    );
    Failure::new(Exit::Failed, error).hint(
        "start `haltwise record` on the host and `haltwise record --guest` in the guest, and let both run \
         together for some seconds with load that is not strictly periodic",
    )
}
