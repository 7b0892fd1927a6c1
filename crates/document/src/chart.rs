//! Charts in text: bars, stacked bars, sparklines. Pure: numbers in, lines out.

/// A bar of `width` columns at most, as long as `value` is of `full`. A value that is not zero
/// leaves a mark.
pub fn bar(mark: char, value: u64, full: u64, width: usize) -> String {
    let length = columns(value, full, width);
    let mark_of_little = if value > 0 && length == 0 { "." } else { "" };
    format!("{}{mark_of_little}", String::from(mark).repeat(length))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of width, which is small"
)]
fn columns(value: u64, full: u64, width: usize) -> usize {
    if full == 0 {
        return 0;
    }
    ((value as f64 / full as f64 * width as f64).round() as usize).min(width)
}

/// Parts of a whole, each as so many columns of its mark; together exactly `width` columns.
/// Columns go to the largest remainders, so that no part is off by a whole column.
pub fn stacked(parts: &[(char, u64)], width: usize) -> String {
    let whole: u128 = parts.iter().map(|(_, n)| u128::from(*n)).sum();
    if whole == 0 {
        return " ".repeat(width);
    }
    let exact = |n: u64| u128::from(n) * width as u128;
    let mut lengths: Vec<usize> = parts
        .iter()
        .map(|(_, n)| usize::try_from(exact(*n) / whole).unwrap_or(0))
        .collect();
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by_key(|&n| std::cmp::Reverse(exact(parts[n].1) % whole));
    let missing = width.saturating_sub(lengths.iter().sum());
    for &n in by_remainder.iter().take(missing) {
        lengths[n] += 1;
    }
    let marks = parts.iter().zip(&lengths);
    marks
        .map(|((mark, _), n)| String::from(*mark).repeat(*n))
        .collect()
}

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Values over time: a space where nothing is known, a dot for zero.
pub fn sparkline(values: &[Option<u64>], full: u64) -> String {
    values
        .iter()
        .map(|value| match value {
            None => ' ',
            Some(0) => '.',
            Some(value) => LEVELS[columns(*value, full, LEVELS.len()).max(1) - 1],
        })
        .collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_bar_shows_little_but_not_nothing() {
        assert_eq!(bar('#', 50, 100, 10), "#####");
        assert_eq!(bar('#', 1, 1000, 10), ".");
        assert_eq!(bar('#', 0, 1000, 10), "");
        assert_eq!(bar('#', 7, 0, 10), ".");
    }

    #[test]
    fn stacked_bars_are_exactly_as_wide_as_asked() {
        assert_eq!(stacked(&[('a', 1), ('b', 1), ('c', 1)], 10).len(), 10);
        assert_eq!(stacked(&[('a', 1), ('b', 3)], 4), "abbb");
        assert_eq!(stacked(&[('a', 0)], 4), "    ");
        assert_eq!(stacked(&[('a', u64::MAX), ('b', u64::MAX)], 4), "aabb");
    }
}
