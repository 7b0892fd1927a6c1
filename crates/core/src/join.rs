//! Two recordings of one VM, its own and its host's, matched by time.
//!
//! Each counts on the clock of its own kernel, and neither says how far apart these are. But a guest's stay in HLT holds the
//! halt that its host recorded: it begins before and ends after it, and little is left at both ends. So the lengths of
//! idle periods are a fingerprint. `vote` has the longest stays of a stretch name all offsets under which a halt of about
//! their length begins with them, and takes those that most agree on; `align` goes on from there, stay by stay,
//! and follows what the clocks drift apart. Entries vary least: after a halt a vCPU may have to wait for a CPU. An offset holds only if few other offsets do nearly as well: that is what
//! [`Refused`] is about.

mod align;
mod vote;

use std::collections::BTreeMap;

use align::{Aligned, Anchor, Near};

/// A stay in HLT as the guest recorded it, or a halt as its host did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began, in nanoseconds of that side's clock.
    pub start_ns: u64,
    pub length_ns: u64,
}

impl Span {
    fn end_ns(&self) -> i128 {
        i128::from(self.start_ns) + i128::from(self.length_ns)
    }
}

/// Stays or halts in order of time, by CPU or vCPU.
pub type Lanes = BTreeMap<u32, Vec<Span>>;

/// A CPU of the guest and the vCPU that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Pair {
    /// The guest's number of it.
    pub cpu: u32,
    /// KVM's.
    pub vcpu: u32,
    /// The CPU's stays in HLT while the host recorded.
    pub hlts: u64,
    /// Those of them that hold a halt.
    pub matched: u64,
    /// Those of them in which none began or ended: the vCPU was woken on its way to `kvm_vcpu_halt`, which is not called
    /// then.
    pub without_halt: u64,
    /// The vCPU's halts from the first that a stay holds to the last.
    pub halts: u64,
    /// Those of them that lie in a stay.
    pub halts_matched: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Join {
    /// The host's clock less the guest's, in nanoseconds, in the middle of what both recorded. The way from HLT to KVM's
    /// halt is part of it: the two cannot be told apart.
    pub offset_ns: i64,
    /// How much faster the host's clock runs, in millionths.
    pub drift_ppm: f64,
    pub overlap_ns: u64,
    pub pairs: Vec<Pair>,
    /// How far from the expected moment the first halt of a stay begins: half of them are nearer.
    pub residual_p50_ns: u64,
    /// And 99 of 100.
    pub residual_p99_ns: u64,
    /// By how much a stay is longer than its halts, in nanoseconds: what the exit on HLT and the entry after it take, as
    /// the guest sees it. The lower quartile, since a wait for the CPU adds to it.
    pub exit_ns: u64,
    /// The share of the stays whose first halt begins when expected under offsets that are certainly wrong: matches by
    /// chance.
    pub by_chance: f64,
}

impl Join {
    /// Stays in HLT while both recorded.
    pub fn hlts(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.hlts).sum()
    }

    /// Those of them in which no halt began or ended.
    pub fn without_halt(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.without_halt).sum()
    }

    /// Those of them that match.
    pub fn matched(&self) -> u64 {
        self.pairs.iter().map(|pair| pair.matched).sum()
    }

    /// The share that nothing contradicts: with a halt within, or with none near.
    pub fn share(&self) -> f64 {
        (self.matched() + self.without_halt()) as f64 / self.hlts().max(1) as f64
    }
}

/// Why two recordings are not taken for the same VM at the same time.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    #[error("one of them has only {0} stays in HLT; {LEAST} are needed")]
    TooFew(u64),
    #[error("no offset between the two clocks matches them: the best one matches {:.1} % of the stays in HLT", 100.0 * .0)]
    NoOffset(f64),
    #[error(
        "several offsets between the two clocks match them about equally well ({:.1} and {:.1} % of the stays in HLT)",
        100.0 * .0, 100.0 * .1
    )]
    Ambiguous(f64, f64),
}

/// Fewer stays than this are no fingerprint.
pub const LEAST: u64 = 30;

/// The least share of stays that nothing may contradict, and of those that must hold a halt.
const LEAST_SHARE: f64 = 0.9;
const LEAST_MATCHED: f64 = 0.6;

/// The least share of stays whose first halt must begin when it is expected.
const LEAST_NEAR: f64 = 0.5;

/// By how much an offset must match more than any other one.
const LEAST_LEAD: f64 = 0.2;

/// An offset that is tried, with what it comes to around where it was found.
#[derive(Debug, Clone)]
struct Tried {
    cpu: u32,
    vcpu: u32,
    anchor: Anchor,
    near: Near,
}

impl Tried {
    fn new(guest: &Lanes, host: &Lanes, (cpu, vcpu): (u32, u32), anchor: Anchor) -> Self {
        let aligned = align::align(&guest[&cpu], &host[&vcpu], anchor, AROUND);
        let anchor = aligned.anchor(anchor);
        Self {
            cpu,
            vcpu,
            anchor,
            near: aligned.near(anchor),
        }
    }
}

/// Matches the stays in HLT of a guest's CPUs with the halts of a VM's vCPUs.
pub fn join(guest: &Lanes, host: &Lanes) -> Result<Join, Refused> {
    let count = |lanes: &Lanes| lanes.values().map(Vec::len).sum::<usize>() as u64;
    let least = count(guest).min(count(host));
    if least < LEAST {
        return Err(Refused::TooFew(least));
    }
    let mut tried = try_all(guest, host);
    let shares = tried.iter().map(|it| it.near.share());
    let most = shares.fold(0.0, f64::max);
    let Some(within_ns) = precision(&tried) else {
        return Err(Refused::NoOffset(most));
    };
    tried.sort_by(|a, b| {
        let [a, b] = [a, b].map(|it| it.near.within(within_ns));
        b.total_cmp(&a)
    });
    let Some(best) = tried.first() else {
        return Err(Refused::NoOffset(0.0));
    };
    let apart = |other: &&Tried| {
        (other.anchor.offset_ns - best.anchor.offset_ns).abs() > SAME_NS
            && (other.anchor.at_ns - best.anchor.at_ns).abs() < NEAR_NS
    };
    let share = best.near.within(within_ns);
    let second = tried.iter().find(apart);
    let second = second.map_or(0.0, |other| other.near.within(within_ns));
    if share < LEAST_NEAR {
        return Err(Refused::NoOffset(share));
    }
    if share - second < LEAST_LEAD {
        return Err(Refused::Ambiguous(share, second));
    }
    whole(guest, host, best, within_ns)
}

/// How near to the expected moment halts begin under the offset under which they begin nearest. A wrong offset is followed
/// with as much patience as its halts take, and where they are dense it meets one at nearly every stay: not so near.
fn precision(tried: &[Tried]) -> Option<i128> {
    let likely = tried.iter().filter(|it| it.near.share() >= LEAST_NEAR);
    let nearest = likely.map(|it| it.near.median_ns()).min()?;
    Some(align::tolerance(nearest))
}

/// Offsets nearer than this are the same one; anchors nearer than this name the same stretch: between them clocks do not
/// drift by more.
const SAME_NS: i128 = 2_000_000;
const NEAR_NS: i128 = 4_000_000_000;

/// Stays around an anchor by which an offset is tried.
const AROUND: usize = 400;

/// The offsets that stretches of the busiest CPUs name, against each vCPU.
fn try_all(guest: &Lanes, host: &Lanes) -> Vec<Tried> {
    let mut busiest: Vec<(&u32, &Vec<Span>)> = guest.iter().collect();
    busiest.sort_by_key(|(_, lane)| std::cmp::Reverse(lane.len()));
    let mut tried = Vec::new();
    for (&cpu, stays) in busiest.into_iter().take(2) {
        let stretches = vote::stretches(stays);
        for (&vcpu, halts) in host {
            let by_length = vote::ByLength::new(halts);
            for stretch in &stretches {
                for anchor in by_length.offsets(stretch) {
                    tried.push(Tried::new(guest, host, (cpu, vcpu), anchor));
                }
            }
        }
    }
    tried
}

fn whole(guest: &Lanes, host: &Lanes, best: &Tried, within_ns: i128) -> Result<Join, Refused> {
    let mut free: Vec<u32> = host.keys().copied().collect();
    let mut cpus: Vec<u32> = guest.keys().copied().collect();
    cpus.sort_by_key(|cpu| *cpu != best.cpu);
    let (mut pairs, mut all) = (Vec::new(), Vec::new());
    for cpu in cpus {
        let near = |vcpu: &u32| {
            let aligned = align::align(&guest[&cpu], &host[vcpu], best.anchor, AROUND);
            (*vcpu, aligned.share())
        };
        let shares = free.iter().map(near);
        let Some((vcpu, _)) = shares.max_by(|a, b| a.1.total_cmp(&b.1)) else {
            continue;
        };
        free.retain(|other| *other != vcpu);
        let aligned = align::align(&guest[&cpu], &host[&vcpu], best.anchor, usize::MAX);
        pairs.push(aligned.pair(cpu, vcpu));
        all.push(aligned);
    }
    pairs.sort_by_key(|pair| pair.cpu);
    let join = sum_up(pairs, &all, by_chance(guest, host, best, within_ns));
    let matched = join.matched() as f64 / join.hlts().max(1) as f64;
    if join.share() < LEAST_SHARE || matched < LEAST_MATCHED {
        return Err(Refused::NoOffset(matched.min(join.share())));
    }
    let share = best.near.within(within_ns);
    if share - join.by_chance < LEAST_LEAD {
        return Err(Refused::Ambiguous(share, join.by_chance));
    }
    Ok(join)
}

/// Shifts that no clock makes within a recording, in nanoseconds: none is a multiple of another, or of a common period.
const SHIFTS_NS: [i128; 4] = [-7_300_000, 5_770_000, 13_430_000, -19_170_000];

/// The best that a wrong offset does.
fn by_chance(guest: &Lanes, host: &Lanes, best: &Tried, within_ns: i128) -> f64 {
    let (stays, halts) = (&guest[&best.cpu], &host[&best.vcpu]);
    let share = |shift_ns: i128| {
        let anchor = Anchor {
            offset_ns: best.anchor.offset_ns + shift_ns,
            ..best.anchor
        };
        let aligned = align::align(stays, halts, anchor, AROUND);
        aligned.near(anchor).within(within_ns)
    };
    SHIFTS_NS.into_iter().map(share).fold(0.0, f64::max)
}

fn sum_up(pairs: Vec<Pair>, all: &[Aligned], by_chance: f64) -> Join {
    let mut matched: Vec<_> = all.iter().flat_map(|it| it.matched.iter()).collect();
    matched.sort_by_key(|it| it.at_ns);
    let sorted = |of: &dyn Fn(&align::Matched) -> i128| {
        let mut values: Vec<i128> = matched.iter().map(|it| of(it)).collect();
        values.sort_unstable();
        values
    };
    let residuals = sorted(&|it| it.residual_ns.abs());
    let alone = sorted(&|it| it.extra_ns.max(0));
    let (offset_ns, drift_ppm) = clocks(&matched);
    let span = all.iter().map(Aligned::overlap_ns).max().unwrap_or(0);
    let short = |ns: i128| u64::try_from(ns.max(0)).unwrap_or(u64::MAX);
    Join {
        offset_ns: i64::try_from(offset_ns).unwrap_or(i64::MAX),
        drift_ppm,
        overlap_ns: short(span),
        pairs,
        residual_p50_ns: short(at(&residuals, 50)),
        residual_p99_ns: short(at(&residuals, 99)),
        exit_ns: short(at(&alone, 25)),
        by_chance,
    }
}

/// The offset in the middle, and the drift, by the medians of the first and the last third.
fn clocks(matched: &[&align::Matched]) -> (i128, f64) {
    let median = |part: &[&align::Matched], of: fn(&align::Matched) -> i128| {
        let mut values: Vec<i128> = part.iter().map(|it| of(it)).collect();
        values.sort_unstable();
        at(&values, 50)
    };
    let third = matched.len() / 3;
    let (first, last) = (&matched[..third], &matched[matched.len() - third..]);
    let by = |of: fn(&align::Matched) -> i128| median(last, of) - median(first, of);
    let (time, offset) = (by(|it| it.at_ns), by(|it| it.offset_ns));
    let drift = if time > 0 {
        1e6 * offset as f64 / time as f64
    } else {
        0.0
    };
    let middle = &matched[third..matched.len() - third];
    (median(middle, |it| it.offset_ns), drift)
}

fn at(sorted: &[i128], percent: usize) -> i128 {
    let index = sorted.len().saturating_sub(1) * percent / 100;
    sorted.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod test;
