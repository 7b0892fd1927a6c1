//! Remarks on settings, before they are written and in force: values without effect, likely slips, and values that
//! cost more than was meant.
//!
//! `apply` and `status` print the same remarks. Pure: settings in, remarks out.

use std::collections::BTreeMap;

use haltwise_core::event::Knob;
use haltwise_core::kvm::guest::Params;
use haltwise_core::parameter::{Parameter, Values};
use haltwise_core::units::Nanos;

use super::origin::{Line, Reach, taken};
use crate::support::{Finding, Level};

/// At this ceiling a vCPU that ticks a thousand times a second never waits.
const TICK_NS: u32 = 1_000_000;

/// The same of a tick at HZ=250, the usual one of Linux.
const TICK_OF_LINUX_NS: u32 = 4_000_000;

/// Ceilings from here on are ten times what any user has been seen to mean: the guest governor of SAP
/// HANA guides polls for 2.4 ms, and was seen mistyped as 24 ms.
const TEN_TIMES_NS: u32 = 10_000_000;

/// Below this a poll is over before it has looked at the clock a second time.
const ONE_LOOK_NS: u32 = 1_000;

/// No factor or divisor that was seen in use is half as large; times in nanoseconds are larger.
const NO_FACTOR: u32 = 100;

#[derive(Debug, Clone, Default)]
pub struct Settings {
    pub values: Values,
    wanted: Option<Values>,
    before: Values,
    driver: Option<String>,
    governor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// Parameters concerned, the cause first.
    pub about: Vec<Parameter>,
    pub finding: Finding,
}

impl Remark {
    fn is_about(&self, values: &Values) -> bool {
        self.about.iter().any(|it| values.get(*it).is_some())
    }
}

impl Settings {
    pub fn of(knobs: &[Knob]) -> Self {
        let text = |name: &str| {
            let mut knobs = knobs.iter();
            Some(knobs.find(|knob| knob.name == name)?.value.clone())
        };
        Self {
            values: Values::recorded(knobs),
            driver: text("cpuidle.current_driver"),
            governor: text("cpuidle.current_governor"),
            ..Self::default()
        }
    }

    /// Settings after these changes; remarks then concern these parameters alone.
    #[must_use]
    pub fn with(self, wanted: Values) -> Self {
        Self {
            before: self.values,
            values: wanted.over(self.values),
            wanted: Some(wanted),
            ..self
        }
    }

    /// Guest parameters that a request changes, or that differ from their defaults.
    fn of_guest(&self) -> Vec<Parameter> {
        let default = Values::from(Params::default());
        let is_set = |it: &Parameter| match (&self.wanted, self.values.get(*it)) {
            (_, None) => false,
            (Some(wanted), _) => wanted.get(*it).is_some(),
            (None, value) => value != default.get(*it),
        };
        let of_guest = Parameter::ALL.into_iter().filter(|it| it.is_of_guest());
        of_guest.filter(is_set).collect()
    }
}

pub fn remarks(settings: &Settings) -> Vec<Remark> {
    let mut all = Vec::new();
    for (parameter, value) in settings.values.iter() {
        all.extend(slip(parameter, value));
    }
    windows(&mut all, settings);
    guest(&mut all, settings);
    if let Some(wanted) = &settings.wanted {
        all.retain(|remark| remark.is_about(wanted));
    }
    all
}

/// Remarks on the next boot, by the lines that set parameters then. With `ours`, the values that `--persist` writes,
/// only remarks that other lines cause.
pub fn at_boot(lines: &[Line], ours: &Values) -> Vec<Remark> {
    let is_of_boot = |line: &&Line| matches!(line.reach, Reach::Boot { .. });
    let value = |line: &Line| Some((line.parameter, taken(line.parameter, &line.value)?));
    let lines = lines.iter().filter(is_of_boot);
    let mut places: BTreeMap<_, _> = lines
        .clone()
        .map(|line| (line.parameter, &line.place))
        .collect();
    for (parameter, _) in ours.iter() {
        places.remove(&parameter);
    }
    let settings = Settings {
        values: lines.filter_map(value).chain(ours.iter()).collect(),
        ..Settings::default()
    };
    let is_asked = |remark: &Remark| ours.is_empty() || remark.is_about(ours);
    let all = remarks(&settings).into_iter().filter(is_asked);
    let told = all.filter_map(|mut remark| {
        let place = remark.about.iter().find_map(|it| places.get(it))?;
        remark.finding.what = format!("at the next boot, by {place}: {}", remark.finding.what);
        Some(remark)
    });
    told.collect()
}

pub fn without_effect(lines: &[Line]) -> Vec<Remark> {
    let told = lines.iter().filter_map(|line| {
        let Reach::Nothing(why) = &line.reach else {
            return None;
        };
        let (place, parameter, value) = (&line.place, line.parameter, &line.value);
        let what = format!("{place} sets {parameter}={value} without effect");
        Some(remark(&[parameter], what, why, None))
    });
    told.collect()
}

fn remark(about: &[Parameter], what: impl Into<String>, why: &str, remedy: Option<&str>) -> Remark {
    Remark {
        about: about.to_vec(),
        finding: Finding::new(Level::Warning, what, why, remedy),
    }
}

fn slip(parameter: Parameter, value: u32) -> Option<Remark> {
    let (why, remedy) = match parameter {
        _ if parameter.is_time() => (slip_of_time(value, parameter.is_of_guest())?, None),
        _ if value < NO_FACTOR => return None,
        Parameter::Grow | Parameter::GuestGrow => (
            "it is a factor, not nanoseconds: the second step is at the ceiling".to_owned(),
            Some("2 is the default"),
        ),
        _ => (
            "it is a divisor, not nanoseconds: one step goes to 0, as with 0".to_owned(),
            Some("2 is the default (for halt_poll_ns_shrink 0 before Linux 6.11)"),
        ),
    };
    let what = format!("{parameter} {value}");
    Some(remark(&[parameter], what, &why, remedy))
}

fn slip_of_time(value: u32, is_of_guest: bool) -> Option<String> {
    let tenth = value / 10;
    let why = match (value, is_of_guest) {
        // A guest's governor polls for milliseconds where a guide says so.
        (0 | ONE_LOOK_NS..TICK_NS, _) | (TICK_NS..TICK_OF_LINUX_NS, true) => return None,
        (1..ONE_LOOK_NS, _) => {
            format!("{value} nanoseconds are less than one look at the clock; is {value}us meant?")
        }
        (TICK_NS..TICK_OF_LINUX_NS, false) => {
            "from 1 ms on, an idle vCPU with a timer tick burns a whole CPU".to_owned()
        }
        (TICK_OF_LINUX_NS..TEN_TIMES_NS, false) => {
            "from 4 ms on, an idle vCPU that ticks at HZ=250 burns a whole CPU".to_owned()
        }
        (TICK_OF_LINUX_NS..TEN_TIMES_NS, true) => {
            "from 4 ms on, the host sees an idle CPU that ticks at HZ=250 as busy".to_owned()
        }
        (TEN_TIMES_NS.., false) => format!(
            "is there a zero too many? {tenth} would be a tenth; either lets an idle vCPU burn a whole CPU, and \
             guides that name such values mean the guest's guest_halt_poll_ns"
        ),
        (TEN_TIMES_NS.., true) => format!(
            "is there a zero too many? {tenth} would be a tenth; with either, the host sees idle CPUs of this guest as \
             busy"
        ),
    };
    Some(why)
}

fn windows(all: &mut Vec<Remark>, settings: &Settings) {
    use Parameter::{Grow, GrowStart, HaltPollNs, Shrink};
    let [ceiling, start, grow] = [HaltPollNs, GrowStart, Grow].map(|it| settings.values.get(it));
    if let (Some(ceiling @ 1..), Some(start)) = (ceiling, start)
        && start >= ceiling
    {
        all.push(remark(
            &[GrowStart, HaltPollNs],
            format!("halt_poll_ns_grow_start ({start}) is not below halt_poll_ns ({ceiling})"),
            "windows are either 0 or the ceiling, nothing between",
            None,
        ));
    }
    if grow == Some(0) && ceiling != Some(0) {
        all.push(remark(
            &[Grow, HaltPollNs],
            "halt_poll_ns_grow is 0: windows do not grow",
            "a window at 0 stays there, whatever the ceiling: nothing polls",
            Some("set halt_poll_ns_grow=2, the default"),
        ));
    }
    if let (Some(ceiling), Some(grow)) = (ceiling, grow)
        && ceiling.checked_mul(grow).is_none()
    {
        all.push(remark(
            &[Grow, HaltPollNs],
            format!("halt_poll_ns_grow ({grow}) times halt_poll_ns ({ceiling}) exceeds 32 bits"),
            "the kernel multiplies without a check, so that windows wrap around",
            None,
        ));
    }
    if settings.values.get(Shrink) == Some(1) {
        all.push(remark(
            &[Shrink],
            "halt_poll_ns_shrink 1",
            "a window that is at least halt_poll_ns_grow_start never shrinks",
            None,
        ));
    }
}

fn guest(all: &mut Vec<Remark>, settings: &Settings) {
    use Parameter::{GuestAllowShrink, GuestGrowStart, GuestHaltPollNs, GuestShrink};
    let set = settings.of_guest();
    match (settings.driver.as_deref(), settings.governor.as_deref()) {
        _ if set.is_empty() => {}
        (Some("none"), _) => all.push(remark(
            &set,
            "no cpuidle driver is loaded",
            "guest_halt_poll_* do nothing until `modprobe cpuidle_haltpoll force=1`",
            Some("where it is built in, boot with cpuidle_haltpoll.force=1"),
        )),
        (_, Some(governor)) if governor != "haltpoll" => all.push(remark(
            &set,
            format!("the cpuidle governor is not haltpoll ({governor})"),
            "its parameters have no effect until it is",
            Some("boot with cpuidle.governor=haltpoll"),
        )),
        _ => {}
    }
    let (ceiling, start) = (
        settings.values.get(GuestHaltPollNs),
        settings.values.get(GuestGrowStart),
    );
    if let (Some(ceiling @ 1..), Some(start)) = (ceiling, start)
        && start > ceiling
    {
        all.push(remark(
            &[GuestGrowStart, GuestHaltPollNs],
            format!("guest_halt_poll_grow_start ({start}) is above guest_halt_poll_ns ({ceiling})"),
            "limits are either 0 or the ceiling, nothing between",
            None,
        ));
    }
    let before = settings.before.get(GuestHaltPollNs);
    let lowered = before.filter(|before| ceiling.is_some_and(|now| now < *before));
    let stays = match (
        settings.values.get(GuestAllowShrink),
        settings.values.get(GuestShrink),
    ) {
        (Some(0), _) => Some(("guest_halt_poll_allow_shrink is N", "set Y first, or boot")),
        (_, Some(1)) => Some(("guest_halt_poll_shrink is 1", "set 2 first, or boot")),
        _ => None,
    };
    if let (Some(before), Some((what, remedy))) = (lowered, stays) {
        let grown = Nanos(before.into());
        all.push(remark(
            &[GuestHaltPollNs, GuestAllowShrink, GuestShrink],
            what,
            &format!("limits that have grown, to as much as {grown}, stay"),
            Some(remedy),
        ));
    }
}

#[cfg(test)]
mod test;
