//! Values of module parameters, under the names that `/sys/module/kvm/parameters` has, or in a guest
//! `/sys/module/haltpoll/parameters`.

use haltwise_core::kvm::guest::Params;
use haltwise_core::recording::Side;
use serde::{Deserialize, Serialize};

/// Some of the four module parameters of KVM that move the window, or of the five of a guest's governor. `None`: not
/// said, or not there.
///
/// Each but one is an `unsigned int` in the kernel; times are nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// The ceiling of every VM that has none of its own; 0 does not poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halt_poll_ns: Option<u32>,
    /// The factor by which a window grows. Since 4.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halt_poll_ns_grow: Option<u32>,
    /// The first window above 0. Since 5.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halt_poll_ns_grow_start: Option<u32>,
    /// The divisor by which a window shrinks; 0 for at once to 0. Since 4.3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) halt_poll_ns_shrink: Option<u32>,
    /// The ceiling of a guest's limits; 0 does not poll.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_halt_poll_ns: Option<u32>,
    /// The factor by which a limit grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_halt_poll_grow: Option<u32>,
    /// The first limit above 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_halt_poll_grow_start: Option<u32>,
    /// The divisor by which a limit shrinks; 0 for at once to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_halt_poll_shrink: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guest_halt_poll_allow_shrink: Option<bool>,
}

/// The longest poll that anybody can want, in nanoseconds: a second.
pub(super) const LONGEST_NS: u32 = 1_000_000_000;

/// The largest factor or divisor that can be told from the next smaller one: above it, one step takes
/// any window of at most [`LONGEST_NS`] to its end.
const LARGEST_FACTOR: u32 = LONGEST_NS;

impl Settings {
    /// The parameters that are said, by name, in the order in which they should be written: the
    /// ceiling last, so that no window grows by the old factors under the new ceiling.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u32)> + use<> {
        let all = [
            ("halt_poll_ns_grow", self.halt_poll_ns_grow),
            ("halt_poll_ns_grow_start", self.halt_poll_ns_grow_start),
            ("halt_poll_ns_shrink", self.halt_poll_ns_shrink),
            ("halt_poll_ns", self.halt_poll_ns),
            ("guest_halt_poll_grow", self.guest_halt_poll_grow),
            (
                "guest_halt_poll_grow_start",
                self.guest_halt_poll_grow_start,
            ),
            ("guest_halt_poll_shrink", self.guest_halt_poll_shrink),
            (
                "guest_halt_poll_allow_shrink",
                self.guest_halt_poll_allow_shrink.map(u32::from),
            ),
            ("guest_halt_poll_ns", self.guest_halt_poll_ns),
        ];
        all.into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }

    /// The parameters of `self` that are not in `other` with the same value.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        fn differs<T: PartialEq + Copy>(own: Option<T>, theirs: Option<T>) -> Option<T> {
            own.filter(|_| own != theirs)
        }
        Self {
            halt_poll_ns: differs(self.halt_poll_ns, other.halt_poll_ns),
            halt_poll_ns_grow: differs(self.halt_poll_ns_grow, other.halt_poll_ns_grow),
            halt_poll_ns_grow_start: differs(
                self.halt_poll_ns_grow_start,
                other.halt_poll_ns_grow_start,
            ),
            halt_poll_ns_shrink: differs(self.halt_poll_ns_shrink, other.halt_poll_ns_shrink),
            guest_halt_poll_ns: differs(self.guest_halt_poll_ns, other.guest_halt_poll_ns),
            guest_halt_poll_grow: differs(self.guest_halt_poll_grow, other.guest_halt_poll_grow),
            guest_halt_poll_grow_start: differs(
                self.guest_halt_poll_grow_start,
                other.guest_halt_poll_grow_start,
            ),
            guest_halt_poll_shrink: differs(
                self.guest_halt_poll_shrink,
                other.guest_halt_poll_shrink,
            ),
            guest_halt_poll_allow_shrink: differs(
                self.guest_halt_poll_allow_shrink,
                other.guest_halt_poll_allow_shrink,
            ),
        }
    }

    pub(crate) fn of_guest(params: &Params) -> Self {
        Self {
            guest_halt_poll_ns: Some(params.guest_halt_poll_ns),
            guest_halt_poll_grow: Some(params.grow),
            guest_halt_poll_grow_start: Some(params.grow_start),
            guest_halt_poll_shrink: Some(params.shrink),
            guest_halt_poll_allow_shrink: Some(params.allow_shrink),
            ..Self::default()
        }
    }

    /// Whether those that are said are all of KVM, or all of a guest.
    pub(crate) fn are_of(&self, side: Side) -> bool {
        let is_of_guest = |(name, _): (&str, u32)| name.starts_with("guest_");
        self.named().all(|one| is_of_guest(one) != side.is_host())
    }

    /// Refuses values that are slips rather than settings: times above a second, and factors that
    /// large (`-1` reads as 4294967295 in the kernel).
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, value) in self.named() {
            let most = match name {
                "halt_poll_ns"
                | "halt_poll_ns_grow_start"
                | "guest_halt_poll_ns"
                | "guest_halt_poll_grow_start" => LONGEST_NS,
                _ => LARGEST_FACTOR,
            };
            if value > most {
                return Err(format!("{name} is {value}; a plan may hold 0 to {most}"));
            }
        }
        Ok(())
    }
}
