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

#[cfg(test)]
/// Bytes in which these numbers lie at these offsets, of 64 bits and of 32, and zeros elsewhere.
pub(crate) fn made_of(length: usize, longs: &[(usize, u64)], words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = vec![0; length];
    for (offset, value) in longs {
        bytes[*offset..offset + 8].copy_from_slice(&value.to_ne_bytes());
    }
    for (offset, value) in words {
        bytes[*offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}
