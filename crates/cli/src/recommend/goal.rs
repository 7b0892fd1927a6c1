//! Worth of latency, to all VMs and to single ones.

use std::collections::BTreeMap;

use anyhow::anyhow;
use haltwise_core::ids::VmIndex;
use haltwise_core::pilot;
use haltwise_core::recording::Roster;
use haltwise_core::replay::GoalName;

use crate::exit::{Exit, Failure};
use crate::number::whole;
use crate::offered::Offered;
use crate::page::harmless;
use crate::reading::select;

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Weight {
    /// How much latency counts against CPU time: density, balanced or latency
    ///
    /// density: not at all; balanced: 1 ns as 1 ns of CPU time; latency: 1 ns as 10 ns of it.
    #[arg(long, value_name = "GOAL", default_value = "balanced", hide_possible_values = true, value_parser = GOAL)]
    pub(crate) goal: GoalName,
}

impl Weight {
    pub(crate) fn milli(&self) -> u64 {
        self.goal.weight_milli()
    }
}

#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Goals {
    /// How much latency counts against CPU time: density, balanced or latency; may be
    /// repeated [default: balanced]
    ///
    /// VM=GOAL is for one VM, by its name, UUID, VMID or PID, or for all VMs whose name matches a
    /// pattern with * and ?. Exact names override patterns; the first matching pattern wins.
    #[arg(long = "goal", value_name = "[VM=]GOAL", hide_possible_values = true, value_parser = GOALS)]
    goals: Vec<GoalFor>,
}

/// A goal, and the VM that it is for, if not for all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GoalFor {
    vm: Option<String>,
    goal: GoalName,
}

impl Goals {
    pub(crate) fn of_all(&self) -> Result<GoalName, Failure> {
        let mut of_all = self.goals.iter().filter(|it| it.vm.is_none());
        let goal = of_all.next().map_or(GoalName::Balanced, |it| it.goal);
        if of_all.next().is_some() {
            let error = anyhow!("--goal is given twice for all VMs");
            return Err(
                Failure::new(Exit::Usage, error).hint("a goal for one VM is --goal VM=GOAL")
            );
        }
        Ok(goal)
    }

    /// The goals as patterns, for VMs that come: those that name a VM outrank patterns.
    pub(crate) fn of_patterns(&self) -> Result<pilot::Goals, Failure> {
        let of_vms = self.goals.iter().filter_map(|it| {
            Some(pilot::GoalOfVms {
                pattern: it.vm.clone()?,
                goal: Some(for_pilot(it.goal)),
            })
        });
        let is_pattern = |it: &pilot::GoalOfVms| it.pattern.contains(['*', '?']);
        let (patterns, mut of_vms): (Vec<_>, Vec<_>) = of_vms.partition(is_pattern);
        of_vms.extend(patterns);
        Ok(pilot::Goals {
            of_all: for_pilot(self.of_all()?),
            of_vms,
        })
    }

    /// The goals of single VMs: of VMs that are named, then by patterns, of which the first counts. Fails if one is
    /// for no VM of the capture, or two name one.
    pub(crate) fn of_vms(&self, roster: &Roster) -> Result<BTreeMap<VmIndex, GoalName>, Failure> {
        let mut by_vm: BTreeMap<VmIndex, (&str, GoalName)> = BTreeMap::new();
        let single = self.goals.iter();
        let single = single.filter_map(|it| Some((it.vm.as_deref()?, it.goal)));
        let (patterns, names): (Vec<_>, Vec<_>) =
            single.partition(|(selector, _)| select::is_pattern(roster, selector));
        for (selector, goal) in names {
            for index in select::vms(roster, Some(selector))? {
                if let Some((other, _)) = by_vm.insert(index, (selector, goal)) {
                    let texts = [other, selector].map(harmless);
                    let error = anyhow!("`{}` and `{}` mean the same VM", texts[0], texts[1]);
                    return Err(
                        Failure::new(Exit::Usage, error).hint("give each VM one --goal VM=GOAL")
                    );
                }
            }
        }
        for (pattern, goal) in patterns {
            let like = select::like(roster, pattern);
            if like.is_empty() {
                let error = anyhow!("no VM of this capture is like `{}`", harmless(pattern));
                return Err(Failure::new(Exit::Usage, error));
            }
            for index in like {
                by_vm.entry(index).or_insert((pattern, goal));
            }
        }
        let goals = by_vm.into_iter().map(|(vm, (_, goal))| (vm, goal));
        Ok(goals.collect())
    }
}

const NAMES: &[&str] = &["density", "balanced", "latency"];

pub(crate) const GOAL: Offered<GoalName> = Offered {
    names: NAMES,
    read: named,
};

/// Values that a shell offers; a VM may stand before each.
const GOALS: Offered<GoalFor> = Offered {
    names: NAMES,
    read: goal,
};

pub(crate) fn named(text: &str) -> Result<GoalName, String> {
    GoalName::from_name(text).ok_or_else(|| format!("possible goals: {}", NAMES.join(", ")))
}

pub(crate) fn for_pilot(goal: GoalName) -> pilot::Goal {
    pilot::Goal {
        name: goal.as_str().to_owned(),
        weight_milli: goal.weight_milli(),
    }
}

fn goal(text: &str) -> Result<GoalFor, String> {
    let (vm, goal) = match text.rsplit_once('=') {
        Some((vm, goal)) if !vm.is_empty() => (Some(vm.to_owned()), goal),
        Some(_) => return Err("expected GOAL or VM=GOAL".to_owned()),
        None => (None, text),
    };
    Ok(GoalFor {
        vm,
        goal: named(goal)?,
    })
}

pub(crate) fn milli(lambda: f64) -> u64 {
    whole(lambda * 1e3)
}

/// Reads a share of one CPU: `2%`, `2`, `0.5%`; gives percent.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent = number.parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=1e6).contains(percent));
    percent.ok_or_else(|| "expected a share of one CPU, for example 2%".to_owned())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_goal_is_for_all_vms_or_for_one() {
        let read = |text: &str| goal(text).map(|it| (it.vm, it.goal));
        assert_eq!(read("latency"), Ok((None, GoalName::Latency)));
        let web = Some("web=1".to_owned());
        assert_eq!(read("web=1=density"), Ok((web, GoalName::Density)));
        for bad in ["", "web", "=latency", "web=", "web=fast"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_read_as_people_write_them() {
        for (text, wanted) in [
            ("2%", 2.0),
            ("2", 2.0),
            ("0.5 %", 0.5),
            ("0%", 0.0),
            ("150%", 150.0),
        ] {
            let read = percent(text).unwrap();
            assert!((read - wanted).abs() < 1e-9, "{text}");
        }
        for bad in ["", "-1", "NaN", "inf", "1e7", "x", "%", "2%%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
