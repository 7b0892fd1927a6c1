//! The footer of a Parquet file: found, checked, decoded.
//!
//! The decoder is handed the very bytes that were checked (`thrift`), and never reads the footer
//! itself. Nothing else of the file is decoded by it but pages, which `pages` reads and unpacks: the
//! indexes of columns and pages and the Bloom filters that a writer may leave are not read.

use std::sync::Arc;

use parquet::errors::ParquetError;
use parquet::file::metadata::{FooterTail, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;

use crate::thrift::{self, shapes::FOOTER};

/// Footer length and magic number, at the end of every Parquet file.
const TAIL_BYTES: usize = 8;

pub(crate) fn read<R: ChunkReader>(reader: &R) -> Result<Arc<ParquetMetaData>, ParquetError> {
    let too_short = || ParquetError::EOF("the file ends before its footer".to_owned());
    let tail_at = reader.len().checked_sub(TAIL_BYTES as u64);
    let tail_at = tail_at.ok_or_else(too_short)?;
    let tail = FooterTail::try_from(reader.get_bytes(tail_at, TAIL_BYTES)?.as_ref())?;
    if tail.is_encrypted_footer() {
        return Err(ParquetError::NYI("the footer is encrypted".to_owned()));
    }
    let length = tail.metadata_length();
    let footer_at = tail_at.checked_sub(length as u64).ok_or_else(|| {
        ParquetError::EOF(format!(
            "a footer of {length} bytes in a file of {} bytes",
            reader.len()
        ))
    })?;
    let footer = reader.get_bytes(footer_at, length)?;
    let whole = format!("the footer of {length} bytes");
    let of = (&*whole, &FOOTER);
    let checked = thrift::read(footer.as_ref(), length as u64, of, &mut |_, _, _| {})?;
    ParquetMetaDataReader::decode_metadata(&checked).map(Arc::new)
}

#[cfg(test)]
mod test;
