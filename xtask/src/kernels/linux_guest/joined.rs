//! What the guest and its host recorded at the same time: `tune --host` must match the halts of both, and the governor menu
//! must choose HLT as often as its replay says. Debian's kernels are built without teo.

use std::path::Path;

use anyhow::{Result, bail};
use serde::Deserialize;

use super::{Binaries, ask};
use crate::kernels::witness::Found;

/// Round trips, then the governors that are tried after haltpoll: each attaches a recorder inside the guest anew, over
/// which an emulator stumbles now and then, so that only thorough runs do.
pub(super) const LOAD: &str = "240 menu";

/// Entries into HLT of a hundred that the host's halts may contradict, and some more where both begin and end.
const CONTRADICTED: u64 = 1;
const EDGE: u64 = 5;

/// How far apart the shares of idle periods that poll may be, replayed and recorded. The governor looks at the next timer
/// before the way to HLT, which an emulated machine takes long for; a capture has what is left at its end.
const APART: f64 = 0.06;

#[derive(Debug, Deserialize)]
struct Tuned {
    join: Option<Join>,
}

#[derive(Debug, Deserialize)]
struct Join {
    hlts: u64,
    matched: u64,
    without_halt: u64,
    residual_p50_ns: u64,
}

#[derive(Debug, Deserialize)]
struct Replayed {
    host: Group,
}

#[derive(Debug, Deserialize)]
struct Group {
    halts: u64,
    recorded: Polls,
    played: Vec<Played>,
}

#[derive(Debug, Deserialize)]
struct Played {
    from_zero: Polls,
}

#[derive(Debug, Deserialize)]
struct Polls {
    polls: u64,
}

/// Judges what the guest and its host left among the results: of `inside`, and of `joined` where that ran.
pub(super) fn judge(out_dir: &Path, binaries: &Binaries) -> Found {
    let mut found = Found::default();
    if let Err(error) = judge_all(out_dir, binaries, &mut found) {
        found.disagreements.push(format!("{error:#}"));
    }
    found
}

fn judge_all(out_dir: &Path, binaries: &Binaries, found: &mut Found) -> Result<()> {
    let (inside, joined) = (out_dir.join("inside"), out_dir.join("joined"));
    let mut said = Vec::new();
    for (name, guest, host) in [
        ("inside", inside.join("capture"), inside.join("host")),
        ("guest", joined.join("guest"), joined.join("host")),
        ("menu", joined.join("menu"), joined.join("host")),
    ] {
        if !guest.is_dir() {
            continue;
        }
        let host = host.display().to_string();
        let verb = ["tune", "--json", "--host", &host];
        let tuned: Tuned = ask(binaries, &verb, &guest)?;
        let Some(join) = tuned.join else {
            bail!("{name}: tune --host has no join");
        };
        let agree = join.matched + join.without_halt;
        let contradicted = join.hlts.saturating_sub(agree);
        if contradicted > join.hlts * CONTRADICTED / 100 + EDGE || join.residual_p50_ns == 0 {
            found.disagreements.push(format!("{name}: {join:?}"));
        }
        said.push(format!("{name}: {join:?}"));
        if name == "menu" {
            said.push(governor(name, &guest, binaries, found)?);
        }
    }
    found.summary = said.join("; ");
    Ok(())
}

/// The share of idle periods that poll, replayed and recorded.
fn governor(name: &str, guest: &Path, binaries: &Binaries, found: &mut Found) -> Result<String> {
    let verb = ["replay", "--json", "--policy", name];
    let Replayed { host } = ask(binaries, &verb, guest)?;
    let of = |polls: &Polls| polls.polls as f64 / host.halts.max(1) as f64;
    let replayed = host
        .played
        .first()
        .map_or(0.0, |played| of(&played.from_zero));
    let recorded = of(&host.recorded);
    let text = format!("{name} polls {recorded:.4} recorded, {replayed:.4} replayed");
    if (recorded - replayed).abs() > APART {
        found.disagreements.push(text.clone());
    }
    Ok(text)
}
