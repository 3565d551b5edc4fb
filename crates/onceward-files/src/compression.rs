//! Which compression a file has, and how to read and write through it.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

/// How many compressed bytes are read at once.
const COMPRESSED_CHUNK: usize = 256 * 1024;

/// A compression this build can read and write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// The bytes as they are.
    None,
    /// gzip, several members allowed.
    Gzip,
    /// Zstandard, several frames allowed.
    Zstd,
}

impl Compression {
    /// By the word a manifest uses; `None` for `auto` and anything unknown.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Compression::None),
            "gzip" => Some(Compression::Gzip),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }
    /// By a file's extension: `.gz`, `.zst`, anything else is not compressed.
    pub fn by_extension(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
    /// What it adds to a file's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
        }
    }
    /// Compresses one whole file's content. The same content gives the same bytes.
    pub fn compress(self, content: Vec<u8>) -> io::Result<Vec<u8>> {
        match self {
            Compression::None => Ok(content),
            Compression::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(&content)?;
                encoder.finish()
            }
            Compression::Zstd => zstd::stream::encode_all(content.as_slice(), 3),
        }
    }
}

/// A file's bytes after decompression.
pub struct Decoder(Inner);

enum Inner {
    Plain(Counted),
    Gzip(Box<flate2::bufread::MultiGzDecoder<BufReader<Counted>>>),
    Zstd(zstd::stream::read::Decoder<'static, BufReader<Counted>>),
}

impl Decoder {
    /// Reads `file` from where it stands; `raw` is that place.
    pub fn new(compression: Compression, file: File, raw: u64) -> io::Result<Self> {
        let counted = Counted { file, raw };
        Ok(Decoder(match compression {
            Compression::None => Inner::Plain(counted),
            Compression::Gzip => Inner::Gzip(Box::new(flate2::bufread::MultiGzDecoder::new(
                BufReader::with_capacity(COMPRESSED_CHUNK, counted),
            ))),
            Compression::Zstd => Inner::Zstd(zstd::stream::read::Decoder::with_buffer(
                BufReader::with_capacity(COMPRESSED_CHUNK, counted),
            )?),
        }))
    }
    /// How many bytes of the file itself were read, for progress display.
    pub fn raw_offset(&self) -> u64 {
        match &self.0 {
            Inner::Plain(file) => file.raw,
            Inner::Gzip(decoder) => decoder.get_ref().get_ref().raw,
            Inner::Zstd(decoder) => decoder.get_ref().get_ref().raw,
        }
    }
}

impl Read for Decoder {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.0 {
            Inner::Plain(file) => file.read(buffer),
            Inner::Gzip(decoder) => decoder.read(buffer),
            Inner::Zstd(decoder) => decoder.read(buffer),
        }
    }
}

/// A file that counts what was read of it.
struct Counted {
    file: File,
    raw: u64,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.raw += count as u64;
        Ok(count)
    }
}
