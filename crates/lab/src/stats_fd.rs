//! KVM's binary statistics: a parser of bytes, and the file they come from.
//!
//! Layout: `Documentation/virt/kvm/api.rst`, `KVM_GET_STATS_FD`. A header says where an id, the
//! descriptors and the data lie; a descriptor says what a statistic is called and where it lies in
//! the data. Nothing here assumes an offset or a name; a statistic that the kernel lacks is absent.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use anyhow::Context as _;
use haltwise_core::hist::KvmHist;

use crate::ioctl;

/// No kernel's statistics come near this; a file that does is not one of theirs.
const MAX_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 24;
const DESCRIPTOR_BYTES: usize = 16;

/// `KVM_STATS_TYPE_*`, in the lowest bits of a descriptor's flags.
const TYPE: u32 = 0xf;
const INSTANT: u32 = 1;
const PEAK: u32 = 2;
const LOG_HIST: u32 = 4;

/// Statistics of a VM or vCPU at one moment, by KVM's names: single values, and histograms by powers of two. Others are
/// passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stats {
    pub counts: BTreeMap<String, u64>,
    /// Values of the moment, and the highest so far.
    pub states: BTreeMap<String, u64>,
    pub hists: BTreeMap<String, KvmHist>,
}

impl Stats {
    pub fn scalars(&self) -> BTreeMap<String, u64> {
        let scalars = self.counts.iter().chain(&self.states);
        scalars
            .map(|(name, value)| (name.clone(), *value))
            .collect()
    }

    /// Statistics since an earlier reading: counts are subtracted, states are kept.
    #[must_use]
    pub fn since(mut self, before: &Self) -> Self {
        for (name, count) in &mut self.counts {
            let then = before.counts.get(name).copied().unwrap_or(0);
            *count = count.saturating_sub(then);
        }
        for (name, hist) in &mut self.hists {
            let then = before.hists.get(name).copied().unwrap_or_default();
            for (count, then) in hist.0.iter_mut().zip(then.0) {
                *count = count.saturating_sub(then);
            }
        }
        self
    }
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}

/// Parses what a stats fd holds. Takes any bytes: never panics, never allocates more than they warrant.
pub fn parse(bytes: &[u8]) -> anyhow::Result<Stats> {
    let end = bytes.len();
    let part = |what: &str, offset: u64, needed: u64| {
        let range = || {
            let start = usize::try_from(offset).ok()?;
            let end = start.checked_add(usize::try_from(needed).ok()?)?;
            bytes.get(start..end)
        };
        range().with_context(|| {
            format!("read {what} at byte {offset}: {needed} bytes needed, the file ends at {end}")
        })
    };
    let header = part("the header", 0, HEADER_BYTES as u64)?;
    let name_bytes = u64::from(u32_at(header, 4));
    let count = u32_at(header, 8);
    let descriptors = u64::from(u32_at(header, 16));
    let data = u64::from(u32_at(header, 20));
    let mut stats = Stats::default();
    let mut unclaimed = bytes.len() as u64;
    for index in 0..count {
        let stride = DESCRIPTOR_BYTES as u64 + name_bytes;
        let offset = descriptors + u64::from(index) * stride;
        let descriptor = part("a descriptor", offset, stride)?;
        let (fixed, name) = descriptor.split_at(DESCRIPTOR_BYTES);
        let len = u64::from(u32_at(fixed, 4) >> 16) * 8;
        let place = data + u64::from(u32_at(fixed, 8));
        let values = part("the data of a statistic", place, len)?;
        unclaimed = unclaimed.checked_sub(len).with_context(|| {
            format!(
                "read statistic {index}: all up to it claim more bytes than the {end} of the file"
            )
        })?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        let name =
            str::from_utf8(name).with_context(|| format!("read the name of statistic {index}"))?;
        let name = name.to_owned();
        let words = values.as_chunks().0.iter();
        let words: Vec<u64> = words.map(|word| u64::from_le_bytes(*word)).collect();
        match (&words[..], u32_at(fixed, 0) & TYPE) {
            ([value], INSTANT | PEAK) => drop(stats.states.insert(name, *value)),
            ([value], _) => drop(stats.counts.insert(name, *value)),
            (buckets, LOG_HIST) => {
                let hist = buckets.try_into().map(KvmHist);
                stats.hists.extend(hist.map(|hist| (name, hist)));
            }
            _ => {}
        }
    }
    Ok(stats)
}

/// The file that the statistics of a VM or vCPU are read from.
#[derive(Debug)]
pub struct StatsFd(OwnedFd);

impl StatsFd {
    /// The statistics of a VM or vCPU; fails where the kernel has none (before 5.14).
    pub fn of(fd: &impl AsRawFd) -> io::Result<Self> {
        ioctl::stats_fd(fd).map(Self)
    }

    pub fn read(&self) -> anyhow::Result<Stats> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 16 << 10];
        while bytes.len() < MAX_BYTES {
            let n = rustix::io::pread(&self.0, &mut chunk, bytes.len() as u64)
                .context("read the stats fd")?;
            if n == 0 {
                break;
            }
            bytes.extend_from_slice(&chunk[..n]);
        }
        parse(&bytes).context("parse the stats fd")
    }
}

/// Growth of statistics from a moment on; nothing where the kernel keeps no statistics.
#[derive(Debug)]
pub struct Growth(Option<(Arc<StatsFd>, Stats)>);

impl Growth {
    pub fn begin(of: Option<&Arc<StatsFd>>) -> anyhow::Result<Self> {
        let begin = |fd: &Arc<StatsFd>| Ok((Arc::clone(fd), fd.read()?));
        of.map(begin).transpose().map(Self)
    }

    pub fn end(self) -> anyhow::Result<Stats> {
        let end = |(fd, before): (Arc<StatsFd>, Stats)| Ok(fd.read()?.since(&before));
        self.0.map_or_else(|| Ok(Stats::default()), end)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use haltwise_core::hist::KVM_HIST_BUCKETS;

    /// A file as a kernel would write it, from (name, type, values).
    fn file(stats: &[(&str, u32, &[u64])]) -> Vec<u8> {
        const NAME: usize = 16;
        let descriptors = HEADER_BYTES + NAME;
        let data = descriptors + stats.len() * (DESCRIPTOR_BYTES + NAME);
        let words = |words: &[usize]| -> Vec<u8> {
            let word = |w: &usize| u32::try_from(*w).unwrap().to_le_bytes();
            words.iter().flat_map(word).collect()
        };
        let mut bytes = words(&[0, NAME, stats.len(), HEADER_BYTES, descriptors, data]);
        bytes.extend(*b"kvm-1/vcpu-0\0\0\0\0");
        let mut offset = 0;
        for (name, kind, values) in stats {
            bytes.extend(words(&[*kind as usize, values.len() << 16, offset, 0]));
            let mut padded = name.as_bytes().to_vec();
            padded.resize(NAME, 0);
            bytes.extend(padded);
            offset += values.len() * 8;
        }
        let values = stats.iter().flat_map(|(_, _, values)| values.iter());
        bytes.extend(values.flat_map(|value| value.to_le_bytes()));
        bytes
    }

    #[test]
    fn statistics_are_found_by_name() {
        let mut buckets = [0; KVM_HIST_BUCKETS];
        buckets[17] = 5;
        let bytes = file(&[
            ("exits", 0, &[7]),
            ("wait", 4, &buckets),
            ("linear", 3, &buckets),
            ("blocking", 0x41, &[1]),
        ]);
        let stats = parse(&bytes).unwrap();
        let one = |name: &str, value| [(name.to_owned(), value)].into();
        assert_eq!(stats.counts, one("exits", 7));
        assert_eq!(stats.states, one("blocking", 1));
        assert_eq!(stats.hists, [("wait".to_owned(), KvmHist(buckets))].into());
    }

    #[test]
    fn counts_are_subtracted_and_states_are_kept() {
        let before = parse(&file(&[("exits", 0, &[7]), ("blocking", 1, &[1])])).unwrap();
        let after = parse(&file(&[("exits", 0, &[9]), ("blocking", 1, &[1])])).unwrap();
        let change = after.since(&before).scalars();
        assert_eq!((change["exits"], change["blocking"]), (2, 1));
    }

    #[test]
    fn every_truncation_is_an_error_that_says_where() {
        let bytes = file(&[("exits", 0, &[7]), ("halts", 0, &[1])]);
        for end in 0..bytes.len() {
            let error = parse(&bytes[..end]).unwrap_err().to_string();
            assert!(
                error.ends_with(&format!("the file ends at {end}")),
                "{error}"
            );
        }
    }

    #[test]
    fn hostile_bytes_are_refused() {
        assert!(parse(&[0xff; 4096]).is_err());
        let one: &[u64] = &[1];
        let mut sharing = file(&[("a", 0, one); 64]);
        for index in 0..64 {
            let descriptor = HEADER_BYTES + 16 + index * 32;
            sharing[descriptor + 6..descriptor + 8].copy_from_slice(&60_u16.to_le_bytes());
            sharing[descriptor + 8..descriptor + 12].copy_from_slice(&0_u32.to_le_bytes());
        }
        let error = parse(&sharing).unwrap_err().to_string();
        assert!(error.contains("claim more bytes"), "{error}");
        let mut latin1 = file(&[("exits", 0, &[7])]);
        latin1[HEADER_BYTES + 16 + DESCRIPTOR_BYTES] = 0xe9;
        let error = parse(&latin1).unwrap_err().to_string();
        assert_eq!(error, "read the name of statistic 0");
    }
}
