//! A plot in text: points in a frame, latency upwards, polling to the right. Pure.

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Letter of the mark; later marks cover earlier ones.
    pub(super) letter: char,
}

const LINES: usize = 10;

/// Draws points in a field of `width` columns: the lines from top to bottom, and the largest values of
/// both axes, which begin at 0.
pub(super) fn draw(marks: &[Mark], width: usize) -> (Vec<String>, f64, f64) {
    let largest = |of: fn(&Mark) -> f64| {
        let most = marks.iter().map(of).fold(0.0, f64::max);
        if most > 0.0 { most } else { 1.0 }
    };
    let (most_x, most_y) = (largest(|mark| mark.x), largest(|mark| mark.y));
    let mut field = vec![vec![' '; width.max(1)]; LINES];
    for mark in marks {
        let column = place(mark.x / most_x, width.max(1));
        let line = LINES - 1 - place(mark.y / most_y, LINES);
        field[line][column] = mark.letter;
    }
    let lines = field.into_iter().map(String::from_iter).collect();
    (lines, most_x, most_y)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a small number; the cast saturates"
)]
fn place(share: f64, of: usize) -> usize {
    ((share * (of - 1) as f64).round() as usize).min(of - 1)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn nothing_and_naught_are_drawn_too_and_later_marks_cover_earlier() {
        assert!(draw(&[], 5).0.iter().all(|line| line == "     "));
        let naught = ['a', 'o'].map(|letter| Mark {
            x: 0.0,
            y: 0.0,
            letter,
        });
        assert_eq!(draw(&naught, 3).0[LINES - 1], "o  ");
    }
}
