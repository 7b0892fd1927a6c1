//! The checks inside a stock kernel.

use std::path::Path;

use anyhow::Result;

use super::deb::Kernel;
use super::{Binaries, LIMIT};

/// Placeholder.
pub(crate) fn run(
    kernel: Kernel,
    binaries: &Binaries,
    _filter: Option<&str>,
    work: &Path,
) -> Result<()> {
    binaries.guest(kernel)?.script("true").run(work, LIMIT)?;
    Ok(())
}
