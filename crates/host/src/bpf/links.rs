//! The links of programs that tell of a thing together.

use haltwise_core::recording::Missing;
use libbpf_rs::{Link, ProgramMut};

use super::program::Program;

/// Links in the order in which they were made, the one that sends a record last: then the first record
/// finds everything else in place. They go in the opposite order, for every one takes the kernel its
/// time, tens of milliseconds on a busy host: what goes earlier is missing from the records of that time.
#[derive(Debug)]
pub(super) struct Links<L = Link>(Vec<L>);

impl<L> Links<L> {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, link: L) {
        self.0.push(link);
    }

    /// Keeps the link of a program that a recording can do without; else says what is missing.
    pub(super) fn keep(
        &mut self,
        attached: libbpf_rs::Result<L>,
        tracepoint: &str,
        field: &str,
        without_it: &str,
    ) -> Option<Missing> {
        let why = match attached {
            Ok(link) => {
                self.push(link);
                return None;
            }
            Err(error) => format!("tracepoint {tracepoint} cannot be attached ({error})"),
        };
        Some(Missing::new(field, format!("{without_it}: {why}")))
    }

    pub(super) fn detach(&mut self) {
        while let Some(link) = self.0.pop() {
            drop(link);
        }
    }
}

impl Links {
    /// Attaches all programs that a recording can do without; says what is missing where one cannot be.
    pub(super) fn attach_all(&mut self, programs: &[Program<'_>]) -> Vec<Missing> {
        let optional = programs.iter().filter_map(|(_, program, without)| {
            let (field, without_it) = (*without)?;
            self.attach(program, field, without_it)
        });
        optional.collect()
    }

    /// Attaches a program that a recording can do without; else says what is missing.
    pub(super) fn attach(
        &mut self,
        program: &ProgramMut<'_>,
        field: &str,
        without_it: &str,
    ) -> Option<Missing> {
        let section = program.section().to_string_lossy();
        let tracepoint = section.rsplit('/').next().unwrap_or_default();
        self.keep(program.attach(), tracepoint, field, without_it)
    }
}

impl<L> Drop for Links<L> {
    fn drop(&mut self) {
        self.detach();
    }
}

#[cfg(test)]
mod test {
    use std::cell::RefCell;

    use super::*;

    struct DropOrder<'a>(&'a RefCell<Vec<u8>>, u8);

    impl Drop for DropOrder<'_> {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1);
        }
    }

    #[test]
    fn what_came_last_goes_first() {
        let gone = RefCell::default();
        let three = || {
            let mut links = Links::none();
            (0..3).for_each(|nth| links.push(DropOrder(&gone, nth)));
            links
        };
        three().detach();
        drop(three());
        assert_eq!(*gone.borrow(), [2, 1, 0, 2, 1, 0]);
    }
}
