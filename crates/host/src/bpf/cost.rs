//! Cost of the programs themselves, as the kernel accounts it.
//!
//! The kernel times BPF programs only while a process asks for it, and that costs a little itself
//! (two looks at the clock for each run). So it is asked for in short samples: for
//! 0.2 s after attaching and then once in every four seconds. A recorder that rests has nothing attached, and takes
//! nothing meanwhile.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin};

use super::program::{Program, ROLES, Role, Runs, runs, start_timing};
use crate::root::Root;
use crate::{companion, sandbox};

const SAMPLE_NS: u64 = 200_000_000;
const PERIOD_NS: u64 = 4_000_000_000;

#[derive(Debug, Default)]
pub(super) struct Cost {
    is_timed: bool,
    timer: Timer,
    sample_start_ns: u64,
    at_start: [Runs; ROLES],
    next_ns: u64,
    sampled: [Runs; ROLES],
    sampled_ns: u64,
    /// Since when the programs are attached, and for how long they were before.
    attached_since_ns: Option<u64>,
    attached_ns: u64,
}

impl Cost {
    /// From now on a process of its own has programs timed: this one may lose the right to.
    pub(super) fn hand_over(&mut self, root: &Root) {
        // Without it, what the programs cost is known from before only.
        drop(self.timer.hand_over(root));
    }

    pub(super) fn tick(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        let since_ns = *self.attached_since_ns.get_or_insert(now_ns);
        if self.is_timed {
            if now_ns.saturating_sub(self.sample_start_ns) >= SAMPLE_NS {
                self.end_sample(now_ns, programs);
            }
        } else if now_ns >= self.next_ns.max(since_ns) {
            self.next_ns = now_ns + PERIOD_NS;
            self.sample_start_ns = now_ns;
            self.is_timed = self.timer.begin();
            self.at_start = runs(programs);
        }
    }

    /// The programs are about to be detached; the next tick says that they are attached again.
    pub(super) fn rest(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        self.end_sample(now_ns, programs);
        self.attached_ns = self.attached_ns(now_ns);
        self.attached_since_ns = None;
    }

    fn attached_ns(&self, now_ns: u64) -> u64 {
        let since_ns = self.attached_since_ns.unwrap_or(now_ns);
        self.attached_ns + now_ns.saturating_sub(since_ns)
    }

    fn end_sample(&mut self, now_ns: u64, programs: &[Program<'_>]) {
        if !std::mem::take(&mut self.is_timed) {
            return;
        }
        self.timer.end();
        let since_start = runs(programs).into_iter().zip(self.at_start);
        for (sum, (end, start)) in self.sampled.iter_mut().zip(since_start) {
            sum.add(end.since(start));
        }
        self.sampled_ns += now_ns.saturating_sub(self.sample_start_ns);
    }

    /// Time that the programs add to one halt that waited: the halt program, its share of calls of
    /// grow and shrink, and one wake-up.
    pub(super) fn per_halt_ns(&self) -> Option<f64> {
        let of = |role: Role| self.sampled[role as usize];
        let halts = of(Role::Halt);
        if halts.count == 0 {
            return None;
        }
        let own = (halts.time_ns + of(Role::Window).time_ns) as f64 / halts.count as f64;
        let waking = of(Role::Waking);
        Some(own + waking.time_ns as f64 / waking.count.max(1) as f64)
    }

    /// Time that the programs add to one exit with its entry and what it was about. Where the kernel
    /// tells no exits, to one emulated instruction, which stands for an exit.
    pub(super) fn per_exit_ns(&self) -> Option<f64> {
        let roles = [Role::Exit, Role::Emulation, Role::AboutExits];
        let [exit, emulation, about] = roles.map(|role| self.sampled[role as usize]);
        let exits = exit.count.max(emulation.count);
        let all = exit.time_ns + emulation.time_ns + about.time_ns;
        (exits > 0).then(|| all as f64 / exits as f64)
    }

    /// CPU time of all programs: the samples, stretched to the time for which they were attached.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of non-negative numbers far below 2^63; the cast saturates"
    )]
    pub(super) fn total_ns(&self, now_ns: u64) -> Option<u64> {
        let attached_ns = self.attached_ns(now_ns) as f64;
        let sampled_ns: u64 = self.sampled.iter().map(|runs| runs.time_ns).sum();
        (self.sampled_ns > 0)
            .then(|| (sampled_ns as f64 * attached_ns / self.sampled_ns as f64) as u64)
    }
}

const BEGIN: u8 = 1;
const END: u8 = 0;

/// Has the kernel time programs. That takes `CAP_SYS_ADMIN`, which is everything: so a recorder has a child for it
/// that can do nothing else, and drops the right itself.
#[derive(Debug, Default)]
struct Timer {
    /// The kernel times programs as long as this is there.
    timing: Option<OwnedFd>,
    child: Option<(Child, ChildStdin)>,
}

impl Timer {
    fn hand_over(&mut self, root: &Root) -> io::Result<()> {
        let mut process = companion::command(root, companion::TIMER).spawn()?;
        let asks = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        self.child = Some((process, asks));
        Ok(())
    }

    /// Whether programs are timed from now on.
    fn begin(&mut self) -> bool {
        if let Some((_, asks)) = &mut self.child {
            return asks.write_all(&[BEGIN]).is_ok();
        }
        self.timing = start_timing();
        self.timing.is_some()
    }

    fn end(&mut self) {
        self.timing = None;
        if let Some((_, asks)) = &mut self.child {
            drop(asks.write_all(&[END]));
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.child {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

/// The child: times programs between the bytes that stdin says so, until it ends.
pub(crate) fn serve_timing() -> io::Result<()> {
    sandbox::timer()?;
    let mut asks = io::stdin().lock();
    let mut byte = [END];
    let mut timing = None;
    while asks.read(&mut byte)? > 0 {
        let wanted = byte[0] == BEGIN;
        if wanted != timing.is_some() {
            timing = if wanted { start_timing() } else { None };
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn programs_that_are_not_attached_take_nothing() {
        let mut cost = Cost {
            sampled_ns: 100,
            attached_since_ns: Some(1_000),
            ..Cost::default()
        };
        cost.sampled[0].time_ns = 5;
        assert_eq!(cost.total_ns(3_000), Some(100), "a twentieth of the time");
        cost.rest(3_000, &[]);
        assert_eq!(cost.total_ns(1_000_000), Some(100));
        cost.rest(1_000_000, &[]);
        cost.attached_since_ns = Some(2_000_000);
        assert_eq!(cost.total_ns(2_001_000), Some(150));
    }
}
