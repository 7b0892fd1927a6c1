//! Compares the choice of `tune` inside the Linux guest with the default by measurement: the plan was proved there.
//! Only where checks are thorough: where BPF programs are attached again and again inside, the emulator ended early or
//! stood still in six of eight boots.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::kernels::check::Found;
use crate::kernels::reported::{Block, Proof, read, text};

/// Rounds of each proof; `inside.sh` asks for as many.
const ROUNDS: usize = 2;

/// Compared counts. Costs depend on times, which are not judged here.
const COUNTED: [&str; 3] = ["hlt-exits", "ipis", "context-switches"];

/// A change of a count that is smaller than this share says nothing: a guest has other work, too.
const LEAST: f64 = 0.05;

/// And a larger one does, however far apart the blocks under the default were.
const MOST: f64 = 0.25;

/// Loads for which something must be set, so that the comparison is one.
const LEAST_MEASURED: usize = 2;

/// Judges what the guest left in a folder: in nine of ten loads what was chosen has no more exits, IPIs and context
/// switches than the default.
pub(super) fn judge(dir: &Path) -> Found {
    let mut found = Found::default();
    if dir.join("without-governor").exists() {
        found.say("this kernel has no governor haltpoll");
        return found;
    }
    let mut loads = Vec::new();
    for number in 1.. {
        let dir = dir.join(number.to_string());
        if !dir.is_dir() {
            break;
        }
        let what = format!("load {number}");
        match load(&what, &dir, &mut found) {
            Ok(load) => loads.push(load),
            Err(error) => found.disagree(format!("{what}: {error:#}")),
        }
    }
    let measured = loads.iter().filter(|load| !load.counted.is_empty()).count();
    let worse: Vec<&Load> = loads.iter().filter(|load| load.is_worse()).collect();
    let texts: Vec<String> = worse.iter().map(|load| load.text()).collect();
    found.require(
        measured >= LEAST_MEASURED && worse.len() * 10 <= loads.len(),
        format!(
            "more exits, IPIs or switches in {} of {measured} loads for which something was set: {texts:?}",
            worse.len(),
        ),
    );
    let texts: Vec<String> = loads.iter().map(Load::text).collect();
    found.summary = format!(
        "{} of {} loads: something is set for {measured}, {} of these at least as good: {}",
        loads.len() - worse.len(),
        loads.len(),
        measured - worse.len(),
        texts.join("; ")
    );
    found
}

/// A count in all blocks of a load, on average.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counted {
    a: f64,
    b: f64,
    control: f64,
    predicted: Option<f64>,
}

impl Counted {
    fn of(blocks: &[Block], figure: &str) -> Result<Self> {
        let mean = |name: &str, count: fn(&Block, &str) -> Option<f64>| {
            let blocks = blocks.iter().filter(|block| block.under == name);
            let counts: Vec<f64> = blocks.map(|it| count(it, figure)).collect::<Option<_>>()?;
            (!counts.is_empty()).then(|| counts.iter().sum::<f64>() / counts.len() as f64)
        };
        let of = |name: &str| {
            mean(name, Block::count).with_context(|| format!("no {figure} under {name}"))
        };
        Ok(Self {
            a: of("a")?,
            b: of("b")?,
            control: of("control")?,
            predicted: mean("a", Block::predicted),
        })
    }

    /// More than under A, and by more than A differs from itself, up to a limit, and than a count so small does by itself.
    fn is_worse(self) -> bool {
        let between = (self.control - self.a).abs();
        let between = between.clamp(LEAST * self.a, MOST * self.a);
        self.b > self.a + between.max(2.0 * self.a.sqrt())
    }
}

#[derive(Debug)]
struct Load {
    name: String,
    place: String,
    /// As [`COUNTED`]; empty where nothing is set in the guest.
    counted: Vec<Counted>,
}

impl Load {
    fn is_worse(&self) -> bool {
        self.counted.iter().any(|counted| counted.is_worse())
    }

    fn text(&self) -> String {
        let of = |(figure, counted): (&&str, &Counted)| {
            let Counted { a, b, control, .. } = counted;
            let predicted = counted.predicted;
            let predicted = predicted.map_or(String::new(), |n| format!(", {n:.0} predicted"));
            format!("{figure} {a:.0} ({control:.0}) -> {b:.0}{predicted}")
        };
        let counts: Vec<String> = COUNTED.iter().zip(&self.counted).map(of).collect();
        format!("{} ({}): {}", self.name, self.place, counts.join(", "))
    }
}

fn load(what: &str, dir: &Path, found: &mut Found) -> Result<Load> {
    let name = text(&dir.join("load"))?;
    let tuned: Value = read(&dir.join("tune.json"))?;
    let place = tuned["place"].as_str().context("tune names no place")?;
    let mut load = Load {
        name: name.trim().to_owned(),
        place: place.to_owned(),
        counted: Vec::new(),
    };
    // Nothing is set where its host should poll instead.
    if load.place != "guest" {
        return Ok(load);
    }
    let proof: Proof = read(&dir.join("proof.json"))?;
    for figure in COUNTED {
        load.counted.push(Counted::of(&proof.blocks, figure)?);
    }
    proof.judge(what, "guest", ROUNDS, found);
    Ok(load)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn more_than_the_default_and_the_noise_is_worse() {
        for (a, b, control, is_worse) in [
            (10_000.0, 5_000.0, 10_000.0, false),
            (10_000.0, 10_400.0, 10_000.0, false),
            (10_000.0, 10_600.0, 10_000.0, true),
            (10_000.0, 10_600.0, 10_700.0, false),
            (10_000.0, 12_000.0, 9_000.0, true),
            (10_000.0, 12_400.0, 6_000.0, false),
            (10_000.0, 12_600.0, 6_000.0, true),
            (20.0, 24.0, 18.0, false),
            (20.0, 30.0, 18.0, true),
        ] {
            let predicted = None;
            let counted = Counted {
                a,
                b,
                control,
                predicted,
            };
            assert_eq!(counted.is_worse(), is_worse, "{counted:?}");
        }
    }
}
