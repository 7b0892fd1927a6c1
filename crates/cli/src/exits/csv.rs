//! The table of a view for other programs: one header, one line for each row, quoted as RFC 4180 says.

use super::view::{GroupView, ReasonView, View};
use crate::exits::text::Table;

/// The table as CSV. Times are nanoseconds; an empty cell is not known.
pub(crate) fn render(view: &View, table: Table) -> String {
    let mut text = String::new();
    match table {
        Table::Groups => {
            line(&mut text, &GROUP.map(str::to_owned));
            for row in &view.groups {
                line(&mut text, &group(row));
            }
        }
        Table::Reasons | Table::Subs => {
            line(&mut text, &REASON.map(str::to_owned));
            let rows = match table {
                Table::Subs => view.subs.iter().chain([].iter()),
                _ => view.reasons.iter().chain(&view.userspace),
            };
            for row in rows {
                line(&mut text, &reason(row));
            }
        }
    }
    text
}

const REASON: [&str; 17] = [
    "kind",
    "isa",
    "reason",
    "name",
    "sub",
    "count",
    "per_second",
    "untimed",
    "host_ns",
    "share",
    "time_ns",
    "kernel_ns",
    "user_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
];

const GROUP: [&str; 18] = [
    "vm",
    "vm_name",
    "vcpu",
    "second",
    "exits",
    "halt_exits",
    "untimed",
    "time_ns",
    "kernel_ns",
    "user_ns",
    "p50_ns",
    "p95_ns",
    "p99_ns",
    "max_ns",
    "entries",
    "userspace_exits",
    "injections",
    "emulations",
];

fn maybe<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn reason(row: &ReasonView) -> [String; 17] {
    let spread = row.spread_ns;
    [
        row.kind.to_string(),
        row.isa.to_string(),
        maybe(row.reason),
        row.name.clone(),
        maybe(row.sub),
        row.count.to_string(),
        format!("{:.3}", row.per_second),
        row.untimed.to_string(),
        row.host_ns.to_string(),
        maybe(row.share.map(|share| format!("{share:.6}"))),
        row.time_ns.to_string(),
        row.kernel_ns.to_string(),
        row.user_ns.to_string(),
        maybe(spread.map(|spread| spread.p50)),
        maybe(spread.map(|spread| spread.p95)),
        maybe(spread.map(|spread| spread.p99)),
        maybe(spread.map(|spread| spread.max)),
    ]
}

fn group(row: &GroupView) -> [String; 18] {
    let spread = row.spread_ns;
    [
        maybe(row.vm),
        row.vm_name.clone().unwrap_or_default(),
        maybe(row.vcpu),
        maybe(row.second),
        row.exits.to_string(),
        row.halt_exits.to_string(),
        row.untimed.to_string(),
        row.time_ns.to_string(),
        row.kernel_ns.to_string(),
        row.user_ns.to_string(),
        maybe(spread.map(|spread| spread.p50)),
        maybe(spread.map(|spread| spread.p95)),
        maybe(spread.map(|spread| spread.p99)),
        maybe(spread.map(|spread| spread.max)),
        row.entries.to_string(),
        row.userspace_exits.to_string(),
        row.injections.to_string(),
        row.emulations.to_string(),
    ]
}

/// One line.
pub(crate) fn line(text: &mut String, cells: &[String]) {
    let quoted: Vec<String> = cells.iter().map(|cell| quote(cell)).collect();
    text.push_str(&quoted.join(","));
    text.push('\n');
}

/// A cell; what could be taken for the end of one stands between quotes.
fn quote(cell: &str) -> String {
    if cell.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be() {
        assert_eq!(quote("EPT_VIOLATION"), "EPT_VIOLATION");
        assert_eq!(quote("a,b"), "\"a,b\"");
        assert_eq!(quote("say \"hi\"\n"), "\"say \"\"hi\"\"\n\"");
    }
}
