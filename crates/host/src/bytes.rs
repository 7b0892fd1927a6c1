//! Numbers in bytes that a kernel wrote, copied from where they lie. `None` where the bytes end before.

pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(offset..)?.first_chunk()?))
}

pub(crate) fn u32s_at(bytes: &[u8], offset: usize, count: usize) -> Option<Vec<u32>> {
    let (words, _) = bytes.get(offset..)?.get(..count * 4)?.as_chunks();
    Some(words.iter().map(|word| u32::from_ne_bytes(*word)).collect())
}
