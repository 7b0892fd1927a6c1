//! The report on a screen: the host, then a screen for each VM, then how it was recorded.

mod account;
mod charts;
mod closing;
mod host;
mod vm;

use super::view::Report;
use crate::page::Page;

/// What to show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Columns of the screen.
    pub(crate) width: usize,
    /// A row and a chart for each vCPU.
    pub(crate) vcpus: bool,
}

/// Lays the report out.
pub(crate) fn render(report: &Report, options: Options) -> String {
    let mut page = Page::new(options.width);
    host::host(&mut page, report);
    for vm in &report.vms {
        vm::vm(&mut page, report, vm, options.vcpus);
    }
    if let Some(account) = &report.unplaced {
        page.heading("Halts that belong to no VM that was found");
        account::short(&mut page, account);
    }
    closing::closing(&mut page, report);
    page.finish()
}
