//! Small tables and marks that add up in any order and cannot grow without end.

use crate::stats::Fold;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    pub count: u64,
    /// First time; meaningless while `count` is 0.
    pub first_ns: u64,
    /// Last time; meaningless while `count` is 0.
    pub last_ns: u64,
}

impl Span {
    pub fn of_one(time_ns: u64) -> Self {
        Self::between(time_ns, time_ns)
    }

    /// One thing, from then till then.
    pub fn between(first_ns: u64, last_ns: u64) -> Self {
        Self {
            count: 1,
            first_ns,
            last_ns,
        }
    }

    /// The same span for so many things.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self { count, ..self }
    }
}

impl Fold for Span {
    fn fold(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        self.count = self.count.saturating_add(other.count);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }
}

/// The newest value seen; of two at the same time, the larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest<T>(Option<(u64, T)>);

impl<T> Default for Newest<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Ord + Clone> Newest<T> {
    pub fn see(&mut self, time_ns: u64, value: T) {
        let seen = Some((time_ns, value));
        if seen > self.0 {
            self.0 = seen;
        }
    }

    pub fn value(&self) -> Option<&T> {
        self.0.as_ref().map(|(_, value)| value)
    }
}

impl<T: Ord + Clone> Fold for Newest<T> {
    fn fold(&mut self, other: &Self) {
        if other.0 > self.0 {
            self.0.clone_from(&other.0);
        }
    }
}

/// The least and the largest seen: as a counter with its time, its first reading and its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Ends<T = (u64, u64)>(Option<(T, T)>);

impl<T: Copy> Ends<T> {
    pub(super) fn of(seen: Option<T>) -> Self {
        Self(seen.map(|seen| (seen, seen)))
    }

    pub(super) fn ends(&self) -> Option<(T, T)> {
        self.0
    }
}

impl Ends {
    pub(super) fn at(time_ns: u64, counter: Option<u64>) -> Self {
        Self::of(counter.map(|counter| (time_ns, counter)))
    }

    /// How much it grew in which time.
    pub(super) fn grown(&self) -> Option<(u64, u64)> {
        let ((from_ns, before), (to_ns, after)) = self.0?;
        let time_ns = to_ns.checked_sub(from_ns).filter(|ns| *ns > 0)?;
        Some((after.checked_sub(before)?, time_ns))
    }
}

impl<T: Ord + Copy> Fold for Ends<T> {
    fn fold(&mut self, other: &Self) {
        let both = self.0.zip(other.0);
        let wider = both.map(|(own, other)| (own.0.min(other.0), own.1.max(other.1)));
        self.0 = wider.or(self.0).or(other.0);
    }
}

/// A table of at most `LIMIT` rows: those of the smallest keys; all others are one row, `rest`.
///
/// That choice, unlike "the first" or "the most frequent", does not depend on the order in which
/// rows come: a key that belongs to the smallest of all belongs to the smallest at any time before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounded<K: Ord, V, const LIMIT: usize> {
    /// By key. A vCPU mostly has one ceiling: a row takes the room of a row, and not of a tree's node.
    kept: Vec<(K, V)>,
    rest: Option<V>,
}

impl<K: Ord, V, const LIMIT: usize> Default for Bounded<K, V, LIMIT> {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            rest: None,
        }
    }
}

impl<K: Ord + Clone, V: Fold + Clone, const LIMIT: usize> Bounded<K, V, LIMIT> {
    pub fn add(&mut self, key: K, value: &V) {
        let place = match self.place(&key) {
            Ok(place) => return self.kept[place].1.fold(value),
            Err(place) => place,
        };
        if place == LIMIT {
            return self.add_rest(value);
        }
        if self.kept.len() == LIMIT
            && let Some((_, evicted)) = self.kept.pop()
        {
            self.add_rest(&evicted);
        }
        if self.kept.is_empty() {
            self.kept.reserve_exact(1);
        }
        self.kept.insert(place, (key, value.clone()));
    }

    fn place(&self, key: &K) -> Result<usize, usize> {
        self.kept.binary_search_by(|(known, _)| known.cmp(key))
    }

    fn add_rest(&mut self, value: &V) {
        match &mut self.rest {
            Some(rest) => rest.fold(value),
            None => self.rest = Some(value.clone()),
        }
    }

    /// The rows kept, by key.
    pub fn rows(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.kept.iter().map(|(key, value)| (key, value))
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        Some(&self.kept[self.place(key).ok()?].1)
    }

    /// All that found no row.
    pub fn rest(&self) -> Option<&V> {
        self.rest.as_ref()
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

impl<K: Ord + Clone, V: Fold + Clone, const LIMIT: usize> Fold for Bounded<K, V, LIMIT> {
    fn fold(&mut self, other: &Self) {
        for (key, value) in &other.kept {
            self.add(key.clone(), value);
        }
        if let Some(rest) = &other.rest {
            self.add_rest(rest);
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_full_table_keeps_the_smallest_keys_whatever_the_order() {
        let mut tables = Vec::new();
        for order in [[1, 2, 3, 4, 3], [4, 3, 3, 2, 1], [3, 1, 4, 3, 2]] {
            let mut table = Bounded::<u32, Span, 2>::default();
            for key in order {
                table.add(key, &Span::of_one(u64::from(key)));
            }
            tables.push(table);
        }
        assert_eq!(tables[0], tables[1]);
        assert_eq!(tables[0], tables[2]);
        assert_eq!(tables[0].rows().count(), 2);
        assert_eq!(tables[0].rest(), Some(&Span::between(3, 4).times(3)));
    }
}
