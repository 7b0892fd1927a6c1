//! Tables of declared figures.

use serde_json::Value;

use crate::figure::{Figures, Leaf, Unit, leaves};

#[derive(Debug, Clone)]
pub struct Column {
    pub title: String,
    /// Meaning of the column; empty where the title says it.
    pub meaning: &'static str,
    pub unit: Unit,
    /// When it goes where a screen is too narrow: the lowest goes first. `None` if it stays.
    pub spare: Option<usize>,
    /// The class of the bars that show its shares on a page.
    pub bar: Option<&'static str>,
}

#[derive(Debug, Clone)]
pub struct Table {
    pub caption: &'static str,
    /// Its name for the page's script, which may sort it then.
    pub id: Option<&'static str>,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Value>>,
    pub more: usize,
}

#[derive(Debug)]
pub struct Rows<'a, R> {
    results: &'a [R],
    json: Vec<Value>,
    leaves: Vec<Leaf>,
    amounts: Unit,
    paths: Vec<String>,
    table: Table,
}

impl<'a, R: Figures> Rows<'a, R> {
    /// The first `top` of these results.
    pub fn new(caption: &'static str, rows: &'a [R], top: usize) -> Self {
        let mut made = Rows::undeclared(caption, rows, top);
        let json = made.results.iter().map(serde_json::to_value);
        made.json = json.map(Result::unwrap_or_default).collect();
        made.leaves = leaves(R::FIGURES);
        made
    }
}

impl<'a, R> Rows<'a, R> {
    /// The same of anything: its columns are added by [`Rows::with`].
    pub fn undeclared(caption: &'static str, rows: &'a [R], top: usize) -> Self {
        let shown = &rows[..rows.len().min(top)];
        Self {
            results: shown,
            json: Vec::new(),
            leaves: Vec::new(),
            amounts: Unit::Amount,
            paths: Vec::new(),
            table: Table {
                caption,
                id: None,
                columns: Vec::new(),
                rows: vec![Vec::new(); shown.len()],
                more: rows.len() - shown.len(),
            },
        }
    }

    /// Sets the unit of amounts; called before amounts are shown.
    #[must_use]
    pub fn amounts(mut self, unit: Unit) -> Self {
        self.amounts = unit;
        self
    }

    /// Shows these figures: names, with a dot before those of an object within.
    #[must_use]
    pub fn show(mut self, paths: &[&str]) -> Self {
        for path in paths {
            let found = self.leaves.iter().find(|leaf| leaf.path.join(".") == *path);
            debug_assert!(found.is_some(), "no figure `{path}` is declared");
            let Some(leaf) = found else { continue };
            let unit = match leaf.figure.unit {
                Unit::Amount => self.amounts,
                unit => unit,
            };
            for (row, json) in self.table.rows.iter_mut().zip(&self.json) {
                row.push(leaf.of(json).clone());
            }
            let (title, meaning) = (leaf.figure.title(), leaf.figure.meaning());
            self.add(path, title, meaning, unit);
        }
        self
    }

    #[must_use]
    pub fn with<V: Into<Value>>(
        mut self,
        title: &str,
        unit: Unit,
        value: impl Fn(&R) -> V,
    ) -> Self {
        for (row, result) in self.table.rows.iter_mut().zip(self.results) {
            row.push(value(result).into());
        }
        self.add(title, title.to_owned(), "", unit);
        self
    }

    fn add(&mut self, path: &str, title: String, meaning: &'static str, unit: Unit) {
        self.table.columns.push(Column {
            title,
            meaning,
            unit,
            spare: None,
            bar: None,
        });
        self.paths.push(path.to_owned());
    }

    #[must_use]
    pub fn titled(mut self, path: &str, title: &str) -> Self {
        title.clone_into(&mut self.column(path).title);
        self
    }

    /// Says that these figures are not known of some results.
    #[must_use]
    pub fn unknown(self, paths: &[&str], of: impl Fn(&R) -> bool) -> Self {
        self.change(paths, |result, value| {
            if of(result) {
                *value = Value::Null;
            }
        })
    }

    /// Puts the sign of a bound (`<`) before these figures.
    #[must_use]
    pub fn bounded(self, paths: &[&str], sign: impl Fn(&R) -> &'static str) -> Self {
        self.change(paths, |result, value| {
            let sign = sign(result);
            if !sign.is_empty() && !value.is_null() {
                *value = Value::Array(vec![sign.into(), value.take()]);
            }
        })
    }

    /// Those of these figures that are shown.
    fn change(mut self, paths: &[&str], change: impl Fn(&R, &mut Value)) -> Self {
        let shown = self.paths.iter().enumerate();
        for (at, _) in shown.filter(|(_, path)| paths.contains(&path.as_str())) {
            for (row, result) in self.table.rows.iter_mut().zip(self.results) {
                change(result, &mut row[at]);
            }
        }
        self
    }

    /// Columns that go where a screen is too narrow, in this order.
    #[must_use]
    pub fn spare(mut self, paths: &[&str]) -> Self {
        for (n, path) in paths.iter().enumerate() {
            self.column(path).spare = Some(n);
        }
        self
    }

    /// Shows a share as a bar too, on a page.
    #[must_use]
    pub fn bar(mut self, path: &str, class: &'static str) -> Self {
        self.column(path).bar = Some(class);
        self
    }

    #[must_use]
    pub fn sortable(mut self, id: &'static str) -> Self {
        self.table.id = Some(id);
        self
    }

    pub fn finish(self) -> Table {
        self.table
    }

    fn column(&mut self, path: &str) -> &mut Column {
        let at = self.paths.iter().position(|it| it == path);
        debug_assert!(at.is_some(), "no column `{path}` is shown");
        &mut self.table.columns[at.unwrap_or(0)]
    }
}

/// Results that can be put in the order of a figure.
pub trait Sortable {
    /// The figures that they can be ordered by, each as it is named in JSON.
    fn keys(&self) -> Vec<String>;

    /// Puts the largest first, texts by the alphabet, what is not known last. False if no figure has this name.
    fn sort_by(&mut self, key: &str) -> bool;
}

impl<R: Figures> Sortable for Vec<R> {
    fn keys(&self) -> Vec<String> {
        let named = leaves(R::FIGURES).into_iter();
        named.map(|leaf| leaf.path.join(".")).collect()
    }

    fn sort_by(&mut self, key: &str) -> bool {
        let mut named = leaves(R::FIGURES).into_iter();
        let Some(leaf) = named.find(|leaf| leaf.path.join(".") == key) else {
            return false;
        };
        self.sort_by_cached_key(|row| {
            let value = leaf
                .of(&serde_json::to_value(row).unwrap_or_default())
                .clone();
            match &value {
                Value::Null => (true, f64::NAN.to_bits(), String::new()),
                Value::Bool(is) => (false, u64::from(!is), String::new()),
                Value::Number(n) => (false, descending(n.as_f64().unwrap_or(0.0)), String::new()),
                other => (false, 0, other.to_string()),
            }
        });
        true
    }
}

fn descending(value: f64) -> u64 {
    let bits = value.to_bits();
    // The bits of floats are in the order of their values but for the sign.
    if value.is_sign_negative() {
        bits
    } else {
        !bits & !(1 << 63)
    }
}
