//! `haltwise report --findings` on guests of the lab that behave as a rule has it, recorded with a stock kernel's own
//! exits; and on one that shows nothing.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

use super::super::LIMIT;
use super::super::check::Check;
use super::super::reported::fired;
use super::super::scenario::recording;
use super::{Found, read};

pub(crate) const NAME: &str = "explained";

/// A name, arguments of the lab, and the rule that must fire.
const GUESTS: [(&str, &str, Option<&str>); 4] = [
    (
        "ticks",
        "tick-rtc --gap fixed:15625us --rounds 150",
        Some("windows-without-stimer"),
    ),
    ("polls", "port-poll --rounds 25", Some("port-polling")),
    ("signals", "ipi --rounds 4000", Some("apic-writes")),
    ("answers", "pingpong --gap exp:10ms --rounds 150", None),
];

/// Rules that an idle guest's exits must not make fire, however busy the machine below is.
const STORMS: [&str; 5] = [
    "windows-without-stimer",
    "port-polling",
    "apic-writes",
    "pause-loop",
    "emulated-framebuffer",
];

pub(crate) fn check() -> Check {
    Check::new(NAME, script(), LIMIT, |left| {
        vec![(NAME, compare(&left.out_dir))]
    })
}

fn compare(out: &Path) -> Result<Found> {
    let mut found = Found::default();
    for (name, _, expected) in GUESTS {
        let explained: Value = read(&out.join(name).join("findings.json"))?;
        // How slow emulation is decides whether a cost is too small to be shown, not the rule.
        let mut fired = fired(&explained, &STORMS);
        fired.iter_mut().for_each(Vec::dedup);
        found.require(
            fired == Some(Vec::from_iter(expected)),
            format!("{name}: {fired:?} fire, not {expected:?}"),
        );
        found.say(format_args!("{name}: {}", expected.unwrap_or("nothing")));
    }
    Ok(found)
}

fn script() -> String {
    let mut text = String::from(". /lab.sh\n");
    for (name, lab, _) in GUESTS {
        let inside = format!("lab {name}/lab '{lab}'\n");
        let exits = "--source bpf --exits=pio,mmio,msr";
        text.push_str(&recording(name, exits, &inside));
        // Formatting into a String cannot fail.
        let _ = writeln!(text, "ask {name} findings");
    }
    text.push_str("exit $failed\n");
    text
}
