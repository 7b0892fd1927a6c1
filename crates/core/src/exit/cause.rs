//! Counted events: exits, the sub-keys of exits, and other events between guest and host.

use serde::{Deserialize, Serialize};

use super::names;
use crate::recording::UnknownName;

crate::names! {
    /// Which instruction set numbers a reason, in the order of the collector's codes.
    #[derive(Default)]
    pub enum Isa {
        /// No reason of an instruction set, or one that is not known.
        #[default]
        None = "none",
        /// Intel VMX.
        Vmx = "vmx",
        /// AMD SVM.
        Svm = "svm",
        /// 64-bit Arm.
        Arm64 = "arm64",
        /// IBM Z.
        S390 = "s390",
        /// RISC-V.
        Riscv = "riscv",
        /// `LoongArch`.
        Loongarch = "loongarch",
        /// PowerPC.
        Powerpc = "powerpc",
    }
}

impl Isa {
    /// The instruction set that has this code in the collector's programs; [`Isa::None`] for an unknown code.
    pub fn from_code(code: u32) -> Self {
        let place = usize::try_from(code).ok();
        place
            .and_then(|place| Self::ALL.get(place).copied())
            .unwrap_or_default()
    }

    /// The reasons of exits by which a guest halts, the oldest first. From Linux 6.15 on, KVM intercepts `IDLE_HLT`
    /// in place of HLT on AMD processors that have it (Zen 5); a nested guest's HLT keeps the old number.
    pub fn halt_reasons(self) -> &'static [u32] {
        match self {
            Self::Vmx => &[12],
            Self::Svm => &[0x78, 0xa6],
            Self::Arm64 => &[1],
            Self::S390 => &[0x1c],
            Self::Loongarch => &[64],
            Self::None | Self::Riscv | Self::Powerpc => &[],
        }
    }
}

crate::names! {
    /// Event that a row of [`super::Exits`] counts, in the order of the collector's codes (`enum exit_kind`).
    pub enum Kind {
        /// `kvm_exit`, by reason.
        Exit = "exit",
        /// `kvm_entry`.
        Entry = "entry",
        /// A `kvm_entry` after another, with no `kvm_exit` between them: the kernel re-enters by
        /// itself, or an exit was lost.
        LoneEntry = "lone_entry",
        /// `kvm_userspace_exit`: `KVM_RUN` returned to the VMM, by `KVM_EXIT_*` or errno.
        UserspaceExit = "userspace_exit",
        /// `kvm_inj_virq`: an interrupt handed to the guest.
        InjVirq = "inj_virq",
        /// `kvm_emulate_insn`: an instruction emulated (reason 0), or not (reason 1). Where KVM
        /// virtualises in software, these stand for exits.
        EmulateInsn = "emulate_insn",
        /// Exits that found no room of their own in the recorder's table.
        Other = "other",
        /// Sub-key: the MSR read.
        MsrRead = "msr_read",
        /// Sub-key: the MSR written.
        MsrWrite = "msr_write",
        /// Sub-key: the I/O port read.
        PioRead = "pio_read",
        /// Sub-key: the I/O port written.
        PioWrite = "pio_write",
        /// Sub-key: the guest physical address read.
        MmioRead = "mmio_read",
        /// Sub-key: the guest physical address written.
        MmioWrite = "mmio_write",
        /// Sub-key: the guest page that faulted, by the address of its first byte.
        PageFault = "page_fault",
        /// Sub-key: the number of a hypercall.
        Hypercall = "hypercall",
        /// Sub-key: the vector of an injected interrupt.
        Vector = "vector",
        /// Sub-key: the leaf of a CPUID.
        Cpuid = "cpuid",
    }
}

impl Kind {
    /// The kind that has this code in the collector's programs.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code).ok()?).copied()
    }

    /// Whether it says what an exit was about, and so counts nothing of its own.
    pub fn is_sub(self) -> bool {
        self >= Self::MsrRead
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cause {
    pub kind: Kind,
    /// Architecture of the reason; [`Isa::None`] for KVM's own.
    pub isa: Isa,
    /// The reason: of an exit, the instruction set's; of a userspace exit, `KVM_EXIT_*`, or
    /// [`names::ERRNO`] and the errno. Of a sub-key, that of its exit, where there was one.
    pub reason: Option<u32>,
    pub sub: Option<u64>,
}

impl Cause {
    /// The name of its reason, as the kernel prints it.
    pub fn name(&self, names: &names::Names) -> String {
        match self.kind {
            Kind::UserspaceExit => match self.reason {
                Some(reason) => names::userspace_exit(reason),
                None => self.kind.to_string(),
            },
            Kind::EmulateInsn if self.reason == Some(1) => "emulate_insn failed".to_owned(),
            Kind::EmulateInsn | Kind::Entry | Kind::LoneEntry | Kind::InjVirq | Kind::Other => {
                self.kind.to_string()
            }
            _ => match self.reason {
                Some(reason) => names.reason(self.isa, reason),
                None if self.kind.is_sub() => "-".to_owned(),
                None => format!("unknown ({})", self.isa),
            },
        }
    }

    /// The sub-key as people write it: ports, MSRs, leaves and addresses in hexadecimal, with their names.
    pub fn sub_name(&self) -> Option<String> {
        let (sub, kind) = (self.sub?, self.kind);
        let number = match kind {
            Kind::Hypercall | Kind::Vector => format!("{kind} {sub}"),
            Kind::PageFault => format!("page {sub:#x}"),
            _ => format!("{kind} {sub:#x}"),
        };
        Some(match names::sub(kind, sub) {
            Some(name) => format!("{number} ({name})"),
            None => number,
        })
    }

    /// Whether it is an exit by which the guest halted.
    pub fn is_halt(&self) -> bool {
        let is_known = |reason| self.isa.halt_reasons().contains(&reason);
        self.kind == Kind::Exit && self.reason.is_some_and(is_known)
    }
}

crate::names! {
    /// Details of exits beside their reasons that a recording can be asked to keep.
    pub enum SubKey {
        /// MSRs read and written.
        Msr = "msr",
        /// I/O ports read and written.
        Pio = "pio",
        /// Guest physical addresses read and written that are no memory.
        Mmio = "mmio",
        /// Guest pages that faulted.
        Gpa = "gpa",
        Hypercall = "hypercall",
        /// Vectors of injected interrupts.
        Vector = "vector",
        /// Leaves of CPUID.
        Cpuid = "cpuid",
    }
}

impl std::str::FromStr for SubKey {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = "msr, pio, mmio, gpa, hypercall, vector, cpuid";
        Self::from_name(text).ok_or_else(|| UnknownName::new(text, known))
    }
}
