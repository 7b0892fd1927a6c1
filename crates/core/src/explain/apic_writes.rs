//! Writes to the local APIC that exit: EOI, ICR and the timer, where hardware could take the first two.
//!
//! With `APICv` (`vmx`) or AVIC (`svm`) the hardware does an EOI and most IPIs by itself; without, each is
//! an MSR write (x2APIC, or Hyper-V's registers for the same) that exits. So a write to the EOI register told as an exit shows that they are
//! off for this guest: the finding is certain. Without MSR numbers a storm of MSR writes may be the
//! timer alone, and is told as possible only.

use super::prelude::*;
use super::terms::{HYPERV, MODULE_RELOADED};

pub(super) const RULE: Rule = Rule {
    id: "apic-writes",
    title: "EOI and IPI writes that exit (no APICv or AVIC)",
    source: "enable_apicv in arch/x86/kvm/vmx/vmx.c, avic in arch/x86/kvm/svm/avic.c",
    look: |evidence| evidence.each_exits(of_guest),
};

/// The parameters that have the hardware do it.
const LOADS: Does = Does::LoadsModule(&["kvm_intel.enable_apicv", "kvm_amd.avic"]);

/// `MSR_WRITE`; on SVM reads and writes are one reason.
const MSR: [(Isa, u32); 2] = [(Isa::Vmx, 32), (Isa::Svm, 0x7c)];

/// x2APIC registers: 0x800 and the register's offset over 16 (`APIC_EOI` 0xb0, `APIC_ICR` 0x300); and
/// `HV_X64_MSR_EOI` and `HV_X64_MSR_ICR` (`hyperv-tlfs.h`).
const EOI: [u64; 2] = [0x80b, HV_EOI];
const ICR: [u64; 2] = [0x830, HV_ICR];
const HV_EOI: u64 = 0x4000_0070;
const HV_ICR: u64 = 0x4000_0071;

const WITHOUT_REINJECTION: Remedy = Remedy::new(
    Does::SparesExits,
    "Remove what inhibits it for this VM: a PIT that reinjects lost ticks inhibits AVIC (QEMU `-global \
     kvm-pit.lost_tick_policy=discard`).",
    "It holds from the VM's next start; ticks that come while the vCPU does not run are lost.",
    "A guest that keeps its time by counting ticks of the PIT: its clock falls behind.",
);

const EMULATED: &str = "The local APIC is emulated by KVM: hardware virtualisation of it is missing, switched off, or \
                        inhibited by a setting of the VM.";
const BY_HYPERV: &str = "The guest writes Hyper-V's registers in place of the APIC's: hardware virtualisation of the \
                         APIC is missing, switched off, or inhibited. `hv-synic` without `hv-avic` inhibits it.";

/// All remedies; the one for Hyper-V's interface comes first.
fn remedies(by_hyperv: bool) -> Vec<Remedy> {
    let avic = Remedy::under(
        Does::ForWindows,
        "QEMU: `hv-avic` beside `hv-synic` (QEMU 6.2, Linux 5.15); libvirt `<avic state='on'/>`.",
        HYPERV,
    );
    let loads = Remedy::under(
        LOADS,
        "Load kvm_intel with `enable_apicv=1`, or kvm_amd with `avic=1`, where the CPU has it.",
        MODULE_RELOADED,
    );
    let hyperv = by_hyperv.then_some(avic);
    hyperv
        .into_iter()
        .chain([loads, WITHOUT_REINJECTION])
        .collect()
}

fn of_guest(evidence: &Evidence<'_>, guest: &Guest<'_>, exits: &ExitAccount) -> Option<Found> {
    // Where KVM virtualises in software no exit is told, and no hardware could take the writes.
    exits.isa()?;
    let writes = exits_of(exits, &MSR);
    let to = |msrs: [u64; 2]| about(exits, &[Kind::MsrWrite], |msr| msrs.contains(&msr));
    let (mut apic, icr) = (to(EOI), to(ICR));
    let by_hyperv = to([HV_EOI, HV_ICR]).count * 2 > apic.count.saturating_add(icr.count);
    let eois = apic.count;
    apic.fold(&icr);
    let told = evidence.tells(SubKey::Msr);
    let per_s = guest.storm(if told { apic.count } else { writes.count })?;
    // Without EOI there is nothing that `APICv` would take: IPIs alone exit with IPI virtualisation off.
    if told && eois == 0 {
        return None;
    }
    let (signature, time_ns) = if told {
        let text = format!(
            "{eois} writes to the EOI register and {} to the ICR exited, {}; {} of the time of all \
             exits but halts.",
            icr.count,
            rate(per_s),
            percent(part_of_time(exits, apic.time_ns())),
        );
        (text, apic.time_ns())
    } else {
        let text = format!(
            "{} exits for MSRs, {}, {} of the time of all exits but halts; which MSRs was not \
             recorded (`haltwise record --exits=msr` does).",
            writes.count,
            rate(per_s),
            percent(part_of_time(exits, writes.time_ns())),
        );
        (text, writes.time_ns())
    };
    Some(Found {
        who: guest.whole(),
        signature,
        cause: if by_hyperv { BY_HYPERV } else { EMULATED }.to_owned(),
        remedies: remedies(by_hyperv),
        cost: Some(Cost::cpu(guest.per_s(time_ns))),
        sure: if told { Sure::Certain } else { Sure::Possible },
    })
}
