//! haltwise's own lab: `--name`.

use super::arguments::Arguments;

/// Whether a program of this name is the lab.
pub(super) fn is(program: &str) -> bool {
    matches!(program, "haltwise-lab" | "haltwise-experiments")
}

/// The name of the VM, or of the first of several.
pub(super) fn name(arguments: &Arguments) -> Option<String> {
    arguments.option("--name").map(str::to_owned)
}
