//! The stream of one table while recording: an Arrow IPC stream that only grows.
//!
//! Each batch reaches the kernel in one write before [`TableStream::append`] returns, so whatever
//! was appended survives the recorder. A write that fails is taken back: the file is cut to the
//! last whole batch, and the next append may try again. Where a file cannot be cut either, nothing is
//! written to it until it can: what follows a torn batch could not be read.

use std::fmt;
use std::io;
use std::path::PathBuf;

use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::ArrowError;

use crate::error::CaptureWriteError;
use crate::files::Directory;
use crate::files::disk::Sink;
use crate::info::TableSize;
use crate::seal;
use crate::table::Table;
use crate::tables::{Row, batch_of};

/// Bytes to which buffers inside a batch are padded.
const ALIGNMENT: usize = 8;

pub(crate) struct TableStream {
    table: Table,
    path: PathBuf,
    pub(crate) file: Sink,
    /// Encodes into memory, from where whole batches go to the file.
    encoder: StreamWriter<Vec<u8>>,
    /// Bytes that go to the file: frames with their checksums.
    sealed: Vec<u8>,
    bytes: u64,
    rows: u64,
    /// Whether bytes may follow those.
    torn: bool,
}

impl fmt::Debug for TableStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableStream")
            .field("path", &self.path)
            .field("bytes", &self.bytes)
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
}

impl TableStream {
    pub(crate) fn size(&self) -> (String, TableSize) {
        let size = TableSize {
            rows: self.rows,
            bytes: self.bytes,
        };
        (self.table.to_string(), size)
    }

    /// Fails if the file is no longer the one of its name. A disk that does not say passes: it may again.
    pub(crate) fn must_be_in(&self, directory: &Directory) -> Result<(), CaptureWriteError> {
        match directory.holds(&self.table.stream_file(), &self.file) {
            Ok(false) => Err(CaptureWriteError::Removed {
                path: self.path.clone(),
            }),
            Ok(true) | Err(_) => Ok(()),
        }
    }

    /// Appends rows. Gives back how many of them, from the first, are written, and why not all.
    pub(crate) fn append<R: Row>(&mut self, rows: &[R]) -> (usize, Option<CaptureWriteError>) {
        let mut written = 0;
        for chunk in rows.chunks(self.table.batch_rows()) {
            if let Err(error) = self.append_batch(chunk, rows.len() - written) {
                return (written, Some(error));
            }
            written += chunk.len();
        }
        (written, None)
    }

    /// Appends these as a batch. `left` rows are refused with it where it cannot be written.
    fn append_batch<R: Row>(&mut self, rows: &[R], left: usize) -> Result<(), CaptureWriteError> {
        debug_assert_eq!(R::TABLE, self.table);
        let table = self.table;
        let batch = batch_of(rows).and_then(|batch| self.encoder.write(&batch));
        if let Err(source) = batch {
            self.encoder.get_mut().clear();
            return Err(CaptureWriteError::Encode { table, source });
        }
        let written = self.write_out();
        written.map_err(|source| CaptureWriteError::Append {
            table,
            path: self.path.clone(),
            rows_safe: self.rows,
            rows_refused: left as u64,
            source,
        })?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Writes what the encoder holds, all of it or nothing.
    fn write_out(&mut self) -> io::Result<()> {
        let mended = self.mend();
        let encoded = self.encoder.get_mut();
        self.sealed.clear();
        let sealed = seal::seal(encoded, self.bytes, &mut self.sealed);
        encoded.clear();
        sealed.ok_or(io::ErrorKind::InvalidData)?;
        let written = mended.and_then(|()| {
            self.torn = true;
            self.file.write_all_at(&self.sealed, self.bytes)
        });
        let length = self.sealed.len() as u64;
        match written {
            Ok(()) => {
                self.torn = false;
                self.bytes += length;
            }
            // If even this fails, the reader finds a torn tail and leaves it out, and the next append tries.
            Err(_) => drop(self.mend()),
        }
        written
    }

    /// Cuts off what is left of a batch that was not written whole.
    fn mend(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.set_len(self.bytes)?;
            self.torn = false;
        }
        Ok(())
    }
}

/// Creates the file of a type's table, with the schema and the names of the dictionaries in it.
pub(crate) fn create<R: Row>(directory: &Directory) -> Result<TableStream, CaptureWriteError> {
    let table = R::TABLE;
    let path = directory.path().join(table.stream_file());
    let file = directory.create(&table.stream_file());
    let file = file.map_err(CaptureWriteError::io("create", &path))?;
    // An empty batch carries the dictionaries, so that every later batch is one message.
    let encoder = encoder(table).and_then(|mut encoder| {
        encoder.write(&batch_of::<R>(&[])?)?;
        Ok(encoder)
    });
    let encoder = encoder.map_err(|source| CaptureWriteError::Encode { table, source })?;
    let mut stream = TableStream {
        table,
        path,
        file,
        encoder,
        sealed: Vec::new(),
        bytes: 0,
        rows: 0,
        torn: false,
    };
    if let Err(source) = stream.write_out() {
        // Best effort: the first error is the one that matters, and the name must be free for the next try.
        drop(directory.remove(&table.stream_file()));
        return Err(CaptureWriteError::io("write", &stream.path)(source));
    }
    Ok(stream)
}

fn encoder(table: Table) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options)
}
