//! Reads one file from a place on: records in batches, each with a token for the place after it.

use std::path::Path;

use onceward_connector::{ConnectorError, Read, ReadLimits, Record, RecordBatch, SourceReader};
use onceward_protocol::Position;

use super::digest::{BLOCK_BYTES, Digest};
use super::input::Input;
use super::split::{Lines, Split, Splitter};
use super::token::{Place, Token};
use crate::compression::Compression;

/// How many bytes are asked of a file at once.
pub const CHUNK_BYTES: usize = 512 * 1024;

/// The largest record that is accepted, without its line end.
pub const MAX_RECORD_BYTES: usize = 16 * 1024 * 1024;

/// How to read a file.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// What separates records.
    pub lines: Lines,
    /// How the file is compressed.
    pub compression: Compression,
    /// Whether to wait for more at the end.
    pub follow: bool,
    /// Bytes asked of the file at once.
    pub chunk_bytes: usize,
}

/// A file being read. The window `buffer[start..end]` holds what was read of it but not yet returned.
pub struct FileReader {
    input: Input,
    options: ReadOptions,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    splitter: Splitter,
    digest: Digest,
    place: Place,
    input_ended: bool,
}

/// The records found so far by one read, relative to the window's start.
struct Found {
    records: Vec<Record>,
    payload: usize,
    at: usize,
    lines: u64,
}

impl FileReader {
    /// Opens a file at its start.
    pub fn start(path: &Path, options: ReadOptions) -> Result<Self, ConnectorError> {
        let input = Input::open(path, options.compression, options.follow)?;
        Ok(FileReader {
            input,
            options,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            splitter: Splitter::new(options.lines, true),
            digest: Digest::at_block(0),
            place: Place::default(),
            input_ended: false,
        })
    }

    /// Opens a file after a place, which the bytes before it must prove.
    pub fn resume(path: &Path, options: ReadOptions, token: &Token) -> Result<Self, ConnectorError> {
        let mut reader = FileReader::start(path, options)?;
        let identity = reader.input.identity();
        let plain = options.compression == Compression::None;
        let too_short = plain && identity.size < token.place.offset;
        if too_short || (!options.follow && identity.size != token.size) {
            return Err(changed_since(
                path,
                format!("found {} bytes, expected {}", identity.size, token.size),
                token.place,
            ));
        }
        if plain && (identity.size, identity.modified_ns) == (token.size, token.modified_ns) {
            let block_start = token.place.offset - token.place.offset % BLOCK_BYTES;
            reader.input.seek(block_start)?;
            reader.digest = Digest::at_block(token.proof.chain);
            reader.reread(token.place.offset - block_start, token)?;
        } else {
            reader.reread(token.place.offset, token)?;
        }
        reader.place = token.place;
        reader.splitter = Splitter::new(options.lines, token.place.offset == 0);
        Ok(reader)
    }

    /// Reads bytes that were read before and compares their proof with the token's.
    fn reread(&mut self, mut bytes: u64, token: &Token) -> Result<(), ConnectorError> {
        while bytes > 0 {
            if self.start == self.end && !self.fill()? {
                let found = format!("found {bytes} bytes less of content than were read before");
                return Err(changed_since(self.input.path(), found, token.place));
            }
            let count = bytes.min((self.end - self.start) as u64) as usize;
            self.digest.update(&self.buffer[self.start..self.start + count]);
            self.start += count;
            bytes -= count as u64;
        }
        if self.digest.proof() == token.proof {
            return Ok(());
        }
        let found = "found other content than was read before".to_owned();
        Err(changed_since(self.input.path(), found, token.place))
    }

    /// Takes the first record as the header line, which is no record; `None` if there is none.
    pub fn take_header(&mut self) -> Result<Option<Vec<u8>>, ConnectorError> {
        let Read::Batch { batch, .. } = self.read(ReadLimits { rows: 1, bytes: 1 })? else { return Ok(None) };
        self.place.ordinal = 0;
        Ok(batch.records().first().map(|record| batch.payload(record).to_vec()))
    }

    /// Reads more bytes behind the window; answers whether there were any. Offsets from the window's
    /// start stay what they are.
    fn fill(&mut self) -> Result<bool, ConnectorError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.buffer.len() - self.end < self.options.chunk_bytes {
            self.buffer.resize(self.end + self.options.chunk_bytes, 0);
        }
        let count = self.input.read(&mut self.buffer[self.end..])?;
        self.end += count;
        self.input_ended = count == 0;
        Ok(count > 0)
    }

    /// Moves the place over the first `bytes` of the window.
    fn consume(&mut self, bytes: usize, records: u64, lines: u64) {
        self.digest.update(&self.buffer[self.start..self.start + bytes]);
        self.start += bytes;
        self.place.offset += bytes as u64;
        self.place.ordinal += records;
        self.place.lines += lines;
    }

    /// Finds records in the window until a limit is reached; answers whether one was.
    fn find(&mut self, limits: ReadLimits, found: &mut Found) -> Result<bool, ConnectorError> {
        let last = self.input_ended && !self.options.follow;
        while found.records.len() < limits.rows.max(1) {
            match self.splitter.next(&self.buffer[self.start + found.at..self.end], last) {
                Split::Record { start, end, next, lines } => {
                    let len = end - start;
                    if len > MAX_RECORD_BYTES {
                        return if found.records.is_empty() { Err(self.too_large(found)) } else { Ok(true) };
                    }
                    if !found.records.is_empty() && found.payload + len > limits.bytes {
                        return Ok(true);
                    }
                    let major = self.place.ordinal + found.records.len() as u64 + 1;
                    found.records.push(Record {
                        start: (found.at + start) as u32,
                        len: len as u32,
                        position: Position::at(major),
                    });
                    found.payload += len;
                    found.at += next;
                    found.lines += lines;
                }
                Split::Blank { next } => {
                    found.at += next;
                    found.lines += 1;
                }
                Split::More => {
                    // Some room for the line end and a byte order mark.
                    if self.end - self.start - found.at > MAX_RECORD_BYTES + 8 && found.records.is_empty() {
                        return Err(self.too_large(found));
                    }
                    return Ok(false);
                }
                Split::OpenQuote if found.records.is_empty() => return Err(self.open_quote(found)),
                Split::OpenQuote => return Ok(true),
            }
        }
        Ok(true)
    }

    fn too_large(&self, found: &Found) -> ConnectorError {
        ConnectorError::new(
            "OW-3014",
            format!(
                "the record that starts on line {} of {} is larger than {} MiB, the limit. Check that the file is what \
                 `format` and `delimiter` say, or split the record before it gets here",
                self.place.lines + found.lines + 1,
                self.input.path().display(),
                MAX_RECORD_BYTES / (1024 * 1024)
            ),
        )
    }

    fn open_quote(&self, found: &Found) -> ConnectorError {
        ConnectorError::new(
            "OW-3015",
            format!(
                "{} ends inside a quoted field of the record that starts on line {}. Expected a closing quote: the file \
                 may be cut off, or a quote inside a field is not doubled",
                self.input.path().display(),
                self.place.lines + found.lines + 1
            ),
        )
    }

    fn token(&self) -> Token {
        let identity = self.input.identity();
        Token {
            place: self.place,
            proof: self.digest.proof(),
            size: identity.size,
            modified_ns: identity.modified_ns,
            raw_offset: self.input.raw_offset(),
        }
    }

    fn batch(&mut self, found: Found) -> Read {
        let mut bytes = Vec::with_capacity(found.at + onceward_connector::record::PADDING);
        bytes.extend_from_slice(&self.buffer[self.start..self.start + found.at]);
        self.consume(found.at, found.records.len() as u64, found.lines);
        Read::Batch { batch: RecordBatch::new(bytes, found.records), token: self.token().encode() }
    }
}

impl SourceReader for FileReader {
    fn read(&mut self, limits: ReadLimits) -> Result<Read, ConnectorError> {
        // A window that is nearly empty is filled up before a small batch is returned, but never
        // beyond what one chunk or the limits ask for.
        let enough = limits.bytes.min(self.options.chunk_bytes) / 2;
        let rows = limits.rows.min(self.end - self.start + 1);
        let mut found = Found { records: Vec::with_capacity(rows.min(1024)), payload: 0, at: 0, lines: 0 };
        let mut waited = false;
        loop {
            let full = self.find(limits, &mut found)?;
            let some = !found.records.is_empty();
            if some && (full || waited || found.payload >= enough || found.records.len() >= limits.rows / 2) {
                return Ok(self.batch(found));
            }
            if !some {
                self.consume(found.at, 0, found.lines);
                (found.at, found.lines) = (0, 0);
            }
            if waited {
                return Ok(if self.options.follow { Read::Idle } else { Read::End });
            }
            waited = !self.fill()?;
        }
    }
}

/// What lies before a stored place is not what was read.
fn changed_since(path: &Path, found: String, place: Place) -> ConnectorError {
    ConnectorError::new(
        "OW-3012",
        format!(
            "the file {} is not the one that was read before, up to record {} at byte {}: {found}. Going on would repeat \
             or lose rows. Put the file back as it was and start again, or reset the pipeline to read everything anew",
            path.display(),
            place.ordinal,
            place.offset
        ),
    )
}
