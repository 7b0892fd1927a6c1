//! Opens tracepoints as perf events, and the two requests for which the crate has no safe call.
//!
//! The only file of this source with unsafe code. JUSTIFICATION: `perf-event2` opens, maps, enables and
//! reads events safely, but has no call that sets a filter or shares a ring.
#![expect(
    unsafe_code,
    reason = "two ioctls for which perf-event2 has no safe call"
)]

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, Counter, ReadFormat, SampleFlag, Sampler};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, ioctl, opcode};

use crate::collector::CollectError;
use crate::support::rights;

/// Opens a tracepoint on one CPU, disabled. `ring_bytes` is what its ring will have.
pub(super) fn tracepoint(
    id: u64,
    filter: Option<&str>,
    cpu: u32,
    ring_bytes: usize,
) -> io::Result<Counter> {
    let mut builder = Builder::new(Tracepoint::with_id(id));
    builder
        .sample_period(1)
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::RAW)
        .sample_id_all(true);
    let counter = on_cpu(&mut builder, cpu, ring_bytes)?;
    filter.map_or(Ok(()), |filter| set_filter(&counter, filter))?;
    Ok(counter)
}

/// Opens an event on one CPU, whatever runs there, disabled.
pub(crate) fn on_cpu(
    builder: &mut Builder<'_>,
    cpu: u32,
    ring_bytes: usize,
) -> io::Result<Counter> {
    let cpu = usize::try_from(cpu).map_err(io::Error::other)?;
    builder
        .any_pid()
        .one_cpu(cpu)
        .include_kernel()
        .include_hv()
        .read_format(ReadFormat::empty())
        .clockid(Clock::MONOTONIC)
        // No thread sleeps on the ring; it is read when the recorder gets to it.
        .wakeup_watermark(ring_bytes / 2)
        .build()
}

const SET_OUTPUT: Opcode = opcode::none(b'$', 5);
const SET_FILTER: Opcode = opcode::write::<*mut c_char>(b'$', 6);

/// Lets the kernel drop events for which `filter` is false.
fn set_filter(counter: &Counter, filter: &str) -> io::Result<()> {
    let filter = CString::new(filter).map_err(io::Error::other)?;
    let text = filter.as_ptr().cast_mut().cast();
    // SAFETY: this request takes the address of a text; `filter` outlives the call below.
    let request = unsafe { IntegerSetter::<SET_FILTER>::new_pointer(text) };
    // SAFETY: `counter` is an open perf event. The kernel reads the text up to its NUL, and writes nothing.
    unsafe { ioctl(borrow(counter), request) }.map_err(Into::into)
}

pub(crate) fn share_ring(counter: &Counter, ring: &Sampler) -> io::Result<()> {
    let fd = usize::try_from(ring.as_raw_fd()).map_err(io::Error::other)?;
    // SAFETY: this request takes a descriptor's number by value.
    let request = unsafe { IntegerSetter::<SET_OUTPUT>::new_usize(fd) };
    // SAFETY: both descriptors are open perf events; the request touches no memory of ours.
    unsafe { ioctl(borrow(counter), request) }.map_err(Into::into)
}

pub(crate) fn borrow(counter: &Counter) -> BorrowedFd<'_> {
    // SAFETY: the descriptor belongs to `counter`, which stays borrowed for as long as the result.
    unsafe { BorrowedFd::borrow_raw(counter.as_raw_fd()) }
}

pub(crate) fn is_gone(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::NODEV)
}

/// Requirement that a refused request for events does not meet: the right to trace, or, with it, locked memory.
fn lacking(may_trace: bool) -> &'static str {
    if may_trace {
        "more locked memory: CAP_IPC_LOCK, or a larger kernel.perf_event_mlock_kb"
    } else {
        "CAP_PERFMON"
    }
}

pub(super) fn explain(cpu: u32) -> impl FnOnce(io::Error) -> CollectError {
    let what = format!("open tracepoints on CPU {cpu}");
    move |error| match Errno::from_io_error(&error) {
        // A filter or tracepoint that this kernel does not have.
        Some(Errno::INVAL) => CollectError::Unsupported {
            what,
            source: Some(error),
        },
        _ => refused(what, error),
    }
}

pub(crate) fn refused(what: String, source: io::Error) -> CollectError {
    match Errno::from_io_error(&source) {
        Some(Errno::PERM | Errno::ACCESS) => CollectError::Denied {
            what,
            need: lacking(rights::may_trace_now()),
        },
        Some(Errno::NOENT | Errno::NODEV | Errno::NOSYS | Errno::OPNOTSUPP) => {
            CollectError::Unsupported {
                what,
                source: Some(source),
            }
        }
        _ => CollectError::Failed { what, source },
    }
}
