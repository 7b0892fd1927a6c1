//! A table of a view for other programs: one header, one line for each row, quoted as RFC 4180 says.

use super::text::Table;
use super::view::{Part, View};
use crate::exits::csv::line;

/// The table as CSV. Weights are in the view's unit; an empty cell is not known.
pub(crate) fn render(view: &View, table: Table) -> String {
    let mut text = String::new();
    let mut row = |cells: Vec<String>| line(&mut text, &cells);
    let head = |first: &[&str], last: &[&str]| -> Vec<String> {
        let all = first.iter().chain(&PART).chain(last);
        all.map(|name| (*name).to_owned()).collect()
    };
    match table {
        Table::Page | Table::Areas => {
            row(head(&[], &[]));
            view.areas.iter().for_each(|area| row(part(area)));
        }
        Table::Exits => {
            row(head(&["exit", "by"], &[]));
            for exit in &view.exits {
                let mut one = |area: &str, of: &Part| {
                    let by = exit.by.unwrap_or_default();
                    let mut cells = vec![exit.part.name.clone(), by.to_owned()];
                    cells.extend(part(of));
                    area.clone_into(&mut cells[2]);
                    row(cells);
                };
                // The exit itself, and each area of it.
                one("all", &exit.part);
                exit.areas.iter().for_each(|area| one(&area.name, area));
            }
        }
        Table::Symbols => {
            row(head(
                &["module", "space"],
                &["all_samples", "all_weight", "all_share"],
            ));
            for symbol in &view.symbols {
                let space = symbol.space.map_or("guest", |space| space.as_str());
                let mut cells = vec![symbol.module.clone(), space.to_owned()];
                cells.extend(part(&symbol.own));
                cells.push(symbol.all.samples.to_string());
                cells.push(symbol.all.weight.to_string());
                cells.push(share(symbol.all.share));
                row(cells);
            }
        }
        Table::Groups => {
            row(head(
                &["vm", "vcpu", "tid"],
                &["guest", "in_kernel", "in_vmm"],
            ));
            for group in &view.groups {
                let maybe = |n: Option<u32>| n.map_or_else(String::new, |n| n.to_string());
                let mut cells = vec![
                    group.vm.clone().unwrap_or_default(),
                    maybe(group.vcpu),
                    maybe(group.tid),
                ];
                cells.extend(part(&group.part));
                let sides = [group.guest, group.in_kernel, group.in_vmm];
                cells.extend(sides.map(|weight| weight.to_string()));
                row(cells);
            }
        }
    }
    text
}

const PART: [&str; 6] = ["name", "samples", "weight", "share", "low", "high"];

fn part(part: &Part) -> Vec<String> {
    vec![
        part.name.clone(),
        part.samples.to_string(),
        part.weight.to_string(),
        share(part.share),
        share(part.low),
        share(part.high),
    ]
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{share:.6}"))
}
