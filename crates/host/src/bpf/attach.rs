//! Loading and attaching the programs, and what is missing where a part of the kernel is.

use std::mem::MaybeUninit;

use haltwise_core::ids::Pid;
use haltwise_core::recording::{Missing, Mode};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags};

use super::program::Links;
use super::program::{Program, Role};
use super::skel::collector::types::kernel_support;
use super::skel::collector::{
    CollectorProgs, CollectorSkel, CollectorSkelBuilder, OpenCollectorSkel,
};
use crate::clock;
use crate::collector::{CollectError, CollectOptions};
use crate::opaque::Opaque;
use crate::root::Root;
use crate::support::rights;
use crate::tracefs::{self, Standing, Tracefs};

fn lacking(may_load: bool, is_filtered: bool) -> &'static str {
    match (may_load, is_filtered) {
        (false, _) => "root, or CAP_BPF and CAP_PERFMON",
        (true, true) => {
            "a seccomp profile that allows bpf() with CAP_BPF; in a container: --security-opt seccomp=unconfined"
        }
        // Since Linux 5.11 the memory of BPF counts for the cgroup instead.
        (true, false) => {
            "a kernel that is not locked down; before Linux 5.11 more locked memory (RLIMIT_MEMLOCK, which \
             CAP_SYS_RESOURCE raises)"
        }
    }
}

/// vCPU threads that counts mode has room for: 6.4 kB each.
const COUNTS_SLOTS: u32 = 4096;

/// Bytes for the last statistics of vCPUs whose threads end between two drains: of a thousand.
const LAST_STATS: u32 = 1 << 20;

const RAN_VCPUS: u32 = 16384;

/// A libbpf error as one of ours.
///
/// EPERM is a missing right. EACCES comes from the kernel's verifier, which did not accept a program:
/// then we are at fault, not the user.
pub(super) fn explain(what: &str) -> impl FnOnce(libbpf_rs::Error) -> CollectError {
    move |error| explained(what, &error)
}

fn explained(what: &str, error: &libbpf_rs::Error) -> CollectError {
    let failed = |text: String| CollectError::failed(what)(std::io::Error::other(text));
    match error.kind() {
        ErrorKind::PermissionDenied if is_errno(error, EACCES) => failed(format!(
            "this kernel's verifier refuses a program of haltwise, please report it \
             ({LOG_VARIABLE}=1 shows why): {error:#}"
        )),
        ErrorKind::PermissionDenied => CollectError::Denied {
            what: what.to_owned(),
            need: lacking(rights::may_load_now(), rights::is_filtered_now()),
        },
        ErrorKind::NotFound | ErrorKind::Unsupported => CollectError::Unsupported {
            what: what.to_owned(),
            source: Some(std::io::Error::other(format!("{error:#}"))),
        },
        _ => failed(format!("{error:#}")),
    }
}

const EACCES: i32 = 13;

/// Set to anything, it lets libbpf say on stderr what it does.
const LOG_VARIABLE: &str = "HALTWISE_LIBBPF_LOG";

/// libbpf says everything it meets on stderr, verifier logs of a thousand lines too.
pub(super) fn hush_libbpf() {
    if std::env::var_os(LOG_VARIABLE).is_none() {
        libbpf_rs::set_print(None);
    }
}

/// Opens programs. libbpf-rs wants the object's place to outlive the skeleton. It is a few words, and a process opens
/// programs once or twice in its life (a collector that records again turns to other VMs): leaking it is simpler than a
/// self-reference.
pub(super) fn open<B: SkelBuilder<'static>>(builder: B) -> libbpf_rs::Result<B::Output> {
    hush_libbpf();
    builder.open(Box::leak(Box::new(MaybeUninit::uninit())))
}

/// Whether the operating system's error is this one. libbpf-rs keeps the number to itself and tells
/// it in its text alone.
fn is_errno(error: &libbpf_rs::Error, number: i32) -> bool {
    format!("{error:#}").contains(&format!("(os error {number})"))
}

/// The programs, loaded and attached. Dropping them detaches.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) skel: Opaque<CollectorSkel<'static>>,
    /// Links of the tracepoint programs; the walk's link is [`Attached::walk`].
    pub(super) links: Links,
    pub(super) walk: Link,
    pub(super) missing: Vec<Missing>,
}

/// Stats mode needs the walk, and who ends; the others all but the latter.
fn choose_programs(open: &mut OpenCollectorSkel<'_>, stats: bool) {
    for mut program in open.open_object_mut().progs_mut() {
        program.set_autoload(match program.name().to_str() {
            Some("walk_vcpus") => true,
            Some("on_thread_exit") => stats,
            _ => !stats,
        });
    }
}

pub(super) fn latency_of_kvm(root: &Root) -> Option<Missing> {
    let is_mounted = matches!(tracefs::standing(root), Standing::Mounted(_));
    let tracefs = is_mounted.then(|| Tracefs::find(root).ok()).flatten()?;
    tracefs::latency_of_kvm(&tracefs.needed("kvm", "kvm_vcpu_wakeup").ok()?)
}

pub(super) fn attach(options: &CollectOptions, root: &Root) -> Result<Attached, CollectError> {
    let mut open =
        open(CollectorSkelBuilder::default()).map_err(explain("open the BPF programs"))?;
    let counts = options.mode == Mode::Counts;
    let stats = options.mode == Mode::Stats;
    if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
        settings.counts_mode = counts;
        settings.stats_mode = stats;
        settings.filter_by_process = !options.vms.is_empty();
        settings.tells_latency = latency_of_kvm(root).is_some();
    }
    choose_programs(&mut open, stats);
    let ring = match options.mode {
        Mode::Full => options.buffer_bytes,
        Mode::Counts => 1 << 20,
        // Nothing is ever put into it.
        Mode::Stats => 4096,
    };
    let sized = open.maps.halts.set_max_entries(ring);
    sized.map_err(explain("size the ring"))?;
    if stats {
        let last = open.maps.last_stats.set_max_entries(LAST_STATS);
        last.and_then(|()| open.maps.ran.set_max_entries(RAN_VCPUS))
            .map_err(explain("make room for last statistics"))?;
    }
    let slots = if counts { COUNTS_SLOTS } else { 1 };
    let sized = open.maps.counts.set_max_entries(slots);
    sized.map_err(explain("size the counts"))?;
    if let Some(settings) = open.maps.bss_data.as_deref_mut() {
        settings.counts_slots = slots;
    }
    let skel = open.load().map_err(explain("load the BPF programs"))?;
    let walk = skel.progs.walk_vcpus.attach();
    let walk = walk.map_err(explain("attach the walk over open files"))?;
    let mut attached = Attached {
        skel: Opaque(skel),
        links: Links::default(),
        walk,
        missing: Vec::new(),
    };
    attached.want(&[], &options.vms)?;
    if stats {
        attached.attach_last_stats();
    } else {
        attached.attach_tracepoints()?;
    }
    Ok(attached)
}

/// The programs that record halts, in the order in which they are attached but for the first.
fn programs<'a>(progs: &'a CollectorProgs<'_>) -> [Program<'a>; 6] {
    [
        (Role::Halt, &progs.on_vcpu_wakeup, None),
        (
            Role::Window,
            &progs.on_halt_poll_ns,
            Some(("change", "calls of grow and shrink are not seen")),
        ),
        (
            Role::Waking,
            &progs.on_sched_waking,
            Some((
                "wake_latency_ns",
                "wake-up latencies and gaps of halts that waited are unknown",
            )),
        ),
        (
            Role::Other,
            &progs.on_hrtimer_entry,
            Some(("wake", "timers that woke a vCPU read as devices")),
        ),
        (
            Role::Other,
            &progs.on_hrtimer_exit,
            Some(("wake", "devices that woke a vCPU may read as timers")),
        ),
        (
            Role::Other,
            &progs.on_apic_ipi,
            Some(("wake", "IPIs that ended a poll read as devices")),
        ),
    ]
}

impl Attached {
    pub(super) fn programs(&self) -> [Program<'_>; 6] {
        programs(&self.skel.progs)
    }

    fn want(&self, no_more: &[Pid], vms: &[Pid]) -> Result<(), CollectError> {
        let wanted = &self.skel.maps.wanted;
        let unwanted = no_more
            .iter()
            .map(|pid| wanted.delete(&pid.0.to_ne_bytes()));
        let noted = vms
            .iter()
            .map(|pid| wanted.update(&pid.0.to_ne_bytes(), &[1], MapFlags::ANY));
        let mut noted = unwanted.chain(noted);
        noted.try_for_each(|noted| noted.map_err(explain("note the VMs wanted")))
    }

    pub(super) fn turn(&mut self, from: &[Pid], to: &[Pid]) -> Result<(), CollectError> {
        self.links.detach();
        self.want(from, to)?;
        if let Some(settings) = self.skel.maps.bss_data.as_deref_mut() {
            settings.turn = settings.turn.wrapping_add(1);
        }
        self.attach_tracepoints()
    }

    fn attach_tracepoints(&mut self) -> Result<(), CollectError> {
        let progs = &self.skel.progs;
        let mut links = Links::default();
        let missing = links.attach_all(&programs(progs));
        // Last, so that the first halt finds everything else in place.
        let wakeup = progs.on_vcpu_wakeup.attach();
        links.push(wakeup.map_err(explain(
            "attach kvm_vcpu_wakeup (is the kvm module loaded?)",
        ))?);
        self.links = links;
        self.missing = missing;
        self.note_wakeups(clock::monotonic_ns());
        Ok(())
    }

    /// Without it, what a VM counts after its last reading is not seen.
    fn attach_last_stats(&mut self) {
        let without_it = "counts of a VM after its last reading are missing";
        let program = &self.skel.progs.on_thread_exit;
        self.missing
            .extend(self.links.attach(program, "halts", without_it));
    }

    pub(super) fn note_wakeups(&mut self, since_ns: u64) {
        if let Some(settings) = self.skel.maps.bss_data.as_deref_mut() {
            settings.wakeups_since_ns = since_ns;
        }
    }

    pub(super) fn counts_used(&self) -> u32 {
        let bss = self.skel.maps.bss_data.as_ref();
        bss.map_or(0, |bss| bss.counts_used.min(bss.counts_slots))
    }

    /// Whether this kernel's structures have something. Needs one walk to have run.
    pub(super) fn has(&self, bit: kernel_support) -> bool {
        let bss = self.skel.maps.bss_data.as_ref();
        bss.map_or(0, |bss| bss.support) & bit.0 != 0
    }

    pub(super) fn missing_fields(&self) -> Vec<Missing> {
        let has = |bit: kernel_support| self.has(bit);
        if !has(kernel_support::SUPPORT_WALKED) {
            return Vec::new();
        }
        let mut missing = Vec::new();
        let mut note = |field, reason| missing.push(Missing::new(field, reason));
        if !has(kernel_support::SUPPORT_POLL_STATS) {
            note(
                "poll_ns",
                "this kernel's vCPUs count no polled time (before 5.8)",
            );
        }
        if has(kernel_support::SUPPORT_VM_CEILING) && !has(kernel_support::SUPPORT_OVERRIDE) {
            note(
                "ceiling_source",
                "this kernel (5.8 to 6.0) does not distinguish a per-VM cap from the value copied when \
                 the VM was created",
            );
        }
        if cfg!(target_arch = "x86_64") && !has(kernel_support::SUPPORT_LAPIC) {
            note(
                "wake",
                "what ended a poll is unknown: the LAPIC is not accessible",
            );
        }
        missing
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_refusal_of_the_verifier_is_not_a_missing_right() {
        let refused = explain("load")(libbpf_rs::Error::from_raw_os_error(EACCES));
        assert!(
            matches!(refused, CollectError::Failed { .. }),
            "{refused:?}"
        );
        let denied = explain("load")(libbpf_rs::Error::from_raw_os_error(1));
        assert!(matches!(denied, CollectError::Denied { .. }), "{denied:?}");
        let absent = explain("attach")(libbpf_rs::Error::from_raw_os_error(2));
        assert!(
            matches!(absent, CollectError::Unsupported { .. }),
            "{absent:?}"
        );
    }
}
