//! Figures: what a field of a result is called, what it is counted in, and what it means.

use serde::Serialize;
use serde_json::Value;

use crate::number;
use crate::schema::form;

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    pub name: &'static str,
    /// Title above the figure's column; the name where the title is empty.
    pub title: &'static str,
    pub unit: Unit,
    /// Whether it may be `null`: not known.
    pub nullable: bool,
    /// Meaning of the figure, as its doc comment says it.
    pub meaning: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    Count,
    Nanos,
    /// Nanoseconds, with a fraction: a mean, or a sum that is weighted.
    MeanNanos,
    /// A part of a whole, 0 to 1.
    Share,
    /// How many in a second.
    PerSecond,
    /// In percent of one CPU: several CPUs are more than 100.
    CpuPercent,
    Bytes,
    Microjoules,
    /// A histogram of times ([`crate::openmetrics::Buckets`]).
    Buckets,
    /// An amount whose unit another field of the result names.
    Amount,
    Number,
    /// A number of either sign, in the unit that another field names; `null` where nothing bounds it.
    Real,
    /// A number with its unit, as a text that is laid out already; a column only.
    Shown,
    /// An estimate in its interval, `[value, low, high, reach]`, or parts of a whole ([`crate::html::bars::Parts`]): a
    /// column of pages only, which draw it.
    Drawn,
    /// A name and the place of the page that it leads to, `[place, name]`, or the name alone. A column of pages only.
    Linked,
    Flag,
    Word,
    Words,
    /// A text from an external source.
    Name,
    /// An object whose fields depend on what it says; its meaning tells of them.
    Object,
    /// An object. A pattern that [`figures!`](crate::figures) is still given behind its figures is not read.
    Record(&'static [Figure]),
    /// Fields that stand beside the others (`#[serde(flatten)]`).
    Flat(&'static [Figure]),
    List(&'static [Figure]),
}

pub trait Figures: Serialize {
    const FIGURES: &'static [Figure];
}

impl<R: Figures> Figures for &R {
    const FIGURES: &'static [Figure] = R::FIGURES;
}

impl<R: Figures> Figures for Box<R> {
    const FIGURES: &'static [Figure] = R::FIGURES;
}

impl Figure {
    pub fn title(&self) -> String {
        if self.title.is_empty() {
            self.name.trim_end_matches("_ns").replace('_', " ")
        } else {
            self.title.to_owned()
        }
    }

    /// Its meaning, without what a doc comment puts around it.
    pub fn meaning(&self) -> &'static str {
        self.meaning.trim()
    }
}

/// Figures of one unit, from their names and meanings.
pub const fn named<const N: usize>(
    named: [(&'static str, &'static str); N],
    unit: Unit,
) -> [Figure; N] {
    let mut figures = [Figure {
        name: "",
        title: "",
        unit,
        nullable: false,
        meaning: "",
    }; N];
    let mut at = 0;
    while at < N {
        (figures[at].name, figures[at].meaning) = named[at];
        at += 1;
    }
    figures
}

impl Unit {
    /// Whether columns of it stand at the right.
    pub fn is_number(self) -> bool {
        self == Self::Shown || matches!(form(self).0, "integer" | "number")
    }

    /// A value for people; a dash where it is not known.
    pub fn show(self, value: &Value) -> String {
        match (self, value) {
            (_, Value::Null) => "-".to_owned(),
            (Self::Nanos, _) if value.is_u64() => number::nanos(value.as_u64().unwrap_or(0)),
            (Self::Count, _) if value.is_u64() => number::count(value.as_u64().unwrap_or(0)),
            (Self::Nanos | Self::MeanNanos, Value::Number(n)) => {
                number::nanos_f64(n.as_f64().unwrap_or(0.0))
            }
            (Self::Share, Value::Number(n)) => number::share(n.as_f64().unwrap_or(0.0)),
            (Self::CpuPercent, Value::Number(n)) => {
                number::share(n.as_f64().unwrap_or(0.0) / 100.0)
            }
            (Self::CpuPercent, Value::Array(bounded)) => {
                bounded.iter().map(|it| self.show(it)).collect()
            }
            (Self::Count | Self::PerSecond | Self::Amount | Self::Real, Value::Number(n)) => {
                number::scaled(n.as_f64().unwrap_or(0.0))
            }
            _ => plain(value),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// A figure that is no object, and where it stands in a result.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub figure: &'static Figure,
    pub path: Vec<&'static str>,
}

impl Leaf {
    pub fn of<'a>(&self, result: &'a Value) -> &'a Value {
        let found = self.path.iter().try_fold(result, |at, name| at.get(name));
        found.unwrap_or(&Value::Null)
    }
}

/// All figures of a result that are no objects, in their order; lists are results of their own.
pub fn leaves(figures: &'static [Figure]) -> Vec<Leaf> {
    let mut found = Vec::new();
    walk(figures, &mut Vec::new(), &mut found);
    found
}

fn walk(figures: &'static [Figure], path: &mut Vec<&'static str>, found: &mut Vec<Leaf>) {
    for figure in figures {
        match figure.unit {
            Unit::Flat(inner) => walk(inner, path, found),
            Unit::List(_) | Unit::Object => {}
            Unit::Record(inner) => {
                path.push(figure.name);
                walk(inner, path, found);
                path.pop();
            }
            _ => found.push(Leaf {
                figure,
                path: path.iter().copied().chain([figure.name]).collect(),
            }),
        }
    }
}

/// Whether a type's name is that of an `Option`.
#[doc(hidden)]
pub const fn is_option(name: &str) -> bool {
    let (name, option) = (name.as_bytes(), b"Option");
    let mut at = 0;
    while at < option.len() {
        if at >= name.len() || name[at] != option[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// Declares figures, of one struct or of several: a field's name, type and doc comment, its [`Unit`], and the
/// title of its column where it is not its name.
///
/// ```
/// use haltwise_document::{Figures, Unit, figures};
///
/// figures! {
///     /// One reason.
///     pub struct Reason {
///         /// How often.
///         pub count: u64 = Count,
///         /// What it cost the host; not known where no exit has a time.
///         pub host_ns: Option<u64> = Nanos "time",
///     }
/// }
/// let [count, host_ns] = Reason::FIGURES else { panic!() };
/// assert_eq!((count.unit, count.title()), (Unit::Count, "count".to_owned()));
/// assert_eq!((host_ns.nullable, host_ns.title()), (true, "time".to_owned()));
/// ```
///
/// `const NAME: path::Struct { ... }` gives figures to a struct that another crate defines. The compiler holds the
/// declaration against the struct: a field too many, too few or of another type is an error.
#[macro_export]
macro_rules! figures {
    ($(
        $(#[$($attr:tt)*])*
        $vis:vis struct $name:ident {
            $(
                $(#[$($of:tt)*])*
                $seen:vis $field:ident: $type:ty = $unit:ident $(($arg:expr))? $($title:literal)?
            ),* $(,)?
        }
    )+) => {$(
        $(#[$($attr)*])*
        #[derive(Debug, serde::Serialize)]
        $vis struct $name {
            $($(#[$($of)*])* $seen $field: $type,)*
        }

        impl $crate::Figures for $name {
            const FIGURES: &'static [$crate::Figure] = &[$($crate::Figure {
                name: stringify!($field),
                title: concat!($($title)?),
                unit: $crate::Unit::$unit $(($arg))?,
                nullable: $crate::figure::is_option(stringify!($type)),
                meaning: concat!($($crate::doc_comment!($($of)*)),*),
            },)*];
        }
    )+};
    (
        $(#[$($attr:tt)*])*
        $vis:vis const $name:ident: $other:path {
            $(
                $(#[$($of:tt)*])*
                $field:ident: $type:ty = $unit:ident $(($arg:expr))? $($title:literal)?
            ),* $(,)?
        }
    ) => {
        $(#[$($attr)*])*
        $vis const $name: &[$crate::Figure] = &[$($crate::Figure {
            name: stringify!($field),
            title: concat!($($title)?),
            unit: $crate::Unit::$unit $(($arg))?,
            nullable: $crate::figure::is_option(stringify!($type)),
            meaning: concat!($($crate::doc_comment!($($of)*)),*),
        },)*];

        const _: fn(&$other) = |it| {
            let $other { $($field),* } = it;
            $(let _: &$type = $field;)*
        };
    };
}

/// The text of a doc comment; nothing of another attribute.
#[doc(hidden)]
#[macro_export]
macro_rules! doc_comment {
    (doc = $text:literal) => {
        $text
    };
    ($($other:tt)*) => {
        ""
    };
}
