//! Which lines of a test runner's output are worth a reader's time.
//!
//! With `--show-output` the runner repeats all that successful tests printed, decoders' panics by the
//! thousand among it. All of that is dropped but for `skipped: reason`.

/// Follows the output of `cargo test -- --show-output`.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    within_successes: bool,
}

impl Quiet {
    pub(super) fn shows(&mut self, line: &str) -> bool {
        match line {
            "successes:" => self.within_successes = true,
            "failures:" => self.within_successes = false,
            _ if line.starts_with("test result:") => self.within_successes = false,
            _ => {}
        }
        !self.within_successes || line.starts_with("skipped:")
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_successful_tests_print_is_dropped_but_for_skipped() {
        let output = "test a ... ok\n\nsuccesses:\n\n---- a stdout ----\nnoise\nskipped: no /dev/kvm\n\
                      \nsuccesses:\n    a\n\nfailures:\n---- b stdout ----\nwhy\ntest result: FAILED\nnext";
        let mut quiet = Quiet::default();
        let shown: Vec<_> = output.lines().filter(|line| quiet.shows(line)).collect();
        assert_eq!(
            shown.join("|"),
            "test a ... ok||skipped: no /dev/kvm|failures:|---- b stdout ----|why|test result: FAILED|next"
        );
    }
}
