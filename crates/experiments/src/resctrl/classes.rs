//! Classes for as long as they are needed: dropped, they are gone, and every thread is where it was.

use super::root::Root;
use super::schemata::Schemata;

/// Classes that were made, and threads that were placed in them.
#[derive(Debug)]
pub struct Classes {
    root: Root,
    made: Vec<String>,
    /// Threads, and the class that each came from.
    origins: Vec<(u32, Option<String>)>,
}

impl Classes {
    pub fn new(root: Root) -> Self {
        Self {
            root,
            made: Vec::new(),
            origins: Vec::new(),
        }
    }

    /// Makes a class; an error if there is one of that name, which is then left as it is.
    pub fn make(&mut self, class: &str, schemata: &Schemata) -> anyhow::Result<()> {
        self.root.make(class)?;
        self.made.push(class.to_owned());
        self.root.limit(class, schemata)
    }

    /// Puts a thread into one of the classes made; false if it has ended.
    pub fn place(&mut self, class: &str, tid: u32) -> anyhow::Result<bool> {
        let origin = self.root.class_of(tid)?;
        let known = self.origins.iter().any(|(known, _)| *known == tid);
        let placed = self.root.place(Some(class), tid)?;
        if placed && !known {
            self.origins.push((tid, origin));
        }
        Ok(placed)
    }

    /// Threads that were placed and not put back.
    pub fn placed(&self) -> usize {
        self.origins.len()
    }

    /// Puts every thread back and removes the classes: all of it, even if a step fails. The first failure
    /// is returned, and what is not done yet is tried again when this is dropped.
    pub fn restore(&mut self) -> anyhow::Result<()> {
        let mut result = Ok(());
        let root = &self.root;
        let mut done = |step: anyhow::Result<()>| {
            let is_done = step.is_ok();
            if result.is_ok() {
                result = step;
            }
            !is_done
        };
        self.origins.retain(|(tid, origin)| {
            let class = origin.as_deref();
            done(root.place(class, *tid).map(|_| ()))
        });
        self.made.retain(|class| done(root.remove(class)));
        result
    }
}

impl Drop for Classes {
    fn drop(&mut self) {
        let _ = self.restore();
    }
}
