//! The demo of a fleet: costs of captures that are in the repository, then a made-up fleet of forty hosts, and its page.

use anyhow::Result;

use super::shell::{OUT, Shell};
use crate::say;

/// Captures whose costs are computed: they were made from seeds for the tests.
const CAPTURES: &str = "crates/cli/tests/golden/captures";

pub(super) fn run() -> Result<()> {
    say::note(
        "this installs nothing: it builds haltwise and an example of its sources in the build directory",
    );
    say::note(&format!(
        "and writes to {OUT}/; no VM is started, no setting is read or changed, nothing of the fleet was measured"
    ));
    Shell::new("--package=haltwise")?;
    let shell = Shell::new("--package=haltwise-capture --example=large_fleet")?;
    for (capture, host) in [("transactional", "web-host"), ("fleet", "other-host")] {
        shell.run(&format!(
            "haltwise costs {CAPTURES}/{capture} --lake {OUT}/recorded --host {host}"
        ))?;
    }
    shell.run(&format!("haltwise fleet {OUT}/recorded --by host"))?;
    shell.run(&format!("examples/large_fleet {OUT}/lake 40 12 3 1"))?;
    shell.run(&format!(
        "haltwise fleet {OUT}/lake --by kernel,class --watts-per-cpu 4.5 --price-per-cpu-year 60 --rows 8 \
         --html {OUT}/fleet.html"
    ))?;
    say::note(&format!(
        "{OUT}/fleet.html shows the same in a browser, all of it"
    ));
    Ok(())
}
