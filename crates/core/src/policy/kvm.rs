//! `kvm:max=200us,grow=2,grow_start=10us,shrink=2,kernel=6.12`: KVM's own rule, of any kernel.
//!
//! A key that is not given is as in the capture, or that kernel's default with `knobs=default`. `max` is the
//! ceiling in force; `cap` is one that the VM has of its own, where both matter (growth is capped at
//! the module's in 5.8 to 5.12).
//! Wins on gaps that come in runs of like length, since the
//! last halt foretells the next. Loses on steady gaps between what a block is worth and the ceiling:
//! it polls all of them to the end. Source: [`crate::kvm`].

use super::{Entry, Policy, Seen};
use crate::kvm::{Knobs, Observed, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "kvm",
    form: "max=TIME,grow=N,grow_start=TIME,shrink=N,cap=TIME,kernel=VERSION,knobs=default, \
           each optional",
    summary: "KVM's algorithm; parameters not given are as recorded",
    build: |args, setting| {
        let version = args.kernel("kernel")?.unwrap_or(setting.version);
        let defaults = args.word("knobs", &[("default", true)], "`default`")?;
        let (knobs, ceiling) = if defaults.is_some() {
            let knobs = Knobs::defaults(version, setting.arch);
            (knobs, knobs.halt_poll_ns)
        } else {
            (setting.knobs, setting.ceiling_ns)
        };
        let max = args.kvm_time("max")?;
        let knobs = Knobs {
            halt_poll_ns: max.unwrap_or(knobs.halt_poll_ns),
            grow: args.whole("grow")?.unwrap_or(knobs.grow),
            grow_start: args.kvm_time("grow_start")?.unwrap_or(knobs.grow_start),
            shrink: args.whole("shrink")?.unwrap_or(knobs.shrink),
        };
        let ceiling = args.kvm_time("cap")?.or(max).unwrap_or(ceiling);
        let rule = Rule::of(version, setting.arch);
        Ok(Box::new(Kvm {
            rule,
            knobs,
            ceiling,
            window: setting.start.window(ceiling),
        }))
    },
};

#[derive(Debug)]
struct Kvm {
    rule: Rule,
    knobs: Knobs,
    ceiling: u32,
    window: u32,
}

impl Policy for Kvm {
    fn window(&mut self, _: Option<u64>) -> u64 {
        self.window = self.rule.entry(self.window, self.ceiling);
        u64::from(self.window)
    }

    fn learn(&mut self, seen: &Seen) {
        let observed = Observed {
            halt_ns: self.rule.counted_ns(seen.halt_ns, seen.wake_latency_ns),
            valid: seen.valid,
            allowed: true,
        };
        let step = self
            .rule
            .after(&self.knobs, self.ceiling, self.window, observed);
        self.window = step.window;
    }
}
