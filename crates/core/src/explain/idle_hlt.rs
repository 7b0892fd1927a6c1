//! AMD's Idle HLT: a HLT with an interrupt pending does not exit, so that exits by HLT are fewer than halts.
//!
//! From Linux 6.15 on, on processors that have it (Zen 5): KVM intercepts `IDLE_HLT` in place of HLT. Halts that
//! would have ended at once are not in any recording, and the shortest gaps are missing from it; that is
//! no loss of the recorder, and nothing that could be tuned.

use super::prelude::*;
use super::terms::NOTHING_DONE;

pub(super) const RULE: Rule = Rule {
    id: "amd-idle-hlt",
    title: "halts that would end at once stay inside the guest (Idle HLT)",
    source: "SVM: Idle HLT intercept, Linux 6.15, arch/x86/kvm/svm/svm.c",
    look,
};

const NO_IDLE_HLT: Remedy = Remedy::new(
    Does::SparesVmm,
    "Where guests stall for seconds (reported of Zen 5 under Linux 6.17 and 6.18): boot the host with \
     `clearcpuid=510`, which switches Idle HLT off. `halt_poll_ns=0` cures stalls of idle guests alone.",
    "The host boots again, and halts that would end at once exit again.",
    "Where no guest stalls: then it costs exits and cures nothing.",
);

/// `SVM_EXIT_IDLE_HLT`.
const IDLE_HLT: u32 = 0xa6;

fn look(evidence: &Evidence<'_>) -> Judgement {
    let told = evidence.exits.iter().flat_map(|seen| seen.vms.values());
    let mut causes = told.flat_map(|account| account.causes.keys());
    let exits = causes.any(|cause| {
        (cause.kind, cause.isa, cause.reason) == (Kind::Exit, Isa::Svm, Some(IDLE_HLT))
    });
    let has = exits || evidence.setting("cpu.idle_hlt") == Some("Y");
    let found = has && evidence.total.halts > 0;
    Judgement::from(found.then(|| Found {
        who: Who::HOST,
        signature: format!(
            "The processor has Idle HLT; {} halts reached KVM.",
            evidence.total.halts
        ),
        cause: "A HLT with an interrupt pending does not exit: the guests halted more often than was recorded, \
                and the shortest gaps are not in this recording."
            .to_owned(),
        remedies: vec![
            Remedy::under(
                Does::Nothing,
                "Nothing. Compare with recordings of processors without it by time halted, not by halts.",
                NOTHING_DONE,
            ),
            NO_IDLE_HLT,
        ],
        cost: None,
        sure: Sure::Certain,
    }))
}
