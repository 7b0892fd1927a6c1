//! Figures, variants and effects as tables, a row a line.

/// Figures: name, unit, which direction is good, what it is, and its value of a run.
macro_rules! figures {
    ($vis:vis $of:ident: $run:ty;
        $($name:literal, $unit:literal, $better:ident, $what:literal, $value:expr;)+) => {
        $vis const FIGURES: &[$crate::experiment::Figure] = &[$($crate::experiment::Figure {
            name: std::borrow::Cow::Borrowed($name),
            unit: std::borrow::Cow::Borrowed($unit),
            better: $crate::experiment::Better::$better,
            what: std::borrow::Cow::Borrowed($what),
        }),+];

        fn figures(block: $crate::experiment::Block, $of: &$run) -> $crate::experiment::Block {
            block$(.with($name, $value))+
        }
    };
}

/// The variants of loads and settings: a setting after the other for each load.
pub(super) fn cells<L, S>(
    loads: &[L],
    settings: &[S],
    variant: impl Fn(&L, &S) -> super::Variant,
) -> Vec<super::Variant> {
    let of_load = |load| settings.iter().map(move |setting| (load, setting));
    let cells = loads.iter().flat_map(of_load);
    cells
        .map(|(load, setting)| variant(load, setting))
        .collect()
}

/// The load and the setting of a variant.
pub(super) fn cell<'a, L, S>(loads: &'a [L], settings: &'a [S], variant: usize) -> (&'a L, &'a S) {
    (
        &loads[variant / settings.len()],
        &settings[variant % settings.len()],
    )
}

/// Variants: group, name, what it is.
macro_rules! variants {
    ($($group:expr, $name:expr, $what:expr;)+) => {
        vec![$($crate::experiment::Variant::new($group, $name, $what)),+]
    };
}

/// Effects: its kind and what it is, the figure, the group, from and to, what is expected, what the source reports.
macro_rules! effects {
    ($($kind:ident $what:expr, $figure:literal, $group:expr, $between:expr, $expected:ident $(($share:literal))?,
        $reported:expr;)+) => {
        vec![$({
            let [from, to] = $between.map(Into::into);
            $crate::experiment::Effect {
                kind: $crate::experiment::Kind::$kind,
                what: $what.into(),
                figure: $figure.into(),
                group: $group.into(),
                from,
                to,
                expected: $crate::experiment::Expected::$expected $(($share))?,
                reported: $reported.into(),
            }
        }),+]
    };
}
