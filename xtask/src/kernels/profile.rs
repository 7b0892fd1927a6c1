//! Samples of a stock kernel's own KVM: recorded with the exits being handled, named by function, none
//! lost, and as many in the folded stacks as were taken.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use super::reported::{read, text};
use super::witness::Found;

/// What we read of `haltwise profile --json`.
#[derive(Debug, Deserialize)]
struct Profile {
    recording: Recording,
    total: Total,
    sides: Vec<Part>,
    exits: Vec<Exit>,
    symbols: Vec<Symbol>,
}

#[derive(Debug, Deserialize)]
struct Recording {
    exits_told: bool,
    lost: u64,
}

#[derive(Debug, Deserialize)]
struct Total {
    samples: u64,
}

#[derive(Debug, Deserialize)]
struct Part {
    name: String,
    samples: u64,
}

#[derive(Debug, Deserialize)]
struct Exit {
    name: String,
    samples: u64,
    by: Option<String>,
    areas: Vec<Part>,
}

#[derive(Debug, Deserialize)]
struct Symbol {
    module: String,
    own: Part,
}

/// Fewer samples than this say nothing of shares.
const ENOUGH: u64 = 30;

/// One in so many samples of hlt at least polls or blocks; the rest is on the way there and back. Of some
/// 50 samples it was a quarter, of 30 a third: what sleeps is not sampled.
const LEAST_HALTING: u64 = 6;

pub(super) fn compare(dir: &Path) -> Result<Found> {
    let profile: Profile = read(&dir.join("profile.json"))?;
    Ok(judge(&profile, &text(&dir.join("folded"))?))
}

/// Samples of an exit that poll or block.
fn halting(exit: &Exit) -> u64 {
    let of_halts = exit.areas.iter();
    let of_halts = of_halts.filter(|area| area.name.starts_with("halt "));
    of_halts.map(|area| area.samples).sum()
}

fn judge(profile: &Profile, folded: &str) -> Found {
    let mut found = Found::default();
    let mut wrong = |is_wrong: bool, text: String| {
        if is_wrong {
            found.disagreements.push(text);
        }
    };
    let samples = profile.total.samples;
    wrong(samples < ENOUGH, format!("only {samples} samples"));
    let lost = profile.recording.lost;
    wrong(lost > 0, format!("{lost} events were lost"));
    let has_exits = profile.recording.exits_told;
    wrong(!has_exits, "samples have no exits".to_owned());
    let counts = folded.lines().filter_map(|line| line.rsplit_once(' '));
    let in_stacks: u64 = counts.filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
    wrong(
        in_stacks != samples,
        format!("{in_stacks} samples in folded stacks, {samples} taken"),
    );
    let sides: u64 = profile.sides.iter().map(|side| side.samples).sum();
    wrong(
        sides != samples,
        format!("{sides} samples by side, {samples} taken"),
    );
    // Functions of modules have names, and are the modules'.
    let of_kvm = |symbol: &&Symbol| symbol.module.starts_with("kvm");
    let of_kvm: Vec<_> = profile.symbols.iter().filter(of_kvm).collect();
    let named = of_kvm
        .iter()
        .filter(|symbol| !symbol.own.name.contains("+0x"));
    wrong(
        named.count() == 0,
        "no function of KVM's modules has a name".to_owned(),
    );
    let halts = profile.exits.iter().find(|exit| exit.name == "hlt");
    let halts = halts.filter(|exit| exit.by.as_deref() == Some("kvm_exit"));
    wrong(halts.is_none(), "no sample has the exit hlt".to_owned());
    if let Some(halts) = halts.filter(|exit| exit.samples >= ENOUGH) {
        let of_halts = halting(halts);
        wrong(
            of_halts * LEAST_HALTING < halts.samples,
            format!(
                "only {of_halts} of {} samples of hlt poll or block",
                halts.samples
            ),
        );
    }
    let is_other = |exit: &&Exit| exit.by.as_deref() == Some("kvm_exit") && exit.name != "hlt";
    for other in profile.exits.iter().filter(is_other) {
        wrong(
            halting(other) > 0,
            format!("{} samples of {} poll or block", halting(other), other.name),
        );
    }
    let guest = profile.sides.iter().find(|side| side.name == "guest");
    found.summary = format!(
        "{samples} samples, {} of hlt, {} in the guest, {} functions of KVM's modules",
        halts.map_or(0, |exit| exit.samples),
        guest.map_or(0, |side| side.samples),
        of_kvm.len(),
    );
    found
}

#[cfg(test)]
mod test {
    use super::*;

    fn part(name: &str, samples: u64) -> Part {
        Part {
            name: name.to_owned(),
            samples,
        }
    }

    fn sound() -> (Profile, &'static str) {
        let profile = Profile {
            recording: Recording {
                exits_told: true,
                lost: 0,
            },
            total: Total { samples: 100 },
            sides: vec![part("guest", 20), part("kernel", 80)],
            exits: vec![
                Exit {
                    name: "hlt".to_owned(),
                    samples: 60,
                    by: Some("kvm_exit".to_owned()),
                    areas: vec![part("halt polling", 40), part("scheduler", 20)],
                },
                Exit {
                    name: "io".to_owned(),
                    samples: 7,
                    by: Some("kvm_exit".to_owned()),
                    areas: vec![part("other KVM", 7)],
                },
            ],
            symbols: vec![Symbol {
                module: "kvm".to_owned(),
                own: part("kvm_vcpu_check_block", 40),
            }],
        };
        (profile, "a;b 60\na;[guest kernel] 40\n")
    }

    #[test]
    fn what_is_sound_passes_and_each_fault_is_found() {
        let (profile, folded) = sound();
        assert_eq!(judge(&profile, folded).disagreements, [""; 0]);
        let faults: [fn(&mut Profile); 7] = [
            |it| it.recording.exits_told = false,
            |it| it.recording.lost = 1,
            |it| it.total.samples = 101,
            |it| it.exits[0].by = Some("stack".to_owned()),
            |it| it.exits[0].areas[0].samples = 9,
            |it| it.exits[1].areas[0].name = "halt blocking".to_owned(),
            |it| it.symbols[0].own.name = "kvm+0x10".to_owned(),
        ];
        for fault in faults {
            let (mut profile, folded) = sound();
            fault(&mut profile);
            assert!(!judge(&profile, folded).disagreements.is_empty());
        }
        let (profile, _) = sound();
        assert_eq!(judge(&profile, "a 99\n").disagreements.len(), 1);
    }
}
