//! JSON by byte ranges: one forward pass over the top level, nothing built that nobody reads.

use crate::error::{ScanError, shorten};
use crate::fields::{Kind, Slot};

/// How deep brackets may nest within a field.
pub(crate) const MAX_DEPTH: u32 = 128;

/// A key to look for, ready to be compared by one word.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    prefix: u64,
    name: Box<[u8]>,
}

impl Wanted {
    pub(crate) fn new(name: &str) -> Self {
        Wanted { prefix: prefix(name.as_bytes()), name: name.as_bytes().into() }
    }
}

/// The first eight bytes, zero-padded.
#[inline(always)]
fn prefix(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    let len = bytes.len().min(8);
    word[..len].copy_from_slice(&bytes[..len]);
    u64::from_le_bytes(word)
}

/// What is wrong with JSON text, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct JsonProblem {
    pub(crate) offset: usize,
    pub(crate) problem: &'static str,
}

#[cold]
fn unexpected(record: &[u8], offset: usize, expected: &'static str) -> ScanError {
    let found = match record.get(offset..) {
        None | Some([]) => "the end of the record".to_owned(),
        Some(rest) => format!("`{}`", shorten(rest.get(..12).unwrap_or(rest))),
    };
    ScanError::Json { offset: offset.min(record.len()), found, expected }
}

#[cold]
fn malformed(record: &[u8], problem: JsonProblem) -> ScanError {
    unexpected(record, problem.offset, problem.problem)
}

#[inline(always)]
pub(crate) fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    // One comparison decides where there is no space, which is nearly always.
    while let Some(byte) = bytes.get(at)
        && *byte <= b' '
        && matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
    {
        at += 1;
    }
    at
}

/// Finds the wanted fields of one object.
pub(crate) fn scan(record: &[u8], wanted: &[Wanted], slots: &mut [Slot]) -> Result<(), ScanError> {
    let mut at = skip_space(record, 0);
    if record.get(at) != Some(&b'{') {
        return Err(unexpected(record, at, "an object, `{`"));
    }
    at = skip_space(record, at + 1);
    if record.get(at) == Some(&b'}') {
        return end(record, at + 1);
    }
    loop {
        if record.get(at) != Some(&b'"') {
            return Err(unexpected(record, at, "a key in double quotes"));
        }
        let key = at + 1;
        let (key_end, escaped) = string_end(record, key)
            .ok_or_else(|| unexpected(record, record.len(), "the closing quote of a key"))?;
        let slot = find(record, key, key_end, escaped, wanted)?;
        at = skip_space(record, key_end + 1);
        if record.get(at) != Some(&b':') {
            return Err(unexpected(record, at, "`:` after the key"));
        }
        at = skip_space(record, at + 1);
        let (value, next) = value(record, at).map_err(|problem| malformed(record, problem))?;
        if let Some(place) = slot.and_then(|slot| slots.get_mut(slot)) {
            *place = value;
        }
        at = skip_space(record, next);
        match record.get(at) {
            Some(b',') => at = skip_space(record, at + 1),
            Some(b'}') => return end(record, at + 1),
            _ => return Err(unexpected(record, at, "`,` or `}` after the value")),
        }
    }
}

fn end(record: &[u8], at: usize) -> Result<(), ScanError> {
    let at = skip_space(record, at);
    if at == record.len() { Ok(()) } else { Err(unexpected(record, at, "nothing after the object")) }
}

#[inline(always)]
fn find(
    record: &[u8],
    start: usize,
    end: usize,
    escaped: bool,
    wanted: &[Wanted],
) -> Result<Option<usize>, ScanError> {
    let key = &record[start..end];
    if escaped {
        let decoded = unescape(key).map_err(|problem| {
            malformed(record, JsonProblem { offset: start + problem.offset, ..problem })
        })?;
        return Ok(wanted.iter().position(|wanted| *wanted.name == *decoded.as_bytes()));
    }
    let word = match record.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(chunk) if key.len() >= 8 => u64::from_le_bytes(*chunk),
        Some(chunk) => u64::from_le_bytes(*chunk) & ((1 << (8 * key.len())) - 1),
        None => prefix(key),
    };
    Ok(wanted.iter().position(|wanted| {
        wanted.prefix == word
            && wanted.name.len() == key.len()
            && (key.len() <= 8 || wanted.name[8..] == key[8..])
    }))
}

/// Which bytes can stand in a number.
const IN_NUMBER: [bool; 256] = {
    let mut table = [false; 256];
    let bytes = b"0123456789.eE+-";
    let mut index = 0;
    while index < bytes.len() {
        table[bytes[index] as usize] = true;
        index += 1;
    }
    table
};

/// The kind and range of the value at `at`, and where it ends.
#[inline(always)]
pub(crate) fn value(bytes: &[u8], at: usize) -> Result<(Slot, usize), JsonProblem> {
    let place = |kind, start: usize, end: usize| Slot { start: start as u32, end: end as u32, kind };
    match bytes.get(at) {
        Some(b'"') => {
            let (end, escaped) = string_end(bytes, at + 1)
                .ok_or(JsonProblem { offset: bytes.len(), problem: "the closing quote of a string" })?;
            let kind = if escaped { Kind::JsonEscaped } else { Kind::JsonString };
            Ok((place(kind, at + 1, end), end + 1))
        }
        Some(b'-' | b'0'..=b'9') => {
            let mut end = at + 1;
            while let Some(byte) = bytes.get(end)
                && IN_NUMBER[usize::from(*byte)]
            {
                end += 1;
            }
            Ok((place(Kind::JsonNumber, at, end), end))
        }
        Some(b'{' | b'[') => {
            let end = skip_nested(bytes, at)?;
            Ok((place(Kind::JsonNested, at, end), end))
        }
        Some(b't') => literal(bytes, at, b"true").map(|end| (place(Kind::True, at, end), end)),
        Some(b'f') => literal(bytes, at, b"false").map(|end| (place(Kind::False, at, end), end)),
        Some(b'n') => literal(bytes, at, b"null").map(|end| (place(Kind::Null, at, end), end)),
        _ => Err(JsonProblem { offset: at, problem: "a JSON value" }),
    }
}

#[inline(always)]
fn literal(bytes: &[u8], at: usize, text: &[u8]) -> Result<usize, JsonProblem> {
    let end = at + text.len();
    if bytes.get(at..end) == Some(text) {
        Ok(end)
    } else {
        Err(JsonProblem { offset: at, problem: "`true`, `false` or `null`" })
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks the bytes of `word` that equal `byte`; only the lowest mark is certain.
#[inline(always)]
fn marks(word: u64, byte: u8) -> u64 {
    let zeroed = word ^ (ONES * u64::from(byte));
    zeroed.wrapping_sub(ONES) & !zeroed & HIGHS
}

/// Where the string that begins at `at` (behind its quote) ends, and whether it has escapes.
#[inline(always)]
pub(crate) fn string_end(bytes: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut escaped = false;
    loop {
        while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let found = marks(word, b'"') | marks(word, b'\\');
            if found != 0 {
                at += (found.trailing_zeros() / 8) as usize;
                break;
            }
            at += 8;
        }
        match bytes.get(at)? {
            b'"' => return Some((at, escaped)),
            b'\\' => {
                escaped = true;
                at += 2;
            }
            _ => at += 1,
        }
    }
}

/// The end of the object or array at `at`: brackets and quotes must balance, the rest is not looked at.
fn skip_nested(bytes: &[u8], mut at: usize) -> Result<usize, JsonProblem> {
    // One bit per open bracket, 1 for an object.
    let mut open = 0u128;
    let mut depth = 0;
    loop {
        match bytes.get(at) {
            Some(bracket @ (b'{' | b'[')) => {
                if depth == MAX_DEPTH {
                    return Err(JsonProblem { offset: at, problem: "at most 128 nested brackets" });
                }
                depth += 1;
                open = (open << 1) | u128::from(*bracket == b'{');
            }
            Some(bracket @ (b'}' | b']')) => {
                if (open & 1 == 1) != (*bracket == b'}') {
                    return Err(JsonProblem { offset: at, problem: "the matching bracket" });
                }
                depth -= 1;
                open >>= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            Some(b'"') => match string_end(bytes, at + 1) {
                Some((end, _)) => at = end,
                None => {
                    return Err(JsonProblem {
                        offset: bytes.len(),
                        problem: "the closing quote of a string",
                    });
                }
            },
            Some(_) => {}
            None => return Err(JsonProblem { offset: at, problem: "the closing bracket" }),
        }
        at += 1;
    }
}

/// Whether the bytes are a number by JSON's grammar.
pub(crate) fn is_number(bytes: &[u8]) -> bool {
    let digits = |bytes: &[u8]| bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let len = digits(fraction);
        if len == 0 {
            return false;
        }
        rest = &fraction[len..];
    }
    if let Some((b'e' | b'E', exponent)) = rest.split_first() {
        let exponent = match exponent.split_first() {
            Some((b'+' | b'-', exponent)) => exponent,
            _ => exponent,
        };
        let len = digits(exponent);
        return len > 0 && len == exponent.len();
    }
    rest.is_empty()
}

/// The text of a string without escapes; `None` if it is not UTF-8 or has raw control characters.
#[inline(always)]
pub(crate) fn plain_text(bytes: &[u8]) -> Option<&str> {
    if bytes.iter().any(|byte| *byte < 0x20) {
        return None;
    }
    std::str::from_utf8(bytes).ok()
}

/// The text of a string with escapes.
pub(crate) fn unescape(bytes: &[u8]) -> Result<String, JsonProblem> {
    let problem = |offset, problem| JsonProblem { offset, problem };
    let mut out = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let run = memchr::memchr(b'\\', &bytes[at..]).map_or(bytes.len(), |len| at + len);
        out.push_str(plain_text(&bytes[at..run]).ok_or_else(|| problem(at, "UTF-8 text"))?);
        if run == bytes.len() {
            break;
        }
        let (plain, len) = match bytes.get(run + 1) {
            Some(b'n') => ('\n', 2),
            Some(b't') => ('\t', 2),
            Some(b'r') => ('\r', 2),
            Some(b'b') => ('\u{8}', 2),
            Some(b'f') => ('\u{c}', 2),
            Some(byte @ (b'"' | b'\\' | b'/')) => (char::from(*byte), 2),
            Some(b'u') => unicode_escape(&bytes[run..]).ok_or_else(|| problem(run, "a valid \\u escape"))?,
            _ => return Err(problem(run, "a valid escape after the backslash")),
        };
        out.push(plain);
        at = run + len;
    }
    Ok(out)
}

/// The character of `\uXXXX`, or of a surrogate pair of them, and the length of its escape.
fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let unit = |at: usize| {
        bytes
            .get(at..at + 4)?
            .iter()
            .try_fold(0, |value, byte| Some(value * 16 + char::from(*byte).to_digit(16)?))
    };
    let first = unit(2)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first)?, 6));
    }
    if bytes.get(6..8) != Some(b"\\u") {
        return None;
    }
    let second = unit(8)?;
    if !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    Some((char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))?, 12))
}

/// Appends a string in quotes, with the escapes JSON demands.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte >= 0x20 && *byte != b'"' && *byte != b'\\' {
            continue;
        }
        out.extend_from_slice(&bytes[start..at]);
        start = at + 1;
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            other => out.extend_from_slice(format!("\\u{other:04x}").as_bytes()),
        }
    }
    out.extend_from_slice(&bytes[start..]);
    out.push(b'"');
}
