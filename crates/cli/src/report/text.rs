//! The report on a screen: the host, a table of VMs, a screen for each VM where asked for, then how it was
//! recorded.

mod charts;
mod host;
mod vm;

pub(crate) use host::order;

use haltwise_document::text::{self, Style};

use super::quality::recorded;
use super::view::Report;
use crate::page::Page;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) top: usize,
    pub(crate) detail: bool,
    pub(crate) vcpus: bool,
}

pub(crate) fn render(report: &Report, options: Options, style: Style) -> String {
    let mut page = Page::styled(style);
    host::host(&mut page, report);
    if report.recording.side.is_host() {
        host::vms(&mut page, report, options);
    }
    host::recommendation(&mut page, report);
    if options.detail {
        for vm in &report.vms {
            vm::vm(&mut page, report, vm, options.vcpus);
        }
    }
    if let Some(account) = &report.unplaced {
        page.heading("Halts of unknown VMs");
        vm::short(&mut page, account);
    }
    page.heading("How this was recorded");
    text::add(&mut page, &recorded(report, usize::MAX));
    page.finish()
}
