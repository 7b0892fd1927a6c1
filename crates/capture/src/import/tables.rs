//! Tables of counters, which people bring in place of a trace: whose they are, and what they tell of polling.

use std::collections::BTreeMap;

use haltwise_core::units::Nanos;

const MOST: usize = 1 << 16;

/// Bytes of a counter's name.
const LONGEST: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    KvmStat,
    PerfKvmStat,
    Domstats,
    Qmp,
    Debugfs,
}

/// A text that may be a table.
#[derive(Debug, Default)]
pub(super) struct Tables {
    kind: Option<Kind>,
    /// `virsh domstats` prints one domain after the other.
    domain: String,
    name: String,
    counters: BTreeMap<String, Counter>,
}

/// A counter's first and last value, and how often it was printed.
#[derive(Debug, Clone, Copy)]
struct Counter {
    first: u64,
    last: u64,
    times: u32,
}

impl Tables {
    /// Takes a line that is no event.
    pub(super) fn line(&mut self, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let text = line.trim();
        let known = [
            (text.starts_with("kvm statistics"), Kind::KvmStat),
            (
                text.contains("VM-EXIT") && text.contains("Samples"),
                Kind::PerfKvmStat,
            ),
            (text.starts_with("Domain:"), Kind::Domstats),
            (text.contains("\"provider\""), Kind::Qmp),
            (text.contains("/debug/kvm/"), Kind::Debugfs),
            (text.starts_with("halt_poll_success_ns"), Kind::Debugfs),
        ];
        let kind = known.iter().find(|(is, _)| *is).map(|(_, kind)| *kind);
        self.kind = self.kind.or(kind);
        match self.kind {
            Some(Kind::Domstats) => match text.strip_prefix("Domain:") {
                Some(domain) => domain.trim().clone_into(&mut self.domain),
                None => self.value(text.split_once('=')),
            },
            Some(Kind::Qmp) => self.json(text),
            Some(Kind::Debugfs) => self.value(text.rsplit_once([':', ' ', '\t', '='])),
            Some(Kind::KvmStat | Kind::PerfKvmStat) => {
                // Totals; percent and times; rates of kvm_stat.
                let mut words = text.split_whitespace();
                let name = words.next();
                self.value(name.zip(words.next()));
                let rate = name.map(|name| format!("{name}/s"));
                self.value(rate.as_deref().zip(words.next_back()));
            }
            None => {}
        }
    }

    fn value(&mut self, pair: Option<(&str, &str)>) {
        let Some((name, Ok(value))) = pair.map(|(name, value)| (name, value.trim().parse())) else {
            return;
        };
        let key = format!("{} {}", self.domain, name.trim().trim_end_matches(':'));
        let is_new = !self.counters.contains_key(&key);
        if key.len() > LONGEST || (is_new && self.counters.len() >= MOST) {
            return;
        }
        let (first, last, times) = (value, value, 0);
        let counter = self
            .counters
            .entry(key)
            .or_insert(Counter { first, last, times });
        counter.last = value;
        counter.times += 1;
    }

    /// `{"name": "halt_poll_fail_ns", "value": 640842567464}`, on one line or several.
    fn json(&mut self, text: &str) {
        let words = text.split(['"', ':', ',', '{', '}', ' ']);
        let words = words.map(|word| word.trim_matches(['[', ']']));
        let mut words = words.filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            match word {
                "name" => words.next().unwrap_or_default().clone_into(&mut self.name),
                "qom-path" => words
                    .next()
                    .unwrap_or_default()
                    .clone_into(&mut self.domain),
                "value" => {
                    let name = std::mem::take(&mut self.name);
                    self.value(words.next().map(|value| (name.as_str(), value)));
                }
                _ => {}
            }
        }
    }

    pub(super) fn found(&self) -> Option<(&'static str, String)> {
        let what = match self.kind? {
            Kind::KvmStat => "statistics of kvm_stat",
            Kind::PerfKvmStat => "a report of perf kvm stat",
            Kind::Domstats => "statistics of virsh domstats",
            Kind::Qmp => "statistics of QEMU (query-stats)",
            Kind::Debugfs => "statistics of KVM's debugfs",
        };
        let one = |name: &str| self.counters.get(name).map(|counter| counter.last);
        let rate = one(" kvm_vcpu_wakeup/s").map(|rate| format!("; {rate} wake-ups/s"));
        let halts = one(" HLT").map(|halts| format!("; {halts} HLT exits"));
        let shrank = self.counters.values().any(|it| it.last < it.first);
        let restarted = "; counters shrank between snapshots: the VM restarted";
        let restarted = shrank.then(|| restarted.to_owned());
        let found = [rate, halts, restarted, self.polled(), self.successful()];
        Some((what, found.into_iter().flatten().collect()))
    }

    fn successful(&self) -> Option<String> {
        let of = |name: &str| self.sum(&[name, &format!("{name}.sum")]);
        let (successful, attempted) = (of("halt_successful_poll")?, of("halt_attempted_poll")?);
        let (met, all) = (successful.sum, attempted.sum);
        (all > 0).then(|| format!("; {met} of {all} polls were successful"))
    }

    /// How long was polled: since the start, or between snapshots where there are several.
    fn polled(&self) -> Option<String> {
        let of = |how: &str| {
            let (kvm, libvirt) = (
                format!("halt_poll_{how}_ns"),
                format!("haltpoll.{how}.time"),
            );
            let of_kvm = self.sum(&[&kvm, &format!("{kvm}.sum")]);
            of_kvm.or_else(|| self.sum(&[&libvirt]))
        };
        let (success, fail) = (of("success")?, of("fail")?);
        let polled = success.sum.saturating_add(fail.sum);
        let seconds = |ns: u64| match ns {
            0..10_000_000_000 => Nanos(ns).to_string(),
            _ => format!("{:.1} s", ns as f64 / 1e9),
        };
        let share = match polled {
            0 => String::new(),
            _ => format!(
                ", {} ({:.1} %) by failed polls",
                seconds(fail.sum),
                100.0 * fail.sum as f64 / polled as f64
            ),
        };
        let when = match success.snapshots {
            1 => "since the VM started".to_owned(),
            snapshots => format!("between the first and the last of {snapshots} snapshots"),
        };
        let cpu = self
            .sum(&[".time"])
            .filter(|cpu| cpu.sum >= polled && self.kind == Some(Kind::Domstats));
        let cpu = cpu.map_or_else(String::new, |cpu| {
            let percent = 100.0 * polled as f64 / cpu.sum as f64;
            format!(
                ", {percent:.2} % of the vCPUs' {} of CPU time",
                Nanos(cpu.sum)
            )
        });
        Some(format!(
            "; {when} {} were polled{cpu}{share}",
            seconds(polled)
        ))
    }

    /// The sum of all counters whose name ends so (of CPU time, those of vCPUs); of several snapshots the growth from
    /// the first to the last. `None` if a counter is missing in a snapshot or shrank: its VM restarted.
    fn sum(&self, ends: &[&str]) -> Option<Sum> {
        let is_meant = |name: &str| {
            let ends_so = ends.iter().any(|end| name.ends_with(end));
            ends_so && (!ends.contains(&".time") || name.contains(" vcpu."))
        };
        let counters = self.counters.iter().filter(|(name, _)| is_meant(name));
        let snapshots = counters.clone().map(|(_, counter)| counter.times).max()?;
        let mut grown = counters.map(|(_, counter)| match snapshots {
            1 => Some(counter.last),
            _ if counter.times < snapshots => None,
            _ => counter.last.checked_sub(counter.first),
        });
        let sum = grown.try_fold(0, |sum: u64, more| Some(sum.saturating_add(more?)))?;
        Some(Sum { sum, snapshots })
    }
}

#[derive(Debug, Clone, Copy)]
struct Sum {
    sum: u64,
    snapshots: u32,
}
