//! Compares the data recorded inside the Linux guest with the kernel's counters of cpuidle and KVM's of HLT exits.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result};

use super::Depth;
use super::counters::Counters;
use crate::kernels::check::Found;
use crate::kernels::reported::{Halt, Report, Verified, ask, count, halts, list, text};

/// How large each load is: round trips between the guest's two CPUs, and a third as many timers.
pub(super) fn load(depth: Depth) -> u64 {
    match depth {
        Depth::Quick => 60,
        Depth::Thorough => 16_000,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Stay {
    entered: u64,
    ns: u64,
}

impl Stay {
    fn add(&mut self, entered: u64, ns: u64) {
        self.entered += entered;
        self.ns += ns;
    }

    fn since(self, before: Self) -> Self {
        Self {
            entered: self.entered.saturating_sub(before.entered),
            ns: self.ns.saturating_sub(before.ns),
        }
    }

    /// Whether it lies between these, within a hundredth of what is lost or not yet counted.
    fn is_between(self, least: Self, most: Self) -> bool {
        let between = |it: u64, least: u64, most: u64, near: u64| {
            let near = it / 100 + near;
            least <= it + near && it <= most + near
        };
        let near_ns = ((self.entered + 1) * OUTSIDE_NS).min(MOST_OUTSIDE_NS);
        between(self.entered, least.entered, most.entered, 1)
            && between(self.ns, least.ns, most.ns, near_ns)
    }
}

type Stays = BTreeMap<(u32, bool), Stay>;

/// Counters of the guest's kernel, and the times before and after the counters were read.
#[derive(Debug)]
struct Counted {
    read_ns: [u64; 2],
    stays: Stays,
}

/// Stays recorded between two reads of the counters (`least`), and in the time of these reads, too (`most`): the
/// growth of the counters lies between `least` and `most`.
struct Recorded {
    least: Stays,
    most: Stays,
}

impl Recorded {
    fn of(halts: &[Halt], [before, after]: &[Counted; 2]) -> Self {
        Self {
            least: stays(halts, before.read_ns[1] + TICK_NS..=after.read_ns[0]),
            most: stays(halts, before.read_ns[0]..=after.read_ns[1] + TICK_NS),
        }
    }
}

/// The clock that is read with the counters goes by hundredths of a second.
const TICK_NS: u64 = 10_000_000;
/// The kernel tells of a period just outside of the time that cpuidle measures; under emulation that takes 7 to 9 us.
const OUTSIDE_NS: u64 = 20_000;
/// In all no more than this, so that many short periods are held to a hundredth.
const MOST_OUTSIDE_NS: u64 = 60_000_000;
/// Idle periods while KVM's counters are read.
const EDGE: u64 = 10;
/// Periods that must verify where checks are thorough.
const MANY: u64 = 100_000;

pub(super) fn judge(dir: &Path, depth: Depth) -> Result<Found> {
    let mut found = Found::default();
    judge_all(dir, depth, &mut found)?;
    judge_source(dir, "tracepoints", &mut found)?;
    judge_stats(&dir.join("stats"), &mut found)?;
    Ok(found)
}

fn judge_all(dir: &Path, depth: Depth, found: &mut Found) -> Result<()> {
    let capture = dir.join("capture");
    let governor = text(&dir.join("governor"))?;
    let governor = governor.trim();
    let kept = reads(dir, "before", "after")?;
    let recorded = Recorded::of(&halts(&capture)?, &kept);
    compare(&recorded, &between(&kept), found);
    let verified = if governor == "haltpoll" {
        judge_rule(&capture, depth, found)?
    } else {
        "nothing to verify".to_owned()
    };
    let whole = between(&reads(dir, "first", "stats/last")?);
    let halted = whole.iter().filter(|((_, polled), _)| !polled);
    let halted: u64 = halted.map(|(_, stay)| stay.entered).sum();
    let kvm = Counters::between(&dir.join("kvm.before"), &dir.join("kvm.after"))?;
    let exits = kvm.sum("halt_exits");
    // Before and after its counters are read the guest's network and shells halt, as in the phase in which the guest does
    // nothing else. A count of such a phase varies by its square root: three of these are allowed for.
    let idle = dir.with_file_name("idle");
    let around = Counters::between(&idle.join("kvm.before"), &idle.join("kvm.after"))?;
    let around = around.sum("halt_exits");
    let around = around + 3 * around.isqrt();
    let is_enough = exits + halted / 100 + EDGE >= halted;
    found.require(
        is_enough && exits <= halted + halted / 1_000 + around,
        format!("the guest entered HLT {halted} times, KVM counted {exits} exits"),
    );
    found.summary =
        format!("governor {governor}, {halted} times HLT in the guest, {exits} in KVM; {verified}");
    Ok(())
}

fn judge_source(dir: &Path, name: &str, found: &mut Found) -> Result<()> {
    let dir = dir.join(name);
    let kept = reads(&dir, "before", "after")?;
    let recorded = Recorded::of(&halts(&dir.join("capture"))?, &kept);
    let counted = between(&kept);
    let mut of_source = Found::default();
    compare(&recorded, &counted, &mut of_source);
    let wrong = of_source.disagreements.into_iter();
    found
        .disagreements
        .extend(wrong.map(|text| format!("{name}: {text}")));
    let entered = |stays: &Stays| stays.values().map(|stay| stay.entered).sum::<u64>();
    let ms = |stays: &Stays| stays.values().map(|stay| stay.ns).sum::<u64>() / 1_000_000;
    found.say(format_args!(
        "{name}: {} to {} entries and {} to {} ms recorded, cpuidle {} and {} ms",
        entered(&recorded.least),
        entered(&recorded.most),
        ms(&recorded.least),
        ms(&recorded.most),
        entered(&counted),
        ms(&counted),
    ));
    Ok(())
}

/// Checks that the recorded growth of cpuidle's counters lies between their growth within the recording and around it.
fn judge_stats(dir: &Path, found: &mut Found) -> Result<()> {
    let inner = between(&reads(dir, "before", "after")?);
    let outer = between(&reads(dir, "first", "last")?);
    let report: Report = ask(&["report", "--json"], &dir.join("capture"))?;
    let mut recorded = Stays::new();
    for (_, vcpu) in report.vcpus() {
        let account = &vcpu.account;
        let polled_ns = account.poll.ns.unwrap_or(0);
        let halted_ns = account.halted_ns.saturating_sub(polled_ns);
        let mut add = |polls, entered, ns| {
            recorded.insert((vcpu.id, polls), Stay { entered, ns });
        };
        add(true, account.poll.polled, polled_ns);
        add(false, account.waits, halted_ns);
    }
    let of_all = |stays: &Stays, polls| {
        let mut sum = Stay::default();
        let wanted = stays.iter().filter(|((_, polled), _)| *polled == polls);
        wanted.for_each(|(_, stay)| sum.add(stay.entered, stay.ns));
        sum
    };
    let mut of_states = [Stay::default(); 2];
    for state in list(&report.host, "idle_states") {
        let number = |name: &str| state[name].as_u64().context("a state without figures");
        let of = &mut of_states[usize::from(state["name"] == "POLL")];
        of.add(number("entries")?, number("residency_ns")?);
    }
    let mut check = |what: String, ours: Stay, least: Stay, most: Stay| {
        let is_within = (least.entered..=most.entered).contains(&ours.entered)
            && (least.ns..=most.ns).contains(&ours.ns);
        found.require(
            is_within,
            format!(
                "stats, {what}: {ours:?}, where cpuidle had at least {least:?} and at most {most:?}"
            ),
        );
    };
    for (&(cpu, polls), &most) in &outer {
        let of = |stays: &Stays| stays.get(&(cpu, polls)).copied().unwrap_or_default();
        check(
            format!("CPU {cpu}, polls {polls}"),
            of(&recorded),
            of(&inner),
            most,
        );
    }
    for polls in [false, true] {
        let ours = of_states[usize::from(polls)];
        let (least, most) = (of_all(&inner, polls), of_all(&outer, polls));
        check(
            format!("all CPUs by states, polls {polls}"),
            ours,
            least,
            most,
        );
    }
    Ok(())
}

fn compare(recorded: &Recorded, counted: &Stays, found: &mut Found) {
    for (place @ (cpu, polled), theirs) in counted {
        let of = |stays: &Stays| stays.get(place).copied().unwrap_or_default();
        let (least, most) = (of(&recorded.least), of(&recorded.most));
        let what = if *polled { "polled" } else { "halted" };
        found.require(
            theirs.is_between(least, most),
            format!("CPU {cpu} {what}: {least:?} to {most:?} recorded, cpuidle has {theirs:?}"),
        );
    }
}

/// Nearly every period can be checked, and is as the governor's rule has it.
fn judge_rule(capture: &Path, depth: Depth, found: &mut Found) -> Result<String> {
    let verified: Verified = ask(&["verify", "--json"], capture)?;
    let text = format!(
        "{} of {} periods verified, {} differ",
        verified.checked, verified.halts, verified.differences
    );
    // Right after the parameters were changed there are more settings than are tried.
    let changing = count(&verified.skipped, "settings");
    let is_enough = depth == Depth::Quick || verified.checked >= MANY;
    let nearly_all = verified.checked + changing >= verified.halts / 100 * 95;
    found.require(
        verified.differences == 0 && nearly_all && is_enough,
        format!("verify: {text}; not checked: {:?}", verified.skipped),
    );
    Ok(text)
}

fn between([before, after]: &[Counted; 2]) -> Stays {
    let was = |place| before.stays.get(place).copied().unwrap_or_default();
    let stays = after.stays.iter();
    stays
        .map(|(place, stay)| (*place, stay.since(was(place))))
        .collect()
}

/// Two reads of the counters, from files of a folder.
fn reads(dir: &Path, before: &str, after: &str) -> Result<[Counted; 2]> {
    let read = |name: &str| {
        let path = dir.join(name);
        parse(&text(&path)?).with_context(|| format!("understand {}", path.display()))
    };
    Ok([read(before)?, read(after)?])
}

fn parse(text: &str) -> Result<Counted> {
    let files: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .collect();
    let of = |path: &str| files.iter().find(|file| file.0 == path).map(|file| file.1);
    let mut uptimes = files.iter().filter(|file| file.0 == "/proc/uptime");
    let mut uptime = || -> Result<u64> {
        let (_, times) = uptimes.next().context("no uptime before or after")?;
        let time = times.split(' ').next().and_then(|it| it.split_once('.'));
        let (seconds, hundredths) = time.context("no time")?;
        Ok(seconds.parse::<u64>()? * 1_000_000_000 + hundredths.parse::<u64>()? * TICK_NS)
    };
    let read_ns = [uptime()?, uptime()?];
    let mut stays = Stays::new();
    for (path, name) in &files {
        let Some(state) = path.strip_suffix("/name") else {
            continue;
        };
        let cpu = state.split('/').find_map(|part| {
            let number = part.strip_prefix("cpu")?;
            number.parse().ok()
        });
        let number = |what| -> Result<u64> {
            let text = of(&format!("{state}/{what}")).context("a counter is missing")?;
            Ok(text.parse()?)
        };
        let place = (cpu.context("a path without a CPU")?, *name == "POLL");
        let stay = stays.entry(place).or_default();
        stay.add(number("usage")?, number("time")? * 1_000);
    }
    Ok(Counted { read_ns, stays })
}

/// Periods that ended in a time; their thread is the CPU.
fn stays(halts: &[Halt], within: RangeInclusive<u64>) -> Stays {
    let mut stays = Stays::new();
    for halt in halts.iter().filter(|halt| within.contains(&halt.end_ns())) {
        let poll_ns = halt.poll_ns.unwrap_or(0);
        let halted_ns = halt.length_ns.saturating_sub(poll_ns);
        for (polls, entered, ns) in [
            (true, halt.has_polled(), poll_ns),
            (false, halt.waited, halted_ns),
        ] {
            let stay = stays.entry((halt.tid, polls)).or_default();
            stay.add(u64::from(entered), if entered { ns } else { 0 });
        }
    }
    stays
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::kernels::reported::parse_halts;

    const COUNTED: &str = "/proc/uptime:12.50 3.00
/sys/devices/system/cpu/cpu1/cpuidle/state0/name:POLL
/sys/devices/system/cpu/cpu1/cpuidle/state1/name:haltpoll idle
/sys/devices/system/cpu/cpu1/cpuidle/state0/usage:9
/sys/devices/system/cpu/cpu1/cpuidle/state1/usage:7
/sys/devices/system/cpu/cpu1/cpuidle/state0/time:4
/sys/devices/system/cpu/cpu1/cpuidle/state1/time:3000
/proc/uptime:12.53 3.02
";

    #[test]
    fn states_are_read_by_cpu_and_whether_they_poll() {
        let counted = parse(COUNTED).unwrap();
        assert_eq!(counted.read_ns, [12_500_000_000, 12_530_000_000]);
        let stay = |entered, ns| Stay { entered, ns };
        assert_eq!(counted.stays[&(1, true)], stay(9, 4_000));
        assert_eq!(counted.stays[&(1, false)], stay(7, 3_000_000));
        let short = COUNTED.replace("usage:9", "");
        let once = COUNTED.replace("/proc/uptime:12.53", "");
        for bad in ["", "/proc/uptime:x", &short, &once] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn periods_count_by_what_they_entered_and_when_they_ended() {
        let halts = [
            (1, 100, 50, true, 20),
            (1, 200, 30, false, 30),
            (0, 200, 30, true, 0),
            (1, 900, 30, false, 30),
        ];
        let halts = halts.map(|(tid, start, length, waited, poll)| {
            let polled = poll > 0;
            format!(r#"{{"tid":{tid},"start_ns":{start},"halt_ns":{length},"waited":{waited},"change":"none","wake":"ipi","polled":{polled},"poll_ns":{poll}}}"#)
        });
        let stays = stays(&parse_halts(&halts.concat()).unwrap(), 150..=900);
        let stay = |entered, ns| Stay { entered, ns };
        assert_eq!(stays[&(1, true)], stay(2, 50));
        assert_eq!(stays[&(1, false)], stay(1, 30));
        assert_eq!(stays[&(0, true)], stay(0, 0));
        assert_eq!(stays[&(0, false)], stay(1, 30));
    }

    /// Two periods ended while the counters were read, and may be counted or not.
    #[test]
    fn what_cpuidle_did_not_count_is_told() {
        let stay = |entered, ns| Stay { entered, ns };
        let of = |stay| Stays::from([((0, true), stay)]);
        let recorded = Recorded {
            least: of(stay(1_000, 5_000_000_000)),
            most: of(stay(1_002, 5_300_000_000)),
        };
        for (counted, wrong) in [
            (stay(1_000, 5_000_000_000), 0),
            (stay(1_013, 5_370_000_000), 0),
            (stay(1_014, 5_000_000_000), 1),
            (stay(990, 4_931_000_000), 0),
            (stay(989, 5_000_000_000), 1),
            (stay(1_000, 4_930_000_000), 1),
            (stay(1_000, 5_380_000_000), 1),
        ] {
            let mut found = Found::default();
            compare(&recorded, &of(counted), &mut found);
            assert_eq!(found.disagreements.len(), wrong, "{counted:?}");
        }
    }
}
