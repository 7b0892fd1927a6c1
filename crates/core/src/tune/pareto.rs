//! Settings that no other beats in both polling and latency.

/// Time polled and remaining wake-up latency: less is better in both.
pub type Point = (u64, u64);

/// Which points are dominated by none: rising in the first, falling in the second. Of equal points the
/// first stays.
pub fn front<T: Ord + Copy>(points: &[(u64, T)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|&index| (points[index], index));
    let mut least: Option<T> = None;
    order.retain(|&index| {
        let own = points[index].1;
        let is_less = least.is_none_or(|least| own < least);
        if is_less {
            least = Some(own);
        }
        is_less
    });
    order
}

/// At most `most` of a front, spread evenly over its first measure; both ends stay.
pub fn thin(front: &[usize], points: &[Point], most: usize) -> Vec<usize> {
    if front.len() <= most || most < 2 {
        return front.to_vec();
    }
    let place = |index: usize| (points[index].0.saturating_add(1) as f64).ln();
    let (first, last) = (place(front[0]), place(front[front.len() - 1]));
    let step = (last - first) / (most - 1) as f64;
    let mut kept = vec![front[0]];
    let mut next = first + step;
    for pair in front.windows(2).skip(1) {
        if place(pair[1]) > next {
            kept.push(pair[0]);
            while place(pair[1]) > next {
                next += step;
            }
        }
    }
    kept.push(front[front.len() - 1]);
    kept.dedup();
    kept
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_front_of_known_points() {
        let points = [(5, 5), (1, 9), (5, 4), (3, 9), (9, 1), (9, 1), (10, 1)];
        assert_eq!(front(&points), [1, 2, 4]);
        assert_eq!(front::<u64>(&[]), Vec::<usize>::new());
        assert_eq!(front(&[(7, u64::MAX), (6, u64::MAX)]), [1]);
    }

    proptest::proptest! {
        /// No point of a front is beaten by any point, and every point left out is beaten by one on it.
        #[test]
        fn a_front_has_no_dominated_point(
            points in proptest::collection::vec((0_u64..20, 0_u64..20), 1..60),
        ) {
            let front = front(&points);
            let beats = |a: Point, b: Point| a.0 <= b.0 && a.1 <= b.1 && a != b;
            for &index in &front {
                proptest::prop_assert!(!points.iter().any(|&other| beats(other, points[index])));
            }
            for (index, &point) in points.iter().enumerate() {
                let covered = front.iter().any(|&kept| {
                    kept == index || beats(points[kept], point) || points[kept] == point
                });
                proptest::prop_assert!(covered, "{point:?}");
            }
        }

        /// A thinned front is a part of the front, in its order, with both ends.
        #[test]
        fn a_thinned_front_keeps_its_ends(
            points in proptest::collection::vec((0_u64..1_000_000, 0_u64..1_000_000), 1..200),
            most in 2_usize..20,
        ) {
            let front = front(&points);
            let thinned = thin(&front, &points, most);
            proptest::prop_assert!(thinned.len() <= most.max(front.len().min(most)) + 1);
            proptest::prop_assert!(thinned.iter().all(|index| front.contains(index)));
            proptest::prop_assert_eq!(thinned.first(), front.first());
            proptest::prop_assert_eq!(thinned.last(), front.last());
        }
    }
}
