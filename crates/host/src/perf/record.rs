//! Records of a perf ring: bytes in, samples and losses out. Pure.
//!
//! The layout is that of `PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW` with
//! `sample_id_all`, in the order of `perf_output_sample` in `kernel/events/core.c`.

use crate::bytes::{u32_at, u64_at};

const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Record<'a> {
    Sample {
        /// The process that ran, as this PID namespace numbers it.
        pid: u32,
        time_ns: u64,
        raw: &'a [u8],
    },
    Lost {
        count: u64,
        time_ns: u64,
    },
    /// A record of a kind that we did not ask for (throttling): no data of ours.
    Other,
}

/// Reads the body of a record of type `kind`; `None` if it is too short for its kind.
pub(super) fn parse(kind: u32, body: &[u8]) -> Option<Record<'_>> {
    match kind {
        PERF_RECORD_SAMPLE => {
            let length = usize::try_from(u32_at(body, 16)?).ok()?;
            Some(Record::Sample {
                pid: u32_at(body, 0)?,
                time_ns: u64_at(body, 8)?,
                raw: body.get(20..20_usize.checked_add(length)?)?,
            })
        }
        // id, lost, then the trailer: pid, tid, time.
        PERF_RECORD_LOST => Some(Record::Lost {
            count: u64_at(body, 8)?,
            time_ns: u64_at(body, 24)?,
        }),
        _ => Some(Record::Other),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn losses_carry_their_number() {
        let body = [1_u64, 42, 0, 77].map(u64::to_ne_bytes).concat();
        let expected = Record::Lost {
            count: 42,
            time_ns: 77,
        };
        assert_eq!(parse(PERF_RECORD_LOST, &body), Some(expected));
        assert_eq!(parse(PERF_RECORD_LOST, &body[..31]), None);
        assert_eq!(parse(5, &[]), Some(Record::Other));
    }
}
