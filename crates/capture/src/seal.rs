//! Checksums of the frames of a stream.
//!
//! The metadata of an Arrow IPC frame may be longer than its flatbuffer: readers take no notice of what follows
//! that. There each of our frames has a **seal** of 16 bytes: `HWcs`, the CRC-32 of the body, four zeros, and the
//! CRC-32 of all before it, marker and length included, with the frame's place in the file. So the head can be
//! checked without its body, and a whole frame can be told from bytes that look like one.

use arrow_ipc::root_as_message;
use crc32fast::Hasher;

pub(crate) const BYTES: usize = 16;

/// Marker and length, before the metadata.
const PREFIX: usize = 8;

const MAGIC: [u8; 4] = *b"HWcs";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    body: u32,
    head: u32,
}

impl Seal {
    /// The seal of a frame, by its head: marker, length and metadata. `None` where it has none.
    pub(crate) fn of(head: &[u8]) -> Option<Self> {
        let (_, seal) = head.split_last_chunk::<BYTES>()?;
        let [m0, m1, m2, m3, b0, b1, b2, b3, _, _, _, _, h0, h1, h2, h3] = *seal;
        ([m0, m1, m2, m3] == MAGIC).then(|| Self {
            body: u32::from_le_bytes([b0, b1, b2, b3]),
            head: u32::from_le_bytes([h0, h1, h2, h3]),
        })
    }

    /// Whether a head that starts at `offset` of its file is the one that was sealed.
    pub(crate) fn fits_head(self, offset: u64, head: &[u8]) -> bool {
        let before = head.len().checked_sub(size_of::<u32>());
        let before = before.and_then(|length| head.get(..length));
        before.is_some_and(|before| head_sum(offset, before) == self.head)
    }

    /// Whether a body is the one that was sealed.
    pub(crate) fn fits_body(self, body: &[u8]) -> bool {
        crc32fast::hash(body) == self.body
    }
}

fn head_sum(offset: u64, before: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&offset.to_le_bytes());
    hasher.update(before);
    hasher.finalize()
}

/// Appends frames to `sealed`, each with its seal; the first starts at `offset` of the file.
///
/// `None` if these are not whole frames.
pub(crate) fn seal(mut frames: &[u8], mut offset: u64, sealed: &mut Vec<u8>) -> Option<()> {
    while !frames.is_empty() {
        let (marker, rest) = frames.split_first_chunk::<4>()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length);
        let (metadata, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let body_bytes = root_as_message(metadata).ok()?.bodyLength();
        let (body, rest) = rest.split_at_checked(usize::try_from(body_bytes).ok()?)?;
        let start = sealed.len();
        sealed.extend(marker);
        sealed.extend(
            length
                .checked_add(u32::try_from(BYTES).ok()?)?
                .to_le_bytes(),
        );
        sealed.extend(metadata);
        sealed.extend(MAGIC);
        sealed.extend(crc32fast::hash(body).to_le_bytes());
        sealed.extend([0; 4]);
        let head = head_sum(offset, sealed.get(start..)?);
        sealed.extend(head.to_le_bytes());
        sealed.extend(body);
        offset += (sealed.len() - start) as u64;
        frames = rest;
    }
    Some(())
}

/// Where in a piece of a stream the next sealed frame starts: its head is whole in the piece, which itself starts
/// at `offset` of the file.
pub(crate) fn find(piece: &[u8], offset: u64, max_metadata: u64) -> Option<usize> {
    let is_head = |&place: &usize| {
        let head = piece.get(place..)?;
        let (start, _) = head.split_first_chunk::<PREFIX>()?;
        let [0xff, 0xff, 0xff, 0xff, l0, l1, l2, l3] = *start else {
            return None;
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if u64::from(length) > max_metadata {
            return None;
        }
        let head = head.get(..PREFIX + usize::try_from(length).ok()?)?;
        let fits = Seal::of(head)?.fits_head(offset + place as u64, head);
        fits.then_some(())
    };
    (0..piece.len()).find(|place| is_head(place).is_some())
}

#[cfg(test)]
mod test {
    use super::*;

    /// Two frames of a table, as the encoder makes them.
    fn frames() -> Vec<u8> {
        let schema = crate::table::Table::Lost.schema();
        let batch = arrow_array::RecordBatch::new_empty(schema.clone());
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &schema).unwrap();
        writer.write(&batch).unwrap();
        std::mem::take(writer.get_mut())
    }

    #[test]
    fn a_seal_fits_its_frame_at_its_place_only() {
        let mut sealed = Vec::new();
        seal(&frames(), 1000, &mut sealed).unwrap();
        assert_eq!(sealed.len(), frames().len() + 2 * BYTES);
        let length = u32::from_le_bytes(sealed[4..8].try_into().unwrap()) as usize;
        let head = &sealed[..PREFIX + length];
        let first = Seal::of(head).unwrap();
        assert!(first.fits_head(1000, head) && !first.fits_head(1008, head));
        assert!(first.fits_body(&[]) && !first.fits_body(&[0]));
        for bit in 0..(head.len() - BYTES) * 8 {
            let mut other = head.to_vec();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(!Seal::of(&other).unwrap().fits_head(1000, &other), "{bit}");
        }
        assert_eq!(find(&sealed, 1000, 1 << 20), Some(0));
        assert_eq!(find(&sealed[1..], 1001, 1 << 20), Some(head.len() - 1));
        assert_eq!(find(&sealed, 0, 1 << 20), None, "moved");
    }
}
