//! Small worlds: the reference model against a second one, over every case of a tiny range and its edges.
//!
//! The second one is written from the account of the kernel's code line by line, with the kernel's
//! version compared where the kernel changed, in 128 bits cut to 32 by hand. It shares nothing with
//! the first but the types.

use haltwise_core::kvm::{Arch, Backport, Call, Knobs, Observed, Rule, Step, Version, guest};

const MAX: u32 = u32::MAX;
const WINDOWS: [u32; 10] = [0, 1, 2, 3, 5, 9_999, 10_000, 1 << 31, MAX - 1, MAX];
const CEILINGS: [u32; 6] = [0, 1, 3, 4, 11_000, MAX];
const PARAMS: [u32; 3] = [0, 2, MAX];
const GROWS: [u32; 5] = [0, 1, 2, 3, MAX];
const STARTS: [u32; 4] = [0, 1, 3, MAX];
const SHRINKS: [u32; 5] = [0, 1, 2, 3, MAX];
const M: u64 = MAX as u64;
const HALTS: [u64; 11] = [0, 1, 2, 3, 4, 5, 10_500, M - 1, M, M + 1, u64::MAX];
/// The first release of every era, and the last before the next where another port changes.
const RELEASES: [&[(u32, u32)]; 5] = [
    &[(3, 19)],
    &[(4, 0), (4, 3), (4, 6), (4, 7), (4, 9)],
    &[(5, 1), (5, 2), (5, 3), (5, 4), (5, 8)],
    &[(5, 13), (5, 14), (5, 16), (5, 17)],
    &[(6, 1), (7, 2)],
];
/// One port of each kind: `Arm64` stands for all that have nothing of their own.
const PORTS: [Arch; 3] = [Arch::X86, Arch::Arm64, Arch::S390];

struct Literal {
    kernel: (u32, u32),
    arch: Arch,
    floor_taken_back: bool,
    halt_poll_ns: u128,
    grow: u128,
    grow_start: u128,
    shrink: u128,
    ceiling: u128,
    w: u128,
    call: Option<(bool, u128, u128)>,
}

fn cut(value: u128) -> u128 {
    value % (1 << 32)
}

fn uint(value: u128) -> u32 {
    u32::try_from(value).expect("every sum was cut")
}

impl Literal {
    fn grow(&mut self) {
        let old = self.w;
        let mut val = old;
        if self.kernel < (5, 1) {
            if val == 0 && self.grow != 0 {
                val = 10_000;
            } else {
                val = cut(val * self.grow);
            }
        } else if self.grow != 0 {
            val = cut(val * self.grow);
            if val < self.grow_start {
                val = self.grow_start;
            }
        }
        let leaves = self.kernel >= (5, 1) && self.grow == 0;
        if !leaves {
            if (4, 6) <= self.kernel && self.kernel < (5, 13) && val > self.halt_poll_ns {
                val = self.halt_poll_ns;
            }
            if (5, 13) <= self.kernel && self.kernel < (6, 1) && val > self.ceiling {
                val = self.ceiling;
            }
        }
        self.w = val;
        self.call = Some((true, old, val));
    }

    fn shrink(&mut self) {
        let old = self.w;
        let mut val = match self.shrink {
            0 => 0,
            by => old / by,
        };
        let floor = self.kernel >= (5, 16) || self.floor_taken_back;
        if floor && val < self.grow_start {
            val = 0;
        }
        self.w = val;
        self.call = Some((false, old, val));
    }

    fn end_of_halt(&mut self, h: u128, valid: bool, allowed: bool) {
        let asks = self.kernel >= (5, 4) && matches!(self.arch, Arch::X86 | Arch::S390);
        if asks && !allowed {
            return;
        }
        let invalid = self.kernel >= (4, 7) && self.arch == Arch::S390 && !valid;
        if invalid {
            self.shrink();
        } else if self.ceiling != 0 {
            if h > self.w {
                if self.w != 0 && h > self.ceiling {
                    self.shrink();
                } else if self.w < self.ceiling && h < self.ceiling {
                    self.grow();
                }
            }
        } else {
            self.w = 0;
        }
    }

    fn step(mut self, observed: Observed) -> Step {
        if self.kernel < (4, 0) {
            self.w = 0;
        } else if self.kernel < (4, 3) {
            self.w = self.ceiling;
        } else {
            let h = u128::from(observed.halt_ns);
            self.end_of_halt(h, observed.valid, observed.allowed);
        }
        Step {
            window: uint(self.w),
            call: self.call.map(|(grow, old, new)| Call {
                grow,
                old: uint(old),
                new: uint(new),
            }),
        }
    }
}

fn settings() -> impl Iterator<Item = Knobs> {
    let factors = || {
        GROWS
            .into_iter()
            .flat_map(|grow| SHRINKS.map(|shrink| (grow, shrink)))
    };
    let times = PARAMS
        .into_iter()
        .flat_map(|max| STARTS.map(|start| (max, start)));
    times.flat_map(move |(max, start)| {
        factors().map(move |(grow, shrink)| Knobs::of([max, grow, start, shrink]))
    })
}

fn windows() -> impl Iterator<Item = (u32, u32)> {
    CEILINGS
        .into_iter()
        .flat_map(|ceiling| WINDOWS.map(|window| (ceiling, window)))
}

fn halts(arch: Arch) -> Vec<Observed> {
    let all = [(true, true), (false, false), (true, false), (false, true)];
    let flags = match arch {
        Arch::X86 | Arch::S390 => &all[..],
        _ => &all[..2],
    };
    let observed = |halt_ns| {
        flags.iter().map(move |&(valid, allowed)| Observed {
            halt_ns,
            valid,
            allowed,
        })
    };
    HALTS.into_iter().flat_map(observed).collect()
}

/// Compares every case of one kernel on one port; gives how many there were.
fn world(kernel: (u32, u32), arch: Arch, floor_taken_back: bool) -> u64 {
    let mut rule = Rule::of(Version::new(kernel.0, kernel.1), arch);
    if floor_taken_back {
        rule = rule.with(Backport::ShrinkFloor);
    }
    let halts = halts(arch);
    let mut cases = 0;
    for knobs in settings() {
        for (ceiling, window) in windows() {
            for observed in &halts {
                let literal = Literal {
                    kernel,
                    arch,
                    floor_taken_back,
                    halt_poll_ns: knobs.halt_poll_ns.into(),
                    grow: knobs.grow.into(),
                    grow_start: knobs.grow_start.into(),
                    shrink: knobs.shrink.into(),
                    ceiling: ceiling.into(),
                    w: window.into(),
                    call: None,
                };
                let found = rule.after(&knobs, ceiling, window, *observed);
                let expected = literal.step(*observed);
                assert_eq!(
                    found, expected,
                    "{kernel:?} {arch} {knobs:?} ceiling {ceiling} window {window} {observed:?}"
                );
                cases += 1;
            }
        }
    }
    cases
}

#[test]
fn both_transcripts_agree_on_every_case_of_every_era() {
    let releases = RELEASES.concat().into_iter();
    let cases: u64 = releases
        .flat_map(|kernel| PORTS.map(|arch| world(kernel, arch, false)))
        .sum();
    assert_eq!(cases, 17 * (2 * 44 + 22) * 6 * 10 * 300);
}

#[test]
fn both_agree_on_stable_kernels_with_the_floor() {
    for arch in PORTS {
        world((5, 10), arch, true);
        world((4, 19), arch, true);
    }
}

/// `adjust_poll_limit`, written the same way.
fn literal_guest(
    kernel: (u32, u32),
    params: &guest::Params,
    limit: u32,
    residency_ns: u64,
) -> guest::Adjusted {
    let block = if kernel < (5, 5) {
        u128::from(residency_ns) - u128::from(residency_ns) % 1_000
    } else {
        u128::from(residency_ns)
    };
    let [gmax, start] = [params.guest_halt_poll_ns, params.grow_start].map(u128::from);
    let l = u128::from(limit);
    let mut call = None;
    let mut v = l;
    if block > l && block <= gmax {
        v = cut(l * u128::from(params.grow));
        if v < start {
            v = start;
        }
        if v > gmax {
            v = gmax;
        }
        call = Some(true);
    } else if block > gmax && params.allow_shrink {
        v = 0;
        if params.shrink != 0 {
            v = l / u128::from(params.shrink);
            if kernel >= (6, 9) && v < start {
                v = 0;
            }
        }
        call = Some(false);
    }
    let new = uint(v);
    guest::Adjusted {
        limit_ns: new,
        call: call.map(|grow| Call {
            grow,
            old: limit,
            new,
        }),
    }
}

#[test]
fn both_transcripts_of_the_guests_governor_agree() {
    for kernel in [(5, 4), (5, 5), (6, 8), (6, 9), (7, 2)] {
        let rule = guest::Rule::of(Version::new(kernel.0, kernel.1)).unwrap();
        for (knobs, allow_shrink) in settings().flat_map(|knobs| [(knobs, false), (knobs, true)]) {
            for (ceiling, limit) in windows() {
                let params = guest::Params {
                    guest_halt_poll_ns: ceiling,
                    grow: knobs.grow,
                    grow_start: knobs.grow_start,
                    shrink: knobs.shrink,
                    allow_shrink,
                };
                for ns in HALTS {
                    assert_eq!(
                        rule.adjust(&params, limit, ns),
                        literal_guest(kernel, &params, limit, ns),
                        "{kernel:?} {params:?} limit {limit} residency {ns}"
                    );
                }
            }
        }
    }
}
