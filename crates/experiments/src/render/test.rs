//! Numbers as the page has them. What a page is made of is held against docs/experiments.md, in `tests/it`.

use super::*;

#[test]
fn numbers_have_three_digits_or_so() {
    for (value, text) in [
        (12_345.6, "12346"),
        (12.345, "12.3"),
        (1.234, "1.23"),
        (-0.1234, "-0.123"),
        (0.0, "0"),
        (0.0001, "0"),
    ] {
        assert_eq!(number(value), text);
    }
}
