//! When a vCPU must not poll: what `kvm_arch_no_poll` says on the two ports that have it.
//!
//! What becomes of the window then is [`super::rule::NoPoll`]. On all other ports a vCPU may always poll.

/// x86: the guest can switch the host's polling off for a vCPU, through a model-specific register.
///
/// Source: `kvm_arch_no_poll`, `kvm_set_msr_common` and `kvmclock_reset` in `arch/x86/kvm/x86.c`, since
/// 5.3 (commit 2d5ba19b). The VMM can write the register too. The guest's haltpoll driver writes 0
/// when a CPU comes online and 1 when it goes.
pub mod x86 {
    pub const MSR_KVM_POLL_CONTROL: u32 = 0x4b56_4d05;

    /// The bit of KVM's feature leaf that says the register exists: `KVM_FEATURE_POLL_CONTROL`.
    pub const KVM_FEATURE_POLL_CONTROL: u32 = 12;

    /// What the register holds in a new vCPU: polling is allowed.
    pub const RESET: u64 = 1;

    /// Whether the value lets the host poll.
    pub const fn allows(msr: u64) -> bool {
        msr & 1 != 0
    }

    /// Whether KVM takes the value; any bit but the lowest makes the write fail.
    pub const fn accepts(msr: u64) -> bool {
        msr & !1 == 0
    }
}

/// s390: a vCPU does not poll on a CPU whose own hypervisor takes more of it than the limit.
///
/// Source: `kvm_arch_no_poll` in `arch/s390/kvm/kvm-s390.c`, since 5.2.
pub mod s390 {
    /// The module parameter `halt_poll_max_steal`, percent, when nobody sets it.
    pub const HALT_POLL_MAX_STEAL: u8 = 10;

    /// Whether the steal limit lets a vCPU poll.
    ///
    /// `avg_steal_timer` is the CPU's decayed steal time for each tick in units of the TOD clock (4096
    /// for a microsecond), `tick_usec` the length of a tick in microseconds, `halt_poll_max_steal` the
    /// parameter in percent. Integer arithmetic, rounded down, equality forbids: a limit of 0 always
    /// does. `halt_no_poll_steal` counts what this forbids.
    ///
    /// A tick of 0 us, which no kernel has, forbids nothing.
    pub const fn allows(avg_steal_timer: u64, tick_usec: u32, halt_poll_max_steal: u8) -> bool {
        let tick = (tick_usec as u64) << 12;
        match avg_steal_timer.wrapping_mul(100).checked_div(tick) {
            Some(percent) => percent < halt_poll_max_steal as u64,
            None => true,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn one_bit_of_the_register_counts_and_only_it_may_be_set() {
        for (msr, allows, accepts) in [
            (0, false, true),
            (1, true, true),
            (2, false, false),
            (3, true, false),
            (u64::MAX, true, false),
            (1 << 32, false, false),
        ] {
            assert_eq!(
                (x86::allows(msr), x86::accepts(msr)),
                (allows, accepts),
                "{msr:#x}"
            );
        }
        assert!(x86::allows(x86::RESET) && x86::accepts(x86::RESET));
    }

    #[test]
    fn the_steal_limit_is_reached_by_equality() {
        // A tick of 10 ms: 40,960,000 units; a hundredth of it is 409,600.
        const PERCENT: u64 = 409_600;
        for (avg, limit, allows) in [
            (0, 10, true),
            (10 * PERCENT - 1, 10, true),
            (10 * PERCENT, 10, false),
            (11 * PERCENT, 10, false),
            (99 * PERCENT, 100, true),
            (100 * PERCENT, 100, false),
            (0, 0, false),
            (200 * PERCENT, 255, true),
        ] {
            assert_eq!(
                s390::allows(avg, 10_000, limit),
                allows,
                "{avg} of {limit} %"
            );
        }
    }

    #[test]
    fn the_steal_time_wraps_like_the_kernels() {
        let wraps = u64::MAX / 100 + 1;
        assert!(s390::allows(wraps, 10_000, s390::HALT_POLL_MAX_STEAL));
        assert!(!s390::allows(wraps - 1, 10_000, s390::HALT_POLL_MAX_STEAL));
        assert!(s390::allows(u64::MAX, 0, 1));
    }
}
