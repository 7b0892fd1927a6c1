//! The demo of a fleet: costs of captures that are in the repository, then a made-up fleet of forty hosts, and its page.

use std::process::Command;

use anyhow::Result;

use super::shell::{OUT, empty_out};
use crate::{repo, say, tool};

const FLEET: [&str; 4] = ["40", "12", "3", "1"];

/// Captures whose costs are computed: they were made from seeds for the tests.
const CAPTURES: &str = "crates/cli/tests/golden/captures";

pub(super) fn run() -> Result<()> {
    say::note(
        "this installs nothing: it builds haltwise and an example of its sources in the build directory",
    );
    say::note(&format!(
        "and writes to {OUT}/; no VM is started, no setting is read or changed, nothing of the fleet was measured"
    ));
    build(&["--package=haltwise"])?;
    build(&["--package=haltwise-capture", "--example=large_fleet"])?;
    empty_out()?;
    let built = repo::target_dir().join("demo");
    let haltwise = built.join("haltwise");
    let words = |text: &str| -> Result<()> {
        say::step(&format!("haltwise {text}"));
        let mut command = Command::new(&haltwise);
        tool::run(command.args(text.split(' ')).current_dir(repo::root()))
    };
    words(&format!(
        "costs {CAPTURES}/transactional --lake {OUT}/recorded --host web-host"
    ))?;
    words(&format!(
        "costs {CAPTURES}/fleet --lake {OUT}/recorded --host other-host"
    ))?;
    words(&format!("fleet {OUT}/recorded --by host"))?;
    let lake = format!("{OUT}/lake");
    say::step(&format!("large_fleet {lake} {}", FLEET.join(" ")));
    let mut made = Command::new(built.join("examples/large_fleet"));
    tool::run(made.arg(&lake).args(FLEET).current_dir(repo::root()))?;
    words(&format!(
        "fleet {lake} --by kernel,class --watts-per-cpu 4.5 --price-per-cpu-year 60 --rows 8 --html {OUT}/fleet.html"
    ))?;
    say::note(&format!(
        "{OUT}/fleet.html shows the same in a browser, all of it"
    ));
    Ok(())
}

fn build(what: &[&str]) -> Result<()> {
    let mut build = tool::cargo(&repo::root());
    tool::run(build.args(["build", "--profile=demo"]).args(what))
}
