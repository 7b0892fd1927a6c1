//! Seeded processes that draw the gaps between a guest's wake-ups.
//!
//! One grammar serves the lab, the simulations and the tests; the same text and seed draw the same
//! gaps on every machine and in every version, so a run can be repeated from its printed line.
//!
//! | spec | gaps |
//! |---|---|
//! | `fixed:20us` | always 20 us |
//! | `uniform:5us:400us` | evenly between the two, both included |
//! | `exp:60us` | exponential, mean 60 us |
//! | `bimodal:0.8:15us:2ms` | 15 us in 8 of 10 cases, else 2 ms |
//! | `phases:20us*200:3ms*50` | 200 gaps of 20 us, then 50 of 3 ms, and again |
//! | `trace:FILE` | the gaps listed in a file, in a circle; the caller reads the file |

use std::fmt;
use std::str::FromStr;

use crate::units::Nanos;

/// A gap process as written on a command line.
#[derive(Debug, Clone, PartialEq)]
pub enum GapSpec {
    Fixed(Nanos),
    Uniform(Nanos, Nanos),
    Exp(Nanos),
    /// The first value with this probability, else the second.
    Bimodal(f64, Nanos, Nanos),
    /// Each value so many times, in a circle.
    Phases(Vec<(Nanos, u32)>),
    /// The gaps of a file, in a circle.
    Trace(String),
}

/// Why a text is not a gap process, or not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct GapSpecError(String);

const EMPTY_TRACE: &str = "the trace holds no gaps";

impl FromStr for GapSpec {
    type Err = GapSpecError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let parts: Vec<&str> = rest.split(':').collect();
        let refused = |why: &str| GapSpecError(format!("`{text}` {why}"));
        let duration = |part: &str| {
            let read = part.parse::<Nanos>();
            read.map_err(|error| GapSpecError(format!("gap process `{text}`: {error}")))
        };
        let wrong = |form| {
            Err(refused(&format!(
                "has the wrong number of parts; write {form}"
            )))
        };
        match (kind, &parts[..]) {
            ("fixed", [gap]) => Ok(Self::Fixed(duration(gap)?)),
            ("fixed", _) => wrong("fixed:20us"),
            ("uniform", [low, high]) => {
                let (low, high) = (duration(low)?, duration(high)?);
                if low > high {
                    return Err(refused("ends before it begins"));
                }
                Ok(Self::Uniform(low, high))
            }
            ("uniform", _) => wrong("uniform:5us:400us"),
            ("exp", [mean]) => Ok(Self::Exp(duration(mean)?)),
            ("exp", _) => wrong("exp:60us"),
            ("bimodal", [p, first, second]) => {
                let probability = p.parse::<f64>().ok().filter(|p| (0.0..=1.0).contains(p));
                let p = probability.ok_or_else(|| {
                    GapSpecError(format!("`{p}` is not a probability between 0 and 1"))
                })?;
                Ok(Self::Bimodal(p, duration(first)?, duration(second)?))
            }
            ("bimodal", _) => wrong("bimodal:0.8:15us:2ms"),
            ("phases", _) if !rest.is_empty() => {
                let phase = |part: &&str| {
                    let (gap, count) = part.split_once('*').unwrap_or((part, "1"));
                    match count.parse::<u32>() {
                        Ok(n) if n > 0 => Ok((duration(gap)?, n)),
                        _ => Err(GapSpecError(format!(
                            "`{count}` is not a count of 1 or more"
                        ))),
                    }
                };
                Ok(Self::Phases(
                    parts.iter().map(phase).collect::<Result<_, _>>()?,
                ))
            }
            ("phases", _) => wrong("phases:20us*200:3ms*50"),
            ("trace", _) if !rest.is_empty() => Ok(Self::Trace(rest.to_owned())),
            ("trace", _) => wrong("trace:FILE"),
            _ => Err(refused(
                "is not a gap process (fixed:T, uniform:T:T, exp:T, bimodal:P:T:T, phases:T*N:…, trace:FILE)",
            )),
        }
    }
}

impl fmt::Display for GapSpec {
    /// The text that parses back to the same process.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(gap) => write!(f, "fixed:{}", gap.to_exact()),
            Self::Uniform(low, high) => {
                write!(f, "uniform:{}:{}", low.to_exact(), high.to_exact())
            }
            Self::Exp(mean) => write!(f, "exp:{}", mean.to_exact()),
            Self::Bimodal(p, first, second) => {
                write!(f, "bimodal:{p}:{}:{}", first.to_exact(), second.to_exact())
            }
            Self::Phases(phases) => {
                f.write_str("phases")?;
                phases
                    .iter()
                    .try_for_each(|(gap, n)| write!(f, ":{}*{n}", gap.to_exact()))
            }
            Self::Trace(file) => write!(f, "trace:{file}"),
        }
    }
}

/// Reads the text of a trace file: a gap a line (`20us`; a bare number is nanoseconds), `#` comments.
pub fn parse_trace(text: &str) -> Result<Vec<Nanos>, GapSpecError> {
    let mut gaps = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let gap = line
            .parse::<u64>()
            .map(Nanos)
            .or_else(|_| line.parse::<Nanos>());
        let number = index + 1;
        gaps.push(
            gap.map_err(|error| GapSpecError(format!("line {number} of the trace: {error}")))?,
        );
    }
    if gaps.is_empty() {
        Err(GapSpecError(EMPTY_TRACE.to_owned()))
    } else {
        Ok(gaps)
    }
}

#[derive(Debug, Clone)]
pub struct Gaps {
    spec: GapSpec,
    trace: Vec<Nanos>,
    random: SplitMix64,
    drawn: u64,
}

impl Gaps {
    /// A process from its spec and seed. For `trace:FILE` use [`Gaps::from_trace`].
    pub fn new(spec: GapSpec, seed: u64) -> Result<Self, GapSpecError> {
        if matches!(spec, GapSpec::Trace(_)) {
            return Err(GapSpecError(EMPTY_TRACE.to_owned()));
        }
        Ok(Self {
            spec,
            trace: Vec::new(),
            random: SplitMix64(seed),
            drawn: 0,
        })
    }

    /// The gaps of a trace already read, in a circle.
    pub fn from_trace(name: &str, gaps: Vec<Nanos>) -> Result<Self, GapSpecError> {
        if gaps.is_empty() {
            return Err(GapSpecError(EMPTY_TRACE.to_owned()));
        }
        let spec = GapSpec::Trace(name.to_owned());
        Ok(Self {
            spec,
            trace: gaps,
            random: SplitMix64(0),
            drawn: 0,
        })
    }

    pub fn spec(&self) -> &GapSpec {
        &self.spec
    }

    pub fn draw(&mut self) -> Nanos {
        let index = self.drawn;
        self.drawn += 1;
        match &self.spec {
            GapSpec::Fixed(gap) => *gap,
            GapSpec::Uniform(low, high) => {
                let width = (high.0 - low.0).saturating_add(1);
                Nanos(low.0 + self.random.below(width))
            }
            GapSpec::Exp(mean) => self.random.exponential(*mean),
            GapSpec::Bimodal(p, first, second) => {
                if self.random.unit() < *p {
                    *first
                } else {
                    *second
                }
            }
            GapSpec::Phases(phases) => {
                let circle: u64 = phases.iter().map(|(_, n)| u64::from(*n)).sum();
                let mut place = index % circle.max(1);
                for (gap, n) in phases {
                    if place < u64::from(*n) {
                        return *gap;
                    }
                    place -= u64::from(*n);
                }
                Nanos(0)
            }
            GapSpec::Trace(_) => {
                let circle = self.trace.len() as u64;
                let place = usize::try_from(index % circle.max(1)).unwrap_or(0);
                self.trace[place]
            }
        }
    }
}

/// `SplitMix64` (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
///
/// Written out here because its sequence is part of our output: a seed must draw the same gaps for
/// ever, which no generator crate promises across versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly in [0, 1), in steps of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Evenly in 0..n (0 if n is 0), by the high half of a 128-bit product.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with this mean, cut at 2^53 ns.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "-ln of (0, 1] is not negative, and the cast saturates"
    )]
    pub fn exponential(&mut self, mean: Nanos) -> Nanos {
        let draw = -(1.0 - self.unit()).ln() * mean.0 as f64;
        Nanos(draw.min((1_u64 << 53) as f64) as u64)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn gaps(spec: &str, seed: u64, n: usize) -> Vec<u64> {
        let mut gaps = Gaps::new(spec.parse().unwrap(), seed).unwrap();
        (0..n).map(|_| gaps.draw().0).collect()
    }

    #[test]
    fn bad_specs_are_refused() {
        let bad = "|fixed|fixed:|fixed:1us:2us|uniform:2us:1us|bimodal:1.1:1us:2us|bimodal:x:1us:2us|phases:|\
                   phases:1us*0|phases:1us*x|trace:|normal:1us";
        for text in bad.split('|') {
            assert!(text.parse::<GapSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_sequence_is_pinned() {
        let mut random = SplitMix64(1_234_567);
        // The first outputs for this seed in the generator's published test vector.
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
        assert_eq!(gaps("exp:60us", 7, 4), gaps("exp:60us", 7, 4));
        assert_ne!(gaps("exp:60us", 7, 4), gaps("exp:60us", 8, 4));
    }

    #[test]
    fn draws_follow_their_law() {
        let uniform = gaps("uniform:5us:400us", 1, 20_000);
        assert!(uniform.iter().all(|g| (5_000..=400_000).contains(g)));
        let mean = |gaps: &[u64]| gaps.iter().sum::<u64>() / gaps.len() as u64;
        let mean_of_uniform = mean(&uniform);
        assert!(
            mean_of_uniform.abs_diff(202_500) < 4_000,
            "{mean_of_uniform}"
        );
        let exp = gaps("exp:60us", 1, 20_000);
        assert!(mean(&exp).abs_diff(60_000) < 2_000, "{}", mean(&exp));
        // 1 - 1/e of 20000.
        let below_mean = exp.iter().filter(|gap| **gap < 60_000).count();
        assert!(below_mean.abs_diff(12_642) < 300, "{below_mean}");
        let both = gaps("bimodal:0.8:15us:2ms", 1, 20_000);
        let short = both.iter().filter(|gap| **gap == 15_000).count();
        assert!(short.abs_diff(16_000) < 300, "{short}");
    }

    #[test]
    fn phases_and_traces_go_round_in_a_circle() {
        assert_eq!(gaps("phases:1ns*2:9ns*1", 0, 7), [1, 1, 9, 1, 1, 9, 1]);
        let mut trace = Gaps::from_trace("t", parse_trace("# a\n5us\n7000\n\n").unwrap()).unwrap();
        let drawn = [(); 3].map(|()| trace.draw().0);
        assert_eq!(drawn, [5_000, 7_000, 5_000]);
        assert_eq!(
            parse_trace("# nothing"),
            Err(GapSpecError(EMPTY_TRACE.to_owned()))
        );
        let error = parse_trace("5us\nx").unwrap_err();
        assert!(error.0.starts_with("line 2 of the trace: "), "{error}");
    }
}
