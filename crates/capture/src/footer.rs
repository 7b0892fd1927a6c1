//! A look over a Parquet footer before the decoder sees it: no list may keep the decoder busy for ever.
//!
//! The footer is a structure in Thrift's compact protocol. The decoder skips fields that it does not
//! know, and takes an element of a list of booleans for no bytes at all (parquet 60.1): a list of two
//! thousand million of them, claimed in five bytes, keeps it busy for half a minute (found by fuzzing).
//! Footers hold neither lists of booleans nor maps, so either is refused, and so is any list that
//! claims more elements than bytes are left. Nothing else is judged here: where the bytes do not follow
//! the protocol, the decoder says better what is wrong.
//!
//! Protocol: Apache Thrift, doc/specs/thrift-compact-protocol.md.

use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;

/// Footer length and magic number, at the end of every Parquet file.
const TAIL_BYTES: u64 = 8;
/// A footer of ours is nested five deep; the decoder gives up at 64.
const DEEPEST: u32 = 128;

/// Refuses a footer whose lists claim more elements than there are bytes.
pub(crate) fn check<R: ChunkReader>(reader: &R) -> Result<(), ParquetError> {
    let file_bytes = reader.len();
    let Some(tail_at) = file_bytes.checked_sub(TAIL_BYTES) else {
        return Ok(());
    };
    let tail = reader.get_bytes(tail_at, 4)?;
    let Ok(length) = <[u8; 4]>::try_from(tail.as_ref()).map(u32::from_le_bytes) else {
        return Ok(());
    };
    let Some(footer_at) = tail_at.checked_sub(u64::from(length)) else {
        return Ok(());
    };
    let footer = reader.get_bytes(footer_at, usize::try_from(length).unwrap_or(usize::MAX))?;
    match (Walk { rest: &footer }).structure(DEEPEST) {
        Err(Stop::Lie(claimed)) => Err(ParquetError::General(format!(
            "the footer of {length} bytes claims {claimed}"
        ))),
        Ok(()) | Err(Stop::Lost) => Ok(()),
    }
}

/// Why a walk ends before its structure does.
enum Stop {
    /// It claims what no footer holds.
    Lie(String),
    /// The bytes do not follow the protocol.
    Lost,
}

struct Walk<'a> {
    rest: &'a [u8],
}

impl Walk<'_> {
    fn byte(&mut self) -> Result<u8, Stop> {
        let (&first, rest) = self.rest.split_first().ok_or(Stop::Lost)?;
        self.rest = rest;
        Ok(first)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), Stop> {
        let bytes = usize::try_from(bytes).map_err(|_| Stop::Lost)?;
        self.rest = self.rest.get(bytes..).ok_or(Stop::Lost)?;
        Ok(())
    }

    fn number(&mut self) -> Result<u64, Stop> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::Lost)
    }

    /// Fields up to the stop byte.
    fn structure(&mut self, depth: u32) -> Result<(), Stop> {
        let depth = deeper(depth)?;
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Ok(());
            }
            if header >> 4 == 0 {
                self.number()?; // the field's number in full
            }
            match header & 0x0f {
                1 | 2 => {} // a boolean field is its header
                kind => self.value(kind, depth)?,
            }
        }
    }

    /// A value that is not a boolean field.
    fn value(&mut self, kind: u8, depth: u32) -> Result<(), Stop> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => {
                let bytes = self.number()?;
                self.skip(bytes)
            }
            9 | 10 => self.list(depth),
            12 => self.structure(depth),
            11 => Err(Stop::Lie("a map".to_owned())),
            13 => self.skip(16),
            _ => Err(Stop::Lost),
        }
    }

    fn list(&mut self, depth: u32) -> Result<(), Stop> {
        let depth = deeper(depth)?;
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.number()?,
            short => u64::from(short),
        };
        let of_booleans = matches!(header & 0x0f, 1 | 2);
        if count > 0 && of_booleans || count > self.rest.len() as u64 {
            return Err(Stop::Lie(format!("a list of {count} elements")));
        }
        (0..count).try_for_each(|_| self.value(header & 0x0f, depth))
    }
}

fn deeper(depth: u32) -> Result<u32, Stop> {
    let too_deep = || Stop::Lie("a structure without end".to_owned());
    depth.checked_sub(1).ok_or_else(too_deep)
}

#[cfg(test)]
mod test {
    use bytes::Bytes;

    use super::*;

    /// A file of nothing but this footer.
    fn file(footer: &[u8]) -> Bytes {
        let length = u32::try_from(footer.len()).unwrap().to_le_bytes();
        Bytes::from([footer, &length, b"PAR1"].concat())
    }

    #[test]
    fn a_list_longer_than_the_footer_is_refused() {
        // Field 1: a list (9) of booleans (1), 2^31 - 1 of them; stop.
        let lie = [0x19, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        let error = check(&file(&lie)).unwrap_err().to_string();
        assert!(
            error.contains("the footer of 8 bytes claims a list of 2147483647 elements"),
            "{error}"
        );
    }

    #[test]
    fn lists_of_booleans_maps_and_bottomless_structures_are_refused() {
        // Two booleans are there, and yet the decoder would take them for no bytes.
        for footer in [&[0x19, 0x21, 1, 1, 0][..], &[0x1b, 0, 0], &[0x1c; 200]] {
            assert!(check(&file(footer)).is_err(), "{footer:?}");
        }
    }

    #[test]
    fn a_list_that_is_there_passes_with_all_kinds_of_values() {
        let honest = [
            0x19, 0x35, 1, 2, 1,    // field 1: three i32
            0x11, // field 2: true
            0x15, 0x80, 0x01, // field 3: i32
            0x18, 2, b'a', b'b', // field 4: binary
            0x1c, 0x00, // field 5: an empty structure
            0x17, 0, 0, 0, 0, 0, 0, 0, 0, // field 6: double
            0x00,
        ];
        assert!(check(&file(&honest)).is_ok());
    }

    #[test]
    fn what_is_no_footer_is_left_to_the_decoder() {
        for footer in [&[][..], &[0x19], &[0x15, 0xff], &[0x1e]] {
            assert!(check(&file(footer)).is_ok(), "{footer:?}");
        }
        assert!(check(&Bytes::from_static(b"PAR1")).is_ok());
        assert!(check(&Bytes::from_static(&[0xff; 8])).is_ok());
    }
}
