//! The result: each figure with its name, unit and meaning. JSON, its schema and documentation, and tables
//! come of these declarations.

use haltwise_core::profile::{Event, Space};
use haltwise_document::figures;

use crate::figures::Source;

pub(crate) const ABOUT: &[&str] = &[
    "Weights are counted in `unit`: nanoseconds of the CPU clock, or events.",
    "Shares are 0 to 1, by weight. `low` and `high` are the interval of Wilson (1927), in which the share lies in \
     95 of 100 recordings if samples are independent of each other.",
    "Where KVM virtualises in software, it emulates much of what a guest does: that time is `emulation` and no \
     guest's.",
    "The CPU clock's timer is an interrupt. The scheduler books more CPU time than it hits: waking up and switching, \
     with interrupts off.",
    "`null` means not recorded. It never means zero.",
];

figures! {
    /// Everything that is said of samples.
    pub(crate) struct ProfileResult {
        /// Version of this layout: 1.
        pub(crate) schema: u32 = Number,
        /// How the facts were obtained, and what is missing from them.
        pub(crate) recording: ProfileRecording = Record(ProfileRecording::FIGURES),
        /// Event that the figures are samples of: the first event recorded, or that of `--event`.
        pub(crate) event: Event = Word,
        /// Unit that weights are counted in: `ns`, `cycles`, `instructions`, `misses`, `faults`.
        pub(crate) unit: &'static str = Word,
        /// All samples that the page is about: of `--vm` and `--exit`.
        pub(crate) total: ProfileTotal = Record(ProfileTotal::FIGURES),
        /// Parts of the total: guest, kernel, VMM.
        pub(crate) sides: Vec<Part> = List(Part::FIGURES),
        /// Parts of the total: what the guest, KVM, the kernel or the VMM was busy with, by names of functions.
        pub(crate) areas: Vec<Part> = List(Part::FIGURES),
        /// Parts of the total, by the exit that was being handled.
        pub(crate) exits: Vec<ProfiledExit> = List(ProfiledExit::FIGURES),
        /// Functions, those first that were hit most.
        pub(crate) symbols: Vec<ProfiledSymbol> = List(ProfiledSymbol::FIGURES),
        /// Parts of the total: by VM, or by what `--by` asks for (`vm`, `vcpu`, `thread`, `module`).
        pub(crate) groups: Vec<ProfileGroup> = List(ProfileGroup::FIGURES),
        /// The other events that were sampled, of the same threads.
        pub(crate) beside: Vec<OtherEvent> = List(OtherEvent::FIGURES),
        /// VMs some of whose stacks of user space have no callers.
        pub(crate) shallow: Vec<ShallowStacks> = List(ShallowStacks::FIGURES),
    }

    pub(crate) struct ProfileRecording {
        #[serde(flatten)]
        pub(crate) source: Source = Flat(Source::FIGURES),
        /// Sampling frequency that was asked for, of each CPU.
        pub(crate) hz: u32 = Number,
        /// Events that were sampled.
        pub(crate) events: Vec<Event> = Words,
        /// Whether samples were recorded with the exit being handled (`--exits`).
        pub(crate) exits_told: bool = Flag,
    }

    pub(crate) struct ProfileTotal {
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
        /// Half width of the 95 % confidence interval of the weight, as a part of it.
        pub(crate) scatter: f64 = Share,
    }

    #[derive(Clone)]
    pub(crate) struct Part {
        /// Name of the part.
        pub(crate) name: String = Name,
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
        /// Its share of the whole; `null` where the whole has no samples.
        pub(crate) share: Option<f64> = Share,
        /// The lower end of that share's interval.
        pub(crate) low: Option<f64> = Share,
        /// The upper end.
        pub(crate) high: Option<f64> = Share,
    }

    pub(crate) struct ProfiledExit {
        #[serde(flatten)]
        pub(crate) part: Part = Flat(Part::FIGURES),
        /// How it is known: `kvm_exit` reported it, or a function on the `stack` handles it; `null` where there is no
        /// exit: the guest ran, the thread runs no vCPU, it was on the way in or out, or it is not known.
        pub(crate) by: Option<&'static str> = Word,
        /// Its samples by area; shares of its own.
        pub(crate) areas: Vec<Part> = List(Part::FIGURES),
        /// The functions that its samples hit most; shares of its own.
        pub(crate) symbols: Vec<Part> = List(Part::FIGURES),
    }

    pub(crate) struct ProfiledSymbol {
        /// `kernel`, a kernel module, a program or library, `guest`.
        pub(crate) module: String = Name,
        /// `kernel`, `user`; `null` of a guest.
        pub(crate) space: Option<Space> = Word,
        /// Samples that hit it, as a part.
        pub(crate) own: Part = Record(Part::FIGURES),
        /// Samples that hit it or what it called, as a part.
        pub(crate) all: Part = Record(Part::FIGURES),
    }

    /// One VM, vCPU, thread or module.
    pub(crate) struct ProfileGroup {
        /// The VM's name; `null` by module.
        pub(crate) vm: Option<String> = Name "VM",
        /// The vCPU, by vCPU or thread.
        pub(crate) vcpu: Option<u32> = Number "vCPU",
        /// The thread, of threads that run no vCPU.
        pub(crate) tid: Option<u32> = Number,
        #[serde(flatten)]
        pub(crate) part: Part = Flat(Part::FIGURES),
        /// The part of its weight in the guest.
        pub(crate) guest: u64 = Amount,
        /// The part of its weight in the host's kernel.
        pub(crate) in_kernel: u64 = Amount,
        /// The part of its weight in the VMM.
        pub(crate) in_vmm: u64 = Amount,
    }

    pub(crate) struct OtherEvent {
        /// Event that was sampled.
        pub(crate) event: Event = Word,
        /// Unit that its weight is counted in.
        pub(crate) unit: &'static str = Word,
        /// How many.
        pub(crate) samples: u64 = Count,
        /// Amount that the samples stand for together.
        pub(crate) weight: u64 = Amount,
    }

    /// A VM whose VMM's stacks say little.
    pub(crate) struct ShallowStacks {
        /// The VM.
        pub(crate) vm: String = Name,
        /// Samples that hit its VMM.
        pub(crate) samples: u64 = Count,
        /// Those of them whose stack ends after one frame, or at an address where no code lies.
        pub(crate) shallow: u64 = Count,
    }
}
