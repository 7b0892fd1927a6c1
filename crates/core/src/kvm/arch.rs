//! Which of KVM's ports runs the VMs.
//!
//! Ports differ in the default ceiling, in whether a vCPU may be kept from polling, and in whether
//! wakeups can be invalid.

use std::str::FromStr;

crate::names! {
    /// One of KVM's ports, by architecture where the rule of halting differs.
    pub enum Arch {
        /// `arch/x86/kvm`: polling can be switched off by the guest, through `MSR_KVM_POLL_CONTROL`.
        X86 = "x86",
        /// `arch/arm64/kvm`, and `arch/arm/kvm` as long as it existed.
        ///
        /// A WFI that is not trapped makes no halt that KVM sees: `kvm_vcpu_should_clear_twi` in
        /// `arch/arm64/kvm/arm.c`.
        Arm64 = "arm64",
        /// `arch/s390/kvm`: the only port whose wakeups can be invalid, and which stops polling by steal
        /// time (`kvm_arch_no_poll` in `arch/s390/kvm/kvm-s390.c`, since 5.2).
        S390 = "s390",
        /// `arch/powerpc/kvm`, but for virtual cores before POWER9, whose windows no tracepoint shows
        /// (`kvmppc_vcore_blocked`).
        Powerpc = "powerpc",
        /// `arch/riscv/kvm`.
        Riscv = "riscv",
        /// `arch/loongarch/kvm`.
        Loongarch = "loongarch",
        /// `arch/mips/kvm`.
        Mips = "mips",
    }
}

/// Why a text does not name one of KVM's ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an architecture of KVM: x86, arm64, s390, powerpc, riscv, loongarch, mips, \
      or what `uname -m` prints there"
)]
pub struct ArchParseError(pub String);

impl Arch {
    /// The port behind what `uname -m` prints.
    pub fn of_machine(machine: &str) -> Option<Self> {
        Some(match machine {
            "x86_64" | "amd64" | "i386" | "i486" | "i586" | "i686" => Self::X86,
            "aarch64" | "aarch64_be" | "arm" => Self::Arm64,
            "s390x" => Self::S390,
            "ppc" | "ppcle" | "ppc64" | "ppc64le" => Self::Powerpc,
            "riscv32" | "riscv64" => Self::Riscv,
            "loongarch64" => Self::Loongarch,
            "mips64" => Self::Mips,
            _ if machine.starts_with("armv") => Self::Arm64,
            _ => return None,
        })
    }
}

impl FromStr for Arch {
    type Err = ArchParseError;

    /// Reads one of the names of [`Arch::as_str`], or what `uname -m` prints.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.trim();
        Self::from_name(name)
            .or_else(|| Self::of_machine(name))
            .ok_or_else(|| ArchParseError(text.to_owned()))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn names_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse(), Ok(arch));
        }
        let mut names = Arch::ALL.map(Arch::as_str);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn machines_have_their_port() {
        for (machine, arch) in [
            ("x86_64", Arch::X86),
            ("i686", Arch::X86),
            ("aarch64", Arch::Arm64),
            ("armv7l", Arch::Arm64),
            ("s390x", Arch::S390),
            ("ppc64le", Arch::Powerpc),
            ("riscv64", Arch::Riscv),
            ("loongarch64", Arch::Loongarch),
            ("mips64", Arch::Mips),
        ] {
            assert_eq!(machine.parse(), Ok(arch), "{machine}");
        }
        assert_eq!(" x86_64\n".parse(), Ok(Arch::X86));
    }

    #[test]
    fn other_texts_are_refused_by_name() {
        for bad in "|x86-64|X86|sparc64|power|powerpc hv|arm 64".split('|') {
            let error = bad.parse::<Arch>().unwrap_err();
            assert_eq!(error, ArchParseError(bad.to_owned()));
            assert!(error.to_string().contains("loongarch"), "{error}");
        }
    }
}
