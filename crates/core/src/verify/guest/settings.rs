//! What the governor's parameters may have been at a moment: see [`crate::verify::settings`].

use crate::event::{Knob, KnobScope};
use crate::kvm::guest::Params;
use crate::verify::settings::Track;

/// A parameter's name, as the file under `/sys/module/haltpoll/parameters` has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Parameter {
    /// `guest_halt_poll_ns`
    HaltPollNs,
    /// `guest_halt_poll_grow`
    Grow,
    /// `guest_halt_poll_grow_start`
    GrowStart,
    /// `guest_halt_poll_shrink`
    Shrink,
    /// `guest_halt_poll_allow_shrink`: 1 for Y, 0 for N
    AllowShrink,
}

impl Parameter {
    pub const ALL: [Self; 5] = [
        Self::HaltPollNs,
        Self::Grow,
        Self::GrowStart,
        Self::Shrink,
        Self::AllowShrink,
    ];

    /// The governor's name for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HaltPollNs => "guest_halt_poll_ns",
            Self::Grow => "guest_halt_poll_grow",
            Self::GrowStart => "guest_halt_poll_grow_start",
            Self::Shrink => "guest_halt_poll_shrink",
            Self::AllowShrink => "guest_halt_poll_allow_shrink",
        }
    }

    /// The policy's key for it.
    pub fn key(self) -> &'static str {
        match self {
            Self::HaltPollNs => "max",
            Self::Grow => "grow",
            Self::GrowStart => "grow_start",
            Self::Shrink => "shrink",
            Self::AllowShrink => "allow_shrink",
        }
    }

    /// Its value in a set of them; 1 for Y, 0 for N.
    pub fn get(self, of: &Params) -> u32 {
        match self {
            Self::HaltPollNs => of.guest_halt_poll_ns,
            Self::Grow => of.grow,
            Self::GrowStart => of.grow_start,
            Self::Shrink => of.shrink,
            Self::AllowShrink => u32::from(of.allow_shrink),
        }
    }

    /// Puts a value into a set of them.
    pub fn put(self, of: &mut Params, value: u32) {
        match self {
            Self::HaltPollNs => of.guest_halt_poll_ns = value,
            Self::Grow => of.grow = value,
            Self::GrowStart => of.grow_start = value,
            Self::Shrink => of.shrink = value,
            Self::AllowShrink => of.allow_shrink = value != 0,
        }
    }

    /// Its value as its file has it.
    pub fn written(self, of: &Params) -> String {
        match self {
            Self::AllowShrink if of.allow_shrink => "Y".to_owned(),
            Self::AllowShrink => "N".to_owned(),
            _ => self.get(of).to_string(),
        }
    }

    /// Which one a recorded setting is, if it is one of them and can be read.
    pub fn of(knob: &Knob) -> Option<(Self, u32)> {
        let known = Self::ALL.into_iter();
        let parameter = known
            .filter(|_| knob.scope == KnobScope::GuestOfOther)
            .find(|parameter| parameter.as_str() == knob.name)?;
        let value = match (parameter, knob.value.trim()) {
            (Self::AllowShrink, "Y") => 1,
            (Self::AllowShrink, "N") => 0,
            (_, number) => number.parse().ok()?,
        };
        Some((parameter, value))
    }

    /// What it is when nobody sets it.
    pub fn default_value(self) -> u32 {
        self.get(&Params::default())
    }
}

/// The parameters of the module `haltpoll` over the time of a recording, in the order of [`Parameter::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings([Track; 5]);

impl Default for Settings {
    fn default() -> Self {
        Self(Parameter::ALL.map(|parameter| Track::fixed(parameter.default_value())))
    }
}

impl Settings {
    pub fn track(&self, parameter: Parameter) -> &Track {
        &self.0[parameter as usize]
    }

    /// One of them, to be changed.
    pub fn track_mut(&mut self, parameter: Parameter) -> &mut Track {
        &mut self.0[parameter as usize]
    }

    /// Every set of parameters that may have been in force somewhere between two moments, the newest last.
    /// `None` if there are more than `most`.
    pub(super) fn within(&self, from_ns: u64, to_ns: u64, most: usize) -> Option<Vec<Params>> {
        let mut all = vec![[0; 5]];
        for (place, track) in self.0.iter().enumerate() {
            let values: Vec<u32> = track.within(from_ns, to_ns).collect();
            if all.len().saturating_mul(values.len()) > most {
                return None;
            }
            let with = |values_so_far: &[u32; 5]| {
                let so_far = *values_so_far;
                values.clone().into_iter().map(move |value| {
                    let mut next = so_far;
                    next[place] = value;
                    next
                })
            };
            all = all.iter().flat_map(with).collect();
        }
        let params =
            |[guest_halt_poll_ns, grow, grow_start, shrink, allow_shrink]: [u32; 5]| Params {
                guest_halt_poll_ns,
                grow,
                grow_start,
                shrink,
                allow_shrink: allow_shrink != 0,
            };
        Some(all.into_iter().map(params).collect())
    }
}
