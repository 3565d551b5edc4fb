//! Escapes in string and bytes literals.

type Problem = (usize, &'static str);

enum Escaped {
    Char(char),
    /// `\x41` and `\101`: a character in a string, a byte in bytes.
    Code(u8),
}

/// The text of a string literal.
pub(super) fn string(text: &str) -> Result<String, Problem> {
    let mut out = String::with_capacity(text.len());
    walk(text, |piece, escaped| {
        out.push_str(piece);
        match escaped {
            Some(Escaped::Char(plain)) => out.push(plain),
            Some(Escaped::Code(code)) => out.push(char::from(code)),
            None => {}
        }
        Ok(())
    })?;
    Ok(out)
}

/// The bytes of a bytes literal.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(text.len());
    walk(text, |piece, escaped| {
        out.extend_from_slice(piece.as_bytes());
        match escaped {
            Some(Escaped::Char(plain)) if plain.is_ascii() => out.push(plain as u8),
            Some(Escaped::Char(_)) => return Err("bytes have no \\u escapes; write \\x"),
            Some(Escaped::Code(code)) => out.push(code),
            None => {}
        }
        Ok(())
    })?;
    Ok(out)
}

fn walk(
    text: &str,
    mut each: impl FnMut(&str, Option<Escaped>) -> Result<(), &'static str>,
) -> Result<(), Problem> {
    let mut start = 0;
    while let Some(len) = text[start..].find('\\') {
        let at = start + len;
        let (escaped, len) = escape(&text[at + 1..]).ok_or((at, "an unknown or incomplete escape"))?;
        each(&text[start..at], Some(escaped)).map_err(|problem| (at, problem))?;
        start = at + 1 + len;
    }
    each(&text[start..], None).map_err(|problem| (start, problem))
}

/// What stands behind a backslash, and its length.
fn escape(rest: &str) -> Option<(Escaped, usize)> {
    let code = |from: usize, len: usize, radix: u32| {
        let digits = rest.get(from..from + len)?;
        if !digits.chars().all(|digit| digit.is_digit(radix)) {
            return None;
        }
        u32::from_str_radix(digits, radix).ok()
    };
    let first = *rest.as_bytes().first()?;
    Some(match first {
        b'a' => (Escaped::Char('\u{7}'), 1),
        b'b' => (Escaped::Char('\u{8}'), 1),
        b'f' => (Escaped::Char('\u{c}'), 1),
        b'n' => (Escaped::Char('\n'), 1),
        b'r' => (Escaped::Char('\r'), 1),
        b't' => (Escaped::Char('\t'), 1),
        b'v' => (Escaped::Char('\u{b}'), 1),
        b'\\' | b'?' | b'"' | b'\'' | b'`' => (Escaped::Char(char::from(first)), 1),
        b'x' | b'X' => (Escaped::Code(u8::try_from(code(1, 2, 16)?).ok()?), 3),
        b'u' => (Escaped::Char(char::from_u32(code(1, 4, 16)?)?), 5),
        b'U' => (Escaped::Char(char::from_u32(code(1, 8, 16)?)?), 9),
        b'0'..=b'3' => (Escaped::Code(u8::try_from(code(0, 3, 8)?).ok()?), 3),
        _ => return None,
    })
}
