//! A walk over a structure of Thrift's compact protocol, before a decoder sees it.
//!
//! The Parquet decoder (parquet 60.1) trusts what it reads in two ways. It takes an element of a list
//! of booleans that it skips for no bytes at all, so that a list of two thousand million of them,
//! claimed in five bytes, keeps it busy for half a minute (found by fuzzing; `contrib/arrow-rs` has a
//! fix for it). And it reads a field that it knows by the field's number, whatever type the bytes
//! declare, so that a look which goes by the declared types can be led past such a list.
//!
//! Therefore nothing passes here that the two could read differently: a known field must have its type
//! (`shapes` names them), numbers and lengths their usual form, and every structure its end. Lists of
//! booleans, maps, and lists that claim more elements than there are bytes are refused: neither a
//! footer nor a page header holds any. What passes takes the decoder a time in proportion to its bytes.
//! The decoder reads footers alone: numbers of a page header are taken from this walk (`pages`).
//!
//! Protocol: Apache Thrift, doc/specs/thrift-compact-protocol.md.

use std::io::{self, Read};
use std::ops::RangeInclusive;

use parquet::errors::ParquetError;

pub(crate) mod shapes;

/// A footer of ours is nested eight deep, lists counted; the decoder gives up at 64.
const DEEPEST: u32 = 64;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Bool,
    Byte,
    /// i16, i32, i64 and enumerations, which are written alike.
    Number,
    Double,
    Bytes,
    Struct(&'static Shape),
    List(&'static Self),
}

/// A structure: its name and the fields that the decoder knows, neighbours of one kind together.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [(RangeInclusive<i16>, Kind)],
}

/// A structure of which nothing is known.
const UNKNOWN: Shape = Shape {
    name: "an unknown structure",
    fields: &[],
};

/// Reads one structure of at most `limit` bytes and gives its bytes; tells `see` of every number and boolean in a
/// known field. A decoder that is handed these bytes, and no others, reads the same.
///
/// Fails, with `whole` as what it is about, if it does not follow the protocol, or claims what no honest one holds.
pub(crate) fn read<R: Read>(
    reader: R,
    limit: u64,
    (whole, shape): (&str, &Shape),
    see: &mut dyn FnMut(&Shape, i16, i64),
) -> Result<Vec<u8>, ParquetError> {
    let mut walk = Walk {
        reader,
        left: limit,
        read: Vec::new(),
        see,
    };
    match walk.structure(shape, DEEPEST) {
        Ok(()) => Ok(walk.read),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(ParquetError::General(format!("{whole} {error}")))
        }
        Err(error) => Err(error.into()),
    }
}

struct Walk<'a, R> {
    reader: R,
    /// Bytes that may yet be read.
    left: u64,
    read: Vec<u8>,
    see: &'a mut dyn FnMut(&Shape, i16, i64),
}

impl<R: Read> Walk<'_, R> {
    fn structure(&mut self, shape: &Shape, depth: u32) -> io::Result<()> {
        let depth = deeper(depth)?;
        let mut last = 0;
        loop {
            let header = self.byte()?;
            let wire = header & 0x0f;
            if wire == 0 {
                return Ok(());
            }
            let number = match header >> 4 {
                0 => i16::try_from(self.number()?).ok(),
                delta => i16::from(delta).checked_add(last),
            };
            last = number.ok_or_else(|| because(format!("numbers a field of {}", shape.name)))?;
            let mut known = shape.fields.iter();
            let known = known.find(|(numbers, _)| numbers.contains(&last));
            match known {
                // A boolean field is its header.
                None if matches!(wire, 1 | 2) => {}
                Some((_, Kind::Bool)) if matches!(wire, 1 | 2) => {
                    (self.see)(shape, last, i64::from(wire == 1));
                }
                None => self.unknown(wire, depth)?,
                Some((_, kind)) if kind.is(wire) => {
                    if let Some(value) = self.known(*kind, depth)? {
                        (self.see)(shape, last, value);
                    }
                }
                Some(_) => {
                    let name = shape.name;
                    return Err(because(format!("gives field {last} of {name} type {wire}")));
                }
            }
        }
    }

    /// A value in the place of a known field, or an element of a known list; what it is if a number.
    fn known(&mut self, kind: Kind, depth: u32) -> io::Result<Option<i64>> {
        match kind {
            Kind::Bool => Err(because("claims a boolean outside of a field".to_owned()))?,
            Kind::Byte => self.skip(1)?,
            Kind::Number => return self.number().map(Some),
            Kind::Double => self.skip(8)?,
            Kind::Bytes => self.bytes()?,
            Kind::Struct(shape) => self.structure(shape, depth)?,
            Kind::List(element) => self.list(Some(*element), depth)?,
        }
        Ok(None)
    }

    fn unknown(&mut self, wire: u8, depth: u32) -> io::Result<()> {
        match wire {
            3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => self.bytes(),
            9 | 10 => self.list(None, depth),
            11 => Err(because("claims a map".to_owned())),
            12 => self.structure(&UNKNOWN, depth),
            13 => self.skip(16),
            _ => Err(because(format!("holds a value of type {wire}"))),
        }
    }

    fn list(&mut self, element: Option<Kind>, depth: u32) -> io::Result<()> {
        let depth = deeper(depth)?;
        let header = self.byte()?;
        let wire = header & 0x0f;
        let count = match header >> 4 {
            15 => self.varint()?,
            short => u64::from(short),
        };
        if count > self.left || count > 0 && matches!(wire, 1 | 2) {
            return Err(because(format!("claims a list of {count} elements")));
        }
        for _ in 0..count {
            match element {
                Some(kind) if kind.is(wire) => drop(self.known(kind, depth)?),
                Some(_) => return Err(because(format!("has a list with elements of type {wire}"))),
                None => self.unknown(wire, depth)?,
            }
        }
        Ok(())
    }

    fn bytes(&mut self) -> io::Result<()> {
        let length = self.varint()?;
        self.skip(length)
    }

    /// A signed number: zigzag, then as `varint`.
    fn number(&mut self) -> io::Result<i64> {
        let folded = self.varint()?;
        Ok((folded >> 1).cast_signed() ^ -(folded & 1).cast_signed())
    }

    fn varint(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(because("holds a number without end".to_owned()))
    }

    fn byte(&mut self) -> io::Result<u8> {
        self.left = self.left.checked_sub(1).ok_or_else(ends)?;
        let mut byte = [0];
        let read = self.reader.read_exact(&mut byte);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => ends(),
            _ => error,
        })?;
        self.read.extend(byte);
        Ok(byte[0])
    }

    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.left = self.left.checked_sub(bytes).ok_or_else(ends)?;
        let mut piece = (&mut self.reader).take(bytes);
        match piece.read_to_end(&mut self.read)? {
            read if read as u64 == bytes => Ok(()),
            _ => Err(ends()),
        }
    }
}

impl Kind {
    /// Whether bytes that declare this type hold this kind.
    fn is(self, wire: u8) -> bool {
        match self {
            Self::Bool => matches!(wire, 1 | 2),
            Self::Byte => wire == 3,
            Self::Number => matches!(wire, 4..=6),
            Self::Double => wire == 7,
            Self::Bytes => wire == 8,
            Self::List(_) => matches!(wire, 9 | 10),
            Self::Struct(_) => wire == 12,
        }
    }
}

fn because(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn ends() -> io::Error {
    because("ends inside a structure".to_owned())
}

fn deeper(depth: u32) -> io::Result<u32> {
    let too_deep = || because("claims a structure without end".to_owned());
    depth.checked_sub(1).ok_or_else(too_deep)
}
