//! `guest-haltpoll:max=200us`: the guest's own governor, in front of a host that does
//! not poll.
//!
//! Keys are those of the policy `kvm`, each for the module's parameter: `max` is `guest_halt_poll_ns`, the others
//! have its name without `guest_halt_poll_`. A key that is not given has the module's default.
//! `kernel` is the guest's: that of a recording made in the guest, else the last one read, unless given.
//! The governor judges the time in HLT, `halt_ns - poll_ns`: a successful poll moves nothing, and a gap
//! counts as short up to the limit and the ceiling together. A poll is taken to end at its limit;
//! `poll_idle` looks at the clock in every 201st turn only, so a real one lasts a little longer.
//! Wins on ping-pong between vCPUs of one guest, where it saves exits and interrupts too. Loses on
//! over-committed hosts: it polls whether or not another task wants the CPU. Source:
//! [`crate::kvm::guest`].

use super::{Entry, Policy, Seen, Side};
use crate::kvm::Version;
use crate::kvm::guest::{Last, Params, Rule};

pub(super) const ENTRY: Entry = Entry {
    name: "guest-haltpoll",
    form: "max=TIME,grow=N,grow_start=TIME,shrink=N,allow_shrink=Y or N,kernel=VERSION, \
           each optional",
    summary: "the governor of a guest that polls before it halts",
    build: |args, setting| {
        let recorded = match setting.side {
            Side::Host => Version::LAST_READ,
            Side::Guest => setting.version,
        };
        let Some(rule) = Rule::of(args.kernel("kernel")?.unwrap_or(recorded)) else {
            let expected = "a kernel that has the governor (5.4 or later)";
            return Err(args.refuse("kernel", expected));
        };
        let default = Params::default();
        let may_shrink = [("Y", true), ("N", false)];
        let params = Params {
            guest_halt_poll_ns: args.kvm_time("max")?.unwrap_or(default.guest_halt_poll_ns),
            grow: args.whole("grow")?.unwrap_or(default.grow),
            grow_start: args.kvm_time("grow_start")?.unwrap_or(default.grow_start),
            shrink: args.whole("shrink")?.unwrap_or(default.shrink),
            allow_shrink: args
                .word("allow_shrink", &may_shrink, "Y or N")?
                .unwrap_or(default.allow_shrink),
        };
        let limit_ns = setting.start.window(params.guest_halt_poll_ns);
        Ok(guest_haltpoll(rule, params, limit_ns))
    },
};

/// The governor under these parameters, from this limit on.
pub fn guest_haltpoll(rule: Rule, params: Params, limit_ns: u32) -> Box<dyn Policy> {
    Box::new(GuestHaltpoll {
        rule,
        params,
        limit_ns,
    })
}

#[derive(Debug)]
struct GuestHaltpoll {
    rule: Rule,
    params: Params,
    limit_ns: u32,
}

impl Policy for GuestHaltpoll {
    fn window(&mut self, _: Option<u64>) -> u64 {
        u64::from(self.limit_ns)
    }

    fn learn(&mut self, seen: &Seen) {
        let residency_ns = seen.halt_ns.saturating_sub(seen.poll_ns);
        let last = if residency_ns == 0 && self.limit_ns > 0 {
            Last::Poll { timed_out: false }
        } else {
            Last::Halt { residency_ns }
        };
        let adjusted = self.rule.reflect(&self.params, self.limit_ns, last);
        self.limit_ns = adjusted.limit_ns;
    }

    fn side(&self) -> Side {
        Side::Guest
    }
}
