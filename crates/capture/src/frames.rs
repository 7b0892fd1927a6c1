//! The frames of an Arrow IPC stream: where each ends, and whether it may be decoded.
//!
//! A frame is the marker `ff ff ff ff`, the length of its metadata (i32, little-endian), the
//! metadata (a flatbuffer that names the length of the body), and the body. A recorder that is
//! killed, or whose disk is full, leaves at most one partial frame at the end of the file: the
//! **torn tail**. It is left out; everything before it is whole.
//!
//! Frames of ours have checksums (`seal`). Those of streams that other programs or older versions wrote have none.
//!
//! The checks here come before any decoder sees a byte, because a stream names the sizes of the
//! buffers to allocate, and a hostile one would name large ones.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use arrow_ipc::{MessageHeader, RecordBatch, root_as_message};

use crate::error::{CaptureReadError, TableFile};
use crate::seal::{self, Seal};

/// Longest metadata that is read, in bytes. A batch of ours has some 3 KiB.
const MAX_METADATA: u64 = 1 << 20;

/// Largest body, and largest sum of its buffers when unpacked, in bytes. Batches of ours stay
/// below 64 MiB.
const MAX_BODY: u64 = 256 << 20;

const MAX_ROWS: i64 = 1 << 20;

/// LZ4 cannot pack better than this: one more byte of input gives at most 255 of output.
const MAX_RATIO: u64 = 256;

/// How much of a damaged stream is searched at once.
const PIECE: u64 = 4 << 20;

const MARKER: [u8; 4] = [0xff; 4];

#[derive(Debug)]
enum FrameError {
    Torn,
    /// It is not a frame, or it claims what no recorder writes.
    Bad(String),
    Io(io::Error),
}

impl From<io::Error> for FrameError {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Torn
        } else {
            Self::Io(error)
        }
    }
}

/// A frame's place and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Frame {
    metadata_bytes: u64,
    body_bytes: u64,
    rows: u64,
    seal: Option<Seal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Extent {
    pub(crate) whole_bytes: u64,
    pub(crate) torn_bytes: u64,
    pub(crate) rows: u64,
}

#[derive(Debug)]
pub(crate) struct Frames {
    file: TableFile,
    reader: BufReader<File>,
    /// Where the next frame starts.
    pub(crate) offset: u64,
    /// Where the file ended when it was opened. What a live recorder adds later is not read.
    pub(crate) end: u64,
    frame: Vec<u8>,
    /// Whether the frames have checksums: all of them or none. Unknown before the first.
    pub(crate) sealed: Option<bool>,
}

impl Frames {
    pub(crate) fn new(file: TableFile, opened: File) -> Result<Self, CaptureReadError> {
        let end = opened.metadata().map(|found| found.len());
        let end = end.map_err(CaptureReadError::io("read", &file.path))?;
        Ok(Self {
            file,
            reader: BufReader::new(opened),
            offset: 0,
            end,
            frame: Vec::new(),
            sealed: None,
        })
    }

    /// Goes on to the next frame after a damaged one: to the next head whose checksum fits. `false` if there is none.
    pub(crate) fn skip_damage(&mut self) -> io::Result<bool> {
        let Some(next) = self.next_head(self.offset + 1, u64::MAX)? else {
            return Ok(false);
        };
        self.offset = next;
        self.reader.seek(SeekFrom::Start(next))?;
        Ok(true)
    }

    /// Looks for the next head whose checksum fits, in so many bytes at most.
    fn next_head(&mut self, from: u64, bytes: u64) -> io::Result<Option<u64>> {
        let end = from.saturating_add(bytes).min(self.end);
        let mut start = from;
        while start < end {
            self.reader.seek(SeekFrom::Start(start))?;
            let mut piece = Vec::new();
            let wanted = (end - start).min(PIECE);
            (&mut self.reader).take(wanted).read_to_end(&mut piece)?;
            if let Some(place) = seal::find(&piece, start, MAX_METADATA) {
                return Ok(Some(start + place as u64));
            }
            if wanted < PIECE {
                break;
            }
            // A head that began in this piece may end in the next.
            start += PIECE - (MAX_METADATA + 8);
        }
        Ok(None)
    }

    /// Goes through all frames without reading their bodies.
    pub(crate) fn extent(mut self) -> Result<Extent, CaptureReadError> {
        let mut rows = 0_u64;
        loop {
            let frame = match self.head() {
                Ok(Some(frame)) => frame,
                Ok(None) | Err(FrameError::Torn) => break,
                Err(error) => return Err(self.error(error)),
            };
            let end = self.offset + 8 + frame.metadata_bytes + frame.body_bytes;
            let sought = self.reader.seek(SeekFrom::Start(end));
            sought.map_err(|error| self.error(FrameError::Io(error)))?;
            self.offset = end;
            rows = rows.saturating_add(frame.rows);
        }
        Ok(Extent {
            whole_bytes: self.offset,
            torn_bytes: self.end - self.offset,
            rows,
        })
    }

    /// The bytes of the next whole frame; `None` at the end of the stream.
    pub(crate) fn next_frame(&mut self) -> Result<Option<&[u8]>, CaptureReadError> {
        match self.read_frame() {
            Ok(true) => Ok(Some(&self.frame)),
            Ok(false) | Err(FrameError::Torn) => Ok(None),
            Err(error) => Err(self.error(error)),
        }
    }

    fn error(&self, error: FrameError) -> CaptureReadError {
        let what = match error {
            FrameError::Torn => "the file ends here".to_owned(),
            FrameError::Bad(what) => what,
            FrameError::Io(source) => return CaptureReadError::io("read", &self.file.path)(source),
        };
        CaptureReadError::Damaged {
            file: self.file.clone(),
            offset: self.offset,
            what,
        }
    }

    /// Reads the next frame; `false` at the end of the stream.
    fn read_frame(&mut self) -> Result<bool, FrameError> {
        let Some(frame) = self.head()? else {
            return Ok(false);
        };
        let head = self.frame.len();
        let body = usize::try_from(frame.body_bytes).map_err(|_| FrameError::Torn)?;
        self.frame.resize(head + body, 0);
        self.reader.read_exact(&mut self.frame[head..])?;
        if frame
            .seal
            .is_some_and(|seal| !seal.fits_body(&self.frame[head..]))
        {
            let what = "the body of a batch does not match its checksum";
            return Err(FrameError::Bad(what.to_owned()));
        }
        check_message(&self.frame[8..head], Some(&self.frame[head..]))?;
        self.offset += 8 + frame.metadata_bytes + frame.body_bytes;
        Ok(true)
    }

    /// Reads marker, length and metadata of the next frame, and makes sure that its body is there.
    fn head(&mut self) -> Result<Option<Frame>, FrameError> {
        let left = self.end - self.offset;
        if left == 0 {
            return Ok(None);
        }
        let mut start = [0; 8];
        if left < start.len() as u64 {
            return Err(FrameError::Torn);
        }
        self.reader.read_exact(&mut start)?;
        let [m0, m1, m2, m3, l0, l1, l2, l3] = start;
        if [m0, m1, m2, m3] != MARKER {
            return Err(self.not_a_marker([m0, m1, m2, m3]));
        }
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length == 0 {
            return self.end_of_stream();
        }
        let metadata_bytes = u64::from(length);
        if metadata_bytes > MAX_METADATA {
            let what = format!("metadata of {metadata_bytes} bytes, more than {MAX_METADATA}");
            return Err(FrameError::Bad(what));
        }
        if metadata_bytes > left - 8 {
            // A torn tail is the last: if a frame follows, it is the length that is wrong.
            return Err(match self.next_head(self.offset + 1, left)? {
                Some(next) => FrameError::Bad(format!(
                    "{metadata_bytes} bytes of metadata are more than there are, and a frame starts at {next}"
                )),
                None => FrameError::Torn,
            });
        }
        self.frame.clear();
        self.frame.extend(start);
        self.frame.resize(8 + length as usize, 0);
        self.reader.read_exact(&mut self.frame[8..])?;
        let seal = self.check_seal()?;
        let (body_bytes, rows) = check_message(&self.frame[8..], None)?;
        if body_bytes > left - 8 - metadata_bytes {
            return Err(FrameError::Torn);
        }
        if body_bytes > MAX_BODY {
            let what = format!("a body of {body_bytes} bytes, more than {MAX_BODY}");
            return Err(FrameError::Bad(what));
        }
        Ok(Some(Frame {
            metadata_bytes,
            body_bytes,
            rows,
            seal,
        }))
    }

    /// Checks the checksum of a head that was read. Where one frame has a checksum, all have.
    fn check_seal(&mut self) -> Result<Option<Seal>, FrameError> {
        let seal = Seal::of(&self.frame);
        let bad = |what: &str| Err(FrameError::Bad(what.to_owned()));
        if seal.is_some_and(|seal| !seal.fits_head(self.offset, &self.frame)) {
            return bad("the head of a batch does not match its checksum");
        }
        match (*self.sealed.get_or_insert(seal.is_some()), seal) {
            (true, None) => bad("a batch without the checksum that others have"),
            (false, Some(_)) => bad("batches before this one have lost their checksums"),
            _ => Ok(seal),
        }
    }

    /// After a loss of power a file may end in zeros that were never written: a torn tail too.
    fn not_a_marker(&mut self, found: [u8; 4]) -> FrameError {
        let what = || FrameError::Bad(format!("no frame starts here: {found:02x?}"));
        if found != [0; 4] {
            return what();
        }
        let mut chunk = [0; 4096];
        loop {
            match self.reader.read(&mut chunk) {
                Ok(0) => return FrameError::Torn,
                Ok(n) if chunk[..n].iter().all(|&byte| byte == 0) => {}
                Ok(_) => return what(),
                Err(error) => return FrameError::Io(error),
            }
        }
    }

    /// The end marker that other writers put: nothing may follow.
    fn end_of_stream(&mut self) -> Result<Option<Frame>, FrameError> {
        let left = self.end - self.offset - 8;
        if left > 0 {
            let what = format!("{left} bytes after the end of the stream");
            return Err(FrameError::Bad(what));
        }
        self.offset = self.end;
        Ok(None)
    }
}

/// Checks a frame's metadata, and its body where that is given: the length of the body, the rows.
fn check_message(metadata: &[u8], body: Option<&[u8]>) -> Result<(u64, u64), FrameError> {
    let bad = |what: String| FrameError::Bad(what);
    let message = root_as_message(metadata).map_err(|error| bad(format!("metadata: {error}")))?;
    let body_bytes = u64::try_from(message.bodyLength())
        .map_err(|_| bad(format!("a body of {} bytes", message.bodyLength())))?;
    let (batch, rows) = match message.header_type() {
        MessageHeader::Schema if message.header_as_schema().is_some() => {
            return Ok((body_bytes, 0));
        }
        MessageHeader::RecordBatch => {
            let batch = message.header_as_record_batch();
            (batch, batch.map_or(0, |batch| batch.length()))
        }
        MessageHeader::DictionaryBatch => {
            let dictionary = message.header_as_dictionary_batch();
            (dictionary.and_then(|dictionary| dictionary.data()), 0)
        }
        other => return Err(bad(format!("an unexpected message ({other:?})"))),
    };
    let batch = batch.ok_or_else(|| bad("a message without content".to_owned()))?;
    if !(0..=MAX_ROWS).contains(&batch.length()) {
        return Err(bad(format!("a batch of {} rows", batch.length())));
    }
    if let Some(body) = body {
        check_buffers(&batch, body)?;
    }
    Ok((body_bytes, rows.unsigned_abs()))
}

/// Checks that every buffer lies in the body and unpacks to a size that it can have.
fn check_buffers(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), FrameError> {
    let bad = |what: String| FrameError::Bad(what);
    let packed = batch.compression().is_some();
    let mut unpacked_bytes = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(start, length)| Some(start..start.checked_add(length)?));
        let bytes = range.and_then(|range| body.get(range)).ok_or_else(|| {
            let (offset, length) = (buffer.offset(), buffer.length());
            bad(format!(
                "a buffer of {length} bytes at {offset} is not in the body"
            ))
        })?;
        if !packed || bytes.is_empty() {
            continue;
        }
        let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(bad(format!("a packed buffer of {} bytes", bytes.len())));
        };
        let claimed = match i64::from_le_bytes(*length) {
            -1 => rest.len() as u64,
            length => u64::try_from(length)
                .map_err(|_| bad(format!("a buffer that unpacks to {length} bytes")))?,
        };
        if claimed / MAX_RATIO > rest.len() as u64 {
            let what = format!("{} bytes cannot unpack to {claimed}", rest.len());
            return Err(bad(what));
        }
        unpacked_bytes = unpacked_bytes.saturating_add(claimed);
    }
    if unpacked_bytes > MAX_BODY {
        let what = format!("buffers that unpack to {unpacked_bytes} bytes, more than {MAX_BODY}");
        return Err(bad(what));
    }
    Ok(())
}
