//! The stream of one table while recording: an Arrow IPC stream that only grows.
//!
//! Each batch reaches the kernel in one write before [`TableStream::append`] returns, so whatever
//! was appended survives the recorder. A write that fails is taken back: the file is cut to the
//! last whole batch, and the next append may try again.

use std::fmt;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::ArrowError;

use crate::error::CaptureWriteError;
use crate::table::Table;
use crate::tables::{Row, batch_of};

/// Bytes to which buffers inside a batch are padded.
const ALIGNMENT: usize = 8;

/// A table that grows.
pub(crate) struct TableStream {
    table: Table,
    path: PathBuf,
    file: File,
    /// Encodes into memory, from where whole batches go to the file.
    encoder: StreamWriter<Vec<u8>>,
    /// Bytes that are whole in the file.
    bytes: u64,
    /// Rows that are whole in the file.
    rows: u64,
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
    /// Creates the file, with the schema and the names of the dictionaries in it.
    pub(crate) fn create<R: Row>(directory: &Path) -> Result<Self, CaptureWriteError> {
        let table = R::TABLE;
        let path = directory.join(table.stream_file());
        let io = |act, path: &Path, source| CaptureWriteError::Io {
            act,
            path: path.to_owned(),
            source,
        };
        let file = File::create_new(&path).map_err(|source| io("create", &path, source))?;
        // An empty batch carries the dictionaries, so that every later batch is one message.
        let encoder = encoder(table).and_then(|mut encoder| {
            encoder.write(&batch_of::<R>(&[])?)?;
            Ok(encoder)
        });
        let encoder = encoder.map_err(|source| CaptureWriteError::Encode { table, source })?;
        let mut stream = Self {
            table,
            path,
            file,
            encoder,
            bytes: 0,
            rows: 0,
        };
        let written = stream.write_out();
        written.map_err(|source| io("write", &stream.path, source))?;
        Ok(stream)
    }

    /// The file, open.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Appends rows and hands them to the kernel.
    pub(crate) fn append<R: Row>(&mut self, rows: &[R]) -> Result<(), CaptureWriteError> {
        debug_assert_eq!(R::TABLE, self.table);
        let mut written = 0;
        for chunk in rows.chunks(self.table.batch_rows()) {
            let table = self.table;
            let batch = batch_of(chunk).and_then(|batch| self.encoder.write(&batch));
            if let Err(source) = batch {
                self.encoder.get_mut().clear();
                return Err(CaptureWriteError::Encode { table, source });
            }
            self.write_out()
                .map_err(|source| CaptureWriteError::Append {
                    table,
                    path: self.path.clone(),
                    rows_safe: self.rows,
                    rows_refused: (rows.len() - written) as u64,
                    source,
                })?;
            written += chunk.len();
            self.rows += chunk.len() as u64;
        }
        Ok(())
    }

    /// Writes what the encoder holds, all of it or nothing.
    fn write_out(&mut self) -> io::Result<()> {
        let encoded = self.encoder.get_mut();
        let written = self.file.write_all(encoded);
        let length = encoded.len() as u64;
        encoded.clear();
        if let Err(error) = written {
            // If even this fails, the reader finds a torn tail and leaves it out.
            self.file.set_len(self.bytes)?;
            self.file.seek(SeekFrom::Start(self.bytes))?;
            return Err(error);
        }
        self.bytes += length;
        Ok(())
    }
}

fn encoder(table: Table) -> Result<StreamWriter<Vec<u8>>, ArrowError> {
    let options = IpcWriteOptions::try_new(ALIGNMENT, false, MetadataVersion::V5)?
        .try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    StreamWriter::try_new_with_options(Vec::new(), &table.schema(), options)
}
