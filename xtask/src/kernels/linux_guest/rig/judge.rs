//! Tables of an effect's columns, and the verdict on each claim. Text of `docs/rig.md`.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

use super::Row;
use super::counts::{FIGURES, is_of_a_unit};
use super::effects::{Claim, Effect, Is};
use crate::kernels::reported::{Counts, count};

/// A difference below this share of the base is none.
const LEAST: f64 = 0.1;
/// Figures within this share of each other are alike.
const LIKE: f64 = 0.5;
/// A claim of zero holds up to this, since the guest's shell is counted too.
const ZERO: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// In every round.
    Yes,
    /// In none.
    No,
    /// In some rounds.
    NotShown,
}

/// A figure of a row, for each unit.
fn figure(counts: &Counts, name: &str, units: u32) -> f64 {
    let sum = match name {
        "poll_ms" => count(counts, "poll_ns") as f64 / 1e6,
        "wake_us" => count(counts, "wake_ns") as f64 / 1e3 / count(counts, "sleeps").max(1) as f64,
        name => count(counts, name) as f64,
    };
    if is_of_a_unit(name) {
        sum
    } else {
        sum / f64::from(units)
    }
}

/// One figure of a column, a value for each round.
fn values(rows: &[Row], effect: &Effect, column: &str, name: &str) -> Vec<f64> {
    let is_it = |row: &&Row| row.effect == effect.name && row.column == column;
    let of = rows.iter().filter(is_it);
    of.map(|row| figure(&row.counts, name, effect.units))
        .collect()
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Is {
    fn holds(self, base: f64, new: f64) -> bool {
        match self {
            Self::Less => new < base * (1.0 - LEAST),
            Self::More => new > base * (1.0 + LEAST),
            Self::Like => (new - base).abs() <= base * LIKE,
            Self::Zero => new <= ZERO,
        }
    }
}

fn verdict(claim: &Claim, rows: &[Row], effect: &Effect) -> Verdict {
    let Claim(_, figure, base, is, new) = claim;
    let [base, new] = [base, new].map(|column| values(rows, effect, column, figure));
    let held = base.iter().zip(&new);
    let held: Vec<bool> = held.map(|(base, new)| is.holds(*base, *new)).collect();
    match held.iter().filter(|it| **it).count() {
        0 => Verdict::No,
        all if all == held.len() => Verdict::Yes,
        _ => Verdict::NotShown,
    }
}

fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_owned(),
        value if value < 0.095 => format!("{value:.3}"),
        value if value < 9.95 => format!("{value:.2}"),
        value => format!("{value:.0}"),
    }
}

/// Text of all effects that were measured.
pub(super) fn page(effects: &[Effect], rows: &[Row]) -> String {
    let is_measured = |effect: &&Effect| rows.iter().any(|row| row.effect == effect.name);
    let mut verdicts = Vec::new();
    let mut text = String::new();
    for effect in effects.iter().filter(is_measured) {
        // Formatting into a String cannot fail.
        let _ = write!(text, "\n## {}\n\n{}.\n\n", effect.name, effect.source);
        let _ = write!(text, "On your host: {}.\n\n", effect.on_your_host);
        claims(&mut text, rows, effect, &mut verdicts);
        table(&mut text, rows, effect);
    }
    let several = |of: Verdict| verdicts.iter().filter(|it| **it == of).count();
    let head = format!(
        "{} claims: {} hold in every round, {} in some, {} in none.\n",
        verdicts.len(),
        several(Verdict::Yes),
        several(Verdict::NotShown),
        several(Verdict::No)
    );
    head + &text
}

fn claims(text: &mut String, rows: &[Row], effect: &Effect, verdicts: &mut Vec<Verdict>) {
    text.push_str("| claim | counted | base | new | shown |\n|---|---|---|---|---|\n");
    for claim in &effect.claims {
        let Claim(says, figure, base, _, new) = claim;
        let of = |column: &str| number(median(&values(rows, effect, column, figure)));
        let verdict = verdict(claim, rows, effect);
        verdicts.push(verdict);
        let word = match verdict {
            Verdict::Yes => "yes",
            Verdict::No => "no",
            Verdict::NotShown => "not in all rounds",
        };
        let _ = writeln!(
            text,
            "| {says} | {figure} | {base}: {} | {new}: {} | {word} |",
            of(base),
            of(new)
        );
    }
}

/// Medians over rounds, with the least and the greatest where they differ.
fn table(text: &mut String, rows: &[Row], effect: &Effect) {
    let names: Vec<&str> = effect.columns.iter().map(|it| &*it.name).collect();
    let _ = write!(
        text,
        "\n| for each {} | {} |\n",
        effect.unit,
        names.join(" | ")
    );
    let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
    for (name, meaning) in FIGURES {
        let of = names
            .iter()
            .map(|column| values(rows, effect, column, name));
        let of: Vec<Vec<f64>> = of.collect();
        if of.iter().flatten().all(|value| *value == 0.0) {
            continue;
        }
        let cells = of.iter().map(|values| cell(values)).collect::<Vec<_>>();
        let _ = writeln!(text, "| {meaning} (`{name}`) | {} |", cells.join(" | "));
    }
}

fn cell(values: &[f64]) -> String {
    let ends = [
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(0.0, f64::max),
    ];
    let [low, high] = ends.map(number);
    let middle = number(median(values));
    if low == high {
        middle
    } else {
        format!("{middle} ({low} to {high})")
    }
}

/// The columns `base` and `new`, under the load of an effect's first column.
pub(super) fn compared(effect: &Effect, rows: &[Row]) -> String {
    let mut text = String::from("| figure | base | new | delta |\n|---|---|---|---|\n");
    for (name, meaning) in FIGURES {
        let of = |column| values(rows, effect, column, name);
        let (base, new) = (of("base"), of("new"));
        let middles = [&base, &new].map(|it| median(it));
        if middles.iter().sum::<f64>() <= 0.0 {
            continue;
        }
        let delta = match middles[0] {
            0.0 => String::from("from 0"),
            from => format!("{:+.0} %", 100.0 * (middles[1] - from) / from),
        };
        let _ = writeln!(
            text,
            "| {meaning} (`{name}`) | {} | {} | {delta} |",
            cell(&base),
            cell(&new)
        );
    }
    text
}

/// A line for each row: effect, column, round, counts.
pub(super) fn write(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let counts = row
            .counts
            .iter()
            .map(|(name, count)| format!("{name}={count}"));
        let counts = counts.collect::<Vec<_>>().join(" ");
        let Row {
            effect,
            column,
            round,
            ..
        } = row;
        // Formatting into a String cannot fail.
        let _ = writeln!(text, "{effect}\t{column}\t{round}\t{counts}");
    }
    text
}

pub(super) fn read(text: &str) -> Result<Vec<Row>> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [effect, column, round, counts] = fields[..] else {
            bail!("no row: {line}");
        };
        let count = |pair: &str| {
            let (name, count) = pair.split_once('=')?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        let counts = counts.split(' ').map(count).collect::<Option<Counts>>();
        Ok(Row {
            effect: effect.to_owned(),
            column: column.to_owned(),
            round: round.parse()?,
            counts: counts.with_context(|| format!("no counts: {line}"))?,
        })
    };
    text.lines().map(row).collect()
}

#[cfg(test)]
mod test {
    use super::super::{compare, effects::all, script};
    use super::*;

    fn kept() -> (Vec<Effect>, Vec<Row>) {
        let rows = include_str!("../../../../../measurements/2026-11-30-vm-rig/rows.tsv");
        (all().unwrap(), read(rows).unwrap())
    }

    #[test]
    fn the_page_is_of_the_kept_rows() {
        let (effects, rows) = kept();
        let page = include_str!("../../../../../docs/rig.md");
        let text = super::page(&effects, &rows);
        assert!(page.ends_with(&text), "see --from");
        let (all, shown) = text.split_once(" claims: ").unwrap();
        let counted = format!("{} of {all} claims", shown.split(' ').next().unwrap());
        assert!(include_str!("../../../../../README.md").contains(&counted));
        assert_eq!(write(&read(&write(&rows)).unwrap()), write(&rows));
    }

    #[test]
    fn claims_are_of_what_exists_and_refuted_by_exchanged_columns() {
        let (effects, rows) = kept();
        let each = |nth: usize| std::iter::repeat(&effects[nth]).zip(&effects[nth].claims);
        for (effect, claim) in (0..effects.len()).flat_map(each) {
            let Claim(says, figure, base, is, new) = claim.clone();
            let is_there = |name: &String| effect.columns.iter().any(|it| it.name == *name);
            assert!([&base, &new].into_iter().all(is_there), "{claim:?}");
            assert!(FIGURES.iter().any(|(name, _)| *name == figure), "{figure}");
            let is_order = matches!(is, Is::Less | Is::More);
            if is_order && verdict(claim, &rows, effect) == Verdict::Yes {
                let exchanged = verdict(&Claim(says, figure, new, is, base), &rows, effect);
                assert_eq!(exchanged, Verdict::No, "{}: {claim:?}", effect.name);
            }
        }
    }

    #[test]
    fn two_settings_are_compared_under_the_load_of_the_first_column() {
        let (mut effects, mut rows) = kept();
        let effect = &mut effects[0];
        rows = vec![rows.remove(0), rows.remove(1)];
        (rows[0].column, rows[1].column) = ("base".to_owned(), "new".to_owned());
        let settings = ("halt_poll_ns=0", "halt_poll_ns=7 halt_poll_ns_grow=3");
        compare(effect, settings);
        let script = script(effect, 1);
        let new = script.split("\nmeasured ").nth(2);
        assert!(new.is_some_and(|it| it.ends_with("setting halt_poll_ns=7 halt_poll_ns_grow=3")));
        let text = compared(effect, &rows);
        assert!(text.contains("(`sleeps`) | 3.07 | 2.82 | -8 % |"), "{text}");
        assert!(text.contains("(`polls`) | 0 | 2.18 | from 0 |"), "{text}");
    }
}
