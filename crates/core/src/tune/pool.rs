//! How work is handed out: this crate has no threads, its caller may.

/// Does pieces of work that do not depend on each other.
pub trait Pool {
    /// Does `count` pieces, in any order, and gives their results in theirs. `what` says in a word
    /// what is being done, for a caller that shows it.
    fn each<T: Send>(&self, what: &str, count: usize, piece: impl Fn(usize) -> T + Sync) -> Vec<T>;

    fn workers(&self) -> usize {
        1
    }
}

/// One after the other, here and now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Serial;

impl Pool for Serial {
    fn each<T: Send>(&self, _: &str, count: usize, piece: impl Fn(usize) -> T + Sync) -> Vec<T> {
        (0..count).map(piece).collect()
    }
}
