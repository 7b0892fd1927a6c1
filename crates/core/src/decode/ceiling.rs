//! The ceiling of a vCPU, inferred from its windows.
//!
//! A source without BPF cannot read a VM's own ceiling. But since 6.1 KVM lets a window grow past the
//! ceiling and clamps it when the next halt begins, so that a halt's `old` is either what the halt
//! before left, and then the ceiling is no smaller, or it is the ceiling itself.

use crate::account::Ceiling;
use crate::event::CeilingSource;

/// A vCPU's ceiling, as far as its windows showed it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SeenCeiling {
    /// Nothing yet.
    #[default]
    Unseen,
    /// A larger window was cut down to this.
    Is(u32),
    /// A window of this size was left as it was.
    AtLeast(u32),
}

impl SeenCeiling {
    /// The rule left a window of `left`, and the next halt that tells began with `old`.
    pub(super) fn seen(self, left: u32, old: u32) -> Self {
        // A window of 0 may also mean that polling was off for a while, in silence.
        if old == 0 || old > left {
            return self;
        }
        if old < left {
            return Self::Is(old);
        }
        match self {
            Self::Is(ceiling) if ceiling >= left => self,
            Self::AtLeast(seen) => Self::AtLeast(seen.max(left)),
            Self::Is(_) | Self::Unseen => Self::AtLeast(left),
        }
    }

    /// A halt began with a window of `old`: a ceiling below it is not in force any more. What raised
    /// it may lie where events were lost.
    pub(super) fn not_below(self, old: u32) -> Self {
        match self {
            Self::Is(ceiling) if ceiling < old => Self::AtLeast(old),
            _ => self,
        }
    }

    /// The window with which a halt begins, if the rule left `left`. Where the ceiling was not seen
    /// it is taken to be `param`, the module's.
    pub(super) fn clamp(self, left: u32, param: Option<u32>) -> u32 {
        match (self, param) {
            (Self::Is(ceiling), _) => left.min(ceiling),
            (Self::AtLeast(seen), Some(param)) => left.min(param.max(seen)),
            (Self::Unseen, Some(param)) => left.min(param),
            (_, None) => left,
        }
    }

    /// The ceiling of a halt that began with `window`, and who set it: what showed itself, else what
    /// was told, unless a larger window speaks against that.
    pub(super) fn known(
        self,
        window: Option<u32>,
        told: Option<Ceiling>,
    ) -> (Option<u32>, CeilingSource) {
        let seen = match self {
            Self::Is(ceiling) => {
                let told = told.filter(|told| told.ns == ceiling);
                return (
                    Some(ceiling),
                    told.map(|told| told.source).unwrap_or_default(),
                );
            }
            Self::AtLeast(seen) => seen.max(window.unwrap_or(0)),
            Self::Unseen => window.unwrap_or(0),
        };
        match told.filter(|told| seen <= told.ns) {
            Some(told) => (Some(told.ns), told.source),
            None => (None, CeilingSource::Unknown),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const UNKNOWN: (Option<u32>, CeilingSource) = (None, CeilingSource::Unknown);

    #[test]
    fn a_ceiling_that_was_raised_is_not_believed_any_more() {
        let is = SeenCeiling::Is(50_000);
        assert_eq!(is.seen(80_000, 80_000), SeenCeiling::AtLeast(80_000));
        assert_eq!(is.not_below(80_000), SeenCeiling::AtLeast(80_000));
        assert_eq!(is.not_below(50_000), is);
        assert_eq!(SeenCeiling::Unseen.seen(80_000, 0), SeenCeiling::Unseen);
        assert_eq!(SeenCeiling::Unseen.clamp(80_000, None), 80_000);
        assert_eq!(SeenCeiling::Unseen.clamp(80_000, Some(0)), 0);
    }

    #[test]
    fn what_is_told_is_believed_unless_a_window_speaks_against_it() {
        let told = Ceiling {
            ns: 200_000,
            source: CeilingSource::Param,
        };
        let believed = (Some(200_000), CeilingSource::Param);
        let seen = (Some(50_000), CeilingSource::Unknown);
        for (ceiling, window, known) in [
            (SeenCeiling::Unseen, None, believed),
            (SeenCeiling::Unseen, Some(200_000), believed),
            (SeenCeiling::Unseen, Some(200_001), UNKNOWN),
            (SeenCeiling::AtLeast(200_000), Some(0), believed),
            (SeenCeiling::AtLeast(320_000), Some(0), UNKNOWN),
            (SeenCeiling::Is(200_000), Some(0), believed),
            (SeenCeiling::Is(50_000), Some(0), seen),
        ] {
            assert_eq!(ceiling.known(window, Some(told)), known, "{ceiling:?}");
        }
    }
}
