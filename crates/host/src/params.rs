//! The settings in force: KVM's module parameters, the guest governor's, cpuidle, the vendor module.
//!
//! Reads only. A parameter that this kernel does not have gives no row; one that may not be read is an
//! error, because a capture without the ceiling in force is worth little.

use std::collections::BTreeMap;

use haltwise_core::event::{Knob, KnobScope};
use haltwise_core::parameter::Parameter;
use haltwise_core::recording::Side;

use crate::root::{Root, RootError};

/// Name, scope and file.
type Source = (&'static str, KnobScope, String);

fn parameters(side: Side) -> impl Iterator<Item = Source> {
    let scope = match side {
        Side::Host => KnobScope::Host,
        Side::Guest => KnobScope::GuestOfOther,
    };
    let all = Parameter::of_side(side).iter();
    all.map(move |it| (it.name(), scope, it.path().to_owned()))
}

/// Settings beside the parameters of halt polling, with their files below `sys`. One without a file is
/// `module.parameter`.
const OTHERS: [(&str, Option<&str>); 16] = [
    (
        "halt_poll_max_steal",
        Some("module/kvm/parameters/halt_poll_max_steal"),
    ),
    ("kvm_intel.nested", None),
    ("kvm_intel.enable_apicv", None),
    ("kvm_intel.enable_ipiv", None),
    ("kvm_amd.nested", None),
    ("kvm_amd.avic", None),
    (
        "cpuidle.current_driver",
        Some("devices/system/cpu/cpuidle/current_driver"),
    ),
    (
        "cpuidle.current_governor",
        Some("devices/system/cpu/cpuidle/current_governor_ro"),
    ),
    ("kvm.pi_inject_timer", None),
    // A number of nanoseconds until Linux 6.10, then whether it is found out.
    (
        "kvm.lapic_timer_advance",
        Some("module/kvm/parameters/lapic_timer_advance_ns"),
    ),
    ("kvm.lapic_timer_advance", None),
    ("nohz_full", Some("devices/system/cpu/nohz_full")),
    (
        "transparent_hugepage",
        Some("kernel/mm/transparent_hugepage/enabled"),
    ),
    ("sched_ext.state", Some("kernel/sched_ext/state")),
    ("sched_ext.ops", Some("kernel/sched_ext/root/ops")),
    (OF_GUEST, None),
];

const OF_GUEST: &str = "cpuidle_haltpoll.force";

fn others() -> impl Iterator<Item = Source> {
    OTHERS.into_iter().map(|(name, file)| {
        let (module, parameter) = name.split_once('.').unwrap_or_default();
        let of_module = || format!("module/{module}/parameters/{parameter}");
        let file = file.map_or_else(of_module, str::to_owned);
        let scope = match name {
            OF_GUEST => KnobScope::GuestOfOther,
            _ => KnobScope::Host,
        };
        (name, scope, format!("sys/{file}"))
    })
}

const VENDORS: [&str; 3] = ["kvm_intel", "kvm_amd", "kvm_pvm"];

pub fn read(root: &Root, time_ns: u64) -> Result<Vec<Knob>, RootError> {
    read_all(root, time_ns, has_idle_hlt(root))
}

fn read_all(root: &Root, time_ns: u64, idle_hlt: bool) -> Result<Vec<Knob>, RootError> {
    let all = parameters(Side::Host).chain(parameters(Side::Guest));
    let mut knobs = read_from(root, time_ns, all.chain(others()))?;
    let idle_hlt = idle_hlt.then_some(("cpu.idle_hlt", "Y"));
    let vendor = vendor_module(root).map(|vendor| ("kvm.vendor_module", vendor));
    knobs.extend(
        idle_hlt
            .into_iter()
            .chain(vendor)
            .map(|(name, value)| Knob {
                time_ns,
                name: name.to_owned(),
                scope: KnobScope::Host,
                value: value.to_owned(),
            }),
    );
    Ok(knobs)
}

fn read_from(
    root: &Root,
    time_ns: u64,
    sources: impl Iterator<Item = Source>,
) -> Result<Vec<Knob>, RootError> {
    let mut knobs = Vec::new();
    for (name, scope, path) in sources {
        match root.value(path) {
            Ok(value) => knobs.push(Knob {
                time_ns,
                name: name.to_owned(),
                scope,
                value,
            }),
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(knobs)
}

/// Whether the first processor has AMD's Idle HLT. The file has all processors: what comes after the first
/// few thousand bytes is of others.
fn has_idle_hlt(root: &Root) -> bool {
    let text = root.long_bytes("proc/cpuinfo", 8 << 10).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"));
    flags.is_some_and(|flags| {
        flags
            .split_ascii_whitespace()
            .any(|flag| flag == "idle_hlt")
    })
}

pub fn vendor_module(root: &Root) -> Option<&'static str> {
    VENDORS
        .into_iter()
        .find(|name| root.exists(format!("sys/module/{name}")))
}

/// Whether KVM is there, as a module or built in: its parameters are.
pub fn kvm_is_loaded(root: &Root) -> bool {
    root.exists("sys/module/kvm")
}

/// The cpuidle governor in force; `None` without a cpuidle driver, where the kernel halts at once.
pub fn cpuidle_governor(root: &Root) -> Option<String> {
    let value = |file| root.value(format!("sys/devices/system/cpu/cpuidle/{file}"));
    value("current_driver").ok().filter(|it| it != "none")?;
    value("current_governor_ro").ok()
}

/// The module parameter `halt_poll_ns`: the ceiling of every VM without its own.
pub fn param_halt_poll_ns(root: &Root) -> Result<u32, RootError> {
    root.number(Parameter::HaltPollNs.path())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    All,
    /// The parameters of the polling window, KVM's four or the governor's five: cheap enough to be looked at often,
    /// and what a replay of the kernel's rule has to know to the moment.
    Window(Side),
}

#[derive(Debug, Default)]
pub struct Watch {
    last: BTreeMap<(String, KnobScope), Last>,
    /// Found out once: before Linux 5.18 reading `/proc/cpuinfo` interrupts every CPU.
    idle_hlt: Option<bool>,
}

#[derive(Debug)]
struct Last {
    value: String,
    /// It was that at this moment, or later.
    time_ns: u64,
}

impl Watch {
    /// Rows for the settings that are new or have another value than the last time.
    ///
    /// A new value has the time by which it was there. Before it comes the old one once more, with the
    /// time at which it was last there: in between it changed. A setting that went away with its
    /// module is forgotten, and told again when it comes back.
    pub fn changes(
        &mut self,
        root: &Root,
        look: Look,
        clock: impl Fn() -> u64,
    ) -> Result<Vec<Knob>, RootError> {
        let before_ns = clock();
        let mut now = match look {
            Look::All => {
                let idle_hlt = *self.idle_hlt.get_or_insert_with(|| has_idle_hlt(root));
                read_all(root, before_ns, idle_hlt)?
            }
            Look::Window(side) => read_from(root, before_ns, parameters(side))?,
        };
        let after_ns = clock();
        for knob in &mut now {
            knob.time_ns = after_ns;
        }
        if look == Look::All {
            self.last.retain(|id, _| {
                now.iter()
                    .any(|knob| (&knob.name, knob.scope) == (&id.0, id.1))
            });
        }
        let mut changed = Vec::new();
        for knob in now {
            let id = (knob.name.clone(), knob.scope);
            let is = Last {
                value: knob.value.clone(),
                time_ns: before_ns,
            };
            match self.last.insert(id, is) {
                Some(last) if last.value == knob.value => {}
                Some(last) => {
                    changed.push(Knob {
                        time_ns: last.time_ns,
                        value: last.value,
                        ..knob.clone()
                    });
                    changed.push(knob);
                }
                None => changed.push(knob),
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod test {
    use std::fs;

    use super::*;
    use crate::root::made_up;

    #[test]
    fn what_rules_ask_of_the_host_is_read() {
        let cpu = "processor\t: 0\nflags\t\t: fpu svm idle_hlt\n\nprocessor\t: 1\n";
        let (_dir, root) = made_up(&[
            ("proc/cpuinfo", cpu),
            ("sys/kernel/sched_ext/state", "enabled\n"),
            ("sys/kernel/sched_ext/root/ops", "scx_lavd\n"),
            ("sys/devices/system/cpu/nohz_full", "2-3\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
        ]);
        let mut watch = Watch::default();
        let first = watch.changes(&root, Look::All, || 1).unwrap();
        let told: Vec<_> = first
            .iter()
            .map(|it| (it.name.as_str(), it.value.as_str()))
            .collect();
        let expected = [
            ("nohz_full", "2-3"),
            ("transparent_hugepage", "always [madvise] never"),
            ("sched_ext.state", "enabled"),
            ("sched_ext.ops", "scx_lavd"),
            ("cpu.idle_hlt", "Y"),
        ];
        assert_eq!(told, expected);
        assert_eq!(watch.changes(&root, Look::All, || 2).unwrap(), []);
        let (_dir, other) = made_up(&[("proc/cpuinfo", "flags\t\t: fpu svm idle_hlt2\n")]);
        assert_eq!(read(&other, 1).unwrap(), []);
    }

    #[test]
    fn what_is_there_is_read_and_the_rest_gives_no_row() {
        let (_dir, root) = made_up(&[
            ("sys/module/kvm/parameters/halt_poll_ns", "200000\n"),
            ("sys/module/haltpoll/parameters/guest_halt_poll_ns", "0\n"),
            ("sys/module/kvm_amd/parameters/avic", "N\n"),
        ]);
        let rows: Vec<_> = read(&root, 5)
            .unwrap()
            .into_iter()
            .map(|k| (k.name, k.scope, k.value))
            .collect();
        let expected = [
            ("halt_poll_ns", KnobScope::Host, "200000"),
            ("guest_halt_poll_ns", KnobScope::GuestOfOther, "0"),
            ("kvm_amd.avic", KnobScope::Host, "N"),
            ("kvm.vendor_module", KnobScope::Host, "kvm_amd"),
        ]
        .map(|(n, s, v)| (n.to_owned(), s, v.to_owned()));
        assert_eq!(rows, expected);
        assert_eq!(param_halt_poll_ns(&root).unwrap(), 200_000);
    }

    #[test]
    fn only_changes_are_told() {
        let path = "sys/module/kvm/parameters/halt_poll_ns";
        let (dir, root) = made_up(&[(path, "200000\n")]);
        let mut watch = Watch::default();
        let time = std::cell::Cell::new(0);
        let clock = || {
            time.set(time.get() + 1);
            time.get()
        };
        let mut told = |look| {
            let rows = watch.changes(&root, look, clock).unwrap();
            rows.into_iter()
                .map(|knob| (knob.time_ns, knob.value))
                .collect::<Vec<_>>()
        };
        let row = |time_ns, value: &str| (time_ns, value.to_owned());
        assert_eq!(told(Look::All), [row(2, "200000")]);
        assert_eq!(told(Look::Window(Side::Host)), []);
        fs::write(dir.path().join(path), "50000\n").unwrap();
        // It was the old one at 3, before it was read, and the new one by 6.
        assert_eq!(
            told(Look::Window(Side::Host)),
            [row(3, "200000"), row(6, "50000")]
        );
        assert_eq!(told(Look::All), []);
        fs::remove_file(dir.path().join(path)).unwrap();
        assert_eq!(told(Look::All), []);
        fs::write(dir.path().join(path), "50000\n").unwrap();
        assert_eq!(told(Look::Window(Side::Host)), [row(12, "50000")]);
    }

    #[test]
    fn a_governor_without_a_driver_governs_nothing() {
        let of = |driver, governor| {
            let (_dir, root) = made_up(&[
                ("sys/devices/system/cpu/cpuidle/current_driver", driver),
                (
                    "sys/devices/system/cpu/cpuidle/current_governor_ro",
                    governor,
                ),
            ]);
            cpuidle_governor(&root)
        };
        assert_eq!(of("none\n", "menu\n"), None);
        assert_eq!(of("haltpoll\n", "haltpoll\n"), Some("haltpoll".to_owned()));
        let (_dir, root) = made_up(&[]);
        assert_eq!(cpuidle_governor(&root), None);
    }
}
