//! What the windows of a vCPU say about its ceiling.
//!
//! A rung without BPF cannot read a VM's own ceiling. But since 6.1 KVM lets a window grow past the
//! ceiling and clamps it when the next halt begins, so that a halt's `old` is either what the halt
//! before left, and then the ceiling is no smaller, or it is the ceiling itself.

/// A vCPU's ceiling, as far as its windows showed it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ceiling {
    /// Nothing yet.
    #[default]
    Unseen,
    /// A larger window was cut down to this.
    Is(u32),
    /// A window of this size was left as it was.
    AtLeast(u32),
}

impl Ceiling {
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

    /// The ceiling, if it showed itself.
    pub(super) fn known(self) -> Option<u32> {
        match self {
            Self::Is(ceiling) => Some(ceiling),
            Self::Unseen | Self::AtLeast(_) => None,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_clamp_shows_the_ceiling() {
        let ceiling = Ceiling::default()
            .seen(10_000, 10_000)
            .seen(320_000, 200_000);
        assert_eq!(ceiling.known(), Some(200_000));
        assert_eq!(ceiling.clamp(320_000, Some(50_000)), 200_000);
        assert_eq!(ceiling.seen(40_000, 40_000), ceiling);
    }

    #[test]
    fn a_window_above_the_modules_ceiling_shows_that_the_vm_has_its_own() {
        let ceiling = Ceiling::Unseen.seen(160_000, 160_000);
        assert_eq!(
            (ceiling, ceiling.known()),
            (Ceiling::AtLeast(160_000), None)
        );
        assert_eq!(ceiling.clamp(160_000, Some(50_000)), 160_000);
        assert_eq!(ceiling.clamp(160_000, Some(0)), 160_000);
    }

    #[test]
    fn a_ceiling_that_was_raised_is_not_believed_any_more() {
        assert_eq!(
            Ceiling::Is(50_000).seen(80_000, 80_000),
            Ceiling::AtLeast(80_000)
        );
        let is = Ceiling::Is(50_000);
        assert_eq!(is.not_below(80_000), Ceiling::AtLeast(80_000));
        assert_eq!(is.not_below(50_000), is);
        assert_eq!(Ceiling::Unseen.seen(80_000, 0), Ceiling::Unseen);
        assert_eq!(Ceiling::Unseen.clamp(80_000, None), 80_000);
        assert_eq!(Ceiling::Unseen.clamp(80_000, Some(0)), 0);
    }
}
