//! Facts about the host that the user knows and the text does not tell: its kernel and its settings.

use haltwise_core::account::Ceiling;
use haltwise_core::event::{CeilingSource, Knob, KnobScope, Vm};
use haltwise_core::kvm::rule::Clamp;
use haltwise_core::kvm::{Arch, Ceilings, Rule};
use haltwise_core::parameter::{Parameter, Values};

/// Settings in force while the text was recorded, as far as the user knows them. Times are in nanoseconds,
/// 32 bits of them as in the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenSettings {
    pub parameters: Values,
    /// Each VM's own `max_halt_poll_ns` (`KVM_CAP_HALT_POLL`).
    pub vm_max_halt_poll_ns: Option<u32>,
    /// The kernel, as `uname -r` prints it.
    pub kernel_release: Option<String>,
}

impl GivenSettings {
    /// The rule of that kernel, if its release is given and can be parsed. The architecture makes no difference here:
    /// only powerpc's virtual cores differ, and they have other tracepoints.
    fn rule(&self) -> Option<Rule> {
        let version = self.kernel_release.as_ref()?.parse().ok()?;
        Some(Rule::of(version, Arch::X86))
    }

    /// Where that kernel clamps windows. An unknown kernel is taken for a recent one: on an older one a
    /// window does not exceed its ceiling in the first place.
    pub(super) fn clamp(&self) -> Clamp {
        self.rule().map_or(Clamp::AtEntry, |rule| rule.clamp)
    }

    /// The ceiling of every VM, if anything that sets it is told.
    pub(super) fn ceiling(&self) -> Option<Ceiling> {
        let cap = self.vm_max_halt_poll_ns;
        let told = self.parameters.get(Parameter::HaltPollNs);
        let param = told.or(cap)?;
        let set = Ceilings {
            vm_max_halt_poll_ns: cap,
            ..Ceilings::of_param(param)
        };
        let (ns, source) = match self.rule() {
            Some(rule) => rule.ceiling(set),
            None => cap.map_or((param, CeilingSource::Param), |ns| (ns, CeilingSource::Cap)),
        };
        // Before 5.8 a VM had no ceiling of its own, whatever was told.
        let unknown = source == CeilingSource::Param && told.is_none();
        (!unknown).then_some(Ceiling { ns, source })
    }

    /// The host's settings, as a capture keeps them.
    pub(super) fn knobs(&self, time_ns: u64) -> Vec<Knob> {
        let knob = |(parameter, value): (Parameter, u32)| Knob {
            time_ns,
            name: parameter.name().to_owned(),
            scope: KnobScope::Host,
            value: parameter.written(value),
        };
        self.parameters.listed().map(knob).collect()
    }

    pub(super) fn knob_of(&self, vm: &Vm, time_ns: u64) -> Option<Knob> {
        self.vm_max_halt_poll_ns.map(|value| Knob {
            time_ns,
            name: "max_halt_poll_ns".to_owned(),
            scope: KnobScope::Vm(vm.index),
            value: value.to_string(),
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn of_ceiling(ns: u32) -> Values {
        Values::default().with(Parameter::HaltPollNs, ns)
    }

    fn told(param: Option<u32>, cap: Option<u32>, kernel: Option<&str>) -> GivenSettings {
        GivenSettings {
            parameters: param.map_or_else(Values::default, of_ceiling),
            vm_max_halt_poll_ns: cap,
            kernel_release: kernel.map(str::to_owned),
        }
    }

    #[test]
    fn the_ceiling_is_whose_word_counts_on_that_kernel() {
        use CeilingSource::{Cap, Param, Snapshot};
        for (param, cap, kernel, ceiling) in [
            (None, None, Some("6.12"), None),
            (Some(200), None, Some("6.12"), Some((200, Param))),
            (Some(200), Some(50), Some("6.12"), Some((50, Cap))),
            (None, Some(50), Some("6.12"), Some((50, Cap))),
            (Some(200), None, Some("5.15"), Some((200, Snapshot))),
            (None, Some(50), Some("5.15"), Some((50, Cap))),
            // No such capability yet.
            (Some(200), Some(50), Some("5.4"), Some((200, Param))),
            (None, Some(50), Some("5.4"), None),
            (Some(200), None, None, Some((200, Param))),
            (Some(200), Some(50), None, Some((50, Cap))),
            (Some(0), None, None, Some((0, Param))),
        ] {
            let got = told(param, cap, kernel).ceiling();
            assert_eq!(got.map(|c| (c.ns, c.source)), ceiling, "{kernel:?}");
        }
    }
}
