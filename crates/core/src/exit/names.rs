//! The kernel's names of its exit reasons.
//!
//! The tables are facts of the kernel's headers; each names its own. The running kernel's names come
//! before them: a recorder reads them from the tracepoint's format file, and a capture keeps those
//! that differ. What has no name in either is shown as its number and instruction set.

mod sub;
mod tables;

use std::collections::BTreeMap;

use super::Isa;

pub use sub::sub;

/// Set in the reason of a userspace exit that is an errno.
pub const ERRNO: u32 = 1 << 31;

/// In a VMX reason: the entry failed (`VMX_EXIT_REASONS_FAILED_VMENTRY` in
/// `arch/x86/include/uapi/asm/vmx.h`). The bits from 16 up are flags, not part of the number.
const FAILED_VMENTRY: u32 = 1 << 31;
const VMX_NUMBER: u32 = 0xffff;

/// Names that a kernel has and our tables do not have, or have otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Names {
    told: BTreeMap<(Isa, u32), String>,
}

impl Names {
    pub fn tell(&mut self, isa: Isa, reason: u32, name: impl Into<String>) {
        self.told.insert((isa, reason), name.into());
    }

    pub fn reason(&self, isa: Isa, reason: u32) -> String {
        if isa == Isa::Vmx && reason & !VMX_NUMBER != 0 {
            let name = self.plain(isa, reason & VMX_NUMBER);
            let flags = reason & !VMX_NUMBER;
            return match flags {
                FAILED_VMENTRY => format!("{name} FAILED_VMENTRY"),
                _ => format!("{name} {flags:#x}"),
            };
        }
        self.plain(isa, reason)
    }

    fn plain(&self, isa: Isa, reason: u32) -> String {
        let told = self.told.get(&(isa, reason)).map(String::as_str);
        match told.or_else(|| known(isa, reason)) {
            Some(name) => name.to_owned(),
            None => format!("{reason:#x} ({isa})"),
        }
    }
}

/// The name that our table has for a reason.
pub fn known(isa: Isa, reason: u32) -> Option<&'static str> {
    look_up(table(isa), reason)
}

/// The reason that a kernel prints so; the names of x86 and arm64 differ.
pub fn by_name(name: &str) -> Option<(Isa, u32)> {
    [Isa::Vmx, Isa::Svm, Isa::Arm64]
        .into_iter()
        .find_map(|isa| {
            let found = table(isa).iter().find(|(_, known)| *known == name)?;
            Some((isa, found.0))
        })
}

/// Why `KVM_RUN` returned: `KVM_EXIT_*`; `restart` for EINTR and `error` for another errno, as
/// `kvm_userspace_exit` prints them.
pub fn userspace_exit(reason: u32) -> String {
    if reason & ERRNO != 0 {
        let errno = reason & !ERRNO;
        let word = if errno == EINTR { "restart" } else { "error" };
        return format!("{word} ({errno})");
    }
    match look_up(tables::USERSPACE, reason) {
        Some(name) => name.to_owned(),
        None => format!("KVM_EXIT_{reason}"),
    }
}

const EINTR: u32 = 4;

fn look_up(table: &'static [(u32, &'static str)], reason: u32) -> Option<&'static str> {
    let place = table
        .binary_search_by_key(&reason, |(number, _)| *number)
        .ok()?;
    Some(table[place].1)
}

fn table(isa: Isa) -> &'static [(u32, &'static str)] {
    match isa {
        Isa::Vmx => tables::VMX,
        Isa::Svm => tables::SVM,
        Isa::Arm64 => tables::ARM64,
        Isa::Riscv => tables::RISCV,
        Isa::None | Isa::S390 | Isa::Loongarch | Isa::Powerpc => &[],
    }
}

#[cfg(test)]
mod test;
