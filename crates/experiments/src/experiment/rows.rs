//! Figures, variants and effects as tables, a row a line.

/// Figures: name, unit, which direction is good, what it is.
macro_rules! figures {
    ($($name:literal, $unit:literal, $better:ident, $what:literal;)+) => {
        &[$($crate::experiment::Figure {
            name: std::borrow::Cow::Borrowed($name),
            unit: std::borrow::Cow::Borrowed($unit),
            better: $crate::experiment::Better::$better,
            what: std::borrow::Cow::Borrowed($what),
        }),+]
    };
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
