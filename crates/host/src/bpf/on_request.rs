//! A program run on request (`BPF_PROG_TEST_RUN`), in the task that asks: for tests of what real guests
//! cannot show here.
#![allow(
    unsafe_code,
    reason = "libbpf-rs runs a program only through a handle that no other thread may hold"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::libbpf_sys;

pub(super) fn run(program: BorrowedFd<'_>, arguments: &[u64]) -> io::Result<()> {
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(0);
    let mut options = libbpf_sys::bpf_test_run_opts {
        sz: size(size_of::<libbpf_sys::bpf_test_run_opts>()).into(),
        ctx_in: arguments.as_ptr().cast(),
        ctx_size_in: size(size_of_val(arguments)),
        ..Default::default()
    };
    // SAFETY: the descriptor is borrowed for the call; `options` says the true size of `arguments`,
    // which outlives the call, and asks the kernel to write nowhere else.
    let failed =
        unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &raw mut options) };
    if failed == 0 {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(-failed))
    }
}

/// Takes some steps one after the other, in a thread of their own: to the programs, that of one vCPU.
pub(super) fn in_a_thread<S: Sync>(
    steps: &[S],
    step: impl Fn(&S) -> io::Result<()> + Sync,
) -> io::Result<()> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| steps.iter().try_for_each(&step));
        let panicked = |_| Err(io::Error::other("a thread panicked"));
        thread.join().unwrap_or_else(panicked)
    })
}
