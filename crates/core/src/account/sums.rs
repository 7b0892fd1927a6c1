//! Types that are sums: flags, histograms, tables of sums, and structs whose fields are sums.

use std::collections::BTreeMap;

use crate::hist::LogHist;
use crate::stats::Fold;

impl Fold for bool {
    fn fold(&mut self, other: &Self) {
        *self |= other;
    }
}

impl Fold for LogHist {
    fn fold(&mut self, other: &Self) {
        self.merge(other);
    }
}

impl<T: Fold, const N: usize> Fold for [T; N] {
    fn fold(&mut self, other: &Self) {
        for (sum, more) in self.iter_mut().zip(other) {
            sum.fold(more);
        }
    }
}

impl<K: Ord + Clone, V: Fold + Default> Fold for BTreeMap<K, V> {
    fn fold(&mut self, other: &Self) {
        for (key, more) in other {
            self.entry(key.clone()).or_default().fold(more);
        }
    }
}

/// Sums field by field. All fields are named: one that is forgotten does not compile.
macro_rules! folds {
    ($($sum:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::stats::Fold for $sum {
            #[inline]
            fn fold(&mut self, other: &Self) {
                let Self { $($field),* } = self;
                $($crate::stats::Fold::fold($field, &other.$field);)*
            }
        }
    )*};
}
pub(crate) use folds;
