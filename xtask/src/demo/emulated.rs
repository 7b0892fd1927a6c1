//! The loop inside a stock kernel. What it recorded comes out of it, and the page is made here.

use std::fmt::Write as _;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::shell::{OUT, Shell};
use crate::{kernels, repo, say, tool};

/// Gaps and ceiling are ten times as long, as everything is there.
const LOAD: &str = "pingpong --name demo --gap fixed:1250us --host-wait block";

/// Takes back what was set; where the recommendation is to leave everything, there is nothing of that kind.
const UNDO: &str = "\
[ \"$(cat /sys/module/kvm/parameters/halt_poll*)\" = \"$before\" ] && exit 0
echo '==> haltwise undo'
haltwise undo 2>&1 | cat || exit 1
";

/// Runs it: with that kernel's own parameters, which are written and put back.
pub(super) fn run(shell: &Shell) -> Result<()> {
    let acts = [
        format!("record -o capture -- haltwise-lab run {LOAD} --rounds 3000"),
        "report capture".to_owned(),
        "tune capture --plan plan.json".to_owned(),
        "apply plan.json --yes".to_owned(),
        "status".to_owned(),
    ];
    let mut script = "echo 2000000 >/sys/module/kvm/parameters/halt_poll_ns\nset -o pipefail\n\
         before=$(cat /sys/module/kvm/parameters/halt_poll*)\n"
        .to_owned();
    for act in &acts {
        // Writing to a String cannot fail.
        let _written = writeln!(
            script,
            "echo '==> haltwise {act}'\nhaltwise {act} 2>&1 | cat || exit 1"
        );
    }
    script.push_str(UNDO);
    let binaries = kernels::Binaries::of(&shell.built)?;
    let Some((said, out_dir)) = kernels::run_in_newest(&binaries, &script)? else {
        bail!("the demo needs /dev/kvm and root, or qemu and a stock kernel")
    };
    let begin = said.find("==> haltwise").unwrap_or(0);
    let shown = &said[begin..];
    let end = shown.find("init: ").unwrap_or(shown.len());
    for line in shown[..end].lines() {
        say::line(line);
    }
    // What the guest left stays on its disk until the next boot.
    let left = ["capture", "plan.json"].map(|name| out_dir.join(name));
    let mut copy = Command::new("cp");
    copy.arg("-r").args(left).arg(repo::root().join(OUT));
    tool::ask(&mut copy).context("keep what the emulated kernel left")?;
    shell.run(&format!(
        "haltwise report {OUT}/capture --html {OUT}/report.html"
    ))?;
    say::note(&format!("{OUT}/report.html shows all of this in a browser"));
    say::note(&format!("all of it is in {OUT}/"));
    Ok(())
}
