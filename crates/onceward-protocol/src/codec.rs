//! Small byte forms shared by everything the protocol persists. Fixed-width integers are big endian
//! so that byte order is value order; varints are LEB128.

/// Appends an unsigned LEB128 varint.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length-prefixed byte string.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a length-prefixed UTF-8 string.
pub fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// The order-preserving form of a signed integer: sign bit flipped, big endian.
pub fn order_i64(value: i64) -> [u8; 8] {
    ((value as u64) ^ (1 << 63)).to_be_bytes()
}

/// The inverse of [`order_i64`].
pub fn unorder_i64(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

/// Reads what the `put_*` functions wrote. Every method answers `None` at a malformed or short
/// input; nothing panics on any input.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { rest: bytes }
    }
    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }
    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*first)
    }
    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(first)
    }
    /// A varint of at most ten bytes.
    pub fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            // Too large, or padded with zeros: no value has two forms.
            if (shift == 63 && byte > 1) || (shift > 0 && byte == 0) {
                return None;
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }
    /// A length-prefixed byte string.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.varint()?).ok()?;
        self.take(len)
    }
    /// A length-prefixed UTF-8 string.
    pub fn str(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
    /// A big-endian `u64`.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }
    /// A big-endian `u32`.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }
    /// A big-endian `i64`.
    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }
}
