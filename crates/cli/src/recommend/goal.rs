//! What latency is worth, to all VMs and to single ones.

use std::collections::BTreeMap;

use anyhow::anyhow;
use haltwise_core::ids::VmIndex;
use haltwise_core::pilot;
use haltwise_core::recording::Roster;
use haltwise_core::replay::GoalName;

use crate::exit::{Exit, Failure};
use crate::number::whole;
use crate::page::harmless;
use crate::reading::select;

/// The weights that have names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Named {
    /// Only CPU time counts.
    Density,
    /// 1 ns of latency counts as 1 ns of CPU time.
    Balanced,
    /// 1 ns of latency counts as 10 ns of CPU time.
    Latency,
}

impl Named {
    /// All of them, in the order in which they are shown.
    pub(crate) const ALL: [Self; 3] = [Self::Density, Self::Balanced, Self::Latency];

    fn goal(self) -> GoalName {
        match self {
            Self::Density => GoalName::Density,
            Self::Balanced => GoalName::Balanced,
            Self::Latency => GoalName::Latency,
        }
    }

    /// What latency is worth, in thousandths of CPU.
    pub(crate) fn weight_milli(self) -> u64 {
        self.goal().weight_milli()
    }

    pub(crate) fn named(self) -> (String, u64) {
        (self.as_str().to_owned(), self.weight_milli())
    }

    pub(crate) fn as_str(self) -> &'static str {
        self.goal().as_str()
    }
}

/// What latency is worth, as the command line says it.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Weight {
    /// How much latency counts against CPU time
    #[arg(long, value_name = "GOAL", default_value = "balanced")]
    goal: Named,
}

impl Weight {
    /// Its name, and the weight in thousandths of CPU.
    pub(crate) fn named(&self) -> (String, u64) {
        self.goal.named()
    }

    pub(crate) fn lambda(&self) -> f64 {
        self.named().1 as f64 / 1e3
    }
}

/// The goals of all VMs and of some, as the command line says them.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Goals {
    /// How much latency counts against CPU time: density, balanced or latency [default:
    /// balanced]; VM=GOAL for one VM, by a name, UUID, VMID or PID, or for all whose name
    /// is like a pattern with * and ?; may be repeated. A VM that is named outranks
    /// patterns, of which the first counts
    #[arg(long = "goal", value_name = "[VM=]GOAL", hide_possible_values = true, value_parser = GOALS)]
    goals: Vec<GoalFor>,
}

/// A goal, and the VM that it is for, if not for all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GoalFor {
    vm: Option<String>,
    goal: Named,
}

impl Goals {
    /// What holds for VMs without a goal of their own.
    pub(crate) fn of_all(&self) -> Result<(String, u64), Failure> {
        let mut of_all = self.goals.iter().filter(|it| it.vm.is_none());
        let goal = of_all.next().map_or(Named::Balanced, |it| it.goal);
        if of_all.next().is_some() {
            let error = anyhow!("--goal is given twice for all VMs");
            return Err(
                Failure::new(Exit::Usage, error).hint("a goal for one VM is --goal VM=GOAL")
            );
        }
        Ok(goal.named())
    }

    /// The goals as patterns, for VMs that come: those that name a VM outrank patterns.
    pub(crate) fn of_patterns(&self) -> Result<pilot::Goals, Failure> {
        let named = |(name, weight_milli)| pilot::Goal { name, weight_milli };
        let of_vms = self.goals.iter().filter_map(|it| {
            Some(pilot::GoalOfVms {
                pattern: it.vm.clone()?,
                goal: Some(named(it.goal.named())),
            })
        });
        let is_pattern = |it: &pilot::GoalOfVms| it.pattern.contains(['*', '?']);
        let (patterns, mut of_vms): (Vec<_>, Vec<_>) = of_vms.partition(is_pattern);
        of_vms.extend(patterns);
        Ok(pilot::Goals {
            of_all: named(self.of_all()?),
            of_vms,
        })
    }

    /// The goals of single VMs: of VMs that are named, then by patterns, of which the first counts. Fails if one is
    /// for no VM of the capture, or two name one.
    pub(crate) fn of_vms(&self, roster: &Roster) -> Result<BTreeMap<VmIndex, Named>, Failure> {
        let mut by_vm: BTreeMap<VmIndex, (&str, Named)> = BTreeMap::new();
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

/// What a shell offers; a VM may stand before it.
const GOALS: crate::offered::Offered<GoalFor> = crate::offered::Offered {
    names: &["density", "balanced", "latency"],
    read: goal,
};

fn goal(text: &str) -> Result<GoalFor, String> {
    let (vm, goal) = match text.rsplit_once('=') {
        Some((vm, goal)) if !vm.is_empty() => (Some(vm.to_owned()), goal),
        Some(_) => return Err("expected GOAL or VM=GOAL".to_owned()),
        None => (None, text),
    };
    let named = Named::ALL.into_iter().find(|it| it.as_str() == goal);
    let goal = named.ok_or("possible goals: density, balanced, latency")?;
    Ok(GoalFor { vm, goal })
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
        assert_eq!(read("latency"), Ok((None, Named::Latency)));
        let web = Some("web=1".to_owned());
        assert_eq!(read("web=1=density"), Ok((web, Named::Density)));
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
