//! The VMs that a table shows, while those of a capture are added up: the others do not wait in memory for its end.

use super::page::expensive_first;
use super::view::HaltGroup;
use crate::shown::Shown;

/// Those that are not shown are left out so many at a time.
const TOGETHER: usize = 512;

/// Leaves out what is not shown.
#[derive(Debug)]
pub(crate) struct Shortened<'a> {
    shown: &'a Shown,
    most: usize,
    pub(crate) left_out: usize,
}

impl<'a> Shortened<'a> {
    /// Of what shows VMs in a table alone; anything else shows all of them.
    pub(crate) fn new(shown: &'a Shown, is_table: bool) -> Self {
        Self {
            shown,
            most: if is_table { shown.rows() } else { usize::MAX },
            left_out: 0,
        }
    }

    /// Leaves out those of the groups so far that others come before.
    pub(crate) fn leave_out(&mut self, vms: &mut Vec<HaltGroup>) {
        if vms.len() / 2 < self.most.max(TOGETHER) {
            return;
        }
        if !self.shown.is_sorted() {
            expensive_first(vms);
        }
        // Where VMs have no such field, that is said in the end.
        if self.shown.sort(&mut [vms]).is_ok() {
            self.left_out += vms.len() - self.most;
            vms.truncate(self.most);
        }
    }
}

#[cfg(test)]
mod test {
    use clap::Parser;
    use haltwise_core::replay::Cost;
    use haltwise_core::workload::SplitMix64;

    use super::super::sums::Sum;
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        shown: Shown,
    }

    /// Of many with equal figures, in whatever order they come.
    #[test]
    fn those_that_are_left_are_the_first_of_all() {
        for options in [
            vec!["", "--rows", "7"],
            vec!["", "--rows", "7", "--sort", "halts"],
            vec!["", "--rows", "700", "--sort", "name"],
            vec!["", "--rows", "all"],
        ] {
            let shown = Line::parse_from(&options).shown;
            let mut random = SplitMix64(3);
            let mut shortened = Shortened::new(&shown, true);
            let (mut all, mut left) = (Vec::new(), Vec::new());
            for number in 0..5_000 {
                for groups in [&mut all, &mut left] {
                    let mut group = Sum::default().group(&[], &Cost::FREE);
                    group.name = Some(format!("vm-{}", number * 7_919 % 5_000));
                    group.halts = number % 11;
                    groups.push(group);
                }
                let cost_ns = Some(random.below(300) as f64);
                for group in [&mut all, &mut left] {
                    group.last_mut().unwrap().recorded.cost_ns = cost_ns;
                }
                shortened.leave_out(&mut left);
            }
            assert_eq!(left.len() + shortened.left_out, all.len());
            for groups in [&mut all, &mut left] {
                shown.sort(&mut [groups]).unwrap();
                if !shown.is_sorted() {
                    expensive_first(groups);
                }
            }
            let names = |groups: &[HaltGroup]| -> Vec<Option<String>> {
                let rows = groups.iter().take(shown.rows());
                rows.map(|group| group.name.clone()).collect()
            };
            assert_eq!(names(&left), names(&all), "{options:?}");
            assert_eq!(
                shortened.left_out > 0,
                shown.rows() < all.len(),
                "{options:?}"
            );
        }
    }
}
